"""SQLite's write-ahead log, frame by frame: SQLite reads up to the first damaged one, and tells nobody."""

from __future__ import annotations

import struct
import sys
from collections import Counter
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from nanoclaw.sqlite_salvage import UNSYNCED

_HEADER, _FRAME = 32, 24
_MAGIC = 0x377F0682
_PAGE_SIZES = frozenset(1 << power for power in range(9, 17))

_Sum = tuple[int, int]


class Frame(NamedTuple):
    """A page as a transaction left it, the frame's first eight bytes apart; the frame may be the last of its
    transaction. `is_whole` when its sum is right."""

    head: bytes
    page: bytes
    is_last: bool
    is_whole: bool


class WriteAheadLog:
    """A log that may be damaged anywhere: what its header doesn't tell, the frames do."""

    def __init__(self, path: Path) -> None:
        content = path.read_bytes() if path.exists() else b""
        self._order = _order(content)
        self._size = _page_size(content, path.with_name(path.name.removesuffix("-wal")))
        places = range(_HEADER, len(content) - self._size - _FRAME + 1, self._size + _FRAME)
        marks = Counter(content[at : at + 8] for at in (16, *(at + 8 for at in places[:3])))
        self._mark = max(marks, key=lambda mark: marks[mark])
        """The header's and all frames'; those with another behind the last one are left from before."""
        last = next((at for at in reversed(places) if content[at + 8 : at + 16] == self._mark), 0)
        header = content[: _HEADER - 8]
        self._has_header = bool(places) and self._sum(header, (0, 0)) == _unpacked(content, _HEADER - 8)
        self.frames = [self._frame(content, at) for at in places if at <= last]

    def _frame(self, content: bytes, at: int) -> Frame:
        head, page = content[at : at + 8], content[at + _FRAME : at + _FRAME + self._size]
        before = _HEADER - 8 if at == _HEADER else at - self._size - 8  # the sum of all until there
        found = self._sum(page, self._sum(head, _unpacked(content, before)))
        is_whole = content[at + 8 : at + 16] == self._mark and found == _unpacked(content, at + 16)
        return Frame(head, page, head[4:] != bytes(4), is_whole)

    @property
    def lost(self) -> int:
        """The number of transactions that SQLite passes over because of damage.

        The last one, and those before it that waited for no disk, may be torn by a power failure. Nobody was told that
        they are on disk, so they are not counted.
        """
        damaged = (at for at, frame in enumerate(self.frames) if not frame.is_whole)
        first = next(damaged, len(self.frames)) if self._has_header else 0
        count = sum(frame.is_last for frame in self.frames[first:])
        return count if count > UNSYNCED + 1 else 0

    def played_into(self, content: bytes, *, is_mended: bool = False) -> bytes:
        """The content of a store with all transactions of the log that SQLite would read, or would if the log had its
        whole frames alone."""
        readable = takewhile(lambda frame: frame.is_whole, self.frames if self._has_header else ())
        played, begun = bytearray(content), list[Frame]()
        for frame in (frame for frame in self.frames if frame.is_whole) if is_mended else readable:
            begun.append(frame)
            if frame.is_last:
                size = int.from_bytes(frame.head[4:], "big") * self._size
                played[size:] = bytes(max(0, size - len(played)))
                for one in begun:
                    at = (int.from_bytes(one.head[:4], "big") - 1) * self._size
                    played[at : at + self._size] = one.page
                begun.clear()
        return bytes(played)

    def _sum(self, content: bytes, before: _Sum) -> _Sum:
        words = struct.unpack(f"{self._order}{len(content) // 4}I", content)
        one, other = before
        for first, second in zip(words[::2], words[1::2], strict=True):
            one = (one + first + other) & 0xFFFFFFFF
            other = (other + second + one) & 0xFFFFFFFF
        return one, other


def _order(content: bytes) -> str:
    """The order of bytes in which sums are made: that of the machine which wrote it."""
    magic = int.from_bytes(content[:4], "big")
    is_big = magic & 1 if magic | 1 == _MAGIC | 1 else sys.byteorder == "big"
    return ">" if is_big else "<"


def _page_size(content: bytes, store: Path) -> int:
    """By the log's own header, else by that of the store."""
    of_log = int.from_bytes(content[8:12], "big")
    if of_log not in _PAGE_SIZES and store.exists():
        with store.open("rb") as file:
            of_log = int.from_bytes(file.read(18)[16:], "big")
    return of_log if of_log in _PAGE_SIZES else max(_PAGE_SIZES)


def _unpacked(content: bytes, at: int) -> _Sum:
    one, other = struct.unpack_from(">II", content, at)
    return one, other
