"""The text of documents, between marks that it cannot forge, read by a child process that can be ended.

[attached file report.pdf: PDF, 3 pages]
…
[end of attached file report.pdf]
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple

from nanoclaw.outside_text import escape_document

CHARACTERS = 12_000
"""Budget for one document, unless the caller gives another."""

SECONDS = 8.0
"""Time limit for one document; what was read until then is used."""

TYPES = {
    **{f".{kind}": f"image/{kind}" for kind in ("png", "jpeg", "gif", "webp", "bmp", "tiff", "heic", "avif")},
    ".jpg": "image/jpeg",
    ".tif": "image/tiff",
    ".svg": "image/svg+xml",
    ".pdf": "application/pdf",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".ods": "application/vnd.oasis.opendocument.spreadsheet",
    ".odp": "application/vnd.oasis.opendocument.presentation",
    ".txt": "text/plain",
    ".md": "text/markdown",
    ".csv": "text/csv",
    ".html": "text/html",
    ".htm": "text/html",
    ".json": "application/json",
    **{f".{kind}": f"audio/{kind}" for kind in ("ogg", "oga", "opus", "mp3", "wav", "m4a", "aac", "flac", "amr")},
}
"""MIME types of files that people attach, by suffix; a system's own list may lack half of them."""


class DocumentError(ValueError):
    """There is no text to be had; the message is a sentence for a person."""


class DocumentText(NamedTuple):
    """The text of a document, `about` it in a few words (PDF, 3 pages), and a `remark` on why there is no more."""

    about: str
    text: str
    remark: str


def document_text(
    file: BinaryIO, name: str, budget_characters: int = CHARACTERS, stopped: Callable[[], bool] = lambda: False
) -> DocumentText:
    """Text of a document, an opened file from its beginning, cut to the budget. Raises DocumentError, also if
    `stopped()` says to end before there is any text."""
    suffix, name = Path(name).suffix, _one_line(name)
    found = _read(file, suffix, name, budget_characters, stopped)
    text = "\n".join(_tidy("".join(found.text)))
    if not text:
        raise DocumentError(f"{name!r} {found.fault or 'took too long to be read. Save a smaller copy.'}")
    return DocumentText(", ".join(filter(None, (found.kind, found.parts))), text, _remark(name, text, found))


def read_document(
    file: BinaryIO,
    name: str,
    budget_characters: int = CHARACTERS,
    stopped: Callable[[], bool] = lambda: False,
    tell: Callable[[str], None] = lambda remark: None,
) -> str:
    """A document's text between marks, cut to the budget; `tell` hears why there is no more, if so.

    Raises DocumentError, also if `stopped()` says to end before there is any text.
    """
    found, name = document_text(file, name, budget_characters, stopped), _one_line(name)
    opening = f"[attached file {name}: {found.about}]" if found.about else f"[attached file {name}]"
    end, remark = f"[end of attached file {name}]", found.remark
    if remark:
        tell(remark)
        remark = f"[... {remark} ...]"
    return "\n".join(part for part in (opening, escape_document(found.text), remark, end) if part)


@dataclass
class _Found:
    """Findings of the child so far."""

    kind: str = ""
    parts: str = ""
    part: str = ""
    fault: str = ""
    cut: bool = False
    late: bool = False
    total: int = 0
    text: list[str] = field(default_factory=list)
    heading: str = ""

    def update(self, said: Mapping[str, Any]) -> None:
        for name in said.keys() & {"kind", "parts", "fault", "cut", "total"}:
            setattr(self, name, said[name])
        if "part" in said:
            self.part = _one_line(said["part"])
            self.heading = "" if self.parts == "1 page" else f"\n\n[{self.part}]\n"
        if words := said.get("text", ""):
            if not words.isspace():  # a page without a word needs no heading
                self.text.append(self.heading)
                self.heading = ""
            self.text.append(words)


def _read(file: BinaryIO, suffix: str, name: str, budget: int, stopped: Callable[[], bool]) -> _Found:
    request = {
        "suffix": suffix,
        "budget": budget,
        "seconds": int(SECONDS) + 1,
        "library_path": [entry for entry in sys.path if os.path.isabs(entry)],  # noqa: PTH117  (one string each)
    }
    try:
        child = subprocess.Popen(
            (sys.executable, "-I", "-S", "-c", _CHILD, str(Path(__file__).parents[2]), json.dumps(request)),
            cwd="/",
            env={},
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for us; we end the child
        )
    except OSError as error:
        raise DocumentError(f"{name!r} cannot be read: no process can be started ({error.strerror}).") from None
    with child:
        try:
            assert child.stdout is not None
            said, late = _heard(child.stdout, stopped)
        finally:
            child.kill()
    found = _Found(late=late)
    for line in said.split(b"\n"):
        try:
            found.update(json.loads(line or b"{}"))
        except ValueError:  # torn by the kill
            break
    if not late and child.returncode != 0:
        found.fault = found.fault or "is damaged and cannot be read. Save it again."
    return found


# without `site` a start takes half the time; the libraries' folders come with the request
_CHILD = """
import sys
sys.path.append(sys.argv[1])
from nanoclaw.documents.reader import main
main(sys.argv[2])
"""


def _heard(pipe: IO[bytes], stopped: Callable[[], bool]) -> tuple[bytes, bool]:
    """The child's output, and whether it had to be cut short."""
    said, deadline = bytearray(), time.monotonic() + SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while time.monotonic() < deadline and not stopped():
            if not selector.select(0.1):
                continue
            block = os.read(pipe.fileno(), 65_536)
            if not block:
                return bytes(said), False
            said += block
    return bytes(said), True


def _tidy(text: str) -> Iterator[str]:
    """Lines without spaces at their ends, and never two empty ones together."""
    empty = True
    for line in text.strip().split("\n"):
        line = line.rstrip()
        if line or not empty:
            yield line
        empty = not line


def _remark(name: str, text: str, found: _Found) -> str:
    """The reason why there is no more, '' when this is all."""
    where = f", up to {found.part} of {found.parts}" if found.part and found.parts else ""
    if found.cut and found.total:
        return f"{name}: the first {len(text):,} of {found.total:,} characters are shown"
    if found.cut:
        return f"{name}: the first {len(text):,} characters are shown{where}"
    if found.late:
        return f"{name}: reading was stopped after {SECONDS:g} s and {len(text):,} characters{where}"
    return f"{name} {found.fault} The rest was read" if found.fault else ""


def _one_line(text: str) -> str:
    """A name made safe for use between brackets."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    return shown.translate({ord("["): "(", ord("]"): ")"})[:200]
