"""Answers that say more than was done are sent back once, then shown with a note from the program."""

import asyncio
from pathlib import Path
from typing import NamedTuple

import pytest

from nanoclaw.core.events import Receipt, TextDelta
from nanoclaw.core.messages import AssistantMessage, Message, UserMessage
from nanoclaw.core.plugin import Tool
from nanoclaw.core.tool import tool
from nanoclaw.plugins.claims.plugin import unsupported
from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from tests.examples import examples
from tests.program import assert_legal, running, tools_plugin

EXAMPLES = examples(__file__, "claims.jsonl")


class Told(NamedTuple):
    """What came of a talk."""

    answers: list[str]
    history: tuple[Message, ...]
    workspace: Path
    receipts: list[str]
    streamed: str


NOTHING = "no tool was used for this, and nothing was changed"


def talk(root: Path, *exchanges: tuple[str, str | tuple[Say | str, ...]], tools: tuple[Tool, ...] = ()) -> Told:
    """Messages with what the model answers to each; what was told."""
    steps = [step for _, answer in exchanges for step in ((answer,) if isinstance(answer, str) else answer)]

    async def story() -> Told:
        with ScriptedProvider(*steps) as model:
            async with running(root, model, extra=[tools_plugin(*tools)]) as program:
                answers = [await program.ask(said) for said, _ in exchanges]
                assert_legal(program.history)
                lines = [event.text for _, event in program.channel.events if isinstance(event, Receipt)]
                pieces = [event.text for _, event in program.channel.events if isinstance(event, TextDelta)]
                return Told(answers, program.history, program.workspace, lines, "".join(pieces))

    return asyncio.run(story())


def test_what_is_no_claim_streams_when_it_is_whole(tmp_path: Path) -> None:
    assert talk(tmp_path, ("put milk on my list", "Which list?")).streamed == "Which list?"


def test_what_is_said_to_be_deleted_before_the_question_about_it_is_not_shown(tmp_path: Path) -> None:
    makes, deletes = (call("exec", {"command": f"{does} {{1..9}}.txt"}) for does in ("touch", "rm"))
    for number, (said, shown) in enumerate([("I have deleted all.", ""), ("Look at this.", "Look at this.")]):
        asked = (("make files", (makes, "Made.")), ("delete them all", (deletes, said)))
        home = talk(tmp_path / str(number), *asked)
        assert home.answers[1].startswith("1. `rm {1..9}.txt` deletes 9 files")
        assert home.streamed == f"Made.{shown}"


def test_a_command_that_failed_has_installed_nothing(tmp_path: Path) -> None:
    fails = call("exec", {"command": "false"})
    said, honest = "requests has been installed and is ready to use.", "The installation failed."
    home = talk(tmp_path, ("install requests with pip", (fails, said, said)), ("try it again", (fails, honest)))
    assert home.answers == [f"{said}\n\n(nanoclaw: the command that was run failed.)", honest]


def test_done_is_not_believed_after_a_yes_or_a_look(tmp_path: Path) -> None:
    looks = call("list_dir", {"path": "."})
    home = talk(tmp_path, ("tidy up", "Shall I delete old.txt?"), ("yes please", (looks, "Deleted.", "Deleted.")))
    note = "(nanoclaw: nothing was changed, set, sent or run for this.)"
    assert home.answers == ["Shall I delete old.txt?", f"Deleted.\n\n{note}"]


@pytest.mark.parametrize("answer", ["Done.", "I moved the reminder to call Anna."])
def test_a_call_that_failed_is_no_work(tmp_path: Path, answer: str) -> None:
    looks, fails = call("cron", {"action": "list"}), call("cron", {"action": "pause", "id": 7})
    begin, asked = ("/remind tomorrow at 9: call Anna", ()), "move the reminder to 10"
    home = talk(tmp_path, begin, (asked, (looks, fails, answer, answer)))
    assert home.answers[1] == f"{answer}\n\n(nanoclaw: nothing was changed, set, sent or run for this.)"


WRITES = call("write_file", {"path": "notes/bird.txt", "content": "pelican"})
FALSE = "I've saved it to notes/bird.txt."


def test_a_false_claim_is_mended_by_one_more_request(tmp_path: Path) -> None:
    home = talk(tmp_path, ("write pelican to notes/bird.txt", (FALSE, WRITES, FALSE)))
    assert home.answers == [FALSE]
    assert (home.workspace / "notes/bird.txt").read_text() == "pelican"
    assert isinstance(remark := home.history[3], UserMessage) and remark.origin == "runtime"
    assert "nothing was changed. If your answer says or promises that it was done, do it now" in remark.text


def test_a_false_claim_that_is_kept_up_is_corrected_by_a_line(tmp_path: Path) -> None:
    home = talk(tmp_path, ("write pelican to notes/bird.txt", (FALSE, FALSE)))
    assert home.answers == [f"{FALSE}\n\n(nanoclaw: {NOTHING}.)"] and home.streamed == ""
    assert isinstance(last := home.history[-1], AssistantMessage) and last.text == FALSE


@pytest.mark.parametrize("second", EXAMPLES["a false claim is corrected in whatever words it is kept up"])
def test_a_false_claim_is_corrected_in_whatever_words_it_is_kept_up(tmp_path: Path, second: str) -> None:
    home = talk(tmp_path, ("write pelican to notes/bird.txt", (FALSE, second)))
    assert home.answers[0].startswith(f"{second}\n\n(nanoclaw: ")


