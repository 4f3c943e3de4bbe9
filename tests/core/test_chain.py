"""The plugin chain: order, verdicts, other answers, and that a faulty plugin costs nobody an answer."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest

from nanoclaw.core.errors import ConfigError, ProviderError
from nanoclaw.core.events import TextDelta
from nanoclaw.core.messages import (
    Address,
    AssistantMessage,
    CheckedCall,
    Inbound,
    Limits,
    ModelRequest,
    Outbound,
    ToolResult,
    UserMessage,
)
from nanoclaw.core.plugin import (
    Answer,
    Ask,
    Command,
    Draft,
    Ended,
    Filter,
    Hears,
    Host,
    Plugin,
    Profile,
    Refuse,
    Reply,
    Said,
    Section,
    Tool,
    TryAgain,
    Turn,
    Tx,
    Verdict,
)
from nanoclaw.core.tool import tool
from nanoclaw.providers.scripted import Hang, Say, ScriptedProvider, call
from nanoclaw.start.build import build
from tests.program import MAIN, Program, assert_legal, bare, config_of, results, running
from tests.virtual_time import passed, virtual_time


def worker(done: list[str]) -> Tool:
    async def work(text: str = "") -> str:
        """Works."""
        done.append(text)
        return f"worked {text}".strip()

    return tool(work)


def said(program: Program) -> list[str]:
    return [message.text for message in program.history if isinstance(message, AssistantMessage)]


# -- verdicts


def judges(*verdicts: Verdict) -> list[type[Plugin]]:
    return [
        type(f"Judge{number}", (Plugin,), {"name": f"judge{number}", "before_tool": _giving(verdict)})
        for number, verdict in enumerate(verdicts)
    ]


def _giving(verdict: Verdict) -> Any:
    async def before_tool(self: Plugin, call: CheckedCall, turn: Turn) -> Verdict:
        return verdict

    return before_tool


@pytest.mark.parametrize(
    ("verdicts", "text", "is_error"),
    [((None, None), "worked x", False), ((Ask("May I?"), Refuse("Never.")), "Never.", True)],
)
async def test_every_plugin_is_heard_about_a_call_and_the_strictest_holds(
    tmp_path: Path, verdicts: tuple[Verdict, ...], text: str, is_error: bool
) -> None:
    done = list[str]()
    with ScriptedProvider(call("work", {"text": "x"}), "Well.") as model:
        async with bare(tmp_path, model, tools=[worker(done)], plugins=judges(*verdicts)) as program:
            await program.ask("go")
            (result,) = results(program.history)
            assert (result.text, result.is_error) == (text, is_error)
    assert done == (["x"] if text == "worked x" else [])


async def test_all_calls_of_an_answer_are_judged_before_the_first_runs(tmp_path: Path) -> None:
    order = list[str]()

    class Watching(Plugin):
        name = "watching"

        async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
            order.append(f"judged {call.arguments['text']}")
            return None

        async def after_tool(self, call: CheckedCall, result: ToolResult, turn: Turn) -> None:
            order.append(result.text)

    calls = tuple(("work", {"text": text}) for text in ("a", "b"))
    with ScriptedProvider(Say(calls=calls), "Well.") as model:
        async with bare(tmp_path, model, tools=[worker([])], plugins=[Watching]) as program:
            await program.ask("go")
    assert order == ["judged a", "judged b", "worked a", "worked b"]


async def test_a_tool_judges_its_own_calls_too(tmp_path: Path) -> None:
    async def check(call: CheckedCall, turn: Turn) -> Verdict:
        return Refuse("Not that.") if call.arguments["text"] == "that" else None

    own = worker([])._replace(check=check)
    with ScriptedProvider(call("work", {"text": "that"}), call("work", {"text": "this"}), "Well.") as model:
        async with bare(tmp_path, model, tools=[own]) as program:
            await program.ask("go")
            assert [result.text for result in results(program.history)] == ["Not that.", "worked this"]


# -- another answer


class Doubting(Plugin):
    """Has every answer made anew."""

    name = "doubting"

    async def before_answer(self, answer: Answer, turn: Turn) -> TryAgain:
        return TryAgain("Say it better.", "(This is doubtful.)")


class Doubting2(Doubting):
    name = "doubting2"

    async def before_answer(self, answer: Answer, turn: Turn) -> TryAgain:
        return TryAgain("Say it shorter.", "(This is long.)")


async def test_an_answer_is_made_anew_once_and_then_the_note_of_one_plugin_stands_below(tmp_path: Path) -> None:
    with ScriptedProvider("One.", "Two.", "Three.", "Four.") as model:
        async with bare(tmp_path, model, plugins=[Doubting, Doubting2]) as program:
            note = "(This is doubtful.)"
            assert await program.ask("go") == f"Two.\n\n{note}"
            assert said(program) == ["One.", "Two."], "the history has the model's own words"
            assert "Say it better." in model.requests[1].history[-1].text
            assert await program.ask("again") == f"Four.\n\n{note}", "once for each turn"
            assert_legal(program.history)


async def test_it_is_once_for_each_turn_over_a_restart_too(tmp_path: Path) -> None:
    hang = Hang("Two")
    async with bare(tmp_path, ScriptedProvider("One.", hang), plugins=[Doubting]) as program:
        await program.say("go")
        await hang.reached.wait()
        await program.app.conversations.close(leave=True)
    with ScriptedProvider("Three.") as model:
        async with bare(tmp_path, model, plugins=[Doubting]) as program:
            assert (await program.answer()).endswith("Three.\n\n(This is doubtful.)")
            assert_legal(program.history)


async def test_in_the_last_round_the_note_stands_below_at_once(tmp_path: Path) -> None:
    with ScriptedProvider("One.") as model:
        async with bare(tmp_path, model, plugins=[Doubting], settings="[limits]\nrounds = 1\n") as program:
            assert await program.ask("go") == "One.\n\n(This is doubtful.)"


# -- faults


class Broken(Plugin):
    """Raises wherever it is asked; `before_tool` is left out, as it would refuse."""

    name = "broken"
    _error: type[BaseException] = RuntimeError

    def on_message(self, inbound: Inbound, tx: Tx) -> None:
        raise self._error("on_message")

    def conversation_of(self, address: Address) -> None:
        raise self._error("conversation_of")

    async def before_turn(self, draft: Draft, turn: Turn) -> None:
        raise self._error("before_turn")

    async def before_model(self, request: ModelRequest, turn: Turn | None) -> None:
        raise self._error("before_model")

    def after_model(self, request: ModelRequest, answer: AssistantMessage | None, turn: Turn | None) -> None:
        raise self._error("after_model")

    def stream(self, turn: Turn) -> Filter:
        raise self._error("stream")

    async def after_tool(self, call: CheckedCall, result: ToolResult, turn: Turn) -> None:
        raise self._error("after_tool")

    async def before_answer(self, answer: Answer, turn: Turn) -> None:
        raise self._error("before_answer")

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> None:
        raise self._error("on_end")

    async def before_compaction(self, request: ModelRequest, turn: Turn) -> None:
        raise self._error("before_compaction")

    def sections(self, query: str, profile: Profile) -> Iterator[Section]:
        raise self._error("sections")

    def tools(self) -> Iterator[Tool]:
        raise self._error("tools")

    async def check(self, deep: bool) -> Iterator[Any]:
        raise self._error("check")

    async def run(self) -> None:
        raise self._error("run")

    async def aclose(self) -> None:
        raise self._error("aclose")


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, KeyboardInterrupt])
async def test_a_plugin_that_raises_in_every_hook_costs_no_answer_and_is_named_in_status(
    tmp_path: Path, log: list[str], monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    monkeypatch.setattr(Broken, "_error", error)
    done = list[str]()
    with ScriptedProvider(call("work", {"text": "x"}), "Done.", "Next.") as model:
        async with bare(tmp_path, model, tools=[worker(done)], plugins=[Broken], wakes=True) as program:
            assert await program.ask("go") == "Done."
            assert await program.ask("and?") == "Next."
            assert "The plugin broken failed: " in await program.ask("/status")
            findings = [finding for name, finding in await program.app.findings() if name == "broken"]
            assert findings and not any(finding.is_well for finding in findings)
            assert_legal(program.history)
    assert done == ["x"]
    assert any(f"the plugin broken failed in before_answer: {error.__name__}" in line for line in log)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
async def test_a_tool_and_a_command_that_exit_end_no_program(tmp_path: Path, error: type[BaseException]) -> None:
    async def leave() -> str:
        """Leaves."""
        raise error("bye")

    class Leaving(Plugin):
        name = "leaving"

        def commands(self) -> tuple[Command, ...]:
            return (Command("out", "leaves", lambda said, tx: leave().send(None)),)

    with ScriptedProvider(call("leave"), "It failed.") as model:
        async with bare(tmp_path, model, tools=[tool(leave)], plugins=[Leaving]) as program:
            assert await program.ask("go") == "It failed."
            assert f"leave failed: {error.__name__}" in results(program.history)[0].text
            assert error.__name__ in await program.ask("/out")


async def test_a_plugin_that_raises_about_a_call_refuses_it(tmp_path: Path) -> None:
    class Guard(Plugin):
        name = "guard"

        async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
            raise RuntimeError("no idea")

    done = list[str]()
    with ScriptedProvider(call("work"), "I could not.") as model:
        async with bare(tmp_path, model, tools=[worker(done)], plugins=[Guard]) as program:
            assert await program.ask("go") == "I could not."
            (result,) = results(program.history)
            assert result.is_error and "the plugin guard failed (RuntimeError)" in result.text
    assert done == []


async def test_a_fault_is_logged_once_for_each_kind(tmp_path: Path, log: list[str]) -> None:
    with ScriptedProvider("One.", "Two.", "Three.") as model:
        async with bare(tmp_path, model, plugins=[FailingEnd]) as program:
            for text in ("a", "b", "c"):
                await program.ask(text)
    assert len([line for line in log if "the plugin ending failed in on_end" in line]) == 1


class FailingEnd(Plugin):
    """Writes and sends when a turn ends, and then fails."""

    name = "ending"
    migrations = ("CREATE TABLE ending_seen (text TEXT)",)

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> None:
        tx.execute("INSERT INTO ending_seen VALUES (?)", ended.text)
        tx.send(Outbound(MAIN, "I was here."))
        tx.after(lambda: pytest.fail("this was rolled back"))
        raise RuntimeError("and then it failed")


class FailingMessage(Plugin):
    """Writes and delivers when a message comes, and then fails."""

    name = "coming"
    migrations = ("CREATE TABLE coming_seen (text TEXT)",)

    def on_message(self, inbound: Inbound, tx: Tx) -> None:
        tx.execute("INSERT INTO coming_seen VALUES (?)", inbound.message.text)
        tx.deliver(Inbound(MAIN, "", "by-coming", UserMessage("once more", inbound.message.at, "job"), role="owner"))
        raise RuntimeError("and then it failed")


async def test_what_a_failing_step_wrote_in_a_transaction_is_taken_back_alone(tmp_path: Path) -> None:
    class Keeping(Plugin):
        name = "keeping"
        migrations = ("CREATE TABLE keeping_seen (text TEXT)",)

        def on_message(self, inbound: Inbound, tx: Tx) -> None:
            tx.execute("INSERT INTO keeping_seen VALUES (?)", inbound.message.text)

        def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> None:
            tx.execute("INSERT INTO keeping_seen VALUES (?)", ended.text)

    with ScriptedProvider("Hello.") as model:
        async with bare(tmp_path, model, plugins=[FailingMessage, Keeping, FailingEnd]) as program:
            assert await program.ask("hi") == "Hello."
            await program.app.conversations.idle()
            assert program.channel.sent.empty()
            assert program.rows("SELECT text FROM keeping_seen") == [("hi",), ("Hello.",)]
            assert program.rows("SELECT text FROM coming_seen") == program.rows("SELECT text FROM ending_seen") == []
            assert said(program) == ["Hello."]


@virtual_time
async def test_a_slow_step_is_cut_at_its_seconds(tmp_path: Path) -> None:
    class Slow(Plugin):
        name = "slow"
        seconds = 3.0

        async def before_turn(self, draft: Draft, turn: Turn) -> Draft:
            await asyncio.sleep(60)
            return draft._replace(remarks=("too late",))

        async def before_model(self, request: ModelRequest, turn: Turn | None) -> Limits:
            await asyncio.sleep(60)
            return Limits(output_tokens=1)

        async def before_answer(self, answer: Answer, turn: Turn) -> Answer:
            await asyncio.sleep(60)
            return Answer("too late")

    class Patient(Plugin):
        """Has the usual ten seconds."""

        name = "patient"

        async def before_turn(self, draft: Draft, turn: Turn) -> Draft:
            await asyncio.sleep(9)
            return draft._replace(remarks=("in time",))

    with ScriptedProvider("Hello.") as model:
        async with bare(tmp_path, model, plugins=[Slow, Patient]) as program:
            assert await program.ask("hi") == "Hello."
            assert passed() == 3 + 9 + 3 + 3
            assert "in time" in program.history[0].text and "too late" not in program.history[0].text
            assert "before_answer: TimeoutError" in program.app.chain.faults["slow"]
    assert model.requests[0].limits.output_tokens > 1


@virtual_time
async def test_a_slow_judge_refuses(tmp_path: Path) -> None:
    class Judging(Plugin):
        name = "judging"
        seconds = 2.0

        async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
            await asyncio.sleep(60)
            return None

    with ScriptedProvider(call("work"), "I could not.") as model:
        async with bare(tmp_path, model, tools=[worker([])], plugins=[Judging]) as program:
            assert await program.ask("go") == "I could not."
            assert passed() == 2


@virtual_time
async def test_a_stop_passes_through_a_hook(tmp_path: Path) -> None:
    begun = asyncio.Event()

    class Slow(Plugin):
        name = "slow"

        async def before_answer(self, answer: Answer, turn: Turn) -> None:
            begun.set()
            await asyncio.Event().wait()

    with ScriptedProvider("Hello.") as model:
        async with bare(tmp_path, model, plugins=[Slow]) as program:
            await program.say("hi")
            await begun.wait()
            assert await program.ask("/stop") == "Stopped."
            assert program.app.chain.faults == {}


async def test_a_filter_that_raises_shows_the_rest_of_the_answer_as_it_is(tmp_path: Path) -> None:
    class Once:
        def feed(self, text: str) -> str:
            raise RuntimeError("no")

        def end(self) -> str:
            return ""

    class Filtering(Plugin):
        name = "filtering"

        def stream(self, turn: Turn) -> Filter:
            return Once()

    with ScriptedProvider("Hello there.") as model:
        async with bare(tmp_path, model, plugins=[Filtering]) as program:
            assert await program.ask("hi") == "Hello there."
            shown = [event.text for _, event in program.channel.events if isinstance(event, TextDelta)]
            assert "".join(shown) == "Hello there."


async def test_a_plugin_that_refuses_a_request_is_told_as_the_models_failure(tmp_path: Path) -> None:
    class Poor(Plugin):
        name = "poor"

        async def before_model(self, request: ModelRequest, turn: Turn | None) -> None:
            raise ProviderError("Today's money is spent.")

    async with bare(tmp_path, ScriptedProvider(), plugins=[Poor]) as program:
        assert await program.ask("hi") == "The model gave no answer: Today's money is spent."
        assert program.app.chain.faults == {}


@virtual_time
async def test_background_work_that_fails_is_started_again(tmp_path: Path) -> None:
    class Working(Plugin):
        name = "working"

        def __init__(self, host: Host, settings: None) -> None:
            self.public = self._tries = list[float]()

        async def run(self) -> None:
            self._tries.append(passed())
            if len(self._tries) < 3:
                raise RuntimeError("not yet")
            await asyncio.Event().wait()

    async with bare(tmp_path, ScriptedProvider(), plugins=[Working], wakes=True, seconds=1000) as program:
        await asyncio.sleep(60)
        assert program.public("working") == [0.0, 5.0, 10.0]
        await program.ask("/panic")
        await asyncio.sleep(60)
        assert len(program.public("working")) == 3
        await program.ask("/resume")
        await asyncio.sleep(60)
        assert len(program.public("working")) == 4


# -- the start


def test_a_misspelt_hook_stops_the_start(tmp_path: Path) -> None:
    class Typo(Plugin):
        name = "typo"

        async def befor_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
            return Refuse("never called")

    with pytest.raises(ConfigError, match=r"the plugin typo has 'befor_tool'.*--without typo"):
        build(config_of(tmp_path), plugins=[Typo])


def test_a_misspelt_hook_that_is_narrowed_stops_the_start(tmp_path: Path) -> None:
    class Typo(Plugin):
        name = "typo"
        hears: Mapping[str, Hears] = {"befor_tool": Hears(tools=("exec",))}

    with pytest.raises(ConfigError, match=r"the plugin typo has 'befor_tool'.*--without typo"):
        build(config_of(tmp_path), plugins=[Typo])


async def test_a_hook_is_asked_about_what_it_hears_only(tmp_path: Path) -> None:
    heard: list[str] = []

    class Watch(Plugin):
        name = "watch"
        hears: Mapping[str, Hears] = {
            "on_message": Hears(rows="inbox WHERE state = 'done'"),
            "before_turn": Hears(tools=("exec",)),  # it is about no call
            "before_answer": Hears(tools=("list_dir",)),
            **dict.fromkeys(("before_tool", "on_end"), Hears(changes=True)),
        }

        def on_message(self, inbound: Inbound, tx: Tx) -> None:
            heard.append("again")

        async def before_tool(self, call: CheckedCall, turn: Turn) -> None:
            heard.append(f"watched {call.name}")

        async def before_turn(self, draft: Draft, turn: Turn) -> None:
            heard.append(draft.message.text)

        async def before_answer(self, answer: Answer, turn: Turn) -> None:
            heard.append(answer.text)

        def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> None:
            heard.append(f"watched {ended.reason}")

    class Narrow(Plugin):
        name = "narrow"
        hears: Mapping[str, Hears] = {
            "before_tool": Hears(tools=("read_file",)),
            "after_tool": Hears(tools=("list_dir",)),
            "before_turn": Hears(origins=("job",)),
            "before_answer": Hears(channels=("elsewhere",)),
            "on_end": Hears(origins=("person",)),
            "stream": Hears(),
        }

        async def before_tool(self, call: CheckedCall, turn: Turn) -> None:
            heard.append(f"before {call.name}")

        async def after_tool(self, call: CheckedCall, result: ToolResult, turn: Turn) -> None:
            heard.append(f"after {call.name}")

        async def before_turn(self, draft: Draft, turn: Turn) -> None:
            heard.append("before_turn")

        async def before_answer(self, answer: Answer, turn: Turn) -> None:
            heard.append("before_answer")

        def stream(self, turn: Turn) -> None:
            heard.append("stream")

        def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> None:
            heard.append("on_end")

    look, write = call("list_dir", {"path": "."}), call("write_file", {"path": "a.txt", "content": "a"})
    model = ScriptedProvider("hello", look, "looked", write, "done")
    async with running(tmp_path, model, extra=[Narrow, Watch]) as program:
        for text in ("hi", "what is here?", "note it"):
            await program.ask(text)
    looked = ["again", "what is here?", "after list_dir", "looked", "on_end"]
    assert heard == ["hi", "on_end", *looked, "again", "note it", "watched write_file", "on_end", "watched answered"]


async def test_sections_that_stay_the_same_are_asked_for_once_for_each_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Same(Plugin):
        name = "same"
        stamp = "the same"

        def sections(self, query: str, profile: Profile) -> Iterable[Section]:
            asked.append(profile.name)
            return [Section("same", "Same", "It stays as it is.")]

    provider = ScriptedProvider("one", "two", "three")
    async with running(tmp_path, provider, plugins=[Same]) as program:
        for text in ("a", "b"):
            await program.ask(text)
        assert asked == ["person"]
        monkeypatch.setattr(Same, "stamp", "another")
        await program.ask("c")
        assert all("It stays as it is." in one.system.text for one in provider.requests)
    assert asked == ["person"] * 2


async def test_sections_that_failed_once_are_asked_for_again(tmp_path: Path) -> None:
    failing = [True]

    class Same(Plugin):
        name = "same"
        stamp = "the same"

        def sections(self, query: str, profile: Profile) -> Iterable[Section]:
            if failing:
                failing.clear()
                raise OSError("not yet")
            return [Section("same", "Same", "It is there.")]

    provider = ScriptedProvider("one", "two")
    async with running(tmp_path, provider, plugins=[Same]) as program:
        await program.ask("a")
        await program.ask("b")
    assert ["It is there." in one.system.text for one in provider.requests] == [False, True]


async def test_a_guard_whose_hears_is_none_of_ours_is_asked_each_time(tmp_path: Path) -> None:
    """A defect of it costs no answer, and leaves no call unjudged."""

    class Guard(Plugin):
        name = "guard"

        def __init__(self, host: Host, settings: None) -> None:
            self.hears: Any = {"before_tool": ("work",), "on_end": None, "before_answer": 3}

        async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
            return Refuse("the guard was heard")

        async def before_answer(self, answer: Answer, turn: Turn) -> Answer | None:
            return answer._replace(text=f"{answer.text} Seen.")

    done: list[str] = []
    provider = ScriptedProvider(call("work"), "Not done.")
    async with bare(tmp_path, provider, tools=[worker(done)], plugins=[Guard]) as program:
        assert await program.ask("work") == "Not done. Seen."
        assert "the guard was heard" in results(program.history)[0].text
        assert program.app.chain.faults["guard"].startswith("hears: AttributeError")
    assert done == []


def test_a_plugin_that_cannot_be_made_stops_the_start_with_a_sentence(tmp_path: Path) -> None:
    class Failing(Plugin):
        name = "failing"

        def __init__(self, host: Host, settings: None) -> None:
            raise KeyError("a defect")

    with pytest.raises(ConfigError, match=r"the plugin failing cannot be made: KeyError.*--without failing"):
        build(config_of(tmp_path), plugins=[Failing])


# -- answers by code


async def test_a_message_that_a_plugin_answers_needs_no_model(tmp_path: Path) -> None:
    class Greeting(Plugin):
        name = "greeting"
        migrations = ("CREATE TABLE greeting_seen (text TEXT)",)

        def on_message(self, inbound: Inbound, tx: Tx) -> Reply | Literal["ignore"] | None:
            if inbound.message.text == "psst":
                return "ignore"
            if inbound.message.text != "hello":
                return None
            tx.execute("INSERT INTO greeting_seen VALUES ('hello')")
            return Reply("Hello yourself.")

    with ScriptedProvider("By the model.") as model:
        async with bare(tmp_path, model, plugins=[Greeting]) as program:
            assert await program.ask("hello") == "Hello yourself."
            await program.say("psst")
            assert await program.ask("and you?") == "By the model."
            assert program.rows("SELECT count(*) FROM greeting_seen") == [(1,)]
            assert program.rows("SELECT count(*) FROM inbox WHERE state = 'done' AND channel = 'terminal'") == [(2,)]


async def test_a_command_of_a_plugin_writes_in_the_transaction_that_ends_its_message(tmp_path: Path) -> None:
    class Noting(Plugin):
        name = "noting"
        migrations = ("CREATE TABLE noting_notes (text TEXT)",)

        def commands(self) -> list[Command]:
            return [Command("jot", "keeps a note", self._jot)]

        def _jot(self, said: Said, tx: Tx) -> str:
            tx.execute("INSERT INTO noting_notes VALUES (?)", said.argument)
            if said.argument == "break":
                raise RuntimeError("a defect")
            return f"Kept: {said.argument}."

    async with bare(tmp_path, ScriptedProvider(), plugins=[Noting]) as program:
        assert await program.ask("/jot bread") == "Kept: bread."
        assert program.rows("SELECT text FROM noting_notes") == [("bread",)]
        assert "went wrong" in await program.ask("/jot break")
        assert program.rows("SELECT text FROM noting_notes") == [("bread",)]


class GivesWrongKinds(Plugin):
    name = "wrong"

    async def before_turn(self, draft: Draft, turn: Turn) -> Any:
        return 5

    async def before_model(self, request: ModelRequest, turn: Turn | None) -> Any:
        return 5

    async def after_tool(self, call: CheckedCall, result: ToolResult, turn: Turn) -> Any:
        return "x"

    async def before_answer(self, answer: Answer) -> Any:  # type: ignore[override]
        return answer

    def on_message(self, inbound: Inbound, tx: Tx) -> Any:
        return 5

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> Any:
        return 5

    def tools(self) -> Any:
        return ["x"]

    def commands(self) -> Any:
        return [7]


async def test_what_a_hook_gives_of_a_wrong_kind_costs_no_answer(tmp_path: Path) -> None:
    done: list[str] = []
    model = ScriptedProvider(call("work"), "It is done.")
    async with bare(tmp_path, model, plugins=[GivesWrongKinds], tools=[worker(done)]) as here:
        assert await here.ask("hello") == "It is done."
        assert "wrong" in here.app.chain.faults
    assert done == [""]


@pytest.mark.parametrize("verdict", [False, "no, never", Refuse])
async def test_a_verdict_of_no_kind_refuses_the_call(tmp_path: Path, verdict: object) -> None:
    class Judge(Plugin):
        name = "judge"

        async def before_tool(self, call: CheckedCall, turn: Turn) -> Any:
            return verdict

    done: list[str] = []
    model = ScriptedProvider(call("work"), "I may not.")
    async with bare(tmp_path, model, plugins=[Judge], tools=[worker(done)]) as here:
        await here.ask("hello")
        assert [result.is_error for result in results(here.history)] == [True]
    assert done == []


@pytest.mark.parametrize(("name", "told"), [("hertbeat", "did you mean 'heartbeat'"), ("nope", "known: basics, ")])
def test_an_unknown_plugin_to_leave_out_stops_the_start(tmp_path: Path, name: str, told: str) -> None:
    with pytest.raises(ConfigError, match=f"no plugin {name!r} to leave out; {told}"):
        build(config_of(tmp_path), without=[name])
    with pytest.raises(ConfigError, match=f"no plugin {name!r} to leave out; {told}"):
        build(config_of(tmp_path, f'[plugins]\noff = ["{name}"]\n'))


def test_a_hook_that_is_async_by_mistake_stops_the_start(tmp_path: Path) -> None:
    class Late(Plugin):
        name = "late"

        async def on_message(self, inbound: Inbound, tx: Tx) -> Any:  # type: ignore[override]
            return "ignore"

    with pytest.raises(ConfigError, match="'on_message' of the plugin late is `def`"):
        build(config_of(tmp_path), plugins=[Late])
