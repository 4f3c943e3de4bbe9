"""Plan mode: nothing is changed before the person's yes, whoever asks and wherever the program is killed."""

import asyncio
import itertools
import json
from pathlib import Path

import pytest

from nanoclaw.core.channel import Hints
from nanoclaw.core.events import Notice, StatusLines
from nanoclaw.core.messages import Address, Inbound, ModelRequest, UserMessage
from nanoclaw.core.provider import chat_messages, chat_tools
from nanoclaw.core.tool import tool
from nanoclaw.providers.scripted import Hang, Say, ScriptedProvider, call
from tests.dial import Dial
from tests.plugins.schedule.clockwork import ticking
from tests.program import NOON, FakeChannel, Gate, Program, assert_legal, everybody_is, results, running, tools_plugin

PLAN = "1. Copy a to b\n2. Remove a"
WRITE = call("write_file", {"path": "b.txt", "content": "b"})
LOOK = call("list_dir", {"path": "."})


def present(plan: str = PLAN) -> Say:
    return call("exit_plan_mode", {"plan": plan})


def is_written(program: Program) -> bool:
    return (program.workspace / "b.txt").exists()


def outcomes(program: Program) -> list[tuple[str, bool]]:
    return [(result.name, result.is_error) for result in results(program.history)]


def remarks(program: Program) -> list[str]:
    """The metadata of each message."""
    return [one.text for one in program.history if getattr(one, "origin", "") == "runtime"]


def status(channel: FakeChannel) -> list[str]:
    return [event.text for _, event in channel.events if isinstance(event, StatusLines) and event.key == "plan"]


async def test_only_looking_runs_until_the_person_says_yes_and_then_the_same_turn_acts(tmp_path: Path) -> None:
    model = ScriptedProvider(LOOK, WRITE, present(), WRITE, "It is written.")
    async with running(tmp_path, model) as program:
        assert "/plan off ends it" in await program.ask("/plan")
        question = await program.ask("Tidy up")
        assert question.startswith(f"The plan:\n\n{PLAN}\n\nShall I carry it out?\n\n1. Okay, go ahead\n2. No")
        assert outcomes(program) == [("list_dir", False), ("write_file", True)]
        assert not is_written(program)
        assert "not run: plan mode is on" in results(program.history)[1].text
        assert (await program.ask("yes")).startswith("OK: “Okay, go ahead”")
        assert await program.answer() == "It is written."
        assert outcomes(program)[2:] == [("exit_plan_mode", False), ("write_file", False)]
        assert is_written(program)
        assert status(program.channel) == ["plan mode", "plan mode", ""]
        assert await program.ask("/plan show") == PLAN
        assert_legal(program.history)


async def test_a_plan_is_approved_once_and_the_next_one_is_asked_about_anew(tmp_path: Path) -> None:
    model = ScriptedProvider(present(), "Well?", WRITE, "Well?", present(), WRITE, "Well?")
    async with running(tmp_path, model) as program:
        await program.ask("/plan")
        await program.ask("Tidy up")
        await program.ask("ja")
        await program.answer()
        assert await program.ask("And now write it") == "Well?"
        assert is_written(program), "an approval ends plan mode"
        await program.ask("/plan")
        await program.ask("Tidy up")
        (program.workspace / "b.txt").unlink()
        await program.ask("nein")
        assert (await program.answer()).startswith("Well?\n\n(Plan mode is on")
        assert outcomes(program)[-2:] == [("exit_plan_mode", True), ("write_file", True)]
        assert "said no to this plan" in results(program.history)[-2].text
        assert not is_written(program)


@pytest.mark.parametrize("word", ["1", "Go ahead!", "oui", "ok"])
async def test_words_that_approve(tmp_path: Path, word: str) -> None:
    async with running(tmp_path, ScriptedProvider(present(), "Well?")) as program:
        await program.ask("/plan Tidy up")
        await program.ask(word)
        assert await program.answer() == "Well?"
        assert outcomes(program) == [("exit_plan_mode", False)]


@pytest.mark.parametrize("words", ["yes, but leave folder b alone", "Ok but not b", "why?", "approve only the first"])
async def test_other_words_reach_the_model_and_are_no_yes(tmp_path: Path, words: str) -> None:
    model = ScriptedProvider(present(), WRITE, present("1. Remove a"), "Well?")
    async with running(tmp_path, model) as program:
        await program.ask("/plan Tidy up")
        assert (await program.ask(words)).startswith("Kept. First I need your answer to question 1")
        assert await program.ask("/answer 1 #0") == "OK."
        assert (await program.answer()).startswith("The plan:\n\n1. Remove a\n\n")
        told, refused = results(program.history)
        assert f"“{words}”" in told.text and told.is_error and refused.is_error
        await program.ask("yes")
        assert await program.answer() == "Well?"
        assert not results(program.history)[-1].is_error and not is_written(program)


