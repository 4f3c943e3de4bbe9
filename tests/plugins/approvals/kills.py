"""A program that is killed around a yes for an hour: it isn't lost, and nothing comes twice."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nanoclaw.core.messages import CheckedCall, ModelRequest, ToolResult, UserMessage
from nanoclaw.core.plugin import Ask, Plugin, Scope, Tool, Turn, Verdict
from nanoclaw.core.store.inbox import NOT_DONE
from nanoclaw.providers.scripted import Answer, call
from tests.kills import Story, Watch, alive, asked, different, say, sent, stamp, stamps
from tests.program import results

QUESTION = "Leave a mark?"


def model(request: ModelRequest) -> Answer:
    """Makes one call for each message."""
    since = list(request.history)
    while since and not isinstance(since[-1], UserMessage):
        since.pop()
    made = [one for one in request.history[len(since) :] if isinstance(one, ToolResult) and one.text != NOT_DONE]
    return "Done." if made else call("stamp")


def stamping(root: Path) -> type[Plugin]:
    """A plugin with a tool that asks, with a scope."""

    class Stamping(Plugin):
        name = "stamping"

        def tools(self) -> Iterable[Tool]:
            return [stamp(root)]

        async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
            return Ask(QUESTION, scope=Scope("stamp", "marks")) if call.name == "stamp" else None

    return Stamping


async def go_on(root: Path, watch: Watch | None) -> None:
    async with alive(root, watch, model, extra=[stamping(root)]) as program:
        await say(program, "1", "Leave one")
        if await asked(program):
            await say(program, "2", "hour")


async def broken(root: Path, kills: int) -> list[str]:
    async with alive(root, None, model, extra=[stamping(root)]) as program:
        was_asked = bool(program.rows("SELECT 1 FROM approvals_asks")) or kills < 2
        grants = len(program.rows("SELECT 1 FROM approvals_grants"))
        is_known = any(one.name == "stamp" for one in results(program.history))  # or that it may have been done
    return different(
        asked=(sum(QUESTION in text for text in sent(root)), int(was_asked)),
        grants=(grants, int(was_asked)),
        is_known=(is_known or not was_asked, True),
        ran=(stamps(root), min(stamps(root), 1) if kills else 1),
    )


STORIES = [Story("approvals: yes for an hour", go_on, broken)]
