"""The rows that stand in the pages of an SQLite file, read without SQLite: it refuses far more than what is damaged.

The format is the one of https://www.sqlite.org/fileformat.html. A page is read by itself, so that it does not matter
which others are lost. A row is found only if all of it holds together.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

MAGIC = b"SQLite format 3\0"
Value = None | int | float | str | bytes
Row = tuple[int, tuple[Value, ...]]
"""Its number and its fields; a field that is an alias of the number is None."""

_SIZES = tuple(1 << power for power in range(9, 17))  # of a page
_TRIED_BYTES = 1 << 20
_INNER, _LEAF = 5, 13  # kinds of pages of a table
_FIXED = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 7: 8, 8: 0, 9: 0}  # bytes of a field by its type


class Pages:
    """The pages of a file with those of its journal in place."""

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        image = bytearray(path.read_bytes())
        wal = path.with_name(path.name + "-wal")
        size = _play_in(image, wal.read_bytes()) if wal.exists() else 0
        self._image = bytes(image)
        self._has_header = self._image.startswith(MAGIC) and len(self._image) >= 100
        self._count = 0
        self._reserved = self._image[20] if self._has_header else 0
        told = int.from_bytes(self._image[16:18], "big") if self._has_header else 0
        size = size or {1: 65536}.get(told, told)
        self._set_size(size)
        if size not in _SIZES:  # the header is lost
            best = max(_SIZES, key=lambda size: self._rows_at(size, _TRIED_BYTES))
            if not self._rows_at(best, _TRIED_BYTES):  # so much of its beginning is lost
                best = max(_SIZES, key=lambda size: self._rows_at(size, len(self._image)))
            self._set_size(best)

    @property
    def version(self) -> int:
        """What the header says for user_version; 0 when it says nothing."""
        return int.from_bytes(self._image[60:64], "big") if self._has_header else 0

    def rows(self) -> Iterator[Row]:
        """The rows of all tables, those first whose page others refer to. Of pages that are free there are none."""
        free = self._free()
        kinds = [self._kind(number) for number in range(1, self._count + 1)]
        inner = (number for number, kind in enumerate(kinds, 1) if kind == _INNER and number not in free)
        known = {child for number in inner for child in self._children(number)}
        leaves = (number for number, kind in enumerate(kinds, 1) if kind == _LEAF and number not in free)
        for number in sorted(leaves, key=lambda number: (number not in known, number)):
            yield from self._rows_of(number)

    def _rows_at(self, size: int, tried: int) -> int:
        """How many rows pages of this size have in so many of the first bytes."""
        self._set_size(size)
        self._count = min(self._count, tried // size)
        return sum(1 for _ in self.rows())

    def _set_size(self, size: int) -> None:
        self._size = size if size in _SIZES else _SIZES[0]
        self._count = -(-len(self._image) // self._size)  # the last one may be cut
        self._usable = self._size - self._reserved

    def _page(self, number: int) -> bytes:
        return self._image[(number - 1) * self._size : number * self._size]

    def _start(self, number: int) -> int:
        """Where a page's own header begins: the first page has that of the file before it."""
        return 100 if number == 1 else 0

    def _kind(self, number: int) -> int:
        at = (number - 1) * self._size + self._start(number)
        return self._image[at] if at < len(self._image) else 0

    def _free(self) -> set[int]:
        """Pages of the list of free ones, as far as the list holds together."""
        free: set[int] = set()
        trunk = int.from_bytes(self._image[32:36], "big") if self._has_header else 0
        while 1 < trunk <= self._count and trunk not in free:
            page = self._page(trunk)
            words = struct.unpack(f">{len(page) // 4}I", page[: len(page) // 4 * 4])
            leaves = words[2 : 2 + words[1]] if len(words) > 2 and words[1] <= self._usable // 4 - 2 else (0,)
            if not all(1 < leaf <= self._count for leaf in leaves):
                break
            free.update((trunk, *leaves))
            trunk = words[0]
        return free

    def _cells(self, number: int, header: int) -> Iterable[int]:
        """Where the cells of a page begin; what was written over may name a place again and again."""
        page, start = self._page(number), self._start(number)
        count = int.from_bytes(page[start + 3 : start + 5], "big")
        places = range(start + header, min(start + header + 2 * count, len(page) - 1), 2)
        return dict.fromkeys(int.from_bytes(page[at : at + 2], "big") for at in places)

    def _children(self, number: int) -> Iterator[int]:
        page, start = self._page(number), self._start(number)
        yield int.from_bytes(page[start + 8 : start + 12], "big")
        for at in self._cells(number, 12):
            yield int.from_bytes(page[at : at + 4], "big")

    def _rows_of(self, number: int) -> Iterator[Row]:
        page = self._page(number)
        for at in self._cells(number, 8):
            with suppress(IndexError, ValueError, struct.error):
                yield self._row(page, at)

    def _row(self, page: bytes, at: int) -> Row:
        """Raises ValueError, IndexError and struct.error for what is no row."""
        length, at = _varint(page, at)
        row, at = _varint(page, at)
        if not 0 < length <= len(self._image) or not 0 < row < 1 << 63:
            raise ValueError
        local = self._local(length)
        payload = page[at : at + local]
        if local < length:
            payload += self._overflow(int.from_bytes(page[at + local : at + local + 4], "big"), length - local)
        if len(payload) < length:
            raise ValueError
        return row, _fields(payload)

    def _local(self, length: int) -> int:
        """How many bytes of a row stand in its own page."""
        most, least = self._usable - 35, (self._usable - 12) * 32 // 255 - 23
        if length <= most:
            return length
        fitting = least + (length - least) % (self._usable - 4)
        return fitting if fitting <= most else least

    def _overflow(self, number: int, length: int) -> bytes:
        pieces = []
        while length > 0:
            if not 1 < number <= self._count:
                raise ValueError
            page = self._page(number)
            pieces.append(page[4 : min(self._usable, 4 + length)])
            length -= self._usable - 4
            number = int.from_bytes(page[:4], "big")
        return b"".join(pieces)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of up to nine bytes, and where it ends."""
    value = 0
    for count in range(8):
        byte = data[at + count]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + count + 1
    return value << 8 | data[at + 8], at + 9


def _fields(payload: bytes) -> tuple[Value, ...]:
    end, at = _varint(payload, 0)
    types, values = [], []
    while at < end:
        type_, at = _varint(payload, at)
        types.append(type_)
    if at != end:
        raise ValueError
    for type_ in types:
        if type_ in (10, 11):  # SQLite's own, never in a file
            raise ValueError
        size = _FIXED[type_] if type_ in _FIXED else (type_ - 12) // 2
        values.append(_value(type_, payload[at : at + size]))
        at += size
    if at != len(payload):
        raise ValueError
    return tuple(values)


def _value(type_: int, data: bytes) -> Value:
    match type_:
        case 0:
            return None
        case 7:
            return float(struct.unpack(">d", data)[0])
        case 8 | 9:
            return type_ - 8
        case _ if type_ < 7:
            return int.from_bytes(data, "big", signed=True)
    return data.decode() if type_ % 2 else data


def _play_in(image: bytearray, wal: bytes) -> int:
    """Put the pages of a journal in their places, up to its last whole transaction; the size of a page, 0 for none."""
    if len(wal) < 32 or wal[:4] not in (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83"):
        return 0
    order = ">" if wal[3] & 1 else "<"
    size, sums = int.from_bytes(wal[8:12], "big"), _sums(wal[:24], order, (0, 0))
    if size not in _SIZES or sums != struct.unpack(">2I", wal[24:32]):
        return 0
    waiting: dict[int, int] = {}
    for at in range(32, len(wal) - size - 23, size + 24):
        number, pages = struct.unpack(">2I", wal[at : at + 8])
        sums = _sums(wal[at : at + 8] + wal[at + 24 : at + 24 + size], order, sums)
        if wal[at + 8 : at + 16] != wal[16:24] or sums != struct.unpack(">2I", wal[at + 16 : at + 24]) or not number:
            break
        waiting[number] = at + 24
        if pages:  # the end of a transaction
            image.extend(bytes(max(0, pages * size - len(image))))
            for place, start in waiting.items():
                image[(place - 1) * size : place * size] = wal[start : start + size]
            del image[pages * size :]
            waiting.clear()
    return size


def _sums(data: bytes, order: str, sums: tuple[int, int]) -> tuple[int, int]:
    first, second = sums
    for one, two in struct.iter_unpack(f"{order}2I", data):
        first = first + one + second & 0xFFFFFFFF
        second = second + two + first & 0xFFFFFFFF
    return first, second