async def test_a_model_that_answers_in_text_ends_its_turn_and_the_person_is_told(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider("I would copy it.", "Hello.", "Hello.")) as program:
        said = await program.ask("/plan Tidy up")
        assert said == (
            "I would copy it.\n\n(Plan mode is on: nothing is changed here until you approve a plan. "
            "/plan off ends it.)"
        )
        assert await program.ask("/plan off") == "Plan mode is off."
        assert await program.ask("Hi") == "Hello."
        assert await program.ask("Hi") == "Hello."
        said_on, said_off, nothing = (text.split("\n")[-2] for text in remarks(program))
        assert said_on.startswith("Plan mode is on: calls that change anything are refused.")
        assert said_off == "Plan mode is off." and "lan mode" not in nothing
        assert await program.ask("/plan off") == "Plan mode is not on here: /plan begins it."
        assert await program.ask("/plan show") == "No plan was approved here yet."


async def test_each_request_begins_with_all_of_the_one_before(tmp_path: Path) -> None:
    first = ScriptedProvider("Hello.", WRITE, present())
    async with running(tmp_path, first) as program:
        await program.ask("Hi")
        await program.ask("/plan")
        await program.ask("Tidy up")
    second = ScriptedProvider(WRITE, "Well?", "I would.", "Well?")
    async with running(tmp_path, second) as program:
        await program.ask("yes")
        await program.answer()
        await program.ask("/plan Again")
        await program.ask("/plan off")
        await program.ask("Well?")
    sent = [
        json.dumps(chat_tools(one.tools)) + json.dumps(chat_messages(one)).removesuffix("]")
        for one in (*first.requests, *second.requests)
    ]
    assert [after.startswith(before) for before, after in itertools.pairwise(sent)] == [True] * 6


# -- what runs


async def test_whatever_may_change_something_is_refused(tmp_path: Path) -> None:
    async def send(text: str) -> str:
        """Sends."""
        raise AssertionError("it ran")

    calls = [
        ("exec", {"command": "touch b.txt"}),
        ("call_tool", {"name": "send", "arguments": {"text": "x"}}),
        ("send", {"text": "x"}),
        ("memory_add", {"text": "x"}),
        ("cron", {"action": "add", "when": "tomorrow at 9", "text": "x"}),
        ("message", {"text": "x"}),
        ("process", {"action": "list"}),
        ("delegate", {"task": "x"}),
        ("edit_file", {"path": "a.txt", "old": "a", "new": "b"}),
    ]
    looks = [
        ("read_file", {"path": "a.txt"}),
        ("memory_search", {"query": "x"}),
        ("tool_search", {"query": "send"}),
        ("todo", {"steps": ["Look"]}),
        ("call_tool", {"name": "list_dir"}),
    ]
    named = {"cron": "c"}  # others are changes whatever their id, which the model's server chooses
    answer = Say(
        "",
        tuple((one, given, f"{named.get(one, 'request-en-')}{n}") for n, (one, given) in enumerate([*calls, *looks])),
    )
    async with running(
        tmp_path, ScriptedProvider(answer, "I would."), extra=[tools_plugin(tool(send))], without={"delegate"}
    ) as program:
        (program.workspace / "a.txt").write_text("a")
        await program.ask("/plan Tidy up")
        is_error = [result.is_error for result in results(program.history)]
        assert is_error == [True] * len(calls) + [False] * len(looks)
        assert program.rows("SELECT 1 FROM jobs") == [] and not list((program.workspace / "memory").glob("*.md"))
        assert (program.workspace / "a.txt").read_text() == "a"


async def test_calls_beside_a_plan_wait_for_a_further_answer_and_of_two_plans_one_is_shown(tmp_path: Path) -> None:
    both = Say(
        "",
        (
            ("exit_plan_mode", {"plan": "one"}, "a"),
            ("write_file", {"path": "b.txt", "content": "b"}, "b"),
            ("exit_plan_mode", {"plan": "two"}, "c"),
        ),
    )
    async with running(tmp_path, ScriptedProvider(both, "Well?")) as program:
        assert (await program.ask("/plan Tidy up")).startswith("The plan:\n\ntwo\n\n")
        await program.ask("yes")
        assert await program.answer() == "Well?"
        assert outcomes(program) == [("exit_plan_mode", True), ("write_file", True), ("exit_plan_mode", False)]
        assert not is_written(program)


