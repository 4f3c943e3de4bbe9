"""A reminder that fires in a turn which is killed. tests/plugins/schedule/kills.py has what is killed in a firing."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from nanoclaw.core.messages import AssistantMessage, Message, ModelRequest
from nanoclaw.core.plugin import Plugin
from nanoclaw.core.tool import tool
from nanoclaw.plugins.schedule.loop import JobLoop
from nanoclaw.providers.scripted import Hang, ScriptedProvider, call
from tests.kills import killed
from tests.plugins.schedule.clockwork import Clockwork
from tests.plugins.schedule.kills import jobs
from tests.program import NOON, HandClock, LoggingChannel, assert_legal, running, tools_plugin


@pytest.mark.parametrize("is_late", [False, True], ids=["before the crash", "after it"])
def test_a_reminder_that_fires_in_a_turn_that_is_killed_stands_behind_the_answer_of_the_resumed_one(
    tmp_path: Path, is_late: bool
) -> None:
    """The question, the model's next request, and the answer know nothing of it; the person has it at once."""
    assert killed_in_a_turn(tmp_path, fires=not is_late)
    asked, said, sent = asyncio.run(resumed(tmp_path, fires=is_late))
    assert asked == ["What is on my list?"], "the question is the last that the model reads"
    assert said == ["What is on my list?", "Milk.", "Reminder 1: call Anna"]
    assert [text.partition("\n")[0] for text in sent] == ["Reminder 1: call Anna", "(I was interrupted and continued.)"]


@asynccontextmanager
async def by_hand(
    root: Path, clock: HandClock, *models: ScriptedProvider, extra: Sequence[type[Plugin]] = ()
) -> AsyncIterator[Clockwork]:
    """The program as it works by itself, but for the loop, which ticks by hand."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JobLoop, "run", lambda loop: asyncio.Event().wait())
        channel = LoggingChannel(root / "log")
        async with running(root / "home", *models, channel=channel, clock=clock, wakes=True, extra=extra) as program:
            yield Clockwork(program)


def killed_in_a_turn(root: Path, *, fires: bool) -> bool:
    """A process that dies while the model is asked; a reminder has come due by then."""

    async def live() -> None:
        hang, clock = Hang("I look"), HandClock(NOON - timedelta(seconds=1))
        async with by_hand(root, clock, ScriptedProvider(hang)) as home:
            home.add(jobs("once")[0])
            await home.program.say("What is on my list?")
            await hang.reached.wait()
            if fires:
                clock.now = NOON + timedelta(seconds=1)
                await home.loop.tick(clock.now)
                await home.program.answer()
            os.kill(os.getpid(), signal.SIGKILL)

    return killed(live())


async def resumed(root: Path, *, fires: bool) -> tuple[list[str], list[str], list[str]]:
    """After the next start, which goes on with the turn: what the person said as the model reads it, what the
    conversation remembers, and what the platform was given."""
    asked = list[str]()
    reached, goes_on = asyncio.Event(), asyncio.Event()

    async def look() -> str:
        """Looks."""
        reached.set()
        await goes_on.wait()
        return "milk"

    def answer(request: ModelRequest) -> str:
        asked.extend(_said(request.history))
        return "Milk."

    model = ScriptedProvider(call("look"), answer)
    async with by_hand(root, HandClock(NOON + timedelta(seconds=2)), model, extra=[tools_plugin(tool(look))]) as home:
        await reached.wait()
        if fires:
            await home.loop.tick(home.program.clock())
            await home.program.answer()
        goes_on.set()
        await home.program.app.conversations.idle()
        for _ in range(10):
            await asyncio.sleep(0)
        assert_legal(home.program.history)
        sent = [text for (text,) in home.program.rows("SELECT text FROM outbox ORDER BY id")]
        said = [text.partition("\n")[0] for text in _said(home.program.history) if text]
        return asked, said, sent


def _said(history: Iterable[Message]) -> list[str]:
    """Without the metadata, and calls without words."""
    spoken = [one for one in history if isinstance(one, AssistantMessage) or getattr(one, "origin", "") == "person"]
    return [one.text for one in spoken if one.text]
