"""A message whose sender waits only so long for a sign of the model."""

import asyncio
from pathlib import Path

from nanoclaw.core.errors import ProviderUnavailable
from nanoclaw.core.events import Notice, TextDelta
from nanoclaw.core.messages import AssistantMessage, Inbound, ModelRequest, UserMessage
from nanoclaw.core.provider import OnEvent
from nanoclaw.core.tool import tool
from nanoclaw.providers.scripted import Hang, ScriptedProvider, call
from tests.program import MAIN, Program, bare
from tests.virtual_time import passed, virtual_time


async def ask(program: Program, wait_limit: float) -> str:
    message = UserMessage("hi", program.clock())
    await program.deliver(Inbound(MAIN, "owner", "1", message, wait_limit=wait_limit))
    return await program.answer()


def notices(program: Program) -> list[str]:
    return [event.text for _, event in program.channel.events if isinstance(event, Notice)]


@virtual_time
async def test_the_wait_is_told_after_10_seconds_and_ends(tmp_path: Path) -> None:
    async with bare(tmp_path, ScriptedProvider(Hang()), seconds=1000) as program:
        answer = await ask(program, 35)
        assert "has sent nothing for 35 s" in answer
        assert passed() == 35
        assert notices(program) == ["waiting for the model, for at most 35 s"]
        assert program.channel.ended[-1].reason == "failed"
        assert program.rows("SELECT count(*) FROM turns WHERE ended IS NULL") == [(0,)]


@virtual_time
async def test_the_time_of_a_tool_is_no_wait_for_the_model(tmp_path: Path) -> None:
    async def work() -> str:
        """Works."""
        await asyncio.sleep(300)
        return "worked"

    with ScriptedProvider(call("work"), "Done.") as model:
        async with bare(tmp_path, model, tools=[tool(work)], seconds=1000) as program:
            assert await ask(program, 35) == "Done."
            assert notices(program) == []


@virtual_time
async def test_a_line_that_is_typed_meanwhile_has_an_answer_of_its_own(tmp_path: Path) -> None:
    """It may wait for the model as long as that takes: the other one may not."""
    async with bare(tmp_path, ScriptedProvider(Hang(), "To you."), seconds=1000) as program:
        asking = asyncio.create_task(ask(program, 35))
        await asyncio.sleep(1)
        await program.say("and I?")
        assert "has sent nothing" in await asking
        assert await program.answer() == "To you."


class Breaking(ScriptedProvider):
    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        await asyncio.sleep(1)
        on_event(TextDelta("Half an"))
        raise ProviderUnavailable("it broke off")


@virtual_time
async def test_a_model_that_breaks_off_each_time_is_not_asked_for_ever(tmp_path: Path) -> None:
    async with bare(tmp_path, Breaking(), seconds=1000) as program:
        assert "it broke off" in await ask(program, 35)
        assert passed() == 35


class Dead(ScriptedProvider):
    """Cannot be reached, and says so at each try."""

    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        for _ in range(4):
            on_event(Notice("it cannot be reached, trying again in 1 s"))
            await asyncio.sleep(1)
        raise ProviderUnavailable("it cannot be reached.")


@virtual_time
async def test_the_last_failure_is_told_where_the_time_ends_between_two_tries(tmp_path: Path) -> None:
    async with bare(tmp_path, Dead()) as program:
        assert "has sent nothing for 2 s (it cannot be reached, trying again in 1 s)" in await ask(program, 2)


@virtual_time
async def test_a_model_that_is_dead_is_told_once_and_asked_until_the_time_is_over(tmp_path: Path) -> None:
    async with bare(tmp_path, Dead(), seconds=1000) as program:
        assert "it cannot be reached" in await ask(program, 35)
        assert passed() == 35
        dead, waits = "it cannot be reached. It is asked again in 5 s.", "waiting for the model, for at most 35 s"
        assert notices(program) == [dead, waits]
        assert program.rows("SELECT count(*) FROM usage") == [(0,)], "nobody received it"
        assert program.history == (), "the next question is not asked with it"
