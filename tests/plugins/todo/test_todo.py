"""The to-do list: kept by one tool, seen by the person as it grows, and by the model after a summary and a restart."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.cli import run
from nanoclaw.core.channel import Hints
from nanoclaw.core.events import StatusLines
from nanoclaw.core.messages import Address, Inbound, ModelRequest, UserMessage
from nanoclaw.core.plugin import Said
from nanoclaw.core.provider import chat_messages, chat_tools
from nanoclaw.providers.scripted import Hang, Say, ScriptedProvider, call
from tests.program import MAIN, NOON, FakeChannel, Program, results, running

STEPS = ["Read the folders", "Compare them", "Write the report"]


def todo(**arguments: Any) -> Say:
    return call("todo", arguments)


def told(program: Program) -> list[str]:
    return [result.text for result in results(program.history) if result.name == "todo"]


def shown(channel: FakeChannel) -> list[StatusLines]:
    return [event for _, event in channel.events if isinstance(event, StatusLines)]


async def test_a_list_is_set_once_and_then_told_by_numbers_until_all_is_done(tmp_path: Path) -> None:
    model = ScriptedProvider(
        todo(steps=STEPS, doing=1), todo(done=[1], doing=2), todo(), todo(done=[2]), todo(done=[3]), "Done."
    )
    async with running(tmp_path, model) as program:
        assert await program.ask("Compare my folders") == "Done."
        assert told(program) == [
            "0 of 3 done; doing 1: Read the folders",
            "1 of 3 done; doing 2: Compare them",
            "1. done: Read the folders\n2. doing: Compare them\n3. Write the report",
            "2 of 3 done; next 3: Write the report",
            "All 3 done; the list is closed.",
        ]
        assert await program.ask("/todo") == "There is no to-do list."
        assert [one.is_last for one in shown(program.channel)] == [False, False, False, True]
        assert shown(program.channel)[1] == StatusLines(
            "todo", "to do: 1 of 3 done\n✓ Read the folders\n▸ Compare them\n☐ Write the report"
        )
        assert shown(program.channel)[-1].text.startswith("to do: 3 of 3 done\n✓ Read")


async def test_an_open_list_is_left_standing_and_slash_todo_shows_it_to_people_and_programs(tmp_path: Path) -> None:
    model = ScriptedProvider(todo(steps=["- [x] Read", "2. Compare", "* Write"]), "Which folder is right?")
    async with running(tmp_path, model) as program:
        await program.ask("Compare my folders")
        assert await program.ask("/todo") == "to do: 1 of 3 done\n✓ Read\n☐ Compare\n☐ Write"
        said = await program.app.commands.for_said("todo", Said("", MAIN, MAIN, "me", "owner"))
        assert said.data == {
            "steps": [
                {"text": "Read", "state": "done"},
                {"text": "Compare", "state": "pending"},
                {"text": "Write", "state": "pending"},
            ]
        }
        assert shown(program.channel)[-1] == StatusLines("todo", "to do: 1 of 3 done\n✓ Read\n☐ Compare\n☐ Write", True)


def test_the_command_line_has_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setenv("NANOCLAW_HOME", str(tmp_path))
    assert [run(["todo", *options]) for options in ([], ["--json"])] == [0, 0]
    assert capsys.readouterr().out == 'There is no to-do list.\n{"steps": []}\n'


def texts(request: ModelRequest) -> str:
    """What a request sends, but for its end."""
    messages = json.dumps(chat_messages(request), ensure_ascii=False).removesuffix("]")
    return json.dumps(chat_tools(request.tools)) + messages


async def test_each_request_begins_with_all_of_the_one_before(tmp_path: Path) -> None:
    first = ScriptedProvider(todo(steps=STEPS), "One moment.", todo(done=[1]), "Go on.")
    async with running(tmp_path, first) as program:
        await program.ask("Begin")
        await program.ask("And?")
    second = ScriptedProvider(todo(done=[2, 3]), "That was all of it?", "You are welcome.")
    async with running(tmp_path, second) as program:
        await program.ask("Go on")
        await program.ask("Thanks")
    sent = [texts(request) for request in (*first.requests, *second.requests)]
    assert [after.startswith(before) for before, after in itertools.pairwise(sent)] == [True] * 6
    assert not second.left


async def test_a_later_message_says_what_is_open_also_after_a_restart_and_once_a_turn(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(todo(steps=STEPS, doing=1), "A moment.")) as program:
        await program.ask("Begin")
    hang, model = Hang(), ScriptedProvider()
    model.add([hang, "Go on."])
    async with running(tmp_path, model) as program:
        await program.say("Go on")
        await hang.reached.wait()
        await program.say("and be quick")
        await program.answer()
        metadata = [one.text for one in program.history if getattr(one, "origin", "") == "runtime"]
        open_steps = "Your to-do list stands at 0 of 3 done; open: 1. Read the folders; 2. Compare them; 3. Write the"
        assert [open_steps in text for text in metadata] == [False, True, False]


async def test_a_turn_that_another_process_began_shows_its_list_again(tmp_path: Path) -> None:
    hang = Hang()
    async with running(tmp_path, ScriptedProvider(todo(steps=STEPS, doing=2), hang)) as program:
        await program.say("Begin")
        await hang.reached.wait()
        await program.app.conversations.close(leave=True)
    async with running(tmp_path, ScriptedProvider("Done so far.")) as program:
        await program.answer()
        assert [one.text.partition("\n")[0] for one in shown(program.channel)] == ["to do: 0 of 3 done"] * 2
        assert [one.is_last for one in shown(program.channel)] == [False, True]


async def test_a_person_adds_to_the_list_and_checks_steps_off(tmp_path: Path) -> None:
    model = ScriptedProvider("It is on your list.")
    async with running(tmp_path, model) as program:
        assert await program.ask("/todo add milk") == "to do: 0 of 1 done\n☐ milk"
        assert await program.ask("/todo add call  Anna") == "to do: 0 of 2 done\n☐ milk\n☐ call Anna"
        await program.ask("Do I need milk?")
        assert "open: 1. milk; 2. call Anna" in json.dumps(chat_messages(model.requests[0]))
        assert await program.ask("/todo done 1") == "to do: 1 of 2 done\n✓ milk\n☐ call Anna"
        assert "there is no step 7" in await program.ask("/todo done 7")
        assert "Say /todo, /todo add TEXT, or /todo done 2." in await program.ask("/todo milk")
        assert await program.ask("/todo done 2") == "to do: 2 of 2 done\n✓ milk\n✓ call Anna"
        assert await program.ask("/todo") == "There is no to-do list."
        assert "at most 30 steps" in [await program.ask(f"/todo add step {number}") for number in range(31)][-1]


async def test_a_new_conversation_has_none_and_no_other_conversation_has_it(tmp_path: Path) -> None:
    model = ScriptedProvider(todo(steps=STEPS), "Which one?", todo(), "None here.", "Hello.")
    async with running(tmp_path, model) as program:
        await program.ask("Begin")
        await program.ask("Any list?", chat="other")
        assert model.requests[3].history[-1].text == "There is no to-do list."
        await program.ask("/new")
        assert await program.ask("/todo") == "There is no to-do list."
        await program.ask("Hi")
        assert "to-do list" not in json.dumps(chat_messages(model.requests[-1])[1:])


async def test_a_summary_ends_with_the_list_as_it_stands(tmp_path: Path) -> None:
    words = "of the garden and the house " * 2_500
    summary = "Facts: none, three messages about a house."
    model = ScriptedProvider(todo(steps=STEPS, doing=1), todo(done=[1]), "One.", "Two.", "Three.")
    async with running(tmp_path, model, without={"memory"}) as program:
        await program.ask(f"Begin {words}")
        for number in range(2):
            await program.ask(f"message {number} {words}")
        model.add([summary, todo(done=[2]), "Four."])
        assert "are now a summary" in await program.ask("/compact")
        assert program.history[0].text.split("\n\n")[-2] == (
            "To-do list, 1 of 3 done:\n1. done: Read the folders\n2. Compare them\n3. Write the report"
        )
        await program.ask("Go on")
        assert told(program)[-1] == "2 of 3 done; next 3: Write the report"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"steps": ["a"] * 31}, "a list has at most 30 steps, not 31: combine some. Nothing was changed."),
        ({"steps": ["a", "b" * 201]}, "step 2 has 201 characters, and 200 is the limit: shorten it. Nothing"),
        ({"steps": ["a", " - [ ] "]}, "step 2 is empty. Nothing was changed."),
        ({"done": [4]}, "there is no step 4: they are 1 to 3. Nothing was changed."),
        ({"doing": 0}, "there is no step 0: they are 1 to 3. Nothing was changed."),
        ({"done": [1, 2], "doing": 2}, "step 2 is given as done and as doing. Nothing was changed."),
        ({"done": ["x"]}, "todo: argument 'done' must be of type integer"),
    ],
)
async def test_what_cannot_be_meant_is_said_and_changes_nothing(
    tmp_path: Path, arguments: dict[str, Any], sentence: str
) -> None:
    model = ScriptedProvider(todo(steps=STEPS), todo(**arguments), "Hm.")
    async with running(tmp_path, model) as program:
        await program.ask("Begin")
        assert told(program)[-1].startswith(sentence)
        assert (
            await program.ask("/todo") == "to do: 0 of 3 done\n☐ Read the folders\n☐ Compare them\n☐ Write the report"
        )


async def test_a_number_without_a_list_is_refused_and_an_empty_list_drops_it(tmp_path: Path) -> None:
    model = ScriptedProvider(todo(done=[1]), todo(steps=STEPS), todo(steps=[]), "Well?")
    async with running(tmp_path, model) as program:
        await program.ask("Begin")
        assert told(program) == [
            "there is no to-do list: give its steps first.",
            "0 of 3 done; next 1: Read the folders",
            "The to-do list is gone.",
        ]
        assert shown(program.channel)[-1] == StatusLines("todo", "")


async def test_of_a_long_list_a_screen_gets_the_part_around_the_step_that_is_worked_on(tmp_path: Path) -> None:
    steps = [f"Step {number} {'wide ' * 30}" for number in range(1, 31)]
    async with running(tmp_path, ScriptedProvider(todo(steps=steps, doing=15), "Which one?")) as program:
        await program.ask("Begin")
        live, last = shown(program.channel)
        lines = live.text.splitlines()
        assert [line[:9] for line in lines] == [
            *("to do: 0 ", "… 11 befo", "☐ Step 12", "☐ Step 13", "☐ Step 14"),
            *("▸ Step 15", "☐ Step 16", "☐ Step 17", "☐ Step 18", "… 12 more"),
        ]
        assert max(map(len, lines)) == 102 and len(last.text.splitlines()) == 31


async def test_keys_and_control_signs_are_kept_out_of_it(tmp_path: Path) -> None:
    steps = ["Log in with sk-secret-0123456789", "Clear \x1b[2Jthe screen"]
    settings = '[model]\nname = "openai/gpt-5"\napi_key = "sk-secret-0123456789"\n'
    model = ScriptedProvider(todo(steps=steps), "Which one?", model="openai/gpt-5")
    async with running(tmp_path, model, settings=settings) as program:
        await program.ask("Begin")
        said = await program.ask("/todo")
        assert "0123456789" not in said and said.endswith("☐ Clear the screen")
        assert "0123456789" not in "".join(one.text for one in shown(program.channel))


async def test_a_helper_keeps_its_own_and_a_guest_has_none(tmp_path: Path) -> None:
    chat = FakeChannel("telegram", Hints(bursts=False))
    settings = '[channels.telegram]\ntoken = "1:a"\nallow_from = ["777"]\n'
    model = ScriptedProvider(todo(steps=STEPS), "Which one?", todo(steps=["Look"]), "Found.", todo(steps=["x"]), "No.")
    async with running(tmp_path, model, settings=settings, others=[chat]) as program:
        await program.ask("Begin")
        message = UserMessage("look it up", NOON, "subagent")
        inbound = Inbound(Address("subagent", "1"), "", "s1", message, role="owner")
        program.app.transactions.write_now(lambda tx: tx.deliver(inbound, program.app.chain.profiles["helper"]))
        await program.app.conversations.of(inbound.address).idle()
        assert (await program.ask("/todo")).startswith("to do: 0 of 3 done")
        await program.write_from(Address("telegram", "777"), "777", "Begin")
        await chat.sent.get()
        assert [step for (step,) in program.rows("SELECT text FROM todo_steps ORDER BY session, number")] == [
            *STEPS,
            "Look",
        ]
        assert "todo" not in [spec.name for spec in model.requests[4].tools]
        guest = program.app.sessions.of(Address("telegram", "777")).history
        assert results(guest)[0].text == "todo cannot be used here."


async def test_what_is_forgotten_is_gone_from_it_and_the_rest_stays(tmp_path: Path) -> None:
    model = ScriptedProvider(
        todo(steps=["Call Zebulon", "Write the report"], doing=1),
        call("memory_forget", {"query": "Zebulon"}),
        "Shall I?",
        call("memory_forget", {"query": "Zebulon", "numbers": [1]}),
        "It is gone?",
    )
    async with running(tmp_path, model) as program:
        (program.workspace / "MEMORY.md").write_text("- Call Zebulon\n")
        await program.ask("Begin")
        await program.ask("Yes")
        left = await program.ask("/todo")
        assert "Zebulon" not in left and left.endswith("☐ Write the report")
