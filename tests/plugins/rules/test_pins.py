"""Standing rules on disk: in order, for good, and read from a store of an older format as none."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nanoclaw.core.store.db import Store
from nanoclaw.core.store.format import MIGRATIONS
from nanoclaw.core.store.usage import totals
from nanoclaw.plugins.forget.scrub import scrub
from nanoclaw.plugins.rules.pins import Pins


def now() -> datetime:
    return datetime(2026, 5, 3, tzinfo=UTC)


def test_pins_keep_their_order_and_are_taken_away_by_their_place(tmp_path: Path) -> None:
    store = Store(tmp_path / "state.db")
    pins = Pins(store, now)
    for text in ("one", "two", "three"):
        pins.add(text)
    assert pins.remove(2) == "two"
    pins.add("four")
    store.close()
    pins = Pins(Store(tmp_path / "state.db"), now)
    assert pins.all() == ["one", "three", "four"]
    for place in (0, 4, -1):
        with pytest.raises(IndexError):
            pins.remove(place)


def test_a_store_of_the_first_format_is_read_without_pins_and_with_its_usage(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with sqlite3.connect(path) as db:
        db.executescript((MIGRATIONS / "001.sql").read_text() + "PRAGMA user_version = 1;")
        db.execute(
            "INSERT INTO usage (at, origin, model, input_tokens, output_tokens, cached_tokens, estimated, is_reported)"
            " VALUES ('2026-05-03T10:00:00+00:00', 'person', 'acme/x', 10, 1, 0, 0, 1)"
        )
    store = Store(path, read_only=True)
    assert Pins(store, now).all() == []
    (day,) = totals(store, "day", lambda model, usage: 1.0)
    assert (day.calls, day.cost) == (1, 1.0)
    store.close()


class Secret:
    def without_any(self, text: str, *, closely: bool = False) -> str:
        return text.replace("call Hansen", "").strip()


def test_what_is_forgotten_is_out_of_the_pins_at_once(tmp_path: Path) -> None:
    store = Store(tmp_path / "state.db")
    pins = Pins(store, now)
    pins.add("call Hansen")
    pins.add("never call Hansen on Sundays")
    scrub(store, Secret())
    assert pins.all() == ["never  on Sundays"]
    store.close()
