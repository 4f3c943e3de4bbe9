"""Files of a message as the model sees them: pictures and the text of documents, and what is said of the others."""

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from nanoclaw.beneath.paths import open_again
from nanoclaw.core.messages import Attachment
from nanoclaw.documents import documents
from nanoclaw.documents.documents import DocumentError
from nanoclaw.plugins.media.contents import AttachmentReader, Contents, read
from tests.plugins.media.test_attachments import picture

MIME = {".png": "image/png", ".mp3": "audio/mpeg"}


def contents(*paths: Path, stopped: Callable[[], bool] = lambda: False) -> Contents:
    files = [Attachment(str(path), path.name, MIME.get(path.suffix, "application/octet-stream")) for path in paths]
    reading = AttachmentReader(open_again, 500, stopped)
    return read(files, reading, is_guests=False)


def made(folder: Path, *names: str) -> list[Path]:
    for name in names:
        (folder / name).touch()
    return [folder / name for name in names]


@pytest.mark.parametrize("content", [b"", b"not a picture", b"\x89PNG\r\n\x1a\n", b"GIF89a\xff\xff\xff\xff"])
def test_a_broken_picture_is_named_and_the_rest_goes_through(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.png").write_bytes(content)
    (tmp_path / "good.png").write_bytes(picture())
    found = contents(tmp_path / "bad.png", tmp_path / "good.png", tmp_path / "gone.png")
    assert [image.name for image in found.images] == ["good.png"]
    assert [remark.partition(": ")[0] for remark in found.remarks] == [
        "bad.png could not be shown",
        "gone.png could not be shown",
    ]


def test_the_text_of_documents_shares_a_budget_and_what_is_left_out_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budgets: list[int] = []

    def reading(
        file: BinaryIO, name: str, budget: int, stopped: Callable[[], bool], tell: Callable[[str], None]
    ) -> str:
        budgets.append(budget)
        if name == "b.docx":
            tell("b.docx: the first 500 of 900 characters are shown")
        if name == "bad.pdf":
            raise DocumentError("'bad.pdf' is damaged.")
        return f"<{name}>"

    monkeypatch.setattr(documents, "read_document", reading)
    found = contents(*made(tmp_path, "a.pdf", "bad.pdf", "b.docx", "c.csv", "d", "song.mp3"))
    assert found.texts == ("<a.pdf>", "<b.docx>", "<c.csv>", "<d>")
    assert budgets == [250] * 5
    assert found.problems == ("'bad.pdf' is damaged.",)
    assert found.cuts == ("not all of it reaches the model: b.docx: the first 500 of 900 characters are shown",)
    assert "bad.pdf could not be read: 'bad.pdf' is damaged." in found.remarks
    assert f"song.mp3 is at {tmp_path / 'song.mp3'}" in found.remarks


def test_what_is_left_of_the_files_is_not_read_after_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    def reading(file: BinaryIO, name: str, *rest: object) -> str:
        begun.append(name)
        return ""

    monkeypatch.setattr(documents, "read_document", reading)
    contents(*made(tmp_path, *(f"{number}.pdf" for number in range(9))), stopped=lambda: bool(begun))
    assert begun == ["0.pdf"]
