"""Ends of a process in the middle of a turn. tests/journeys/kills.py has the turn that is killed at every statement."""

import asyncio
import os
import signal
from collections.abc import Iterable
from pathlib import Path

import pytest

from nanoclaw.core.errors import StoreError
from nanoclaw.core.events import TurnEnded
from nanoclaw.core.messages import AssistantMessage
from nanoclaw.core.plugin import Command, Plugin, Said
from nanoclaw.core.runner import Runner
from nanoclaw.core.store.inbox import BROKEN_OFF
from nanoclaw.core.store.sessions import TurnJournal
from nanoclaw.core.tool import tool
from nanoclaw.providers.scripted import Hang, ScriptedProvider, call
from tests.journeys.kills import WENT_ON
from tests.kills import killed
from tests.program import assert_legal, results, running, tools_plugin


async def pay(euros: int) -> str:
    """Pays."""
    os.kill(os.getpid(), signal.SIGKILL)
    return f"paid {euros}"


PAYS = tools_plugin(tool(pay))
"""Brings a tool with an effect outside the workspace, in which the program is killed."""


async def die_while_paying(root: Path) -> None:
    async with running(root, ScriptedProvider(call("pay", {"euros": 5})), extra=[PAYS]) as program:
        await program.say("pay the bill")
        await program.answer()


async def die_while_the_model_hangs(root: Path, *more: str) -> None:
    """Whenever it is asked; `more` is said by then."""
    hang = Hang("I begin")
    async with running(root, ScriptedProvider(hang)) as program:
        if not program.rows("SELECT 1 FROM turns"):
            await program.say("first")
        await hang.reached.wait()
        for text in more:
            await program.say(text)
        os.kill(os.getpid(), signal.SIGKILL)


async def test_a_turn_that_touched_more_than_the_workspace_is_not_repeated_and_the_person_is_asked(
    tmp_path: Path,
) -> None:
    assert killed(die_while_paying(tmp_path))
    with ScriptedProvider("Then I go on.") as model:
        async with running(tmp_path, model, extra=[PAYS]) as program:
            asked = await program.answer()
            assert asked == (
                "I was interrupted while I worked on “pay the bill”. This was running and may have been done in "
                "part: `pay 5`. I did not repeat it. Shall I go on?"
            )
            assert await program.ask("yes") == "Then I go on."
            assert_legal(program.history)
            assert asked in [text.text for text in program.history if isinstance(text, AssistantMessage)]


async def test_a_turn_that_was_cut_off_twice_is_not_taken_up_a_third_time(tmp_path: Path) -> None:
    assert killed(die_while_the_model_hangs(tmp_path)) and killed(die_while_the_model_hangs(tmp_path))
    async with running(tmp_path) as program:
        asked = await program.answer()
        assert asked == "I was interrupted while I worked on “first”. I did not repeat it. Shall I go on?"


async def test_a_message_that_waited_when_the_process_was_killed_is_answered_at_the_next_start(tmp_path: Path) -> None:
    assert killed(die_while_the_model_hangs(tmp_path, "second"))
    async with running(tmp_path, ScriptedProvider("First it is.", "Second it is.")) as program:
        assert await program.answer() == f"{WENT_ON}First it is."
        assert await program.answer() == "Second it is."


async def test_a_step_that_could_not_be_saved_stays_in_the_history_as_broken_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ring() -> str:
        """Rings."""
        return "rang"

    def full(*_: object, **__: object) -> None:
        monkeypatch.undo()
        raise StoreError("the disk is full")

    with ScriptedProvider(call("ring"), "It may have rung.") as model:
        async with running(tmp_path, model, extra=[tools_plugin(tool(ring))]) as program:
            monkeypatch.setattr(TurnJournal, "step", full)
            assert await program.ask("ring") == "the disk is full"
            assert [result.text for result in results(program.history)] == [BROKEN_OFF]
            assert await program.ask("did it ring?") == "It may have rung."
            assert_legal(program.history)


async def test_the_reply_to_a_command_that_cannot_be_saved_is_shown_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(Plugin):
        name = "slow"

        def commands(self) -> Iterable[Command]:
            return [Command("slow", "takes time", self._slow)]

        async def _slow(self, said: Said) -> str:
            return "It took time."

    def full(*_: object, **__: object) -> None:
        raise StoreError("the disk is full")

    async with running(tmp_path, extra=[Slow]) as program:
        with monkeypatch.context() as patch:
            patch.setattr(Runner, "end_without_turn", full)
            await program.say("/slow")
            while not program.channel.ended:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert program.channel.ended == [TurnEnded("It took time.", "failed")]
