"""Fill a conversation through the store's own door, then time its loading. Usage: long_session.py HOME MESSAGES

Prints the CPU milliseconds that loading takes in a process that runs already (the best of several).
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from nanoclaw.events import TurnEnded
from nanoclaw.messages import Address, AssistantMessage, Inbound, ToolCall, ToolResult, UserMessage
from nanoclaw.store.db import Store
from nanoclaw.store.inbox import Inbox
from nanoclaw.store.sessions import Sessions

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
        journal = session.begin_turn(row, (UserMessage(f"[metadata {number}]", clock(), "runtime"), said))
        call = ToolCall(f"call_{number}", "read_file", f'{{"path": "plan.md", "offset": {number}, "limit": 1}}')
        result = ToolResult(call.id, call.name, f"{number}\tWater the plants, then call back. " * 4, clock())
        journal.step((AssistantMessage("", clock(), (call,), finish="tool_calls", model="openai/gpt-5"), result))
        answer = AssistantMessage(f"Line {number} says to water the plants and to call back.", clock())
        journal.end(TurnEnded(answer.text, "answered"), (answer,), None, "openai/gpt-5")


def main() -> None:
    home, messages = Path(sys.argv[1]), int(sys.argv[2])
    store = Store(home / "state.db")
    store.db.execute("PRAGMA synchronous = OFF")  # only to be filled sooner
    fill(store, messages // MESSAGES_A_TURN)
    best = float("inf")
    for _ in range(9):
        started = time.process_time()
        session = Sessions(store, clock).of(ADDRESS)
        best = min(best, time.process_time() - started)
    assert len(session.history) == messages
    store.close()
    print(f"{best * 1000:.1f}")


if __name__ == "__main__":
    main()
