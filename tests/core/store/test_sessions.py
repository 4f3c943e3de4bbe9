"""Conversations survive the process: every kind of message, whole steps only."""

import gc
import importlib
import json
import sqlite3
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.core.messages import (
    Address,
    AssistantMessage,
    Attachment,
    Effect,
    Image,
    Inbound,
    Message,
    Outbound,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from nanoclaw.core.plugin import Ended
from nanoclaw.core.store.db import Store, Transaction, Transactions
from nanoclaw.core.store.history import list_sessions, whole_history
from nanoclaw.core.store.inbox import Inbox
from nanoclaw.core.store.sessions import Sessions, TurnJournal
from nanoclaw.providers.scripted import ScriptedProvider
from nanoclaw.start.opening import open_store
from tests.program import REPOSITORY, HandClock, bare

NOW = datetime(2026, 3, 6, 12, 0, 0, 123456, tzinfo=UTC)
MAIN = Address("terminal", "main")
CAT = Image("image/png", b"\x89PNG cat", "cat.png")
CALLS = (ToolCall("c1", "exec", '{"command": "ls"}'), ToolCall("c2", "näme", "not json \ud800"))
EVERY_KIND: tuple[Message, ...] = (
    UserMessage("[Runtime Context]", NOW, "runtime"),
    UserMessage("Grüße 👩‍👩‍👧 \u202e\x00 end", NOW - timedelta(days=400), "person", (CAT, CAT)),
    AssistantMessage("", NOW, CALLS, Usage(10, 2, 4), "tool_calls", "openai/gpt-5", '{"signature": "x"}'),
    ToolResult("c1", "exec", "half \ud83d", NOW, is_error=True),
    ToolResult("c2", "näme", "seen", NOW, images=(Image("image/jpeg", b"dog", "dog.jpg"), CAT)),
    UserMessage("", NOW, "job"),
    UserMessage("x", NOW, "heartbeat"),
    UserMessage("x" * 1_000_000, NOW, "subagent"),
    AssistantMessage("done", NOW, finish="length"),
)


def clock() -> datetime:
    return NOW


def inbound(text: str = "hi", external_id: str = "1", chat: str = "main") -> Inbound:
    return Inbound(Address("terminal", chat), "me", external_id, UserMessage(text, NOW), (Attachment("/a", "a", ""),))


def sessions(store: Store) -> Sessions:
    return Sessions(Transactions(store, clock))


def inbox_of(store: Store) -> Inbox:
    return Inbox(Transactions(store, clock))


def accept(store: Store, message: Inbound) -> int | None:
    with store.transaction() as db:
        return Transaction(db, NOW).accept(message)


async def test_every_kind_of_message_comes_back_equal_after_a_reopen(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db")
    row = accept(store, inbound())
    assert row
    turn = await TurnJournal(sessions(store).of(MAIN), 1, row, "person").begin([row], EVERY_KIND[:2])
    await turn.step(EVERY_KIND[2:5])
    await turn.change(
        lambda tx: turn.end(tx, Ended("answered", Outbound(MAIN, "done"), "done"), EVERY_KIND[5:], "openai/gpt-5")
    )
    store.close()

    store = open_store(tmp_path / "state.db")
    assert tuple(sessions(store).of(MAIN).history) == EVERY_KIND
    assert whole_history(store, "terminal:main") == list(EVERY_KIND)
    assert [(info.key, info.messages) for info in list_sessions(store)] == [("terminal:main", 2)]
    store.close()


def test_what_belongs_to_a_turn_is_found_by_an_index(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db")
    for what in ("messages WHERE turn = 1", "inbox WHERE turn = 1", "turns WHERE inbox = 1"):
        assert "USING" in str(store.rows(f"EXPLAIN QUERY PLAN SELECT id FROM {what}"))
    store.close()


async def test_a_turn_of_which_nothing_is_kept_can_have_been_shortened(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db")
    session = (every := sessions(store)).of(MAIN)
    await TurnJournal(session, 1, accept(store, inbound()) or 0, "person").begin([1], EVERY_KIND[:2])
    session.shorten(session.placed()[-1].id, lines="They said hello.")
    session.transactions.write_now(lambda tx: every.drop(tx, session, 1))
    assert [store.rows(f"SELECT 1 FROM {table}") for table in ("compactions", "messages", "sessions")] == [[], [], []]
    store.close()


async def test_a_picture_sent_many_times_is_stored_once(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db")
    for number in range(3):
        row = accept(store, inbound(external_id=str(number)))
        assert row
        await TurnJournal(sessions(store).of(MAIN), number + 1, row, "person").begin(
            [row], [UserMessage("see", NOW, images=(CAT, CAT))]
        )
    assert store.db.execute("SELECT count(*) FROM images").fetchone() == (1,)
    assert all(
        message.images == (CAT, CAT) for message in sessions(store).of(MAIN).history if isinstance(message, UserMessage)
    )
    store.close()


def test_the_chosen_model_and_the_memory_of_a_context_survive_and_new_ends_the_context(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db")
    session = sessions(store).of(MAIN)
    session.keep_snapshot("facts")
    session.use_model("openai/gpt-5")
    store.close()

    store = open_store(tmp_path / "state.db")
    session = sessions(store).of(MAIN)
    assert (session.snapshot_text, session.model) == ("facts", "openai/gpt-5")
    session.transactions.write_now(session.reset)
    store.close()

    store = open_store(tmp_path / "state.db")
    session = sessions(store).of(MAIN)
    assert (session.snapshot_text, session.model, session.history) == (None, "openai/gpt-5", [])
    store.close()


class Torn:
    """A message that cannot be stored: what else is in its step must not be either."""

    text = "torn"
    at = None
    images = ()


@pytest.mark.parametrize("step", ["begin", "step", "end"])
async def test_a_step_is_stored_whole_or_not_at_all(tmp_path: Path, step: str) -> None:
    store = open_store(tmp_path / "state.db")
    inbox = inbox_of(store)
    row = accept(store, inbound())
    assert row
    session = sessions(store).of(MAIN)
    answer = AssistantMessage("half", NOW)
    bad: list[Message] = [answer, Torn()]  # type: ignore[list-item]
    doing: Coroutine[Any, Any, object]
    if step == "begin":
        doing = TurnJournal(session, 1, row, "person").begin([row], bad)
    else:
        turn = await TurnJournal(session, 1, row, "person").begin([row], [UserMessage("hi", NOW)])
        ended = Ended("answered", Outbound(MAIN, "x"))
        doing = turn.step(bad) if step == "step" else turn.change(lambda tx: turn.end(tx, ended, bad, ""))
    before = list(session.history)
    with pytest.raises(Exception):  # noqa: B017 - whatever it is
        await doing
    assert session.history == before
    assert whole_history(store, "terminal:main") == before
    assert store.db.execute("SELECT count(*) FROM outbox").fetchone() == (0,)
    assert (inbox.waiting() == []) is (step != "begin")
    store.close()


async def test_a_damaged_message_is_left_alone_and_the_others_go_on(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db")
    row = accept(store, inbound())
    assert row
    await TurnJournal(sessions(store).of(MAIN), 1, row, "person").begin(
        [row], [UserMessage("hi", NOW), UserMessage("there", NOW)]
    )
    for body in ("{", "[]", "1", '{"text": "x"}', '{"text": "x", "at": "never", "kind": "user"}', "null"):
        store.db.execute("UPDATE messages SET body = ? WHERE id = 1", (body,))
        assert [message.text for message in sessions(store).of(MAIN).history] == ["there"]
        assert store.db.execute("SELECT body FROM messages").fetchone() == (body,)
    store.close()


async def test_a_message_whose_picture_has_gone_from_the_store_is_left_out(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db")
    row = accept(store, inbound())
    assert row
    await TurnJournal(sessions(store).of(MAIN), 1, row, "person").begin([row], [UserMessage("hi", NOW, images=(CAT,))])
    store.db.execute("DELETE FROM images")
    assert sessions(store).of(MAIN).history == []
    store.close()


# -- inbox


def test_a_repeated_external_id_is_accepted_once_even_after_it_is_done_and_after_a_restart(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db")
    inbox = inbox_of(store)
    row = accept(store, inbound("hi"))
    assert row
    assert accept(store, inbound("hi again")) is None
    inbox.done((row,), Outbound(MAIN, "hello"))
    store.close()
    store = open_store(tmp_path / "state.db")
    assert accept(store, inbound("hi")) is None
    other_channel = Inbound(Address("telegram", "1"), "me", "1", UserMessage("hi", NOW))
    assert accept(store, other_channel)
    store.close()


async def test_an_interrupted_turn_is_found_once_with_what_it_was_running(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db")
    inbox = inbox_of(store)
    row = accept(store, inbound("clean up"))
    assert row
    turn = await TurnJournal(sessions(store).of(MAIN), 1, row, "person").begin([row], [UserMessage("clean up", NOW)])
    await turn.acting(AssistantMessage("", NOW, tuple(CALLS)), [Effect("exec", "command", "", "ran ls")])
    (cut,) = inbox.open_turns()
    assert (cut.address, cut.inbound.external_id, cut.texts) == (MAIN, "1", ("clean up",))
    assert cut.calls[0] == "exec ls"
    assert cut.tools == ("exec",), "of the others nothing is in the audit log"
    journal = TurnJournal(sessions(store).of(MAIN), cut.id, cut.row, "person").reopen(cut)
    await journal.change(lambda tx: journal.end(tx, Ended("failed", Outbound(MAIN, "I was interrupted.")), (), ""))
    assert inbox.open_turns() == []
    store.close()


async def test_bodies_are_plain_json_that_other_programs_can_read(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db")
    row = accept(store, inbound())
    assert row
    await TurnJournal(sessions(store).of(MAIN), 1, row, "person").begin([row], EVERY_KIND[:2])
    store.close()
    with sqlite3.connect(tmp_path / "state.db") as db:
        bodies = [json.loads(body) for (body,) in db.execute("SELECT body FROM messages ORDER BY id")]
    db.close()
    assert [body["kind"] for body in bodies] == ["user", "user"]


async def test_a_history_that_nobody_uses_leaves_memory_and_comes_back_when_it_is_needed(tmp_path: Path) -> None:
    def in_memory(text: str) -> bool:
        gc.collect()
        return any(isinstance(one, UserMessage) and one.text == text for one in gc.get_objects())

    time = HandClock()
    model = ScriptedProvider("Noted.", "Hello.", "You told me of the quince tree.")
    async with bare(tmp_path, model, clock=time) as program:
        await program.ask("The quince tree was cut.")
        before = program.history
        assert in_memory("The quince tree was cut.")
        del model.requests[:], before
        time.now += timedelta(minutes=11)
        await program.ask("Hello?", chat="other")
        await program.app.conversations.idle()
        assert not in_memory("The quince tree was cut.")
        await program.ask("Of what did I tell you?")
        assert [message.text for message in model.requests[-1].history if "quince" in message.text]


async def test_the_bench_fills_a_conversation_as_turns_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPOSITORY / "bench"))
    monkeypatch.setenv("NANOCLAW_HOME", str(tmp_path))
    bench = importlib.import_module("long_session")
    await bench.fill(MAIN, 10)
    assert bench._loading(MAIN, 10) > 0
