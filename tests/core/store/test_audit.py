"""The audit log: a line before each effect and its outcome after it, in the transactions of the turn."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nanoclaw.core.messages import AssistantMessage, Effect, ToolCall, ToolResult, UserMessage
from nanoclaw.core.plugin import Ended
from nanoclaw.core.records import of_turn
from nanoclaw.core.store.db import Store, Transactions
from nanoclaw.core.store.sessions import Sessions, TurnJournal
from nanoclaw.core.tool import tool
from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from nanoclaw.start.opening import open_store
from tests.core.store.test_sessions import accept, inbound
from tests.program import MAIN, NOON, running, tools_plugin

WROTE = Effect("write_file", "file", "a.txt", "wrote a.txt")
CALL = ToolCall("1", "write_file", json.dumps({"path": "a.txt", "content": "x"}))
ASKED = AssistantMessage("", NOON, (CALL,))
RESULT = ToolResult("1", "write_file", "ok", NOON)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(tmp_path / "state.db")
    yield store
    store.close()


@pytest.fixture
def turn(store: Store) -> TurnJournal:
    row = accept(store, inbound("go", "go"))
    assert row
    session = Sessions(Transactions(store, lambda: NOON)).of(MAIN)
    return asyncio.run(TurnJournal(session, 1, row, "person").begin([row], [UserMessage("go", NOON)]))


async def test_an_effect_is_on_disk_before_it_is_done_and_has_its_outcome_after_it(
    turn: TurnJournal, store: Store
) -> None:
    await turn.acting(ASKED, [WROTE])
    (begun,) = of_turn(store, turn.id)
    assert begun == WROTE._replace(id=begun.id, at=NOON, turn=turn.id)
    await turn.step([ASKED, RESULT], [WROTE._replace(state="done", before="", after="ab")])
    assert of_turn(store, turn.id) == [begun._replace(state="done", before="", after="ab")]


async def test_what_was_done_besides_has_lines_of_its_own(turn: TurnJournal, store: Store) -> None:
    ran, lost = (
        Effect("exec", "command", "rm x", "ran `rm x`"),
        Effect("exec", "loss", "MEMORY.md", "took lines", "done"),
    )
    await turn.acting(ASKED, [ran, WROTE])
    await turn.step([ASKED, RESULT], [ran._replace(state="done"), WROTE._replace(state="failed"), lost])
    assert [(effect.kind, effect.state) for effect in of_turn(store, turn.id)] == [
        ("command", "done"),
        ("file", "failed"),
        ("loss", "done"),
    ]


async def test_a_turn_that_is_left_in_between_leaves_its_effects_begun(turn: TurnJournal, store: Store) -> None:
    await turn.acting(ASKED, [WROTE])
    await turn.change(lambda tx: turn.end(tx, Ended("failed", None), (), ""))
    assert [effect.state for effect in of_turn(store, turn.id)] == ["begun"]


async def test_a_call_that_took_effect_is_known_to_have(turn: TurnJournal, store: Store) -> None:
    await turn.acting(ASKED, [WROTE], ["1"])
    await turn.write(lambda tx: tx.execute("UPDATE sessions SET model = 'x'"), "1")
    ((took_effect,),) = store.rows("SELECT took_effect FROM turns")
    assert json.loads(took_effect) == {"atomic": ["1"], "done": ["1"]}


async def _write(path: str) -> str:
    """Write a file."""
    return f"written: {path}"


async def _look(path: str) -> str:
    """Look at a file."""
    return f"seen: {path}"


async def test_tools_that_only_read_leave_no_line_and_a_turn_of_twenty_writes_less_than_a_megabyte(
    tmp_path: Path,
) -> None:
    writes = [Say(calls=(("write", {"path": f"{n}.txt"}), ("look", {"path": f"{n}"}))) for n in range(20)]
    brought = tools_plugin(tool(_write, reach="workspace"), tool(_look, reach="none"))
    with ScriptedProvider(*writes, call("look", {"path": "1.txt"}), "done") as model:
        async with running(tmp_path, model, plugins=[brought]) as program:
            wal = tmp_path / "state.db-wal"
            before = wal.stat().st_size
            await program.ask("go")
            assert len(of_turn(program.app.store, 1)) == 20
            assert wal.stat().st_size - before < 950_000
