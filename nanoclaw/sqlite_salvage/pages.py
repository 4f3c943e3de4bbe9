"""The pages of a store, read without SQLite, which gives up a page for one wrong byte: every row that is legible."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from typing import Any

DAMAGED = object()
"""Stands for a text that is none any more."""

Row = tuple[int, list[Any]]
"""Its number, and its values; those of columns that were added to the table later may be missing."""

INNER, LEAF = 0x05, 0x0D
_HEADER = 100
_LENGTHS = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)
_ENOUGH = 1 << 62


class Pages:
    """The pages of a file, counted from 1, and behind them the first one of the list of tables, and one of nothing."""

    def __init__(self, content: bytes) -> None:
        self._size = size = _page_size(content)
        count = -(-len(content) // size)
        told = min(_number(content, 28, 4), 10 * count)  # more where it is cut: what pages name is not to be ours
        self._content = content.ljust(max(1, told, count) * size, b"\0")
        first, count = self[1], _number(content, _HEADER + 3, 2)
        head = first[_HEADER:][: (8 if first[_HEADER : _HEADER + 1] == bytes([LEAF]) else 12) + 2 * count]
        self._content += head + first[len(head) :] + b"\xff" * size
        self.nowhere = len(self._content) // size
        self._list = self.nowhere - 1

    def __getitem__(self, number: int) -> bytes:
        return self._content[(number - 1) * self._size : number * self._size]

    def is_table(self, number: object) -> bool:
        return isinstance(number, int) and 1 < number < self._list and self[number][0] in (INNER, LEAF)

    def empty(self) -> set[int]:
        """The first pages of tables without a row."""
        return {
            number for number in range(2, self._list) if self[number][0] == LEAF and not self._cells(number)
        } - self._free()

    def leaves_of_list(self) -> dict[int, int]:
        """The leaves of the list of tables, as its own first page has them, and how many rows each has."""
        first = self[self._list]
        leaves = {self._list} if first[0] == LEAF else set(self._children(first))
        return {leaf: self._cells(leaf) for leaf in leaves}

    def trees(self) -> set[int]:
        """The first pages of all trees that look like a table with rows, the leaves of the list of tables too."""
        tables = {number for number in range(2, self.nowhere) if self[number][0] in (INNER, LEAF)}
        inner = {number for number in tables if self[number][0] == INNER and number != self._list}
        below = {child for number in inner for child in self._children(self[number])}
        found = tables - below - self._free() - ({self._list} - self.leaves_of_list().keys())
        return {number for number in found if self._cells(number)}

    def leaves(self, tree: int) -> list[int]:
        """The leaves of a tree in order, 0 in the place of each that cannot be found."""
        found, above = dict[int, int](), [tree]
        while above:
            number = above.pop()
            if not (self.is_table(number) or number == self._list == tree) or number in found:
                found[-len(found)] = 0
            else:
                found[number] = number if self[number][0] == LEAF else -1
                above += [] if self[number][0] == LEAF else self._children(self[number])
        return [number for number in found.values() if number >= 0]

    def rows(self, *trees: int) -> list[Row]:
        """The rows of these trees that are legible, each number once: those that stand in order come last, and one out
        of order counts only where there is no other."""
        of_trees = [[row for leaf in self.leaves(tree) if leaf for row in self._rows(leaf)] for tree in trees]
        of_trees.sort(key=lambda rows: rows[len(rows) // 2][0] if rows else 0)
        every = [row for rows in of_trees for row in rows]
        numbers = [0, *(number for number, _ in every), _ENOUGH]
        around = zip(every, numbers, numbers[2:], strict=False)
        in_order = {row[0]: row for row, before, after in around if before < row[0] < after}
        end = max(in_order, default=0) + len(every)
        others = {row[0]: row for row in every if row[0] <= end and row[0] not in in_order}
        return [*others.values(), *in_order.values()]

    def _rows(self, leaf: int) -> Iterator[Row]:
        page = self[leaf]
        for at in range(8, min(8 + 2 * self._cells(leaf), len(page) - 1), 2):
            with suppress(IndexError, struct.error):
                if row := self._row(page, _number(page, at, 2)):
                    yield row

    def _row(self, page: bytes, at: int) -> Row | None:
        """Raises IndexError and struct.error for invalid ones."""
        length, at = _varint(page, at)
        number, at = _varint(page, at)
        content = self._payload(page, at, length) if length < len(self._content) else b""
        at, start = _varint(content, 0)
        end, values = at, list[Any]()
        while start < end:
            kind, start = _varint(content, start)
            size = _LENGTHS[kind] if kind < 12 else (kind - 12) // 2
            values.append(_value(kind, content[at : at + size]))
            at += size
        return (number, values) if start == end and at == len(content) == length and 0 < number < _ENOUGH else None

    def _payload(self, page: bytes, at: int, length: int) -> bytes:
        """The content of a row, of which a long one has the rest on pages of its own."""
        most, least, room = self._size - 35, (self._size - 12) * 32 // 255 - 23, self._size - 4
        here = length if length <= most else least + (length - least) % room
        here = here if here <= most else least
        content, more = page[at : at + here], _number(page, at + here, 4)
        while len(content) < length and 1 < more < self._list:
            content += self[more][4:][: length - len(content)]
            more = _number(self[more], 0, 4)
        return content

    def _cells(self, number: int) -> int:
        return _number(self[number], 3, 2)

    def _children(self, page: bytes) -> Iterator[int]:
        """The last one first."""
        yield _number(page, 8, 4)
        for at in reversed(range(12, min(12 + 2 * _number(page, 3, 2), len(page) - 1), 2)):
            yield _number(page, _number(page, at, 2), 4)

    def _free(self) -> set[int]:
        """Pages in no use, which may hold what was deleted."""
        free, trunk = set[int](), _number(self._content, 32, 4)
        while 1 < trunk < self._list and trunk not in free:
            page = self[trunk]
            free |= {trunk, *(_number(page, at, 4) for at in range(8, min(8 + 4 * _number(page, 4, 4), len(page)), 4))}
            trunk = _number(page, 0, 4)
        return free

    def opened(self, tables: Iterable[tuple[str, int, str]]) -> sqlite3.Connection:
        """These tables by name, first page and SQL, for SQLite to check."""
        with closing(sqlite3.connect(":memory:")) as blank:
            blank.execute(f"PRAGMA page_size = {self._size}")
            blank.execute("PRAGMA user_version = 1")
            first = bytearray(blank.serialize())
        first[28:32] = self.nowhere.to_bytes(4, "big")
        db = sqlite3.connect(":memory:", isolation_level=None)
        db.deserialize(bytes(first) + self._content[self._size :])
        db.execute("PRAGMA writable_schema = ON")
        db.executemany(
            "INSERT INTO sqlite_schema VALUES ('table', ?1, ?1, ?2, ?3)",
            [(name, root, sql) for name, root, sql in tables],
        )
        db.execute("PRAGMA writable_schema = RESET")
        return db


def _number(content: bytes, at: int, length: int) -> int:
    return int.from_bytes(content[at : at + length], "big")


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """A number of one to nine bytes, and where it ends."""
    value = 0
    for end in range(at + 1, at + 9):
        value = value << 7 | content[end - 1] & 0x7F
        if content[end - 1] < 0x80:
            return value, end
    return value << 8 | content[at + 8], at + 9


def _value(kind: int, content: bytes) -> object:
    if kind >= 12:
        return _text(content) if kind % 2 else content
    if kind == 7:
        return struct.unpack(">d", content)[0]
    return kind - 8 if kind in (8, 9) else int.from_bytes(content, "big", signed=True) if kind else None


def _text(content: bytes) -> object:
    try:
        return DAMAGED if b"\0" in content else content.decode()  # SQLite fills up what is cut off
    except UnicodeDecodeError:
        return DAMAGED


def _page_size(content: bytes) -> int:
    """By the header, or, where that is none, by the number of pages there."""
    told, sizes = _number(content, 16, 2), [2048, 4096, 512, 1024, 8192, 16384, 32768]
    fitting = (size for size in sizes if size * _number(content, 28, 4) == len(content))
    return told if told in sizes else next(fitting, sizes[0])
