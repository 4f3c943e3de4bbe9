"""A damaged store under a list of tables made again: what the damaged list doesn't tell, the pages do."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from itertools import chain
from typing import NamedTuple

from nanoclaw.sqlite_salvage.copies import CHECK
from nanoclaw.sqlite_salvage.pages import DAMAGED, LEAF, Pages, Row

WHOLE_TABLES = "whole tables"
"""Stands for those that nobody knows."""
SEQUENCE = "sequence"
"""Stands for SQLite's own table of last numbers: nothing can be made under its name."""

_SEQUENCE_SQL = "CREATE TABLE sequence (name TEXT NOT NULL, seq INTEGER NOT NULL) STRICT"
_TYPES = ("table", "index", "trigger", "view")
_NAMED = re.compile(r'CREATE TABLE (?:IF NOT EXISTS )?"?(\w+)')


class Listed(NamedTuple):
    """The tables that could be found; SQLite sees them through `db`, which has none of their indexes."""

    db: sqlite3.Connection
    rows: dict[str, list[Row]]
    lost: frozenset[str]  # tables that may have had rows, and could not be found
    others: dict[str, str]  # SQL of tables and indexes that nobody knows


def listed(content: bytes, known: Mapping[str, str]) -> Listed:
    """List the tables of a store; `known` is the SQL of those that it may have."""
    pages, known = Pages(content), {**known, SEQUENCE: _SEQUENCE_SQL}
    trees = pages.trees()
    lists = {tree: pages.rows(tree) for tree in trees if pages[tree][0] == LEAF}
    lists = {tree: rows for tree, rows in lists.items() if any(_is_listing(values) for _, values in rows)}
    said, others, unclear, blank = dict[str, int](), dict[str, str](), 0, set[str]()
    for _, values in chain.from_iterable(lists.values()):
        type_, name, tbl_name, root, sql = [*values, None, None, None, None, None][:5]
        names = [str(each).removeprefix("sqlite_") for each in (name, tbl_name, *_NAMED.findall(str(sql)))]
        called = next((each for each in names if each in known), None)
        is_legible = isinstance(name, str) and isinstance(sql, str)
        if type_ == "index" or not (type_ == "table" or pages.is_table(root)):
            unclear += type_ != "index"
            others |= {name: sql} if is_legible else {}
        elif called or (is_legible and _bare(sql)):
            said[called or name] = root if pages.is_table(root) else 0
            blank |= {called or name} if isinstance(root, int) and not any(pages[root]) else set()
            others |= {} if called else {name: sql}
        else:
            unclear += 1
    every = {name: sql for name, sql in {**others, **known}.items() if _bare(sql)}
    claims = Counter(said.values())
    sure = {name: root for name, root in said.items() if claims[root] == 1 and root in trees | pages.empty()}
    torn = {name for name, root in sure.items() if 0 in pages.leaves(root)}
    leaves = pages.leaves_of_list()
    left = trees - lists.keys() - leaves.keys() - set(sure.values())
    fitting = _fitting(pages, {name: sql for name, sql in every.items() if name not in sure or name in torn}, left)
    roots = sure | _paired({name: found for name, found in fitting.items() if name not in torn}, said)
    left -= set(roots.values())
    parts = _parts(pages, fitting, roots, left)
    left -= {tree for found in parts.values() for tree in found}
    empty = pages.empty() - set(roots.values())
    astray = [name for name in said.keys() | parts.keys() if name not in roots]
    may_be_empty = set(astray) - parts.keys() - blank if len(empty) >= len(astray) else set()
    roots |= {name: empty.pop() if name in may_be_empty else pages.nowhere for name in astray}
    unlike = left.difference(*fitting.values())
    lost = {name for name, found in fitting.items() if name not in roots and (unlike or left & found)}
    is_whole_list = not unclear and leaves == {tree: len(rows) for tree, rows in lists.items()}
    if is_whole_list or not (left or known.keys() - roots.keys()):
        lost = set()
    elif not lost or known.keys() - roots.keys() - lost:
        lost |= {WHOLE_TABLES}
    db = pages.opened((name, root, _bare(every[name])) for name, root in roots.items())
    rows = {name: pages.rows(root, *parts.get(name, ())) for name, root in roots.items()}
    return Listed(db, rows, frozenset(lost), others)


