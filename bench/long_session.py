"""CPU of a turn in conversations of any length, in a process that has all imports behind it and one model on loopback.

Usage: NANOCLAW_HOME=FOLDER long_session.py turns MESSAGES | grown TURNS | one_shot MESSAGES. Prints JSON, times in
milliseconds: `turns` the median of a turn in a conversation that is in memory, and of the first one, which loads it;
`grown` the medians of the first and of the last 50 turns of a new conversation; `one_shot` how much more `-m` takes in
the long conversation than in a new one, and how much of it is loading.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import sys
import time
from functools import partial
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent))
from durability import Crowd, clock, live

from nanoclaw.cli import run
from nanoclaw.core.messages import Address, AssistantMessage, Inbound, ToolCall, ToolResult, UserMessage
from nanoclaw.core.plugin import Ended
from nanoclaw.core.store.db import Transactions
from nanoclaw.core.store.sessions import Sessions, TurnJournal
from nanoclaw.start.opening import open_store

MESSAGES_A_TURN = 5
MODEL = "openai/bench"


async def fill(address: Address, messages: int) -> None:
    """Turns as they happen: metadata, a question, a call with its result, an answer."""
    store = open_store(Path(os.environ["NANOCLAW_HOME"]) / "state.db")
    store.db.execute("PRAGMA synchronous = OFF")  # only to be filled sooner
    transactions = Transactions(store, clock)
    sessions = Sessions(transactions)
    session = sessions.of(address)
    for number in range(messages // MESSAGES_A_TURN):
        said = UserMessage(f"Question {number}: what does line {number} of the plan say?", clock())
        inbound = Inbound(address, "owner", f"bench-{number}", said, role="owner")
        with transactions.open() as tx:
            row = tx.deliver(inbound)
        assert row is not None
        framed = (UserMessage(f"[metadata {number}]", clock(), "runtime"), said)
        journal = await TurnJournal(session, sessions.next_turn(), row, "person").begin([row], framed)
        call = ToolCall(f"call_{number}", "read_file", f'{{"path": "plan.md", "offset": {number}, "limit": 1}}')
        result = ToolResult(call.id, call.name, f"{number}\tWater the plants, then call back. " * 4, clock())
        await journal.step((AssistantMessage("", clock(), (call,), finish="tool_calls", model=MODEL), result))
        answer = AssistantMessage(f"Line {number} says to water the plants and to call back.", clock())
        ended = Ended("answered", None, answer.text)
        await journal.change(partial(journal.end, ended=ended, final=(answer,), model=MODEL))
    store.close()


def turns(messages: str) -> dict[str, float]:
    asyncio.run(fill(Address(Crowd.name, "long"), int(messages)))

    async def measured() -> list[float]:
        async with live() as life:
            return [await _turn(life) for _ in range(25)]

    first, *others = asyncio.run(measured())
    return {"first": first, "median": median(others)}


def grown(turns: str) -> dict[str, float]:
    async def measured() -> list[float]:
        async with live() as life:
            return [await _turn(life) for _ in range(int(turns))]

    times = asyncio.run(measured())
    return {"first": median(times[:50]), "last": median(times[-50:])}


async def _turn(life) -> float:  # type: ignore[no-untyped-def]
    started = time.process_time()
    await life.ask("long", "Any news?")
    await life.app.conversations.idle()
    return (time.process_time() - started) * 1000


def one_shot(messages: str) -> dict[str, float]:
    address = Address("terminal", "long")
    asyncio.run(fill(address, int(messages)))
    load = _loading(address, int(messages))
    _answering("warm")
    pairs = [(_answering(address.chat), _answering(f"new-{number}")) for number in range(15)]
    more = min(one for one, _ in pairs) - min(other for _, other in pairs)
    return {"more": more * 1000, "loading": load * 1000}


def _loading(address: Address, messages: int) -> float:
    """The best of several: noise only adds."""
    times = []
    store = open_store(Path(os.environ["NANOCLAW_HOME"]) / "state.db")
    for _ in range(9):
        started = time.process_time()
        session = Sessions(Transactions(store, clock)).of(address)
        assert len(session.history) == messages
        times.append(time.process_time() - started)
    store.close()
    return min(times)


def _answering(session: str) -> float:
    """One `nanoclaw -m hi`, without the start of the process."""
    started = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        assert run(["-m", "hi", "--session", session]) == 0
    return time.process_time() - started


def main() -> None:
    name, argument = sys.argv[1:]
    measure = {"turns": turns, "grown": grown, "one_shot": one_shot}[name]
    print(json.dumps(measure(argument)))


if __name__ == "__main__":
    main()
