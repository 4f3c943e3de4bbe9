"""Many tools, few tokens: what has no room in the prompt is found, and called through every gate."""

import asyncio
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.events import ToolFinished, ToolStarted
from nanoclaw.core.messages import Address, CheckedCall, Inbound, ModelRequest, ToolCall, UserMessage
from nanoclaw.core.plugin import BACKGROUND, Ask, Plugin, Tool, Turn
from nanoclaw.core.provider import chat_tools
from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from nanoclaw.tokens import estimate
from tests.examples import examples
from tests.plugins.skills.trusted import trust_all
from tests.plugins.tool_search.many_tools import echo, many, names, server, spec, wire
from tests.program import FakeChannel, Program, config_of, results, running

CALLS = examples(__file__, "tool_calls.jsonl")

ROOMY = "[tool_search]\ntokens = 5000\n"

ISSUE = echo(spec("github__open_issue", "Open an issue in a repository.", title="its title"))


def by_name(name: str, arguments: Any = None, **more: Any) -> Say:
    return call("call_tool", {"name": name, **({} if arguments is None else {"arguments": arguments}), **more})


def compact(request: ModelRequest) -> str:
    return json.dumps(chat_tools(request.tools), ensure_ascii=False, separators=(",", ":"))


def texts(program: Program) -> list[str]:
    return [result.text for result in results(program.history)]


# --- what is in the prompt -------------------------------------------------------------------------------------------


async def test_where_all_tools_fit_all_are_sent_and_these_two_are_not(tmp_path: Path) -> None:
    sent = []
    for without in (set[str](), {"tool_search"}):
        provider = ScriptedProvider("Hello.")
        few = server([ISSUE])
        root = tmp_path / str(len(without))
        async with running(root, provider, settings=ROOMY, extra=[few], without=without) as program:
            await program.ask("Hi")
        sent.append(wire(provider.requests[0])[0])
    assert sent[0] == sent[1]
    assert "github__open_issue" in sent[0] and "tool_search" not in sent[0]


async def test_without_the_plugin_every_tool_is_sent(tmp_path: Path) -> None:
    provider = ScriptedProvider("Hello.")
    async with running(tmp_path, provider, extra=[server(many())], without={"tool_search"}) as program:
        await program.ask("Hi")
    assert len([name for name in names(provider.requests[0]) if "__" in name]) == 300


async def test_with_three_hundred_tools_the_fixed_prompt_stays_small(tmp_path: Path) -> None:
    provider = ScriptedProvider("Hello.")
    async with running(tmp_path, provider, extra=[server(many())]) as program:
        await program.ask("Hi")
    (request,) = provider.requests
    schemas = compact(request)
    assert estimate(schemas) <= 1_750
    assert estimate(schemas) + estimate(request.system.text) <= 3_500
    assert {"read_file", "exec", "cron", "tool_search", "call_tool"} <= set(names(request))
    assert not [name for name in names(request) if "__" in name]
    (search,) = [tool for tool in request.tools if tool.name == "tool_search"]
    assert "github (30), slack (30)" in search.description


async def test_servers_with_few_tools_are_offered_directly_as_far_as_they_have_room(tmp_path: Path) -> None:
    own = [echo(spec(f"gadget_{number}", "Does something. " * 9, what="a thing")) for number in range(30)]
    few = [echo(spec(f"{name}__{number}", "Does something.")) for name in ("one", "two") for number in range(10)]
    large = [echo(spec(f"large__{number}", "Does something. " * 60)) for number in range(10)]
    alone = echo(spec("calendar__today", "Appointments of today."))
    provider = ScriptedProvider(call("calendar__today"), "None.")
    extra = [server([*own, *many(11), *few, *large, alone])]
    async with running(tmp_path, provider, extra=extra, settings='[tools]\nallow = ["calendar__*"]\n') as program:
        await program.ask("What is there today?")
        assert texts(program) == ["calendar__today ran with {}"]
    sent = {name for name in names(provider.requests[0]) if "__" in name}
    assert sent == {one.spec.name for one in (*few, alone)}
    assert "exec" in names(provider.requests[0]) and estimate(compact(provider.requests[0])) <= 3_500


