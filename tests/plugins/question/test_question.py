"""The tool `question`: answered by a number, an option, own words or a button; at its deadline by its default."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.core.channel import Hints
from nanoclaw.core.events import Notice
from nanoclaw.core.messages import Address, Attachment, Inbound, UserMessage
from nanoclaw.plugins.question.plugin import MOST
from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from nanoclaw.start.build import BUILT_IN
from tests.program import MAIN, FakeChannel, HandClock, Program, assert_legal, results, running
from tests.virtual_time import passed, virtual_time

pytestmark = pytest.mark.skipif("approvals" not in BUILT_IN, reason="nobody asks without approvals")

COLOURS = ["red", "blue", "blue and green"]
DOOR: dict[str, Any] = {"text": "Which colour?", "options": COLOURS, "default": "red", "deadline": "1h"}


def ask(**more: Any) -> Say:
    return call("question", {**DOOR, **more})


def said(program: Program) -> list[str]:
    return [result.text for result in results(program.history)]


async def test_it_is_shown_with_numbers_and_what_comes_of_it(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(ask(), "Blue.")) as program:
        await program.say("Paint the door")
        shown = await program.channel.sent.get()
        assert shown.text == (
            "Which colour?\n\n1. red\n2. blue\n3. blue and green\n\n"
            "(Reply 1–3, or “/answer 1 …” in your own words. At 13:00 I take “red”.)"
        )
        assert [(one.label, one.text) for one in shown.buttons] == [
            ("red", "/answer 1 #1"),
            ("blue", "/answer 1 #2"),
            ("blue and green", "/answer 1 #3"),
        ]
        await program.ask("2")
        assert await program.answer() == "Blue."
        assert_legal(program.history)


ANSWERS = {
    **dict.fromkeys(("2", "Blue", "2.", "/answer {} #2", "/answer {} blue", "/answer blue"), "blue"),
    **dict.fromkeys(("r", "RED!", "/answer {}: 1"), "red"),
    **dict.fromkeys(("blue and", "3"), "blue and green"),
}
OWN = ("neither; use the blue one of last year", "What do you mean?", "4", "no", "bl", "/answer no idea")


async def test_a_number_an_option_or_its_beginning_is_the_answer(tmp_path: Path) -> None:
    steps: list[Say | str] = [ask(), "So be it."]
    async with running(tmp_path, ScriptedProvider(*steps * len(ANSWERS))) as program:
        for number, (words, answer) in enumerate(ANSWERS.items(), 1):
            await program.ask("Paint the door")
            assert await program.ask(words.format(number)) == f"OK: “{answer}”."
            assert await program.answer() == "So be it."
        assert said(program) == [f"The person chose: {answer}" for answer in ANSWERS.values()]


async def test_other_words_are_kept_as_a_message_until_they_are_said_to_be_the_answer(tmp_path: Path) -> None:
    steps: list[Say | str] = [ask(), "I see."]
    async with running(tmp_path, ScriptedProvider(*steps * len(OWN))) as program:
        for number, words in enumerate(OWN, 1):
            await program.ask("Paint the door")
            if not words.startswith("/"):
                await program.say(words)
                kept = await program.channel.sent.get()
                assert kept.text.startswith("Kept.") and f" If this is it: /answer {number} #0. /stop" in kept.text
                assert [one.text for one in kept.buttons] == [f"/answer {number} #0"]
            passed_on = await program.ask(words if words.startswith("/") else f"/answer {number} #0")
            assert passed_on == "OK." and await program.answer() == "I see."
        own = [words.removeprefix("/answer ") for words in OWN]
        assert said(program) == [f"The person answered in words of their own: {words}" for words in own]
        asked = [one.text for one in program.history if isinstance(one, UserMessage) and one.origin == "person"]
        assert len([one for one in asked if "Paint the door" in one]) == len(asked) == len(OWN), asked
        assert not any(one.outside for one in results(program.history)), "they are the person's"


async def test_options_that_are_numbers_have_none(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(ask(options=["2", "1"], default=""), "One.")) as program:
        shown = await program.ask("How many?")
        assert "\n- 2\n- 1\n" in shown and "At 13:00 I go on without an answer." in shown
        assert await program.ask("1") == "OK: “1”."
        await program.answer()


async def test_a_yes_or_a_no_means_the_option_that_is_one(tmp_path: Path) -> None:
    first, second = ask(options=["go ahead", "no"], default=""), ask(options=["Yes", "No"], default="No")
    async with running(tmp_path, ScriptedProvider(first, second, "Well.")) as program:
        await program.ask("Go")
        await program.say("ja!")
        assert "OK: “go ahead”." in (await program.answer(), await program.answer())
        assert await program.ask("/no 2") == "OK: “No”."
        await program.answer()


@virtual_time
async def test_at_the_deadline_the_default_is_taken_and_said(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(ask(), "Red."), seconds=9000) as program:
        await program.ask("Paint the door")
        assert await program.answer() == ("Question 1 (“Which colour?”) was not answered in time, so I take “red”.")
        assert await program.answer() == "Red."
        assert passed() == 3600
        assert said(program) == ["Nobody answered in time, so the default is taken: red"]
        assert await program.ask("/answer 1 #2") == (
            "There is no open question 1: its time was over, and “red” was taken. Ask again if it still matters."
        )


@virtual_time
async def test_without_a_default_it_goes_on_and_the_model_hears_why(tmp_path: Path) -> None:
    model = ScriptedProvider(ask(default="", deadline=""), "I left it.")
    async with running(tmp_path, model, seconds=20000) as program:
        await program.ask("Paint the door")
        assert (await program.answer()).endswith("was not answered in time, so I carry on without an answer.")
        assert await program.answer() == "I left it."
        assert passed() == 14400
        assert said(program)[0].startswith("Nobody answered in time. There is no default: do only what is safe")


async def test_it_waits_over_a_restart_also_past_a_deadline_with_a_date(tmp_path: Path) -> None:
    clock = HandClock()
    async with running(tmp_path, ScriptedProvider(ask(deadline="tomorrow at 9")), clock=clock) as program:
        assert "At Sat 7 Mar, 09:00 I take “red”" in await program.ask("Paint the door")
        await program.app.conversations.idle()
        program.app.is_terminated = True
    async with running(tmp_path, ScriptedProvider(), clock=clock) as program:
        await program.app.conversations.idle()
        waits = "question 1 waits for your answer: “Which colour?” (red, blue, blue and green): /answer 1 …"
        assert (MAIN, Notice(waits)) in program.channel.events
        program.app.is_terminated = True
    clock.now += timedelta(days=2)
    async with running(tmp_path, ScriptedProvider("Red."), clock=clock) as program:
        assert "so I take “red”" in await program.answer()
        assert await program.answer() == "Red."
        assert said(program) == ["Nobody answered in time, so the default is taken: red"]


async def test_a_new_request_is_no_answer_and_is_said_to_go_on_when_it_does(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(ask())) as program:
        await program.ask("Paint the door")
        await program.say("And the window")
        assert "Kept." in await program.answer()
    async with running(tmp_path, ScriptedProvider("Red.", "That, too.")) as program:
        await program.app.conversations.idle()
        going_on = (MAIN, Notice("continuing with what was waiting: “And the window”"))
        assert going_on not in program.channel.events
        await program.ask("red")
        assert [await program.answer(), await program.answer()] == ["Red.", "That, too."]
        assert program.channel.events.count(going_on) == 1


WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    ({"options": ["red"]}, "2 to 10 options, not 1"),
    ({"options": [str(number) for number in range(MOST + 1)]}, "2 to 10 options, not 11"),
    ({"options": ["red", "Red"]}, "two of the options are the same"),
    ({"options": ["red", " \n"]}, "one of the options is empty"),
    ({"options": ["red", "x" * 81]}, "1 to 80 characters, not 81"),
    ({"text": " "}, "1 to 1,000 characters, not 0"),
    ({"text": "x" * 1001}, "1 to 1,000 characters, not 1,001"),
    ({"default": "green"}, "the default 'green' is not one of the options: red, blue"),
    ({"deadline": "yesterday"}, "has passed"),
    ({"deadline": "every day at 9"}, "more than one time"),
    ({"deadline": "tomorrow"}, "At what time on Sat 7 Mar 2026?"),
    ({"deadline": "in 5 seconds"}, "a minute to 168 hours away"),
    ({"deadline": "in 8 days"}, "a minute to 168 hours away"),
)


async def test_what_cannot_be_asked_is_told_to_the_model_and_nobody_is_asked(tmp_path: Path) -> None:
    calls = tuple(("question", {**DOOR, **wrong}) for wrong, _ in WRONG)
    async with running(tmp_path, ScriptedProvider(Say(calls=calls), "Sorry.")) as program:
        assert await program.ask("Paint the door") == "Sorry."
        for result, (_, told) in zip(results(program.history), WRONG, strict=True):
            assert told in result.text and result.is_error


async def test_what_is_shown_has_no_control_bytes_and_no_secrets(tmp_path: Path) -> None:
    settings = '[model]\napi_key = "sk-very-secret-1234"\n'
    odd = ask(text="Which\x1b[31m?", options=["a\nb", "sk-very-secret-1234"], default="")
    async with running(tmp_path, ScriptedProvider(odd, "Well."), settings=settings) as program:
        await program.say("Go")
        shown = await program.channel.sent.get()
        assert "Which?\n\n1. a b\n2. [secret]\n" in shown.text and shown.buttons[1].label == "[secret]"
        await program.ask("1")
        await program.answer()
        assert said(program) == ["The person chose: a b"]


async def test_several_are_asked_one_after_the_other_and_other_calls_wait_for_all(tmp_path: Path) -> None:
    calls = (
        ("question", DOOR),
        ("write_file", {"path": "a.txt", "content": "x"}),
        ("question", {**DOOR, "text": "Wall?"}),
    )
    async with running(tmp_path, ScriptedProvider(Say(calls=calls), "Done.")) as program:
        assert (await program.ask("Paint")).startswith("Which colour?")
        await program.say("red")
        assert any(text.startswith("Wall?") for text in (await program.answer(), await program.answer()))
        assert not (program.workspace / "a.txt").exists()
        await program.say("/answer neither")
        assert "Done." in [await program.answer(), await program.answer()]
        first, _, second = said(program)
        assert (first, second) == ("The person chose: red", "The person answered in words of their own: neither")
        assert (program.workspace / "a.txt").read_text() == "x"
        assert_legal(program.history)


# --- what is not an answer --------------------------------------------------------------------------------------------


async def test_code_in_a_question_that_is_quoted_short_ends_with_the_quote(tmp_path: Path) -> None:
    long = "word " * 20
    steps = ask(text=f"Shall I run ``a`b {long}`` or `c`?"), "Done.", "Done."
    async with running(tmp_path, ScriptedProvider(*steps)) as program:
        await program.ask("Go")
        assert "word word w…``”)" in await program.ask("what about tomorrow?")


async def test_commands_reminders_and_files_are_no_answer_and_nothing_is_lost(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(ask(), "Blue.", "A picture of a door.")) as program:
        await program.ask("Paint the door")
        assert "Workspace: " in await program.ask("/status")
        if "schedule" in BUILT_IN:
            assert "call Anna" in await program.ask("Remind me in 20 minutes to call Anna")
        (program.workspace / "door.txt").write_text("a door")
        file = Attachment(str(program.workspace / "door.txt"), "door.txt", "text/plain")
        waits = await program.ask("this one", files=(file,))
        assert waits == (
            "Kept. First I need your answer to question 1 (“Which colour?”): /answer 1 …. If this is it: /answer 1 #0."
            " /stop drops the question and what is kept."
        )
        assert (await program.ask("and that")).startswith("Kept."), "something else was said since"
        assert await program.ask("2") == "OK: “blue”.", "what else could it mean?"
        told = [await program.answer(), await program.answer()]
        assert told == ["Blue.", "A picture of a door."]
        assert said(program) == ["The person chose: blue"]
        kept = [one.text for one in program.history if isinstance(one, UserMessage) and one.origin == "person"]
        assert any("and that" in one for one in kept) and any("this one" in one for one in kept)


async def test_a_quote_answers_it_after_other_things_were_said(tmp_path: Path) -> None:
    channel = FakeChannel(hints=Hints(bursts=False, buttons=True))
    async with running(tmp_path, ScriptedProvider(ask(), "As you like."), channel=channel) as program:
        await program.ask("Paint the door")
        await program.ask("/status")
        await program.app.delivery.flush("terminal")
        (platform_id,) = program.rows("SELECT platform_id FROM outbox WHERE text LIKE 'Which colour?%'")[0]
        await program.say("the one of the garage", quoted=platform_id)
        assert await program.answer() == "As you like."
        assert said(program) == ["The person answered in words of their own: the one of the garage"]


@pytest.mark.parametrize("end", ["/stop", "stop", "/new"])
async def test_a_stop_and_a_new_conversation_end_it(tmp_path: Path, end: str) -> None:
    async with running(tmp_path, ScriptedProvider(ask(), "Hello.")) as program:
        await program.ask("Paint the door")
        await program.app.conversations.idle()
        await program.ask(end)
        assert await program.ask("/answer 1 #2") == (
            "There is no open question 1: what it was about has ended. Ask again if it still matters."
        )
        assert await program.ask("blue") == "Hello."
        assert_legal(program.history)


async def test_panic_ends_it_and_resume_does_not_bring_it_back(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(ask(), "Hello.")) as program:
        await program.ask("Paint the door")
        await program.app.conversations.idle()
        await program.say("/panic")
        await program.answer()
        await program.say("/resume")
        while (await program.answer()).startswith("Going on") is False:
            pass
        assert await program.ask("blue") == "Hello."


async def test_a_second_answer_hears_the_first(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(ask(), "Blue.")) as program:
        await program.ask("Paint the door")
        await program.ask("/answer 1 #2")
        await program.answer()
        assert await program.ask("/answer 1 #1") == (
            "There is no open question 1: it was answered: “blue”. Ask again if it still matters."
        )


# --- nobody there ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["-m", "alone", "nobody", "guest"])
async def test_where_nobody_can_be_asked_the_default_is_taken_at_once(tmp_path: Path, kind: str) -> None:
    chat = FakeChannel("telegram")
    settings = '[channels.telegram]\nallow_from = ["777"]\n'
    async with running(tmp_path, ScriptedProvider(ask(), "Red."), settings=settings, others=[chat]) as program:
        if kind == "guest":
            await program.write_from(Address("telegram", "777"), "777", "Paint the door")
            assert (await chat.sent.get()).text == "Red."
            assert program.rows("SELECT 1 FROM approvals_asks") == []
            return
        if kind == "alone":
            inbound = Inbound(MAIN, "", "1", UserMessage("Look", program.clock(), "subagent"), role="owner")
            alone = program.app.chain.profiles["job"]._replace(can_ask=False)
            program.app.transactions.write_now(lambda tx: tx.deliver(inbound, alone))
        elif kind == "nobody":
            program.channel.serves = lambda outbound: not outbound.buttons and bool(outbound.text)  # type: ignore[method-assign]
            await program.say("Paint the door")
        else:
            message = UserMessage("Paint the door", program.clock())
            await program.deliver(Inbound(MAIN, "me", "1", message, role="owner", wait_limit=60.0))
        assert await program.answer() == "Red."
        assert said(program) == ["Nobody is there to be asked, so the default is taken: red"]
        assert program.rows("SELECT 1 FROM approvals_asks") == []


async def test_a_task_asks_the_owner_in_their_chat(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(ask(), "Blue.")) as program:
        job = Address("job", "7")
        inbound = Inbound(job, "", "1", UserMessage("Paint the door", program.clock(), "job"), role="owner")
        program.app.transactions.write_now(lambda tx: tx.deliver(inbound, program.app.chain.profiles["job"]))
        assert "(This comes from job:7, not from this chat.)" in await program.answer()
        assert await program.ask("2") == "OK: “blue”."
        await program.app.conversations.idle()
        history = program.app.sessions.of(job).history
        assert [result.text for result in results(history)] == ["The person chose: blue"]
