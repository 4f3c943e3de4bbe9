"""Where files that came with messages are kept."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from nanoclaw.core.errors import WorkspaceError
from nanoclaw.plugins.media.folder import MediaFolder
from tests.examples import examples

THEN = datetime(2026, 3, 6, 12, 0, tzinfo=UTC)

NAMES = [*examples(__file__, "folder.jsonl")["names"], "x" * 300 + ".pdf", "ä" * 300 + ".jpeg", "a." + "b" * 300]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_any_name_becomes_a_plain_one_in_the_folder_of_its_month(tmp_path: Path, name: str) -> None:
    media = MediaFolder(tmp_path)
    path = media.place(THEN, name, "image/png", "chat:1/0")
    media.save(path, b"content")
    assert path.parent == tmp_path / "media" / "2026-03"
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    assert path.read_bytes() == b"content"
    assert path.name.isprintable() and not path.name.startswith((".", "-", "~"))
    assert not set(path.name) & set(" /\\:`$\"'*?<>|")
    assert len(path.name.encode()) <= 120
    assert path.name.split(".")[0].lower() not in ("con", "nul")
    assert media.relative(path) == f"media/2026-03/{path.name}"


def test_a_name_is_still_recognised(tmp_path: Path) -> None:
    media = MediaFolder(tmp_path)
    named = {name: media.place(THEN, name, "", "1").name for name in NAMES}
    assert named["照片.png"].startswith("照片-") and named["照片.png"].endswith(".png")
    assert named["Quittung März 2026 (Kopie).pdf"].startswith("Quittung_März_2026_(Kopie)-")
    assert media.place(THEN, "", "audio/ogg", "1").name.startswith("audio-")
    assert media.place(THEN, "", "image/jpeg", "1").suffix == ".jpg"


def test_the_same_message_always_means_the_same_file_and_another_one_never_does(tmp_path: Path) -> None:
    media = MediaFolder(tmp_path)
    first = media.place(THEN, "photo.jpg", "image/jpeg", "telegram 5:1/0")
    assert not media.has(first)
    media.save(first, b"one")
    assert media.has(first)
    assert media.place(THEN, "photo.jpg", "image/jpeg", "telegram 5:1/0") == first
    assert media.place(THEN, "photo.jpg", "image/jpeg", "telegram 5:1/1") != first


def test_a_folder_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    inside, outside = tmp_path / "workspace", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "media").symlink_to(outside)
    media = MediaFolder(inside)
    with pytest.raises(WorkspaceError, match="nothing can be saved in"):
        media.save(media.place(THEN, "x.txt", "", "1"), b"content")
    assert list(outside.iterdir()) == []


def test_what_is_kept_can_be_counted(tmp_path: Path) -> None:
    media = MediaFolder(tmp_path)
    assert media.used() == (0, 0)
    for number in range(3):
        media.save(media.place(THEN, "x.bin", "", str(number)), b"12345")
    assert media.used() == (3, 15)