async def test_a_larger_budget_takes_more_and_none_takes_all(tmp_path: Path) -> None:
    sizes = []
    for tokens in (600, 1_700, 0):
        provider, settings = ScriptedProvider("Hello."), f"[tool_search]\ntokens = {tokens}\n"
        async with running(tmp_path / str(tokens), provider, settings=settings, extra=[server(many())]) as program:
            await program.ask("Hi")
        sizes.append(len(provider.requests[0].tools))
        assert not tokens or estimate(compact(provider.requests[0])) <= tokens
    assert 5 < sizes[0] < sizes[1] < 20 < 300 < sizes[2]


def test_a_budget_without_room_for_anything_is_refused(tmp_path: Path) -> None:
    from nanoclaw.start.build import build

    with pytest.raises(ConfigError, match=r"tool_search\.tokens must be 0 .* or at least 500"):
        build(config_of(tmp_path, "[tool_search]\ntokens = 20\n"))


async def test_where_ours_alone_are_too_many_those_used_most_stay_and_in_their_order(tmp_path: Path) -> None:
    own = [echo(spec(f"gadget_{number}", "Does something. " * 4, what="a thing")) for number in range(30)]
    provider, others = ScriptedProvider("Hello.", "Hello."), ScriptedProvider("Hello.")
    settings = "[tool_search]\ntokens = 2300\n"
    async with running(tmp_path / "a", provider, settings=settings, extra=[server(own)]) as program:
        await program.ask("Hi")
        await program.ask("Hi", chat="other")
    assert names(provider.requests[0]) == names(provider.requests[1])
    async with running(tmp_path / "b", others, extra=[server(own)], without={"tool_search"}) as program:
        await program.ask("Hi")
    kept = [name for name in names(provider.requests[0]) if name not in ("tool_search", "call_tool")]
    assert kept == [name for name in names(others.requests[0]) if name in kept]
    assert {"read_file", "exec", "memory_add", "gadget_0"} <= set(kept)
    assert "memory_forget" not in kept and "gadget_29" not in kept


async def test_a_guest_has_neither_of_them(tmp_path: Path) -> None:
    chat, provider = FakeChannel("telegram"), ScriptedProvider("Hello.", by_name("github__open_issue", {}), "No.")
    settings = '[channels.telegram]\ntoken = "1:a"\nallow_from = ["777"]\n'
    tools = [*many(), ISSUE]
    async with running(tmp_path, provider, settings=settings, others=[chat], extra=[server(tools)]) as program:
        guest = Address("telegram", "777")
        await program.write_from(guest, "777", "Hi")
        await chat.sent.get()
        await program.write_from(guest, "777", "Open an issue")
        await chat.sent.get()
        (result,) = results(program.app.sessions.of(guest).history)
    assert set(names(provider.requests[0])) == {"cron", "message"}
    assert result.text == "github__open_issue cannot be used here."


# --- found and called ------------------------------------------------------------------------------------------------


async def test_a_tool_is_found_and_called_and_seen_as_what_it_is(tmp_path: Path) -> None:
    provider = ScriptedProvider(
        call("tool_search", {"query": "open github issue"}),
        by_name("github__open_issue", {"title": "It breaks"}),
        "Opened.",
    )
    async with running(tmp_path, provider, extra=[server([*many(), ISSUE])]) as program:
        assert "Opened." in await program.ask("Open an issue: It breaks")
        found, done = texts(program)
        assert json.loads(found.splitlines()[0]) == {
            "name": "github__open_issue",
            "description": "Open an issue in a repository.",
            "parameters": ISSUE.spec.parameters,
        }
        assert done == 'github__open_issue ran with {"title": "It breaks"}'
        assert program.rows("SELECT tool, text FROM ledger") == [
            ("github__open_issue", 'used github__open_issue {"title": "It breaks"}')
        ]
        seen = [event.call for _, event in program.channel.events if isinstance(event, ToolStarted | ToolFinished)]
        assert [(one.name, one.arguments) for one in seen[2:]] == [("github__open_issue", '{"title": "It breaks"}')] * 2
    _, messages = wire(provider.requests[2])
    function = messages[-2]["tool_calls"][0]["function"]
    assert function["name"] == "call_tool"  # as the model wrote it, in the tools it was given
    assert json.loads(function["arguments"]) == {"name": "github__open_issue", "arguments": {"title": "It breaks"}}


