"""What a running tool shows: at a humane rate, harmless, without secrets, never after its end, and never stored."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

from nanoclaw.core.events import Event, ToolFinished, ToolProgress, ToolStarted, TurnEnded
from nanoclaw.core.messages import Address, CheckedCall, ToolCall
from nanoclaw.core.plugin import Host, Plugin, Refuse, Tool, ToolOutput, Turn, Verdict
from nanoclaw.core.tool import ToolContext, tool
from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.program import FakeChannel, Program, bare, everybody_is, results, running, tools_plugin
from tests.virtual_time import virtual_time


def shown(program: Program) -> list[ToolProgress]:
    return [event for _, event in program.channel.events if isinstance(event, ToolProgress)]


@virtual_time
async def test_a_flood_of_progress_is_thinned_out_and_the_newest_is_what_shows(tmp_path: Path) -> None:
    async def count(context: ToolContext) -> str:
        """Counts."""
        for number in range(1000):
            context.show(f"number {number}", number / 1000)
            await asyncio.sleep(0.001)
        return "counted"

    async with bare(tmp_path, ScriptedProvider(call("count"), "Done."), tools=[tool(count)]) as program:
        await program.ask("count")
        seen = shown(program)
        assert [event.text for event in seen] == [f"number {number}" for number in (0, *range(99, 1000, 100))]
        assert seen[1].fraction == 0.099
        assert "number" not in str(results(program.history))


async def test_progress_is_harmless_and_short_and_ends_with_its_call(tmp_path: Path) -> None:
    late: list[ToolContext] = []

    async def work(context: ToolContext) -> str:
        """Works."""
        late.append(context)
        context.show("\n".join(["\x1b[31mold", *"abcd", "w" * 500, "\x1b]0;owned\x07"]), float("nan"))
        await asyncio.sleep(0)
        context.show("dropped: it is still on its way when the call ends", 7)
        return "worked"

    async with bare(tmp_path, ScriptedProvider(call("work"), "Done."), tools=[tool(work)]) as program:
        await program.ask("work")
        late[0].show("later")
        await asyncio.sleep(0)
        (event,) = shown(program)
        assert event.text.split("\n") == ["a", "b", "c", "d", "w" * 199 + "…"]
        assert event.fraction is None


async def test_progress_of_a_thread_is_shown_and_a_fraction_stays_between_0_and_1(tmp_path: Path) -> None:
    async def work(context: ToolContext) -> str:
        """Works."""
        await asyncio.to_thread(context.show, "from a thread", 7)
        return "worked"

    async with bare(tmp_path, ScriptedProvider(call("work"), "Done."), tools=[tool(work)]) as program:
        await program.ask("work")
        assert [(event.text, event.fraction) for event in shown(program)] == [("from a thread", 1.0)]


async def test_progress_shows_no_secret_nor_the_beginning_of_one(tmp_path: Path) -> None:
    async def work(context: ToolContext) -> str:
        """Works."""
        context.show("export KEY=sk-verysecret and KEY=sk-very")
        await asyncio.sleep(0)
        return "worked"

    model, settings = ScriptedProvider(call("work"), "Done."), '[model]\nname = "openai/x"\napi_key = "sk-verysecret"\n'
    async with running(tmp_path, model, settings=settings, extra=[tools_plugin(tool(work))]) as program:
        await program.ask("work")
        assert [event.text for event in shown(program)] == ["export KEY=[secret] and KEY="]


class Watched(FakeChannel):
    """Hands each event on as it comes."""

    def __init__(self) -> None:
        super().__init__()
        self.came: asyncio.Queue[Event] = asyncio.Queue()

    def show(self, address: Address, event: Event) -> None:
        super().show(address, event)
        self.came.put_nowait(event)

    async def shows(self, text: str) -> None:
        while not (isinstance(event := await self.came.get(), ToolProgress) and event.text == text):
            pass


async def test_a_running_command_shows_its_last_lines_as_a_terminal_would(tmp_path: Path) -> None:
    command = (
        r"mkfifo go; seq 1 9; printf '\033[32m10 %%\r50 %%'; cat go; printf '\r100 %%\n\033]0;owned\007done'; cat go"
    )
    channel, model = Watched(), ScriptedProvider(call("exec", {"command": command}), "Done.")
    async with running(tmp_path, model, channel=channel) as program:
        await program.say("work")
        await channel.shows("6\n7\n8\n9\n50 %")
        await asyncio.to_thread((program.workspace / "go").write_text, "")
        await channel.shows("7\n8\n9\n100 %\ndone")
        await asyncio.to_thread((program.workspace / "go").write_text, "")
        assert await program.answer() == "Done."
        assert isinstance([event for _, event in channel.events if "Tool" in type(event).__name__][-1], ToolFinished)


class Nests(Plugin):
    """A tool that calls another one, and a plugin that refuses one of its calls."""

    name = "nests"

    def __init__(self, host: Host, settings: None) -> None:
        self._host, self._turns = host, dict[int, Turn]()

    def tools(self) -> Iterable[Tool]:
        return [tool(self._outer), tool(self._inner)]

    async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
        self._turns[turn.id] = turn
        return Refuse("not this one") if (call.name, call.arguments["text"]) == ("inner", "bad") else None

    async def _outer(self, context: ToolContext, text: str) -> ToolOutput:
        """Calls another."""
        inner = ToolCall("inner-1", "inner", f'{{"text": "{text}"}}')
        found = await self._host.call(inner, self._turns[context.turn], context.call)
        return ToolOutput(f"it said: {found.text}", is_error=found.is_error)

    async def _inner(self, text: str) -> str:
        """Is called."""
        return text


async def test_a_call_within_a_call_names_its_parent(tmp_path: Path) -> None:
    model = ScriptedProvider(call("outer", {"text": "x"}), call("outer", {"text": "bad"}), "Done.")
    async with bare(tmp_path, model, plugins=[Nests]) as program:
        await program.ask("go")
        found = [event for _, event in program.channel.events if isinstance(event, ToolStarted | ToolFinished)]
    in_it = [(event.call.name, event.parent) for event in found]
    for began in (0, 4):
        outer = found[began].call.id
        assert in_it[began : began + 4] == [("outer", ""), ("inner", outer), ("inner", outer), ("outer", "")]
    ends = [(event.call.name, event.text, event.is_error) for event in found if isinstance(event, ToolFinished)]
    assert ends[:2] == [("inner", "x", False), ("outer", "it said: x", False)]
    assert ends[2:] == [("inner", "not this one", True), ("outer", "it said: not this one", True)]


async def test_a_plugin_hears_the_events_of_every_place_without_keys_and_its_fault_stops_nothing(
    tmp_path: Path,
) -> None:
    heard: list[tuple[Address, Event]] = []

    class Listening(Plugin):
        name = "listening"

        def __init__(self, host: Host, settings: None) -> None:
            host.redact.add("sk-hidden-0123456789")
            host.watch(self._hear)

        def _hear(self, address: Address, event: Event) -> None:
            heard.append((address, event))
            raise RuntimeError("a fault of its own")

    async def look(path: str) -> str:
        """Looks."""
        return "seen"

    provider = ScriptedProvider(call("look", {"path": "sk-hidden-0123456789"}), "Done.")
    plugins = [everybody_is("owner"), Listening, tools_plugin(tool(look, reach="none"))]
    async with running(tmp_path, provider, plugins=plugins, channel=FakeChannel("other")) as program:
        assert await program.ask("look", chat="7") == "Done."
        assert {str(address) for address, _ in heard} == {"other:7"}
        (started,) = [event for _, event in heard if isinstance(event, ToolStarted)]
        assert "sk-hidden" not in started.call.arguments
        assert isinstance(heard[-1][1], TurnEnded)
