"""Text files as numbered lines, in any usual encoding, and pictures: what read_file shows."""

from __future__ import annotations

import codecs
import re
import time
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from nanoclaw.core.errors import ToolError
from nanoclaw.core.messages import Image
from nanoclaw.escapes import visible

PAGE_CHARACTERS = 24_000
LINE_CHARACTERS, LINE_END = 2_000, 500
"""Characters that are shown of a longer line, and how many of them are its end."""
LONGEST_LINE = 100_000_000
"""Characters; text behind a longer line is out of reach."""
READ_SECONDS = 10.0
HEAD_BYTES = 65_536


class Coding(NamedTuple):
    """The encoding of a text file; `said` is what the model is told when it isn't UTF-8."""

    name: str
    bom: bytes = b""
    said: str = ""


UTF8 = Coding("utf-8")


def coding_of(head: bytes, path: str) -> Coding:
    for bom, name, said in _BOMS:
        if head.startswith(bom):
            return Coding(name, bom, said)
    if b"\0" in head[:8192]:
        raise ToolError(
            f"{path!r} is binary (it has NUL bytes), not text. Use exec to look at it (file, strings, xxd)."
        )
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final=len(head) < HEAD_BYTES)
    except UnicodeDecodeError:
        shown = head.decode("utf-8", "replace")
        if shown.count("\ufffd") * 2 > len(shown) - sum(map(len, re.findall(r"[\x00-\x7f]+", shown))):
            return _single_byte(head, path)
        return Coding("utf-8", said="damaged UTF-8: unreadable bytes are shown as \ufffd")
    return UTF8


_BOMS = (
    (b"\xef\xbb\xbf", "utf-8", ""),
    (b"\xff\xfe", "utf-16-le", "encoding UTF-16"),
    (b"\xfe\xff", "utf-16-be", "encoding UTF-16"),
)


def _single_byte(head: bytes, path: str) -> Coding:
    controls = sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in head)
    if controls * 20 > len(head):
        raise ToolError(f"{path!r} is binary, not text. Use exec to look at it (file, strings, xxd).")
    try:
        head.decode("cp1252")
    except UnicodeDecodeError:
        return Coding("latin-1", said="encoding Latin-1")
    return Coding("cp1252", said="encoding Windows-1252")


class TextPage(NamedTuple):
    """Some numbered lines of a file of any size, read in pieces."""

    file: BinaryIO
    path: str
    coding: Coding
    offset: int
    limit: int

    def text(self, head: bytes) -> str:
        shown: list[str] = []
        room = PAGE_CHARACTERS
        number = 0
        more = False
        for number, line, end, length in self._lines(head):
            if number < self.offset:
                continue
            if len(shown) == self.limit or room <= 0:
                more = True
                break
            line = visible(line)
            if length > len(line):
                line, end = line[: LINE_CHARACTERS - LINE_END], visible(end.rstrip("\r"))
                line += f" [... line of {length:,} characters; exec with cut -c shows the rest ...] {end}".rstrip()
            shown.append(f"{number}\t{line}")
            room -= len(shown[-1])
        if not shown:
            return self._nothing(number)
        notes = [self.coding.said] if self.coding.said else []
        if more:
            notes.append(f"more lines follow: offset={number} goes on")
        return "\n".join(shown) + (f"\n[{'; '.join(notes)}]" if notes else "")

    def _nothing(self, lines: int) -> str:
        if self.offset > 1 and lines:
            raise ToolError(f"{self.path!r} has {lines} lines: offset {self.offset} is beyond its end.")
        return "[the file is empty]"

    def _lines(self, head: bytes) -> Iterator[tuple[int, str, str, int]]:
        """Line number, first and last characters of the line and its full length; memory stays flat on endless ones."""
        number, start, end, length = 1, "", "", 0
        for block in self._blocks(head):
            *ended, rest = block.split("\n")
            for piece in ended:
                length += len(piece)
                start = (start + piece[:LINE_CHARACTERS])[:LINE_CHARACTERS]
                end = (end + piece[-LINE_END:])[-LINE_END:]
                if length == len(start) and start.endswith("\r"):
                    start, length = start[:-1], length - 1
                yield number, start, end, length
                number, start, end, length = number + 1, "", "", 0
            start = (start + rest[:LINE_CHARACTERS])[:LINE_CHARACTERS]
            end = (end + rest[-LINE_END:])[-LINE_END:]
            length += len(rest)
            if length > LONGEST_LINE:
                break
        if length:
            yield number, start, end if length <= LONGEST_LINE else "", length

    def _blocks(self, head: bytes) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder(self.coding.name)("replace")
        deadline = time.monotonic() + READ_SECONDS
        block = head[len(self.coding.bom) :]
        while block:
            yield decoder.decode(block)
            block = self.file.read(HEAD_BYTES)
            if time.monotonic() > deadline:
                raise ToolError(f"{self.path!r} is too large to count lines up to there: use exec with tail or sed -n.")
        yield decoder.decode(b"", True)


def is_image(head: bytes) -> bool:
    return (
        head.startswith((b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*"))
        or (head[:2] == b"BM" and b"\0" in head[:64])
        or (head[:4] == b"RIFF" and head[8:12] == b"WEBP")
        or head[4:12] in (b"ftypheic", b"ftypheix", b"ftypavif", b"ftypmif1")
    )


def picture(file: BinaryIO, path: str) -> Image:
    """The picture in a file, fit for a model. Raises ToolError."""
    from nanoclaw.pictures.pictures import PictureError, open_picture

    file.seek(0)
    try:
        return Image(*open_picture(file, path.rsplit("/", 1)[-1]))
    except PictureError as error:
        raise ToolError(str(error)) from None