async def test_a_call_by_name_alone_runs_too(tmp_path: Path) -> None:
    provider = ScriptedProvider(call("github__open_issue", {"title": "a"}), "Opened.")
    async with running(tmp_path, provider, extra=[server([*many(), ISSUE])]) as program:
        await program.ask("Open it")
        assert texts(program) == ['github__open_issue ran with {"title": "a"}']


@pytest.mark.parametrize(("arguments", "said"), CALLS["a call that is not right is told what would be"])
async def test_a_call_that_is_not_right_is_told_what_would_be(tmp_path: Path, arguments: Any, said: str) -> None:
    provider = ScriptedProvider(call("call_tool", arguments), "Oh.")
    async with running(tmp_path, provider, extra=[server([*many(40), ISSUE])]) as program:
        await program.ask("Do it")
        assert said in texts(program)[0]


async def test_an_error_about_an_unknown_tool_does_not_list_hundreds(tmp_path: Path) -> None:
    provider = ScriptedProvider(by_name("qqqqqqqq"), "Oh.")
    async with running(tmp_path, provider, extra=[server(many())]) as program:
        await program.ask("Do it")
        assert len(texts(program)[0]) < 1_000
        assert "more." in texts(program)[0]


async def test_words_that_fit_nothing_are_told_what_there_is(tmp_path: Path) -> None:
    provider = ScriptedProvider(call("tool_search", {"query": "xylophone"}), "Oh.")
    async with running(tmp_path, provider, extra=[server(many())]) as program:
        await program.ask("Do it")
        assert texts(program)[0].startswith("no tool fits 'xylophone'")
        assert "github (30)" in texts(program)[0]


async def test_what_comes_and_goes_meanwhile_is_found_and_missed(tmp_path: Path) -> None:
    tools: list[Tool] = many(60)
    late = echo(spec("weather__forecast", "The weather of the next days.", city="where"))

    def come(request: Any) -> Say:
        tools.append(late)
        return call("tool_search", {"query": "weather forecast"})

    def go(request: Any) -> Say:
        tools.remove(late)
        return by_name("weather__forecast", {"city": "Rome"})

    provider = ScriptedProvider(come, by_name("weather__forecast", {"city": "Rome"}), "Sunny.", go, "Gone.")
    async with running(tmp_path, provider, extra=[server(tools)]) as program:
        await program.ask("How is the weather?")
        await program.ask("And now?")
        found, ran, missed = texts(program)
    assert '"name":"weather__forecast"' in found
    assert ran == 'weather__forecast ran with {"city": "Rome"}'
    assert missed.startswith("there is no tool 'weather__forecast'.")
    assert len({wire(request)[0] for request in provider.requests}) == 1


# --- through every gate ----------------------------------------------------------------------------------------------


class Witness(Plugin):
    """Sees each call as it is judged and its result as it comes."""

    name = "witness"

    def __init__(self, host: Any, settings: None) -> None:
        self.public: list[tuple[str, dict[str, Any]]] = []

    async def before_tool(self, call: CheckedCall, turn: Turn) -> None:
        self.public.append((call.name, dict(call.arguments)))

    async def after_tool(self, call: CheckedCall, result: Any, turn: Turn) -> Any:
        self.public.append((f"{call.name} ended", {}))
        return result._replace(text=f"{result.text}!")


async def test_plugins_judge_the_tool_that_runs(tmp_path: Path) -> None:
    provider = ScriptedProvider(by_name("github__open_issue", {"title": "a"}), "Done.")
    async with running(tmp_path, provider, extra=[server([*many(), ISSUE]), Witness]) as program:
        await program.ask("Do it")
        assert program.public("witness") == [("github__open_issue", {"title": "a"}), ("github__open_issue ended", {})]
        assert texts(program) == ['github__open_issue ran with {"title": "a"}!']


