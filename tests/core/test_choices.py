"""Questions with options: the call runs with what became of them, and the turn waits on disk as for a yes."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

from nanoclaw.core.messages import CheckedCall, OwnersAnswer
from nanoclaw.core.plugin import Ask, Command, Host, Said, Tool, Turn, Tx, Verdict
from nanoclaw.core.tool import ToolContext, tool
from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from tests.core.test_asks import Asker, Post, Wondering, texts
from tests.program import MAIN, HandClock, assert_legal, bare
from tests.virtual_time import passed, virtual_time

HOUR = 3600.0


class Answering(Asker):
    """Asks in the terminal; /answer 1 blue answers."""

    def commands(self) -> list[Command]:
        return [*super().commands(), Command("answer", "", self._words)]

    def _words(self, said: Said, tx: Tx) -> str:
        number, _, text = said.argument.partition(" ")
        return "Fine." if self.public.note(int(number), text) else "Nothing is asked."


class Painter:
    """A tool whose calls ask for a colour; `ran` are those that were painted with."""

    def __init__(self, default: str = "", seconds: float | None = HOUR) -> None:
        self.default, self.seconds, self.ran = default, seconds, list[OwnersAnswer | None]()

    def tools(self) -> list[Tool]:
        async def paint(context: ToolContext, thing: str) -> str:
            """Paints."""
            self.ran.append(context.answer)
            return f"{thing}: {context.answer.text if context.answer else None} by {getattr(context.answer, 'by', '')}"

        async def check(call: CheckedCall, turn: Turn) -> Verdict:
            return Ask(f"The {call.arguments['thing']}?", ("red", "blue"), self.default, self.seconds, is_free=True)

        return [tool(paint, reach="none")._replace(check=check), *Post().tools()]


def paint(thing: str = "door") -> Say:
    return call("paint", {"thing": thing})


@virtual_time
async def test_its_time_goes_on_while_the_machine_sleeps(tmp_path: Path) -> None:
    clock = HandClock()
    with ScriptedProvider(paint(), "Red.") as model:
        async with bare(tmp_path, model, tools=Painter("red").tools(), plugins=[Answering], clock=clock) as program:
            await program.ask("paint it")
            clock.now += timedelta(hours=2)
            assert [await program.answer(), await program.answer()][1] == "Red."
            assert passed() <= 60


@virtual_time
async def test_several_of_one_answer_are_asked_one_after_the_other_and_what_wants_a_yes_comes_first(
    tmp_path: Path,
) -> None:
    painter = Painter()
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("paint", {"thing": "door"}),
        ("send", {"text": "a letter"}),
        ("paint", {"thing": "wall"}),
    )
    with ScriptedProvider(Say(calls=calls), "Done.") as model:
        async with bare(tmp_path, model, tools=painter.tools(), plugins=[Answering]) as program:
            assert (await program.ask("go")).startswith("May I send a letter?")
            await program.say("/yes 1")
            assert {await program.answer(), await program.answer()} == {"Fine.", "The door? red, blue? /answer 2"}
            await program.app.conversations.idle()
            assert painter.ran == []
            await program.say("/answer 2 red")
            assert {await program.answer(), await program.answer()} == {"Fine.", "The wall? red, blue? /answer 3"}
            await program.say("/answer 3 blue")
            assert {await program.answer(), await program.answer()} == {"Fine.", "Done."}
            assert texts(program) == ["door: red by owner", "sent a letter", "wall: blue by owner"]
            assert len(painter.ran) == 2
            assert_legal(program.history)


@virtual_time
async def test_a_call_that_wants_a_yes_and_a_choice_is_asked_about_both(tmp_path: Path) -> None:
    class Strict(Answering):
        async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
            return Ask("May I paint?") if call.name == "paint" else None

    with ScriptedProvider(paint(), "Painted.") as model:
        async with bare(tmp_path, model, tools=Painter().tools(), plugins=[Strict]) as program:
            assert await program.ask("paint it") == "May I paint? /yes 1 or /no 1"
            await program.say("/yes 1")
            assert {await program.answer(), await program.answer()} == {"Fine.", "The door? red, blue? /answer 2"}
            await program.say("/answer 2 blue")
            assert {await program.answer(), await program.answer()} == {"Fine.", "Painted."}
            assert texts(program) == ["door: blue by owner"]


@virtual_time
async def test_a_plugin_asks_for_words_outside_a_turn(tmp_path: Path) -> None:
    ask = Ask("Which?", ("red", "blue"), "red", HOUR)
    async with bare(tmp_path, ScriptedProvider(), plugins=[Answering, Wondering], seconds=9000) as program:
        host: Host = program.public("wondering")
        asking = asyncio.create_task(host.asker.ask(ask, MAIN))
        await program.answer()
        assert await program.ask("/answer 1 blue") == "Fine."
        assert await asking == OwnersAnswer("blue", "owner")
        assert await host.asker.ask(ask, MAIN) == OwnersAnswer("red", "time")
        program.public("asker").is_there = False
        assert await host.asker.ask(ask, MAIN) == OwnersAnswer("red", "nobody")