async def test_it_holds_from_the_next_call_on_where_it_is_switched_on_while_a_turn_runs(tmp_path: Path) -> None:
    gate = Gate()
    other = call("write_file", {"path": "c.txt", "content": "c"})
    model = ScriptedProvider(WRITE, call("wait"), other, "I would.")
    async with running(tmp_path, model, extra=[tools_plugin(tool(gate.wait, reach="none"))]) as program:
        await program.say("Tidy up")
        await gate.reached.wait()
        assert "/plan off ends it" in await program.ask("/plan")
        await program.say("and c too")
        gate.open.set()
        assert (await program.answer()).startswith("I would.")
        assert outcomes(program) == [("write_file", False), ("wait", False), ("write_file", True)]
        assert [("Plan mode is on" in text) for text in remarks(program)] == [False, True]


async def test_a_reminder_whose_hour_code_asks_for_is_set_in_plan_mode(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider()) as program:
        await program.ask("/plan")
        assert "At what time" in await program.ask("remind me tomorrow to call Anna")
        assert (await program.ask("1")).startswith("OK: “Sat 7 Mar 2026, 09:00”")
        assert "is set: Sat 7 Mar 2026, 09:00" in await program.answer()


async def test_other_gates_stay_in_force_after_a_yes(tmp_path: Path) -> None:
    forbids = '{"forbids": [{"command": "git push"}]}'
    model = ScriptedProvider(forbids, present(), call("exec", {"command": "git push"}), "Well?")
    async with running(tmp_path, model) as program:
        await program.ask("/pin Never run `git push`")
        await program.ask("/plan Push it")
        await program.ask("yes")
        await program.answer()
        assert outcomes(program) == [("exit_plan_mode", False), ("exec", True)]


async def test_a_plan_that_is_none_is_refused_and_without_plan_mode_none_is_needed(tmp_path: Path) -> None:
    model = ScriptedProvider(present(" "), present("x" * 8001), "Well?", present(), "Well?")
    async with running(tmp_path, model) as program:
        assert (await program.ask("/plan Tidy up")).startswith("Well?")
        assert [result.text for result in results(program.history)] == [
            "the plan is empty: say what you are going to do, step by step.",
            "the plan has 8,001 characters, and 8,000 is the limit: shorten it.",
        ]
        await program.ask("/plan off")
        await program.ask("Tidy up")
        assert results(program.history)[-1].text.startswith("Plan mode is off")


async def test_a_no_after_the_end_of_plan_mode_says_that_it_is_off(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(present(), "Well?")) as program:
        await program.ask("/plan Tidy up")
        await program.ask("/plan off")
        await program.ask("no")
        assert await program.answer() == "Well?"
        assert "Plan mode is off: end here" in results(program.history)[-1].text


async def test_a_plan_in_words_is_no_claim(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider("The plan:\n\n1. Write x.txt")) as program:
        said = await program.ask("/plan write x.txt")
        assert said.startswith("The plan:\n\n1. Write x.txt\n\n(Plan mode is on") and said.count("\n\n(") == 1


# -- ways in


async def test_in_a_chat_app_the_plan_has_buttons(tmp_path: Path) -> None:
    chat = FakeChannel("chat", Hints(bursts=False, buttons=True))
    model = ScriptedProvider(present(), WRITE, "Well?")
    async with running(tmp_path, model, others=[chat], extra=[everybody_is("owner")], without={"access"}) as program:
        place = Address("chat", "7")
        await program.write_from(place, "me", "/plan Tidy up")
        # without access the owner is asked in the terminal
        question = await program.channel.sent.get()
        assert [button.label for button in question.buttons] == ["Okay, go ahead", "No"]
        await program.say(question.buttons[0].text)
        assert (await chat.sent.get()).text == "Well?"
        assert is_written(program)


async def test_of_one_question_the_plan_is_the_answer(tmp_path: Path) -> None:
    model = ScriptedProvider(present(), "I would copy it.")
    async with running(tmp_path, model) as program:
        message = UserMessage("/plan Tidy up", NOON)
        asked = Inbound(Address("terminal", "main"), "owner", "m1", message, role="owner", wait_limit=60)
        await program.deliver(asked)
        assert (await program.answer()).startswith("I would copy it.\n\n(Plan mode is on")
        assert "Nobody is there to approve it" in results(program.history)[0].text