async def test_a_question_is_about_the_tool_that_runs_and_its_yes_outlives_a_restart(tmp_path: Path) -> None:
    async def ask(call: CheckedCall, turn: Turn) -> Ask:
        return Ask(f"May I use {call.name} with {dict(call.arguments)}?")

    tools = [*many(), ISSUE._replace(check=ask)]
    provider = ScriptedProvider(by_name("github__open_issue", {"title": "a"}))
    async with running(tmp_path, provider, extra=[server(tools)]) as program:
        assert "May I use github__open_issue with {'title': 'a'}?" in await program.ask("Do it")
    async with running(tmp_path, ScriptedProvider("Opened."), extra=[server(tools)]) as program:
        await program.say("/yes")
        while "Opened." not in await program.answer():
            pass
        assert texts(program) == ['github__open_issue ran with {"title": "a"}']


async def test_a_rule_holds_for_the_tool_that_runs(tmp_path: Path) -> None:
    forbids = ('{"forbids": [{"tool": "github__open_issue"}]}', '{"forbids": [{"command": "git push"}]}')
    push = by_name("exec", {"command": "git push"})
    provider = ScriptedProvider(*forbids, by_name("github__open_issue", {"title": "a"}), push, "No.")
    async with running(tmp_path, provider, extra=[server([*many(), ISSUE])]) as program:
        await program.ask("/pin Never use `github__open_issue`")
        await program.ask("/pin Never run `git push`")
        await program.ask("Do it")
        refused = texts(program)
    assert "it forbids the tool github__open_issue" in refused[0]
    assert "it forbids the command `git push`" in refused[1]


async def test_a_helper_finds_and_calls_only_what_it_may(tmp_path: Path) -> None:
    """`only` of a profile counts for the search, too."""
    may = frozenset({"tool_search", "call_tool", "github__list_issue", "read_file"})
    profile = BACKGROUND._replace(only=may)
    provider = ScriptedProvider(
        call("tool_search", {"query": "github issue"}), by_name("github__create_issue", {"name": "a"}), "Done."
    )
    seen, over = list[list[str]](), asyncio.Event()

    class Helper(Plugin):
        name = "helping"

        def on_end(self, ended: Any, turn: Turn, tx: Any) -> None:
            if turn.profile.name == "background":
                seen.append([one.text for one in results(turn.history)])
                tx.after(over.set)

    async with running(tmp_path, provider, extra=[server(many()), Helper]) as program:
        inbound = Inbound(
            Address("helper", "1"), "", "h1", UserMessage("Do it", program.clock(), "helper"), role="owner"
        )
        program.app.transactions.write_now(lambda tx: tx.deliver(inbound, profile))
        await over.wait()
    ((found, refused),) = seen
    assert "github__list_issue" in found and "github__create_issue" not in found
    assert refused == "github__create_issue cannot be used here."


async def test_what_a_plugin_calls_is_unwrapped_too(tmp_path: Path) -> None:
    class Caller(Plugin):
        name = "caller"

        def __init__(self, host: Any, settings: None) -> None:
            self._host = host

        async def before_answer(self, answer: Any, turn: Turn) -> Any:
            arguments = json.dumps({"name": "github__open_issue", "arguments": {"title": "b"}})
            result = await self._host.call(ToolCall("1", "call_tool", arguments), turn)
            return answer._replace(text=result.text)

    async with running(tmp_path, ScriptedProvider("Hm."), extra=[server([*many(), ISSUE]), Caller]) as program:
        assert await program.ask("Do it") == 'github__open_issue ran with {"title": "b"}'


# --- the prefix ------------------------------------------------------------------------------------------------------


