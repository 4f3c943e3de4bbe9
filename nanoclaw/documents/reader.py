"""The text of a document, said part by part, whatever its format.

Runs in a child process: a document can make any parser hang or grow, and a process can be ended.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO

from nanoclaw.installation import install_command

MEMORY_BYTES = 384 * 2**20
"""Address space of the child; the interpreter with one library takes a fifth of it."""

LARGEST_FILE_BYTES = 200 * 10**6
"""For formats that must be read as a whole; of a plain text only the beginning is read, whatever its size."""

LARGEST_PAGE_BYTES = 20 * 10**6
"""Of a web page that are read."""

COUNTED_BYTES = 20 * 10**6
"""A larger text is not read on to count its characters when only some are shown."""

Say = Callable[[Mapping[str, Any]], None]
"""Takes findings by name: kind, parts ("3 pages"), part (the name of the next one), text, fault, cut, total."""


class Unreadable(Exception):
    """The document cannot be read; the text is the end of a sentence that begins with its name."""


class Enough(Exception):
    """The budget is used up."""


def read(file: BinaryIO, suffix: str, budget: int, say: Say) -> None:
    """Say a document's text until `budget` characters are said, the end comes or something is wrong."""
    text = Text(budget, say)
    try:
        _read(file, suffix.lower(), text, say)
        text.flush()
        if not text.said:
            raise Unreadable("has no text in it.")
    except Enough:
        say({"cut": True})
        if text.countable:
            say({"total": text.countable()})
    except Unreadable as error:
        text.flush()
        say({"fault": str(error)})
    except MemoryError:
        say({"fault": "needs too much memory to be read. Save a smaller copy."})
    except Exception as error:  # damaged files make parsers raise almost anything
        text.flush()
        say({"fault": f"is damaged and cannot be read ({reason(error)}). Save it again."})


def _read(file: BinaryIO, suffix: str, text: Text, say: Say) -> None:
    head = file.read(_HEAD_BYTES)
    file.seek(0)
    bare = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if not head:
        raise Unreadable("is empty.")
    if b"%PDF-" in head[:1024]:
        _check_size(file)
        _read_pdf(file, text, say)
    elif head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        _check_size(file)
        from nanoclaw.documents.office import read_office

        read_office(file, text, say)
    elif head.startswith(b"\xd0\xcf\x11\xe0"):
        raise Unreadable(
            "is in an old Office format or protected by a password. Save it as .docx, .xlsx or .pptx without one."
        )
    elif head.startswith((b"\x89PNG", b"\xff\xd8\xff", b"GIF8")):
        raise Unreadable("is a picture, though its name does not say so. Rename it to end in .png, .jpg or .gif.")
    elif bare.startswith(b"{\\rtf"):
        raise Unreadable("is in the RTF format, which cannot be read here. Save it as .docx or .txt.")
    elif bare.startswith((b"<!doctype html", b"<html")) or suffix in (".html", ".htm", ".xhtml"):
        from nanoclaw.net.charset import decoded, words_of

        say({"kind": "web page"})
        text.write(words_of(decoded(file.read(LARGEST_PAGE_BYTES))))
    else:
        _read_plain(file, _coding(head), text)


_HEAD_BYTES = 4096


def reason(error: Exception) -> str:
    return " ".join((str(error) or type(error).__name__).split())[:120]


class Text:
    """The text on its way out: without invisible characters, up to the budget."""

    def __init__(self, budget: int, say: Say) -> None:
        self.left, self.said = budget, False
        self.countable: Callable[[], int] | None = None
        self._say, self._waiting = say, list[str]()
        self._heading = 0  # characters that the name of the part will take, when there is a word in it

    def part(self, name: str) -> None:
        """The text that follows belongs to a part, such as "page 2"."""
        self.flush()
        self._say({"part": name})
        self._heading = len(name) + 5

    def write(self, text: str) -> None:
        text = re.sub(_UNSEEN, "", text.replace("\r\n", "\n").replace("\r", "\n"))
        if self._heading and not text.isspace():
            self.left, self._heading = max(0, self.left - self._heading), 0
        self._waiting.append(text[: self.left])
        self.left -= len(text)
        if self.left < 0:
            self.flush()
            raise Enough
        if len(self._waiting) > 200:
            self.flush()

    def flush(self) -> None:
        text = "".join(self._waiting)
        self._waiting.clear()
        if text:
            self.said = self.said or not text.isspace()
            self._say({"text": text})


# control characters but \n and \t, halves of characters, soft hyphens, marks that turn or hide text
_UNSEEN = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def _check_size(file: BinaryIO) -> None:
    if os.fstat(file.fileno()).st_size > LARGEST_FILE_BYTES:
        raise Unreadable(f"has more than {LARGEST_FILE_BYTES // 10**6} MB. Save a smaller copy.")


# -- plain text


def _coding(head: bytes) -> str:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if b"\0" in head:
        raise Unreadable("is neither text nor a document that can be read here.")
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final=len(head) < _HEAD_BYTES)
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8-sig"


def _blocks(file: BinaryIO, coding: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(coding)("replace")
    while block := file.read(65_536):
        yield decoder.decode(block)
    yield decoder.decode(b"", True)


def _read_plain(file: BinaryIO, coding: str, text: Text) -> None:
    def count() -> int:
        file.seek(0)
        return sum(map(len, _blocks(file, coding)))

    if os.fstat(file.fileno()).st_size <= COUNTED_BYTES:
        text.countable = count
    for block in _blocks(file, coding):
        text.write(block)


# -- PDF


def _read_pdf(file: BinaryIO, text: Text, say: Say) -> None:
    from nanoclaw.documents.pdf import opened, words_of_page

    try:
        pages = opened(file)
    except ImportError:
        raise Unreadable(f"is a PDF, and reading one needs pypdfium2: {install_command('documents')}") from None
    if pages is None:
        raise Unreadable("is protected by a password. Save a copy without one.")
    say({"kind": "PDF", "parts": counted(len(pages), "page")})
    damage = ""
    for number in range(len(pages)):
        text.part(f"page {number + 1}")
        try:
            words = words_of_page(pages, number)
        except RuntimeError as error:  # one damaged page is no reason to leave out the others
            damage = damage or f"is damaged at page {number + 1} ({reason(error)}). Save it again."
        else:
            text.write(words + "\n")
    text.flush()
    if damage:
        raise Unreadable(damage)
    if not text.said:
        raise Unreadable("has no text in it, only pictures of text. Show its pages as pictures.")


def counted(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")


# -- the child process


def main(request_text: str) -> None:
    """Read the document at descriptor 0; write JSON objects, one a line."""
    request = json.loads(request_text)
    _limit(request["seconds"])
    sys.path.extend(entry for entry in request["library_path"] if entry not in sys.path)
    sys.modules["numpy"] = None  # type: ignore[assignment]  # openpyxl would import it, and needs nothing of it
    read(sys.stdin.buffer, request["suffix"], request["budget"], _print)


def _limit(seconds: int) -> None:
    import resource

    for what, amount in {"AS": MEMORY_BYTES, "CPU": seconds, "CORE": 0, "FSIZE": 0}.items():
        try:
            resource.setrlimit(getattr(resource, f"RLIMIT_{what}"), (amount, amount))
        except (OSError, ValueError):  # macOS knows no limit of the address space
            continue


def _print(found: Mapping[str, Any]) -> None:
    os.write(1, json.dumps(found).encode() + b"\n")
