"""Tables of the heartbeat: its items as they were seen last, and alerts that wait to be told."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

from nanoclaw.core.plugin import Host, Tx

SAME_FOR = timedelta(hours=24)
"""So long the same words are not told again."""

Urgency = Literal["low", "normal", "high"]

MIGRATIONS = (
    """
CREATE TABLE IF NOT EXISTS checklist (     -- items of HEARTBEAT.md
    key TEXT PRIMARY KEY,                  -- SHA-256 of the item's text
    at TEXT NOT NULL,                      -- when it came up, or was looked at last; UTC
    sha256 TEXT NOT NULL,                  -- of what it watches
    seen TEXT NOT NULL                     -- the beginning of that
) STRICT;
CREATE TABLE IF NOT EXISTS alerts (        -- what heartbeats had to tell
    id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    text TEXT NOT NULL,                    -- '' once it is told
    sha256 TEXT NOT NULL,                  -- of its words
    kind TEXT NOT NULL CHECK (kind IN ('low', 'normal', 'high')),
    fired TEXT                             -- when it was told; NULL: it waits
) STRICT;
""",
    "ALTER TABLE alerts ADD COLUMN outside TEXT NOT NULL DEFAULT ''",
)
MARKS = (
    *("checklist.key", "checklist.at", "checklist.sha256"),
    *("alerts.at", "alerts.sha256", "alerts.kind", "alerts.fired"),
)


class ItemState(NamedTuple):
    """The time an item came up or was looked at last; the hash of what it watches, and the beginning of that."""

    at: datetime
    sha256: str = ""
    seen: str = ""


class Alert(NamedTuple):
    """A text that waits to be told, with the sources of others' text that its beat had read."""

    id: int
    at: datetime
    text: str
    urgency: Urgency
    outside: str


def states(host: Host) -> dict[str, ItemState]:
    """The items as they were seen last, by key."""
    rows = host.read("SELECT key, at, sha256, seen FROM checklist")
    return {key: ItemState(datetime.fromisoformat(at), sha256, seen) for key, at, sha256, seen in rows}


def keep_states(tx: Tx, changed: Mapping[str, ItemState], keys: Collection[str]) -> None:
    """Write new states; items that are not among the `keys` are gone."""
    for (key,) in tx.execute("SELECT key FROM checklist"):
        if key not in keys:
            tx.execute("DELETE FROM checklist WHERE key = ?", key)
    sql = "INSERT OR REPLACE INTO checklist (key, at, sha256, seen) VALUES (?, ?, ?, ?)"
    for key, state in changed.items():
        tx.execute(sql, key, stamp(state.at), state.sha256, state.seen)


def waiting(host: Host) -> list[Alert]:
    rows = host.read("SELECT id, at, text, kind, outside FROM alerts WHERE fired IS NULL ORDER BY id")
    return [Alert(id_, datetime.fromisoformat(at), *more) for id_, at, *more in rows]


def add_alert(tx: Tx, text: str, urgency: Urgency, now: datetime, outside: str = "") -> None:
    """Keep a text to be sent, unless the same waits or was sent within a day."""
    tx.execute("DELETE FROM alerts WHERE fired <= ?", stamp(now - SAME_FOR))
    words = re.findall(r"\w+", text.casefold())  # case, spaces and punctuation make no difference
    sha256 = hashlib.sha256(" ".join(words).encode("utf-8", "replace")).hexdigest()
    if not tx.execute("SELECT 1 FROM alerts WHERE sha256 = ?", sha256):
        sql = "INSERT INTO alerts (at, text, sha256, kind, outside) VALUES (?, ?, ?, ?, ?)"
        tx.execute(sql, stamp(now), text, sha256, urgency, outside)


def mark_told(tx: Tx, alerts: Sequence[Alert], now: datetime) -> None:
    for alert in alerts:
        tx.execute("UPDATE alerts SET fired = ?, text = '', outside = '' WHERE id = ?", stamp(now), alert.id)


def stamp(when: datetime) -> str:
    """In UTC and to the second, so that its text sorts as it does."""
    return when.astimezone(UTC).isoformat(timespec="seconds")