@pytest.mark.parametrize("second", ["Sorry, that did not work out this time.", "Shall I write notes/bird.txt now?"])
def test_what_takes_a_false_claim_back_is_left_as_it_is(tmp_path: Path, second: str) -> None:
    home = talk(tmp_path, ("write pelican to notes/bird.txt", (FALSE, second)))
    assert home.answers == [second]


@pytest.mark.parametrize("answer", ["Done.", "Erledigt!", "Tamam!", "I've put milk on your shopping list."])
def test_done_is_not_believed_where_nothing_was_done(tmp_path: Path, answer: str) -> None:
    asked, writes = "put milk on my shopping list", call("append_file", {"path": "list.md", "content": "- milk"})
    home = talk(tmp_path, (asked, (answer, answer)), (asked, (answer, writes, answer)))
    assert home.answers == [f"{answer}\n\n(nanoclaw: {NOTHING}.)", answer]


@pytest.mark.parametrize(("said", "answer"), EXAMPLES["talk and questions cost no second request"])
def test_talk_and_questions_cost_no_second_request(tmp_path: Path, said: str, answer: str) -> None:
    assert talk(tmp_path, (said, answer)).answers == [answer]


@pytest.mark.parametrize(("asked", "answer"), EXAMPLES["reading is work"])
def test_reading_is_work(tmp_path: Path, asked: str, answer: str) -> None:
    reads = call("list_dir", {"path": "."})
    assert talk(tmp_path, (asked, (reads, answer))).answers == [answer]


def test_a_reminder_that_was_set_may_be_told_as_a_promise(tmp_path: Path) -> None:
    sets = call("cron", {"action": "add", "when": "in 90 minutes", "text": "turn off the oven"})
    said = "I will set the reminder for 1 hour 30 minutes from now"
    assert talk(tmp_path, ("the cake is done in 90 minutes, mind the oven", (sets, said))).answers == [said]


@pytest.mark.parametrize(("asked", "answer"), EXAMPLES["tests that nobody ran have not passed"])
def test_tests_that_nobody_ran_have_not_passed(tmp_path: Path, asked: str, answer: str) -> None:
    runs = call("exec", {"command": "true"})
    notes = call("memory_add", {"text": "All 42 tests pass"})
    home = talk(tmp_path, (asked, (answer, answer)), (asked, (notes, answer, answer)), (asked, (runs, answer)))
    nothing, no_run, fine = home.answers
    assert nothing == f"{answer}\n\n(nanoclaw: {NOTHING}.)"
    assert no_run == f"{answer}\n\n(nanoclaw: no command was run in this turn.)"
    assert fine == answer


def test_a_note_founds_no_claim_of_a_reminder_but_a_job_does(tmp_path: Path) -> None:
    notes = call("memory_add", {"text": "Call the bank at 5 pm"})
    said = "I've set a reminder for 5 pm."
    home = talk(tmp_path / "1", ("I have to call the bank at 5 pm, remind me", (notes, said, said)))
    assert home.answers == [f"{said}\n\n(nanoclaw: no reminder was set in this turn.)"]

    async def remind(text: str) -> str:
        """Some tool that is not known to the program."""
        return "ok"

    sets = call("remind", {"text": "bank"})
    home = talk(tmp_path / "2", ("I have to call the bank at 5 pm, remind me", (sets, said)), tools=(tool(remind),))
    assert home.answers == [said]


def test_what_is_written_into_the_checklist_founds_a_reminder(tmp_path: Path) -> None:
    notes = call("append_file", {"path": "HEARTBEAT.md", "content": "- [ ] on the 1st: water the plants\n"})
    said = "I'll remind you on the 1st."
    assert talk(tmp_path, ("the plants want water on the 1st, note that", (notes, said))).answers == [said]


@pytest.mark.parametrize(("said", "answer"), EXAMPLES["what was made earlier may be told again"])
def test_what_was_made_earlier_may_be_told_again(tmp_path: Path, said: str, answer: str) -> None:
    home = talk(tmp_path, ("write pelican to notes/bird.txt", (WRITES, FALSE)), (said, answer))
    assert home.answers == [FALSE, answer]


def test_a_reminder_that_the_person_set_may_be_claimed(tmp_path: Path) -> None:
    answer = "I'll remind you tomorrow at 9 to call Anna about the flat."

    async def story() -> None:
        with ScriptedProvider(answer) as model:
            async with running(tmp_path, model) as home:
                await home.ask("/remind tomorrow at 9: call Anna about the flat")
                assert await home.ask("and you remind me about the flat, right?") == answer

    asyncio.run(story())


def test_a_long_answer_of_any_letters_is_looked_through_at_once() -> None:
    for piece in ("a", "é", "ich habe ", "我", "I've saved it to ", '"', "a/", "`", "已经", "a.", "a@"):
        unsupported("write it down for me", piece * 30_000, ())


async def test_silence_claims_nothing(tmp_path: Path) -> None:
    with ScriptedProvider("NO_REPLY", "Yes.") as model:
        async with running(tmp_path, model) as home:
            await home.say("Just so you know it is raining.")
            assert await home.ask("Are you there?") == "Yes."
