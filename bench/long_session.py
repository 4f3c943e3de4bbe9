"""Fill a conversation through the store's own door, then time it in a process that has all imports behind it.

Usage: NANOCLAW_HOME=FOLDER long_session.py MESSAGES. Prints two CPU times in milliseconds: how much more an answer
takes in the long conversation than in a new one, and how much of it is loading.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from nanoclaw.cli import run
from nanoclaw.core.events import TurnEnded
from nanoclaw.core.messages import Address, AssistantMessage, Inbound, ToolCall, ToolResult, UserMessage
from nanoclaw.core.store.db import Store
from nanoclaw.core.store.inbox import Inbox
from nanoclaw.core.store.sessions import Sessions

ADDRESS = Address("terminal", "long")
MESSAGES_A_TURN = 5


def clock() -> datetime:
    return datetime.now(UTC)


def fill(store: Store, turns: int) -> None:
    """Turns as they happen: metadata, a question, a call with its result, an answer."""
    inbox, session = Inbox(store, clock), Sessions(store, clock).of(ADDRESS)
    for number in range(turns):
        said = UserMessage(f"Question {number}: what does line {number} of the plan say?", clock())
        row = inbox.accept(Inbound(ADDRESS, "owner", f"bench-{number}", said))
        assert row is not None
        journal = session.begin_turn([row], (UserMessage(f"[metadata {number}]", clock(), "runtime"), said))
        call = ToolCall(f"call_{number}", "read_file", f'{{"path": "plan.md", "offset": {number}, "limit": 1}}')
        result = ToolResult(call.id, call.name, f"{number}\tWater the plants, then call back. " * 4, clock())
        journal.step((AssistantMessage("", clock(), (call,), finish="tool_calls", model="openai/gpt-5"), result))
        answer = AssistantMessage(f"Line {number} says to water the plants and to call back.", clock())
        journal.end(TurnEnded(answer.text, "answered"), (answer,), None, "openai/gpt-5")


def loading(store: Store, messages: int) -> float:
    """The best of several: noise only adds."""
    times = []
    for _ in range(9):
        started = time.process_time()
        session = Sessions(store, clock).of(ADDRESS)
        times.append(time.process_time() - started)
        assert len(session.history) == messages
    return min(times)


def answering(session: str) -> float:
    """One `nanoclaw -m hi`, without the start of the process."""
    started = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        assert run(["-m", "hi", "--session", session]) == 0
    return time.process_time() - started


def main() -> None:
    messages = int(sys.argv[1])
    store = Store(Path(os.environ["NANOCLAW_HOME"]) / "state.db")
    store.db.execute("PRAGMA synchronous = OFF")  # only to be filled sooner
    fill(store, messages // MESSAGES_A_TURN)
    load = loading(store, messages)
    store.close()
    answering("warm")
    pairs = [(answering(ADDRESS.chat), answering(f"new-{number}")) for number in range(15)]
    more = min(one for one, _ in pairs) - min(other for _, other in pairs)
    print(f"{more * 1000:.0f} {load * 1000:.0f}")


if __name__ == "__main__":
    main()