async def test_a_guest_has_neither_the_command_nor_the_tool(tmp_path: Path) -> None:
    chat = FakeChannel("telegram", Hints(bursts=False))
    settings = '[channels.telegram]\ntoken = "1:a"\nallow_from = ["777"]\n'
    async with running(tmp_path, ScriptedProvider(present(), "No."), settings=settings, others=[chat]) as program:
        place = Address("telegram", "777")
        await program.write_from(place, "777", "/plan")
        assert (await chat.sent.get()).text == "Only the owner can do that."
        await program.write_from(place, "777", "Tidy up")
        assert (await chat.sent.get()).text == "No."
        assert results(program.app.sessions.of(place).history)[0].is_error


async def test_helpers_begun_in_plan_mode_only_look_and_their_report_leaves_it_on(tmp_path: Path) -> None:
    delegate = call("delegate", {"task": "Compare the folders"})
    model = ScriptedProvider(delegate, WRITE, LOOK, "They differ.", present(), WRITE, "Well?")
    async with running(tmp_path, model) as program:
        assert (await program.ask("/plan Tidy up")).startswith("The plan:")
        assert "They differ." in results(program.history)[0].text
        child = program.app.sessions.of(Address("delegate", "1"))
        assert [(one.name, one.is_error) for one in results(child.history)] == [
            ("write_file", True),
            ("list_dir", False),
        ]
        assert "Only look, and report" in results(child.history)[0].text
        assert "Only look, and report" in child.history[0].text
        assert program.rows("SELECT conversation FROM plan_modes") == [("terminal:main",)]
        assert not is_written(program)
        await program.ask("yes")
        assert await program.answer() == "Well?"
        assert is_written(program)


async def test_helpers_at_work_change_nothing_more_once_plan_mode_is_on(tmp_path: Path) -> None:
    gate = Gate()
    own: list[Say | str] = [call("delegate", {"task": "Write it", "background": True})]
    helpers: list[Say | str] = [call("wait"), WRITE, "Not done?"]

    def step(request: ModelRequest) -> Say | str:
        steps = helpers if any("You are a helper" in one.text for one in request.history) else own
        return steps.pop(0) if steps else "Well?"

    model = ScriptedProvider(*[step] * 7)
    waiting = tools_plugin(tool(gate.wait, reach="none", open_to=("person", "helper")))
    async with running(tmp_path, model, extra=[waiting], wakes=True) as program:
        await program.say("Have it written")
        await gate.reached.wait()
        await program.ask("/plan")
        gate.open.set()
        while not program.rows("SELECT 1 FROM delegate_helpers WHERE state = 'told'"):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        await program.app.conversations.idle()
        child = program.app.sessions.of(Address("delegate", "1"))
        assert [(one.name, one.is_error) for one in results(child.history)] == [("wait", False), ("write_file", True)]
        assert not is_written(program)
        assert program.public("plan").is_on(Address("terminal", "main")), "a report's turn leaves it on"


async def test_a_task_that_is_to_plan_acts_only_after_the_owners_yes(tmp_path: Path) -> None:
    dial, model = Dial(), ScriptedProvider(WRITE, present(), WRITE, "Well?", WRITE, "Nothing?")
    async with ticking(tmp_path, dial, model) as home:
        home.ask_for("every day at 13:00", "Tidy up", kind="task", plans=True)
        assert "shows its plan first" in await home.program.ask("/jobs")
        await dial.pass_(minutes=61)
        await home.program.app.conversations.idle()
        assert home.program.channel.sent.qsize() == 1 and not is_written(home.program)
        question = await home.program.answer()
        assert question.startswith("The plan:") and "job:1" in question
        assert "Plan mode is on" in model.requests[0].history[0].text
        await home.program.ask("yes")
        assert await home.program.answer() == "Well?"
        assert is_written(home.program)
        (home.program.workspace / "b.txt").unlink()
        await dial.pass_(hours=24)
        assert await home.program.answer() == (
            "Nothing?\n\n(Its plan had to be approved first. It was not, so nothing was changed.)"
        )
        assert not is_written(home.program)
        assert home.program.rows("SELECT * FROM plan_modes") == []


