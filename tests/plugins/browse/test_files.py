"""Files of pages: safe names, nothing replaced, nothing from outside the workspace."""

import hashlib
from pathlib import Path

import pytest

from nanoclaw.beneath.paths import PathError, Reach
from nanoclaw.plugins.browse.files import UPLOAD_BYTES, file_to_upload, place, safe_name


@pytest.mark.parametrize(
    ("given", "safe"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("..\\..\\boot.ini", "boot.ini"),
        (".bashrc", "bashrc"),
        ("a\0b\n<c>.txt", "a_b_c.txt"),
        ("", "file"),
        ("...", "file"),
        ("Rechnung März.pdf", "Rechnung März.pdf"),
        ("x" * 300 + ".tar.gz", "x" * 100 + ".tar.gz"),
        ("\u202egpj.exe", "gpj.exe"),
        ("-rf", "rf"),
    ],
)
def test_a_name_hides_nothing_and_leads_nowhere(given: str, safe: str) -> None:
    assert safe_name(given) == safe


def test_a_download_replaces_nothing_and_can_be_undone_by_its_hash(tmp_path: Path) -> None:
    root, source = tmp_path / "workspace", tmp_path / "given"
    root.mkdir()
    source.write_bytes(b"words")
    first, second = place(root, "a.txt", source), place(root, "a.txt", source)
    assert first == ("downloads/a.txt", 5, hashlib.sha256(b"words").hexdigest())
    assert second[0] == "downloads/a-2.txt"
    assert sorted(path.name for path in (root / "downloads").iterdir()) == ["a-2.txt", "a.txt"]


def test_no_link_leads_a_download_out_of_the_workspace(tmp_path: Path) -> None:
    root, source, elsewhere = tmp_path / "workspace", tmp_path / "given", tmp_path / "elsewhere"
    root.mkdir()
    elsewhere.mkdir()
    source.write_bytes(b"words")
    (root / "downloads").symlink_to(elsewhere)
    with pytest.raises(PathError):
        place(root, "a.txt", source)
    (root / "downloads").unlink()
    (root / "downloads").mkdir()
    (root / "downloads" / "a.txt").symlink_to(elsewhere / "a.txt")
    with pytest.raises(PathError):
        place(root, "a.txt", source)
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "~/x", "folder", "missing", "link"])
def test_only_plain_files_of_the_workspace_are_uploaded(tmp_path: Path, path: str) -> None:
    root = tmp_path / "workspace"
    (root / "folder").mkdir(parents=True)
    (tmp_path / "secret").write_text("no")
    (root / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(PathError):
        file_to_upload(Reach(root), path)


def test_a_file_that_is_too_large_is_not_read_on(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(UPLOAD_BYTES + 1)
    with pytest.raises(ValueError, match="45 MB"):
        file_to_upload(Reach(tmp_path), "large")
    (tmp_path / "small.txt").write_text("hello")
    assert file_to_upload(Reach(tmp_path), "small.txt") == ("small.txt", b"hello")
