"""The tree of branches: which conversation began from which, as lines that are indented below each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

TABLE = """CREATE TABLE conversations_branches (  -- that /branch and /continue began
    conversation TEXT PRIMARY KEY,
    parent TEXT NOT NULL
) STRICT"""
BRANCHED = "INSERT OR REPLACE INTO conversations_branches (conversation, parent) VALUES (?, ?)"
DELETED = """UPDATE conversations_branches SET parent =
    COALESCE((SELECT parent FROM conversations_branches WHERE conversation = ?1), '') WHERE parent = ?1"""
"""Hang what began from a conversation that is deleted below the one that it began from."""

Row = Mapping[str, Any]


def trees(
    rows: Sequence[Row], parents: Mapping[str, str], is_wanted: Callable[[Row], bool]
) -> list[list[tuple[int, Row]]]:
    """Each conversation with its depth, followed by its branches, the newest first. One that is not wanted is there
    only above one that is."""
    below, names = defaultdict[str, list[Row]](list), {row["name"] for row in rows}
    for row in rows:
        parent = parents.get(row["name"], "")
        below[parent if parent in names else ""].append(row)

    def shown(row: Row, depth: int) -> list[tuple[int, Row]]:
        inner = [one for child in below[row["name"]] for one in shown(child, depth + 1)]
        return [(depth, row), *inner] if inner or is_wanted(row) else []

    return [found for row in below[""] if (found := shown(row, 0))]