async def test_a_task_that_is_to_plan_is_not_begun_without_the_plugin(tmp_path: Path) -> None:
    dial = Dial()
    async with ticking(tmp_path, dial, ScriptedProvider()) as home:
        home.ask_for("in 20 minutes", "Tidy up", kind="task", plans=True)
    async with ticking(tmp_path, dial, ScriptedProvider(), without={"plan"}) as home:
        await dial.pass_(minutes=21)
        assert home.sent() == ["Task 1 was not begun: it is to show a plan first, and the plugin plan is off."]
        await dial.pass_(hours=1)
        assert home.sent() == [] or len(home.sent()) == 1
        said = await home.program.ask("/cron add task --plan in 5 minutes: tidy up")
        assert "only with the plugin plan" in said


async def test_the_command_line_and_the_tool_set_such_a_task_and_a_reminder_cannot_be_one(tmp_path: Path) -> None:
    arguments = {"action": "add", "when": "in 2 hours", "text": "Tidy up", "kind": "task_with_plan"}
    async with running(tmp_path, ScriptedProvider(call("cron", arguments), "Well?")) as program:
        assert "is set" in await program.ask("/cron add task --plan in 5 minutes: tidy up")
        assert "--task --plan" in await program.ask("/cron add --plan in 5 minutes: tidy up")
        await program.ask("Do it later, a plan first")
        assert program.rows("SELECT kind, plans FROM jobs") == [("task", 1), ("task", 1)]


# -- kept


async def test_after_a_restart_the_question_stands_and_a_yes_goes_on(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(present())) as program:
        await program.ask("/plan Tidy up")
        await program.app.conversations.idle()
    async with running(tmp_path, ScriptedProvider(WRITE, "Well?")) as program:
        await program.app.conversations.idle()
        assert program.channel.sent.empty()
        (told,) = [event.text for _, event in program.channel.events if isinstance(event, Notice)]
        assert told.endswith("?” (Okay, go ahead, No): /answer 1 …, and /answer 1 shows all of it")
        assert PLAN in await program.ask("/answer 1")
        await program.ask("go ahead")
        assert await program.answer() == "Well?"
        assert outcomes(program) == [("exit_plan_mode", False), ("write_file", False)]


async def test_it_stays_on_over_a_restart_and_a_new_conversation_and_in_no_other_one(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider()) as program:
        await program.ask("/plan")
    async with running(tmp_path, ScriptedProvider(WRITE, "Well?", WRITE, "Well?"), wakes=True) as program:
        await program.ask("/new")
        assert status(program.channel) == ["plan mode"]
        assert (await program.ask("Tidy up")).startswith("Well?\n\n(Plan mode is on")
        assert not is_written(program)
        assert await program.ask("Tidy up", chat="other") == "Well?"
        assert is_written(program)


async def test_a_stop_while_a_plan_waits_leaves_the_mode_on(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(present(), WRITE, "Well?")) as program:
        await program.ask("/plan Tidy up")
        await program.app.conversations.idle()
        assert (await program.ask("/stop")).startswith("Stopped.")
        assert (await program.ask("Go on")).startswith("Well?\n\n(Plan mode is on")
        assert not is_written(program)


async def test_after_a_summary_the_model_still_knows_the_mode_and_the_plan_that_it_carries_out(tmp_path: Path) -> None:
    words = "of the garden and the house " * 2_500
    summary = "Facts: none, three messages about a house."
    model = ScriptedProvider("One?", "Two?", "Three?", summary)
    async with running(tmp_path, model, without={"memory"}) as program:
        await program.ask("/plan")
        for number in range(3):
            await program.ask(f"message {number} {words}")
        assert "are now a summary" in await program.ask("/compact")
        assert "Plan mode is on: calls that change" in program.history[0].text.split("\n\n")[-2]


async def test_the_approved_plan_stands_in_a_summary_within_its_turn(tmp_path: Path) -> None:
    model = ScriptedProvider(present(), LOOK)
    hang = Hang()
    model.add([hang])
    async with running(tmp_path, model, without={"memory"}) as program:
        await program.ask("/plan Tidy up")
        await program.ask("yes")
        await hang.reached.wait()
        rounds = program.app.conversations.of(Address("terminal", "main"))._rounds
        assert rounds is not None
        turn = rounds.turn
        texts, _ = await program.app.chain.before_compaction(model.requests[-1], turn)
        assert texts == [f"The plan that the person approved for this turn:\n{PLAN}"]
        await program.ask("/stop")
        texts, _ = await program.app.chain.before_compaction(model.requests[-1], turn)
        assert texts == []
