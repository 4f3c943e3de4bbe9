"""Items of the heartbeat as they were seen last, and what was told of late."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta

from nanoclaw.core.plugin import Host, Tx
from nanoclaw.named_tuple import NamedTuple

SAME_FOR = timedelta(hours=24)
"""So long the same words are not told again."""


class ItemState(NamedTuple):
    """The time an item came up or was looked at last; the hash of what it watches, and the beginning of that."""

    at: datetime
    sha256: str = ""
    seen: str = ""


def states(host: Host) -> dict[str, ItemState]:
    """The items as they were seen last, by key."""
    rows = host.read("SELECT key, at, sha256, seen FROM checklist")
    return {key: ItemState(datetime.fromisoformat(at), sha256, seen) for key, at, sha256, seen in rows}


def keep_states(tx: Tx, changed: Mapping[str, ItemState], keys: Collection[str]) -> None:
    """Write new states; items that are not among the `keys` are gone."""
    tx.execute("DELETE FROM checklist WHERE key NOT IN (SELECT value FROM json_each(?))", json.dumps([*keys]))
    sql = "INSERT OR REPLACE INTO checklist (key, at, sha256, seen) VALUES (?, ?, ?, ?)"
    for key, state in changed.items():
        tx.execute(sql, key, stamp(state.at), state.sha256, state.seen)


def is_news(tx: Tx, text: str, now: datetime) -> bool:
    """Tell whether words were not told within a day, and keep that they are told now."""
    tx.execute("DELETE FROM heartbeat_told WHERE at <= ?", stamp(now - SAME_FOR))
    words = re.findall(r"\w+", text.casefold())  # case, spaces and punctuation make no difference
    sha256 = hashlib.sha256(" ".join(words).encode("utf-8", "replace")).hexdigest()
    sql = "INSERT OR IGNORE INTO heartbeat_told (sha256, at) VALUES (?, ?) RETURNING at"
    return bool(list(tx.execute(sql, sha256, stamp(now))))


def stamp(when: datetime) -> str:
    """In UTC and to the second, so that its text sorts as it does."""
    return when.astimezone(UTC).isoformat(timespec="seconds")
