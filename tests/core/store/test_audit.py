"""The ledger: a line before each effect and its outcome after it, in the transactions of the turn."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nanoclaw.core.events import TurnEnded
from nanoclaw.core.messages import AssistantMessage, Effect, ToolCall, ToolResult, UserMessage
from nanoclaw.core.store.audit import Ledger, insert
from nanoclaw.core.store.db import Store
from nanoclaw.core.store.inbox import Inbox
from nanoclaw.core.store.sessions import Sessions, Turn
from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from tests.core.house import MAIN, NOON, house
from tests.core.store.test_sessions import inbound

WROTE = Effect("write_file", "file", "a.txt", "wrote a.txt")
CALL = ToolCall("1", "write_file", json.dumps({"path": "a.txt", "content": "x"}))
ASKED = AssistantMessage("", NOON, (CALL,))
RESULT = ToolResult("1", "write_file", "ok", NOON)


def accepted(store: Store, text: str) -> int:
    row = Inbox(store, lambda: NOON).accept(inbound(text, text))
    assert row
    return row


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "state.db")
    yield store
    store.close()


@pytest.fixture
def ledger(store: Store) -> Ledger:
    return Ledger(store, lambda: NOON)


@pytest.fixture
def turn(store: Store) -> Turn:
    row = accepted(store, "go")
    return Sessions(store, lambda: NOON).of(MAIN).begin_turn([row], [UserMessage("go", NOON)])


def test_a_deed_is_on_disk_before_it_is_done_and_has_its_outcome_after_it(turn: Turn, ledger: Ledger) -> None:
    turn.acting(ASKED, [WROTE])
    (begun,) = ledger.of_turn(turn.id)
    assert begun == replace(WROTE, id=begun.id, at=NOON, turn=turn.id)
    turn.step([ASKED, RESULT], [replace(WROTE, state="done", before="", after="ab")])
    assert ledger.of(MAIN, 5) == [replace(begun, state="done", before="", after="ab")]


def test_what_was_done_besides_has_lines_of_its_own(turn: Turn, ledger: Ledger) -> None:
    ran, lost = (
        Effect("exec", "command", "rm x", "ran `rm x`"),
        Effect("exec", "loss", "MEMORY.md", "took lines", "done"),
    )
    turn.acting(ASKED, [ran, WROTE])
    turn.step([ASKED, RESULT], [replace(ran, state="done"), replace(WROTE, state="failed"), lost])
    assert [(effect.kind, effect.state) for effect in ledger.of_turn(turn.id)] == [
        ("command", "done"),
        ("file", "failed"),
        ("loss", "done"),
    ]


def test_a_turn_that_is_left_in_between_leaves_its_deeds_begun(turn: Turn, ledger: Ledger) -> None:
    turn.acting(ASKED, [WROTE])
    turn.end(TurnEnded("", "failed"), (), None, "")
    assert [effect.state for effect in ledger.of(MAIN, 5)] == ["begun"]


def test_deeds_of_files_are_those_that_left_something_to_undo(store: Store, ledger: Ledger) -> None:
    changed = replace(WROTE, state="done", before="a", after="b")
    same, unknown = replace(changed, after="a"), replace(changed, before=None, after=None)
    partly, begun, undone = (replace(changed, state=state) for state in ("failed", "begun", "undone"))
    with store.transaction() as db:
        insert(db, "a:b", None, NOON, [changed, same, unknown, partly, begun, undone])
    assert [(effect.state, effect.before) for effect in ledger.of_files(9)] == [("failed", "a"), ("done", "a")]


def test_what_was_undone_is_told_to_its_own_conversation_once(turn: Turn, store: Store, ledger: Ledger) -> None:
    turn.acting(ASKED, [WROTE])
    turn.step([ASKED, RESULT], [replace(WROTE, state="done", before="", after="ab")])
    (effect,) = ledger.of(MAIN, 1)
    ledger.mark_undone(effect)
    assert [untold.state for untold in ledger.untold(MAIN)] == ["undone"]
    assert ledger.untold(replace(MAIN, chat="other")) == []
    turn.join([accepted(store, "and?")], [UserMessage("and?", NOON)])
    assert ledger.untold(MAIN) == []


def test_contents_that_became_others_are_others_in_all_lines(store: Store, ledger: Ledger) -> None:
    with store.transaction() as db:
        effects = [
            replace(WROTE, state="done", before=one, after=two) for one, two in (("", "a"), ("a", "b"), ("b", "c"))
        ]
        insert(db, "a:b", None, NOON, effects)
    ledger.rename({"a": "x", "c": "y"})
    assert [(effect.before, effect.after) for effect in ledger.of_files(9)] == [("b", "y"), ("x", "b"), ("", "x")]


def test_one_beside_the_owner_may_add_a_line(store: Store, ledger: Ledger, tmp_path: Path) -> None:
    beside = Store(tmp_path / "state.db", beside=True)
    Ledger(beside, lambda: NOON).add(replace(WROTE, state="done", before="", after="a"), "")
    beside.close()
    assert [effect.text for effect in ledger.of_files(1)] == ["wrote a.txt"]
    alone = Store(tmp_path / "new.db", beside=True)
    assert Ledger(alone, lambda: NOON).of_files(1) == []
    alone.close()


def test_tools_that_only_read_leave_no_line_and_a_turn_of_twenty_writes_less_than_a_megabyte(tmp_path: Path) -> None:
    writes = [
        Say(calls=(("write_file", {"path": f"{number}.txt", "content": "x\n"}), ("list_dir", {"path": "."})))
        for number in range(20)
    ]

    async def story() -> None:
        with ScriptedProvider(*writes, call("read_file", {"path": "1.txt"}), "done") as model:
            async with house(tmp_path, model) as home:
                wal = tmp_path / "state.db-wal"
                before = wal.stat().st_size
                await home.ask("go")
                assert len(Ledger(home.store, home.clock).of(MAIN, 99)) == 20
                assert wal.stat().st_size - before < 950_000

    asyncio.run(story())