def _is_listing(values: Sequence[object]) -> bool:
    return len(values) == 5 and values[0] in _TYPES and bool(values[3])


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


def _parts(
    pages: Pages, fitting: Mapping[str, set[int]], roots: Mapping[str, int], left: Iterable[int]
) -> dict[str, list[int]]:
    """The trees by table that a lost page held together: each fits one table that lacks a part, and has none of the
    rows that are there."""
    parts = defaultdict[str, list[int]](list)
    taken = {name: {row for row, _ in pages.rows(roots.get(name, pages.nowhere))} for name in fitting}
    for tree in sorted(left):
        rows = {row for row, _ in pages.rows(tree)}
        lacking = [name for name in fitting if name not in roots or 0 in pages.leaves(roots[name])]
        names = [name for name in lacking if tree in fitting[name] and not rows & taken[name]]
        if len(names) == 1:
            parts[names[0]].append(tree)
            taken[names[0]] |= rows
    return parts


def _fitting(pages: Pages, tables: Mapping[str, str], trees: Iterable[int]) -> dict[str, set[int]]:
    """The trees, by table, whose rows could all stand in it."""
    rows = {tree: pages.rows(tree) for tree in trees}
    fitting = dict[str, set[int]]()
    for name, sql in tables.items():
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
            db.execute(_bare(sql))
            columns = Columns.of(db, name)
            fitting[name] = {tree for tree, own in rows.items() if all(columns.insert(db, row) for row in own)}
    return fitting


class Columns(NamedTuple):
    """The quoted names of a table's columns in order; `key` is the place of one that is the row's number."""

    table: str
    names: list[str]
    key: int | None

    @classmethod
    def of(cls, db: sqlite3.Connection, table: str) -> Columns:
        found = db.execute(f'PRAGMA table_info("{table}")').fetchall()
        keys = [(at, type_) for at, _, type_, _, _, key in found if key]
        key = keys[0][0] if [type_ for _, type_ in keys] == ["INTEGER"] else None
        return cls(table, [f'"{name}"' for _, name, *_ in found], key)

    def insert(self, db: sqlite3.Connection, row: Row) -> bool:
        """Write a row, in the place of one that has its number; one that cannot be of this table is left out."""
        number, values = row
        if DAMAGED in values or len(values) > len(self.names):
            return False
        if self.key is not None and values[self.key : self.key + 1] != [None]:
            return False
        named = zip(self.names, values, strict=False)
        written = {name: value for at, (name, value) in enumerate(named) if at != self.key}
        places = f'"{self.table}" (rowid{"".join(f", {name}" for name in written)})'
        try:
            sql = f"INSERT OR REPLACE INTO {places} VALUES (?{', ?' * len(written)})"
            db.execute(sql, (number, *written.values()))
        except sqlite3.IntegrityError:  # of another type, or no state that there is
            return False
        return True


def _bare(sql: str) -> str:
    """The SQL of a table without its indexes; '' for what makes no table."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(":memory:")) as db:
        db.execute(sql)
        # AUTOINCREMENT makes a table of SQLite's own besides
        own = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql <> '' AND name NOT GLOB 'sqlite_*'"
        ((name,),) = db.execute(own).fetchall()
        columns = db.execute(f'PRAGMA table_info("{name}")').fetchall()
        is_strict = db.execute("SELECT strict FROM pragma_table_list(?)", (name,)).fetchone()[0]
        keys = [type_ for _, _, type_, _, _, key in columns if key]
        parts = [
            f'"{column}" INTEGER PRIMARY KEY'
            if key and keys == ["INTEGER"]
            else f'"{column}" {type_}{" NOT NULL" * must}{f" DEFAULT {default}" if default is not None else ""}'
            for _, column, type_, must, default, key in columns
        ]
        checks = [f"CHECK ({check})" for check in CHECK.findall(sql)]
        return f'CREATE TABLE "{name}" ({", ".join([*parts, *checks])}){" STRICT" * is_strict}'
    return ""
