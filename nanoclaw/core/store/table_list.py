"""A damaged store under a list of tables made anew: what the damaged list doesn't tell, the pages do."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from heapq import heappop, heappush
from itertools import chain
from typing import Any, NamedTuple

from nanoclaw.core.store.copies import CHECK, is_whole

FAILURES = 3000
"""So many reads of one table may fail before the rest of it counts as lost."""
WHOLE_TABLES = "whole tables"
"""Stands for those that nobody knows."""
DAMAGED = object()
"""Stands for a text that is none any more."""

_LIST = "CREATE TABLE {} (type TEXT, name TEXT, tbl_name TEXT, rootpage INTEGER, sql TEXT)"
_LISTED = "type, name, tbl_name, rootpage, sql"
_TYPES = ("table", "index", "trigger", "view")
_NAMED = re.compile(r'CREATE TABLE (?:IF NOT EXISTS )?"?(\w+)')
_INNER, _LEAF = 0x05, 0x0D
_HEADER = 100


class Listed(NamedTuple):
    """The tables that could be found, read through `db`, which has none of their indexes."""

    db: sqlite3.Connection
    tables: frozenset[str]
    lost: frozenset[str]  # tables that may have had rows, and could not be found
    others: dict[str, str]  # SQL of tables and indexes that nobody knows


def listed(content: bytes, known: Mapping[str, str]) -> Listed:
    """List the tables of a store; `known` is the SQL of those that it may have."""
    pages = _Pages(content)
    trees = pages.trees()
    lists = _rows_of_lists(pages, [tree for tree in trees if pages[tree][0] == _LEAF])
    said, others, unclear = dict[str, int](), dict[str, str](), 0
    for type_, name, tbl_name, root, sql in chain.from_iterable(lists.values()):
        called = next((each for each in (name, tbl_name, *_NAMED.findall(str(sql))) if each in known), None)
        is_legible = isinstance(name, str) and isinstance(sql, str)
        if type_ == "index" or not (type_ == "table" or pages.is_table(root)):
            unclear += type_ != "index"
            others |= {name: sql} if is_legible else {}
        elif called or (is_legible and _bare(sql)):
            said[called or name] = root if pages.is_table(root) else 0
            others |= {} if called else {name: sql}
        else:
            unclear += 1
    every = {**others, **known}
    claims = Counter(said.values())
    sure = {name for name, root in said.items() if claims[root] == 1 and root in trees | pages.empty()}
    leaves = pages.leaves_of_list()
    left = trees - lists.keys() - leaves.keys() - {said[name] for name in sure}
    fitting = _fitting(pages, {name: sql for name, sql in every.items() if name not in sure and _bare(sql)}, left)
    roots = {name: said[name] for name in sure} | _paired(fitting, said)
    left -= set(roots.values())
    empty = pages.empty() - set(roots.values())
    astray = [name for name in said if name not in roots]
    roots |= {name: empty.pop() if len(empty) >= len(astray) else pages.nowhere for name in astray}
    unlike = left.difference(*fitting.values())
    lost = {name for name, found in fitting.items() if name not in roots and (unlike or left & found)}
    is_whole_list = not unclear and leaves == {tree: len(rows) for tree, rows in lists.items()}
    if is_whole_list or not (left or known.keys() - roots.keys()):
        lost = set()
    elif not lost:
        lost = {WHOLE_TABLES}
    db = pages.opened((name, root, _bare(every[name])) for name, root in roots.items())
    return Listed(db, frozenset(roots), frozenset(lost), others)


def _paired(fitting: Mapping[str, set[int]], said: Mapping[str, int]) -> dict[str, int]:
    """The tree of each table that is said to be its own, or is the only one left that fits no other table."""
    pairs = {name: said[name] for name, found in fitting.items() if said.get(name) in found}
    while True:
        left = {name: found - set(pairs.values()) for name, found in fitting.items() if name not in pairs}
        wanted = Counter(chain.from_iterable(left.values()))
        own = {name: [tree for tree in found if wanted[tree] == 1] for name, found in left.items()}
        if not (sole := {name: trees[0] for name, trees in own.items() if len(trees) == 1}):
            return pairs
        pairs |= sole


def rows_of(db: sqlite3.Connection, table: str, columns: str, bound: int) -> Iterator[Any]:
    """All rows up to a number that can be read, the number first."""
    failures, ranges = 0, [(-bound, 1, bound)]
    while ranges and failures < FAILURES:
        _, low, high = heappop(ranges)  # the longest first
        where, between = ("= ?", (low,)) if low == high else ("BETWEEN ? AND ? ORDER BY rowid", (low, high))
        try:
            for row in read(db, f'SELECT rowid, {columns} FROM "{table}" WHERE rowid {where}', *between):
                low = max(low, row[0] + 1)
                yield row
        except Illegible:
            failures += 1
            if low < high:
                middle = (low + high) // 2
                heappush(ranges, (low - middle, low, middle))
                heappush(ranges, (middle + 1 - high, middle + 1, high))


class Illegible(Exception):
    """Damage, not a disk or a lock in the way."""


def read(db: sqlite3.Connection, sql: str, *values: object) -> Iterator[Any]:
    try:
        yield from db.execute(sql, values)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _OF_THE_DISK:
            raise
        raise Illegible from error


_OF_THE_DISK = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM)


def decoded(text: bytes) -> object:
    try:
        return DAMAGED if b"\0" in text else text.decode()  # SQLite fills up what is cut off
    except UnicodeDecodeError:
        return DAMAGED


class _Pages:
    """The pages of a file, counted from 1, and behind them the first one of the list of tables, and one of nothing."""

    def __init__(self, content: bytes) -> None:
        self._size = size = _page_size(content)
        count = -(-len(content) // size)
        told = min(_number(content, 28, 4), 10 * count)  # more where it is cut: what pages name is not to be ours
        self._content = content.ljust(max(1, told, count) * size, b"\0")
        first, count = self[1], _number(content, _HEADER + 3, 2)
        head = first[_HEADER:][: (8 if first[_HEADER : _HEADER + 1] == bytes([_LEAF]) else 12) + 2 * count]
        self._content += head + first[len(head) :] + b"\xff" * size
        self.nowhere = len(self._content) // size
        self._list = self.nowhere - 1

    def __getitem__(self, number: int) -> bytes:
        return self._content[(number - 1) * self._size : number * self._size]

    def is_table(self, number: object) -> bool:
        return isinstance(number, int) and 1 < number < self._list and self[number][0] in (_INNER, _LEAF)

    def empty(self) -> set[int]:
        """The first pages of tables without a row."""
        return {
            number for number in range(2, self._list) if self[number][0] == _LEAF and not self._cells(number)
        } - self._free()

    def leaves_of_list(self) -> dict[int, int]:
        """The leaves of the list of tables, as its own first page has them, and how many rows each has."""
        first = self[self._list]
        leaves = {self._list} if first[0] == _LEAF else set(self._children(first))
        return {leaf: self._cells(leaf) for leaf in leaves}

    def _cells(self, number: int) -> int:
        return _number(self[number], 3, 2)

    def trees(self) -> set[int]:
        """The first pages of all trees that look like a table with rows, the leaves of the list of tables too."""
        tables = {number for number in range(2, self.nowhere) if self[number][0] in (_INNER, _LEAF)}
        inner = {number for number in tables if self[number][0] == _INNER and number != self._list}
        below = {child for number in inner for child in self._children(self[number])}
        found = tables - below - self._free() - ({self._list} - self.leaves_of_list().keys())
        return {number for number in found if self._cells(number)}

    def _children(self, page: bytes) -> Iterator[int]:
        yield _number(page, 8, 4)
        for at in range(12, min(12 + 2 * _number(page, 3, 2), len(page) - 1), 2):
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
        """These tables by name, first page and SQL."""
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


def _page_size(content: bytes) -> int:
    """By the header, or, where that is none, by the number of pages there."""
    told, sizes = _number(content, 16, 2), [2048, 4096, 512, 1024, 8192, 16384, 32768]
    fitting = (size for size in sizes if size * _number(content, 28, 4) == len(content))
    return told if told in sizes else next(fitting, sizes[0])


def _rows_of_lists(pages: _Pages, leaves: Iterable[int]) -> dict[int, list[Any]]:
    """The rows of each leaf that is one of the list of tables."""
    with closing(pages.opened((f"of {leaf}", leaf, _LIST.format(f'"of {leaf}"')) for leaf in leaves)) as db:
        db.text_factory = decoded
        found = {leaf: [row[1:] for row in rows_of(db, f"of {leaf}", _LISTED, 10_000)] for leaf in leaves}
    return {leaf: rows for leaf, rows in found.items() if any(row[0] in _TYPES and row[3] for row in rows)}


def _fitting(pages: _Pages, tables: Mapping[str, str], trees: Iterable[int]) -> dict[str, set[int]]:
    """The trees, by table, whose rows could all stand in it: they have nothing where it has no column."""
    pairs = [(f"{name} {tree}", name, tree) for name in tables for tree in trees]
    fitting = {name: set[int]() for name in tables}
    with closing(pages.opened((pair, tree, _bare(tables[name], pair)) for pair, name, tree in pairs)) as db:
        for pair, name, tree in pairs:
            if is_whole(db, pair) and not db.execute(f'SELECT 1 FROM "{pair}" WHERE {_NOTHING}').fetchone():
                fitting[name].add(tree)
    return fitting


_NOTHING = "coalesce(beyond_key, beyond) IS NOT NULL"


def _bare(sql: str, as_name: str = "") -> str:
    """The SQL of a table without its indexes; '' for what makes no table. Under another name it has a column more, and
    one for what stands in the place of the row's number, where there is nothing."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(":memory:")) as db:
        db.execute(sql)
        # AUTOINCREMENT makes a table of SQLite's own besides
        own = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql <> '' AND name NOT GLOB 'sqlite_*'"
        ((name,),) = db.execute(own).fetchall()
        columns = db.execute(f'PRAGMA table_info("{name}")').fetchall()
        is_strict = db.execute("SELECT strict FROM pragma_table_list(?)", (name,)).fetchone()[0]
        keys = [type_ for _, _, type_, _, _, key in columns if key]
        parts = [
            ("beyond_key ANY" if as_name else f'"{column}" INTEGER PRIMARY KEY')
            if key and keys == ["INTEGER"]
            else f'"{column}" {type_}{" NOT NULL" * must}{f" DEFAULT {default}" if default is not None else ""}'
            for _, column, type_, must, default, key in columns
        ]
        if as_name:
            parts += ["beyond ANY"] if "beyond_key ANY" in parts else ["beyond ANY", "beyond_key ANY"]
        checks = [f"CHECK ({check})" for check in CHECK.findall(sql)]
        return f'CREATE TABLE "{as_name or name}" ({", ".join([*parts, *checks])}){" STRICT" * is_strict}'
    return ""
