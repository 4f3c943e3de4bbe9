"""One message's path: commands, lanes, delivery, and the errors that must not stop the next message."""

from pathlib import Path

import pytest

from nanoclaw.core import commands
from nanoclaw.core.messages import Address, Inbound, UserMessage
from nanoclaw.core.plugin import Command, Plugin
from nanoclaw.providers.scripted import Hang, ScriptedProvider, call
from tests.program import MAIN, Gate, bare

# -- commands


async def test_new_starts_over_and_keeps_the_old_conversation_in_the_store(tmp_path: Path) -> None:
    with ScriptedProvider("One.", "Two.") as model:
        async with bare(tmp_path, model) as program:
            await program.ask("first")
            assert "new conversation" in await program.ask("/new")
            await program.ask("second")
            assert "first" not in [message.text for message in model.requests[1].history]
            assert "first" in [message.text for message in program.app.sessions.of(MAIN).whole()]


async def test_model_shows_and_chooses_per_conversation_and_over_restarts(tmp_path: Path) -> None:
    big = ScriptedProvider("From the big one.", model="scripted/big")
    async with bare(tmp_path, ScriptedProvider("From the small one."), big) as program:
        assert "scripted/model" in await program.ask("/model")
        assert "there is no model 'scripted/typo'" in await program.ask("/model scripted/typo")
        assert "scripted/big" in await program.ask("/model scripted/big")
        assert await program.ask("hi", chat="other") == "From the small one."
    async with bare(tmp_path, ScriptedProvider(), big) as program:
        assert await program.ask("hi") == "From the big one."


async def test_a_chosen_model_that_has_gone_is_told_and_can_be_changed(tmp_path: Path) -> None:
    async with bare(tmp_path, ScriptedProvider(), ScriptedProvider(model="scripted/big")) as program:
        await program.ask("/model scripted/big")
    with ScriptedProvider("Back.") as model:
        async with bare(tmp_path, model) as program:
            assert "there is no model 'scripted/big'" in await program.ask("hi")
            assert program.channel.ended[-1].reason == "failed"
            assert "scripted/model" in await program.ask("/model scripted/model")
            assert await program.ask("hi") == "Back."


async def test_status_names_the_model_and_counts_messages(tmp_path: Path) -> None:
    async with bare(tmp_path, ScriptedProvider("Hi.")) as program:
        await program.ask("hi")
        answer = await program.ask("/status")
        assert "Model: scripted/model" in answer
        assert "Messages: 2" in answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("/stat", "Did you mean /status?"),
        ("/weather", "no command /weather"),
        ("/sk377", "no command /sk377"),
        ("/help@mybot", "`/new`"),
    ],
)
async def test_commands_that_do_not_exist_are_answered_by_the_program(tmp_path: Path, text: str, answer: str) -> None:
    async with bare(tmp_path, ScriptedProvider()) as program:
        assert answer in await program.ask(text)


@pytest.mark.parametrize(
    "text", ["/etc/hosts is odd, why?", "/", "//x", "/ help", "a /help", "/123", "/tmp/a.txt", "/-"]
)
def test_a_path_at_the_start_is_a_message_for_the_model(tmp_path: Path, text: str) -> None:
    assert commands.parse(text) is None


@pytest.mark.parametrize("text", ["/ECHO Oslo", "/Echo Oslo", "/echo@bot Oslo"])
async def test_the_case_of_a_commands_name_does_not_matter(tmp_path: Path, text: str) -> None:
    class Echo(Plugin):
        name = "echo"

        def commands(self) -> list[Command]:
            return [Command("echo", "says it again", lambda said, tx: f"You said {said.argument}.")]

    async with bare(tmp_path, ScriptedProvider(), plugins=[Echo]) as program:
        assert await program.ask(text) == "You said Oslo."


async def test_a_command_that_changes_the_conversation_keeps_its_place_in_the_queue_and_others_go_ahead(
    tmp_path: Path,
) -> None:
    gate = Gate()
    with ScriptedProvider(call("wait"), "One.") as model:
        async with bare(tmp_path, model, tools=gate.tools()) as program:
            await program.say("first")
            await program.say("/new")
            await program.say("/status")
            assert "Messages: " in await program.answer()
            gate.open.set()
            assert await program.answer() == "One."
            assert (await program.answer()).startswith("A new conversation.")


# -- lanes


@pytest.mark.parametrize("error", [RuntimeError("a defect"), KeyError("x"), RecursionError()])
async def test_a_defect_in_one_message_is_told_in_a_sentence_and_the_next_message_goes_on(
    tmp_path: Path, error: Exception
) -> None:
    with ScriptedProvider(error, "Next.") as model:
        async with bare(tmp_path, model) as program:
            answer = await program.ask("hi")
            assert f"({type(error).__name__})" in answer
            assert "Traceback" not in answer
            assert await program.ask("next") == "Next."


async def test_a_message_that_is_no_whole_unicode_is_answered(tmp_path: Path) -> None:
    broken = "half a smile \ud83d and bytes \udcff"
    hang = Hang(broken)
    with ScriptedProvider(broken, hang) as model:
        async with bare(tmp_path, model) as program:
            assert (await program.ask(broken)).startswith("half a smile")
            await program.say(broken)
            await hang.reached.wait()
            await program.say(broken)
            assert "half a smile" in await program.ask("/stop")
            assert not (await program.ask(f"/{broken}")).startswith("Something went wrong")


# -- delivery


async def test_an_answer_says_which_message_it_belongs_to(tmp_path: Path) -> None:
    async with bare(tmp_path, ScriptedProvider("Hi.")) as program:
        for identity, text in (("m-1", "hi"), ("m-2", "/help"), ("m-3", "/stop")):
            message = UserMessage(text, program.clock())
            await program.deliver(Inbound(Address("terminal", "main"), "me", identity, message))
            assert (await program.channel.sent.get()).reply_to == identity
