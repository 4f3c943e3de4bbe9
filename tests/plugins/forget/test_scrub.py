"""Words taken out of the store leave no byte behind, and nothing else changes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.core.messages import (
    Address,
    AssistantMessage,
    Button,
    Inbound,
    Outbound,
    ToolCall,
    ToolResult,
    UserMessage,
)
from nanoclaw.core.plugin import Ended, Plugin
from nanoclaw.core.records import Records
from nanoclaw.core.store.db import Transaction, Transactions
from nanoclaw.core.store.sessions import Sessions, TurnJournal
from nanoclaw.plugins.forget import scrub
from nanoclaw.plugins.forget.words import words_of
from nanoclaw.sqlite_salvage.copies import all_copies
from nanoclaw.start.opening import drop_bytes, open_store

NOW = datetime(2026, 3, 6, 12, 0, tzinfo=UTC)
MAIN, WORK = Address("terminal", "main"), Address("terminal", "work")
LINE = "The parrot is called Zebulon."
WORDS = words_of([f"- 2026-01-10: {LINE}"])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Home]:
    store = Home(tmp_path)
    yield store
    store.store.close()


class Home:
    """A store, as the plugin sees it by its host."""

    def __init__(self, folder: Path) -> None:
        self.store = open_store(folder / "state.db")
        self.db, self.path, self.rows, self.read = self.store.db, self.store.path, self.store.rows, self.store.rows
        self.transactions = Transactions(self.store, lambda: NOW)
        self.sessions = Sessions(self.transactions)
        self.host: Any = self
        self.records = Records(self.store.rows)
        self.write_now, self.plugins = self.transactions.write_now, tuple[Plugin, ...]
        self.copies, self.drop_bytes = lambda: all_copies(self.store.path), lambda: drop_bytes(self.store)


def clean(text: str, is_here: bool) -> str:
    return WORDS.without_any(text, closely=is_here)


async def begin(store: Home, text: str, address: Address = MAIN) -> TurnJournal:
    count = store.rows("SELECT count(*) FROM inbox")[0][0]
    message = Inbound(address, "me", str(count), UserMessage(text, NOW), role="owner")
    row = store.transactions.write_now(lambda tx: tx.deliver(message))
    assert row
    return await TurnJournal(store.sessions.of(address), store.sessions.next_turn(), row, "person").begin(
        [row], [UserMessage(text, NOW)]
    )


async def note_it(turn: TurnJournal) -> None:
    call = ToolCall("c1", "memory_add", json.dumps({"text": LINE}))
    await turn.acting(AssistantMessage("", NOW, (call,)))
    await turn.step(
        [
            AssistantMessage("I note it.", NOW, (call,), opaque=json.dumps({"thought": LINE})),
            ToolResult("c1", "memory_add", f"Noted: {LINE}", NOW),
        ]
    )


async def end(turn: TurnJournal, text: str, address: Address = MAIN) -> None:
    ended = Ended("answered", Outbound(address, text), text)
    await turn.change(lambda tx: turn.end(tx, ended, [AssistantMessage(text, NOW)], "m"))


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


async def test_no_byte_of_the_words_is_left_in_any_file(store: Home, tmp_path: Path) -> None:
    turn = await begin(store, "Do remember: my parrot, it is called Zebulon")
    await note_it(turn)
    await end(turn, "Zebulon is a fine name.")
    for number in range(300):
        turn = await begin(store, f"{number} {LINE} " + "x" * 300)
        await end(turn, "ok")
    store.db.execute("UPDATE sessions SET memory = ?", (json.dumps({"shown": [f"a {LINE}", "b"]}),))
    store.sessions.of(WORK)
    asks = Outbound(MAIN, "Who?", buttons=(Button(LINE, "/answer 1 #1"), Button("none", "/answer 1 #2")))
    row = store.transactions.write_now(lambda tx: tx.send(asks, is_news=False))
    store.db.execute("DELETE FROM outbox WHERE id > 5 AND id != ?", (row,))
    assert b"Zebulon" in bytes_of(tmp_path)
    cells = scrub.scrub(store.host, WORDS)
    store.sessions.forget(clean, None)
    assert cells
    assert b"ebulo" not in bytes_of(tmp_path)
    assert "Zebulon" not in repr(store.sessions.of(MAIN).history)
    assert store.sessions.of(MAIN).snapshot_text == json.dumps({"shown": ["a [forgotten].", "b"]})
    assert len(store.sessions.of(MAIN).history) == 4 + 600


async def test_what_a_turn_still_says_after_forgetting_is_stored_without_the_words(store: Home, tmp_path: Path) -> None:
    turn = await begin(store, "forget the name of my parrot")
    call = ToolCall("c1", "memory_forget", json.dumps({"query": "Zebulon", "numbers": [1]}))
    await turn.acting(AssistantMessage("", NOW, (call,)))
    scrub.scrub(store.host, WORDS, "memory_forget")
    store.sessions.forget(clean, MAIN)
    await turn.step([AssistantMessage("", NOW, (call,)), ToolResult("c1", "memory_forget", "Forgotten", NOW)])
    await end(turn, "I forgot that Zebulon is your parrot.")
    assert b"ebulo" not in bytes_of(tmp_path)
    (sent,) = store.rows("SELECT text FROM outbox")
    assert sent == ("I forgot that [forgotten] is your [forgotten].",)
    assert "Zebulon" not in repr(store.sessions.of(MAIN).history)


async def test_after_that_turn_the_words_may_be_said_again(store: Home) -> None:
    turn = await begin(store, "forget it")
    store.sessions.forget(clean, MAIN)
    await end(turn, "Done")
    await end(await begin(store, LINE), LINE)
    assert LINE in repr(store.sessions.of(MAIN).history[-1])


async def test_a_turn_in_another_chat_forgets_as_well(store: Home, tmp_path: Path) -> None:
    other = await begin(store, "what do you know?", WORK)
    await end(await begin(store, "x"), "y")
    store.sessions.forget(clean, MAIN)
    await end(other, f"{LINE} And the parrot eats nuts.", WORK)
    assert store.rows("SELECT text FROM outbox ORDER BY id DESC LIMIT 1") == [
        ("[forgotten]. And the parrot eats nuts.",)
    ]


async def test_keys_and_states_are_left_as_they_are(store: Home) -> None:
    await end(await begin(store, "done terminal main"), "new")
    scrub.scrub(store.host, words_of((), ["done", "terminal", "main", "new", "delivered", "answered"]))
    assert store.rows("SELECT key FROM sessions") == [("terminal:main",)]
    assert store.rows("SELECT channel, chat, state FROM inbox") == [("terminal", "main", "done")]
    assert store.rows("SELECT channel, chat, state FROM outbox") == [("terminal", "main", "pending")]
    assert store.rows("SELECT reason FROM turns") == [("answered",)]


async def test_copies_of_older_formats_lose_the_words_too(store: Home, tmp_path: Path) -> None:
    await end(await begin(store, LINE), "ok")
    copy, broken = tmp_path / "state.db.v1", tmp_path / "state.db.v0"
    with sqlite3.connect(copy) as target:
        store.db.backup(target)
    target.close()
    broken.write_bytes(b"not a database: Zebulon")
    scrub.scrub_copies(store.host, WORDS)
    assert not broken.exists()
    assert b"ebulo" not in copy.read_bytes()
    with sqlite3.connect(copy) as target:
        assert "[forgotten]" in target.execute("SELECT body FROM messages").fetchone()[0]
    target.close()


async def test_mentions_counts_messages_of_ended_turns_only(store: Home) -> None:
    await end(await begin(store, "zebra"), "a zebra")
    await begin(store, "forget zebra")
    assert scrub.mentions(store.records, lambda body: "zebra" in body) == 2


async def test_nothing_found_changes_nothing(store: Home) -> None:
    await end(await begin(store, "hello"), "hi")
    before = list(store.db.iterdump())
    assert scrub.scrub(store.host, WORDS) == []
    assert list(store.db.iterdump()) == before


async def test_what_was_deleted_long_ago_is_gone_as_well(store: Home, tmp_path: Path) -> None:
    store.db.execute("PRAGMA secure_delete = OFF")
    for number in range(50):
        await end(await begin(store, f"{number} {LINE}"), "x" * 300)
    store.db.execute("DELETE FROM messages")
    store.db.execute("UPDATE inbox SET body = '{}'")
    store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert b"ebulo" in bytes_of(tmp_path)
    assert scrub.scrub(store.host, WORDS) == []
    assert b"ebulo" not in bytes_of(tmp_path)


def test_rows_waiting_for_delivery_are_looked_through(store: Home) -> None:
    with store.store.transaction() as db:
        Transaction(db, NOW).send(Outbound(MAIN, LINE))
    scrub.scrub(store.host, WORDS)
    assert store.rows("SELECT text FROM outbox") == [("[forgotten].",)]
