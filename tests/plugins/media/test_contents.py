"""Files of a message as the model sees them: pictures and the text of documents, and what is said of the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nanoclaw.core.messages import Attachment
from nanoclaw.documents import documents
from nanoclaw.documents.documents import DocumentError
from nanoclaw.plugins.media.contents import Contents, read
from tests.plugins.media.test_attachments import picture

MIME = {".png": "image/png", ".mp3": "audio/mpeg"}


def contents(*paths: Path, stopped: Callable[[], bool] = lambda: False) -> Contents:
    files = [Attachment(str(path), path.name, MIME.get(path.suffix, "application/octet-stream")) for path in paths]
    return read(files, 500, stopped, is_guests=False)


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

    def reading(path: Path, budget: int, stopped: Callable[[], bool], tell: Callable[[str], None]) -> str:
        budgets.append(budget)
        if path.name == "b.docx":
            tell("b.docx: the first 500 of 900 characters are shown")
        if path.name == "bad.pdf":
            raise DocumentError("'bad.pdf' is damaged.")
        return f"<{path.name}>"

    monkeypatch.setattr(documents, "read_document", reading)
    found = contents(*(tmp_path / name for name in ("a.pdf", "bad.pdf", "b.docx", "c.csv", "d", "song.mp3")))
    assert found.texts == ("<a.pdf>", "<b.docx>", "<c.csv>", "<d>")
    assert budgets == [250] * 5
    assert found.problems == ("'bad.pdf' is damaged.",)
    assert found.cuts == ("not all of it reaches the model: b.docx: the first 500 of 900 characters are shown",)
    assert "bad.pdf could not be read: 'bad.pdf' is damaged." in found.remarks
    assert f"song.mp3 is at {tmp_path / 'song.mp3'}" in found.remarks


def test_what_is_left_of_the_files_is_not_read_after_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    def reading(path: Path, *rest: object) -> str:
        begun.append(path.name)
        return ""

    monkeypatch.setattr(documents, "read_document", reading)
    contents(*(tmp_path / f"{number}.pdf" for number in range(9)), stopped=lambda: bool(begun))
    assert begun == ["0.pdf"]