async def test_the_prefix_is_kept_for_thirty_turns_and_a_restart_while_tools_come_and_go(tmp_path: Path) -> None:
    tools = [*many(), ISSUE]
    steps: list[Any] = []
    for turn in range(30):
        if turn % 3 == 0:
            steps.append(call("tool_search", {"query": f"delete {('page', 'invoice', 'route')[turn % 9 // 3]}"}))
        if turn % 4 == 1:
            steps.append(by_name("github__open_issue", {"title": str(turn)}))
        steps.append(f"Answer {turn}.")
    half = len(steps) // 2
    first, second = ScriptedProvider(*steps[:half], "Enough."), ScriptedProvider("Good morning.", *steps[half:])
    for provider in (first, second):
        async with running(tmp_path, provider, extra=[server(tools)]) as program:
            turn = 0
            while provider.left:
                await program.ask(f"Question {turn}")
                turn += 1
                tools.pop(turn)  # each time another list
                tools.append(echo(spec(f"late__tool_{len(tools)}_{turn}", "Came meanwhile.", x="y")))
    sent = [wire(request) for request in (*first.requests, *second.requests)]
    assert len(sent) > 30
    for (tools_before, before), (tools_now, now) in pairwise(sent):
        assert tools_now == tools_before
        assert now[: len(before)] == before


async def test_after_compaction_what_was_found_is_still_called(tmp_path: Path) -> None:
    long = "All about the garden. " * 5_000
    found: list[Any] = [call("tool_search", {"query": "open github issue"}), "Found it."]
    again: list[Any] = [by_name("github__open_issue", {"title": "later"}), "Opened."]
    provider = ScriptedProvider(*found, "Yes.", "Yes.", "Yes.", "We talked about the garden.", *again)
    async with running(tmp_path, provider, extra=[server([*many(), ISSUE])], without={"memory"}) as program:
        await program.ask("Find the tool for issues")
        for _ in range(3):
            await program.ask(long)
        assert "are now a summary" in await program.ask("/compact")
        await program.ask("Now open one")
        assert texts(program) == ['github__open_issue ran with {"title": "later"}']


# --- skills ----------------------------------------------------------------------------------------------------------


def put_skills(root: Path, number: int) -> None:
    for at in range(number):
        folder = root / "workspace" / "skills" / f"kind-{at:02}"
        folder.mkdir(parents=True)
        thing = "sourdough bread" if at == number - 1 else f"article {at}"
        (folder / "SKILL.md").write_text(f"---\nname: kind-{at:02}\ndescription: Sell a used {thing}.\n---\nDo it.\n")


async def test_of_many_skills_some_are_shown_and_the_others_found(tmp_path: Path) -> None:
    put_skills(tmp_path, 40)
    provider = ScriptedProvider(call("tool_search", {"query": "sourdough"}), "Found.")
    async with running(tmp_path, provider) as program:
        trust_all(program)
        await program.ask("Sell my used article 7")
        (found,) = texts(program)
    first, _ = provider.requests
    assert first.system.text.count("<skill name=") == 30
    assert "more are left out. To find them, call tool_search</more>" in first.system.text
    assert 'name="kind-07"' in first.system.text  # it fits
    assert {"tool_search", "call_tool"} <= set(names(first))
    shown = json.loads(found.splitlines()[0])
    assert shown["skill"] == "kind-39" and shown["read_file"].endswith("kind-39/SKILL.md")


async def test_without_the_search_all_skills_are_listed(tmp_path: Path) -> None:
    put_skills(tmp_path, 40)
    provider = ScriptedProvider("Hello.")
    async with running(tmp_path, provider, without={"tool_search"}) as program:
        trust_all(program)
        await program.ask("Hi")
    assert provider.requests[0].system.text.count("<skill name=") > 40
    assert "tool_search" not in provider.requests[0].system.text


# --- shown -----------------------------------------------------------------------------------------------------------


async def test_context_tells_how_many_are_left_out_and_what_that_saves(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider("Hello."), extra=[server(many())]) as program:
        shown = await program.ask("/context")
        left_out = re.search(
            r"Left to tool_search: (\d+) tools, whose schemas would take ≈ ([\d,]+) tokens more\.", shown
        )
        assert left_out and int(left_out[1]) >= 300 and 10_000 < int(left_out[2].replace(",", "")) < 30_000
    few = [server([ISSUE])]
    async with running(tmp_path / "few", ScriptedProvider("Hello."), settings=ROOMY, extra=few) as program:
        assert "Left to tool_search" not in await program.ask("/context")
