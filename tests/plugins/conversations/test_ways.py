"""Other ways for a conversation to go: /branch, /retry, /edit, /rewind, /continue, /export, and opening another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nanoclaw.core.events import GoTo
from nanoclaw.core.messages import Address, Inbound, UserMessage
from nanoclaw.core.plugin import Reply, Said
from nanoclaw.providers.scripted import Hang, ScriptedProvider, call
from tests.program import MAIN, NOON, Program, assert_legal, running

WRITES = call("write_file", {"path": "bird.txt", "content": "a pelican"})
STRETCH = "remind me in 20 minutes to stretch"
NAMES = '[models]\nsummaries = "scripted/sums"'


def said_to(model: ScriptedProvider, request: int = -1) -> list[str]:
    """The words of persons and of the model in a request."""
    return [one.text for one in model.requests[request].history if getattr(one, "origin", "person") == "person"]


def opened(program: Program) -> list[GoTo]:
    return [event for _, event in program.channel.events if isinstance(event, GoTo)]


async def told(program: Program, command: str, argument: str = "", **fields: Any) -> Reply:
    return await program.app.commands.for_said(command, Said(argument, MAIN, MAIN, "me", "owner", **fields))


async def test_a_branch_has_all_up_to_a_message_and_the_terminal_goes_there(tmp_path: Path) -> None:
    model = ScriptedProvider("One.", "Two.", "Three.", "Other.", "Four.")
    async with running(tmp_path, model) as program:
        for number in ("first", "second", "third"):
            await program.ask(number)
        said = await program.ask("/branch 2")
        assert said.startswith("`main-2` has all up to message 2, “second”, and its answer. You are there now;")
        assert opened(program) == [GoTo("main-2")]
        assert await program.ask("another third", "main-2") == "Other."
        assert said_to(model) == ["first", "One.", "second", "Two.", "another third"]
        assert await program.ask("fourth") == "Four."
        assert said_to(model) == ["first", "One.", "second", "Two.", "third", "Three.", "fourth"]
        assert "`main-3` has all up to message 4" in await program.ask("/branch")
        assert "`terminal:main-2`: first (from 2)" in await program.ask("/sessions")
        for wrong in ("0", "9", "x"):
            assert "only 1 to 4: /rewind" in await program.ask(f"/branch {wrong}")


async def test_a_branch_of_an_older_context_and_of_what_a_summary_stands_for_is_whole(tmp_path: Path) -> None:
    model = ScriptedProvider("One.", "Two.", "Three.", "Again.", "Once more.")
    async with running(tmp_path, model) as program:
        await program.ask("first")
        await program.ask("second")
        with program.app.transactions.open():
            placed = program.app.sessions.of(MAIN).placed()
        program.app.sessions.of(MAIN).compact(placed[-1].id, "a summary", "")
        await program.ask("third")
        await program.ask("/branch 1")
        await program.ask("again", "main-2")
        assert said_to(model) == ["first", "One.", "again"]
        await program.ask("/new")
        await program.ask("/branch 2")
        await program.ask("once more", "main-3")
        assert said_to(model) == ["first", "One.", "second", "Two.", "once more"]


async def test_the_tree_shows_what_began_from_what_and_folds_what_is_not_looked_for(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(*(f"Answer {number}." for number in range(5)))) as program:
        await program.ask("birds")
        await program.ask("/branch")
        await program.ask("herons", "main-2")
        await program.ask("/branch", "main-2")
        await program.ask("otters", "main-3")
        await program.ask("/rename Rivers", "main-3")
        await program.ask("/branch 1")
        await program.ask("alone", "other")

        def names(told: str) -> list[str]:
            return [line.partition(" (2026")[0] + " ←" * line.endswith("← here") for line in told.splitlines()]

        two, three = "  - `terminal:main-2`: birds (from 1)", "    - `terminal:main-3`: Rivers"
        main, four = "- `terminal:main`: birds", "  - `terminal:main-4`: birds (from 1)"
        assert sorted(names(await program.ask("/tree"))) == sorted([f"{main} ←", four, two, three])
        assert names(await program.ask("/tree rivers", "other")) == [main, two, three]
        assert names(await program.ask("/tree HERONS", "main-2")) == [main, f"{two} ←", three]
        assert names(await program.ask("/tree", "other")) == ["- `terminal:other`: alone ←"]
        assert "No branch has “wolves”." in await program.ask("/tree wolves")
        await program.ask("/sessions delete main-2 yes")
        assert f"\n{three[2:]}" in await program.ask("/tree all")


async def test_a_chat_app_is_told_how_a_branch_is_reached(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider("Hi.")) as program:
        await program.ask("hello")
        said = Said("", MAIN, Address("chat", "555"), "me", "owner")
        done = await program.app.commands.for_said("branch", said)
        assert "`nanoclaw -r main-2` goes on with it." in done.text and not opened(program)
        assert done.data == {"conversation": "terminal:main-2", "opened": "terminal:main-2", "message": 1}
        done = await program.app.commands.for_said("branch", said._replace(address=Address("page", "abc")))
        assert done.text.endswith("The page goes on with it.")


async def test_a_terminal_goes_on_with_all_that_was_said_on_the_page(tmp_path: Path) -> None:
    model = ScriptedProvider("Hi.", "Two.", "Three.")
    async with running(tmp_path, model) as program:
        page = Address("page", "abc")
        for text in ("hello", "and two?"):
            await program.app.deliver(Inbound(page, "owner", text, UserMessage(text, NOON), role="owner"))
            await program.app.conversations.idle()
        done = await program.ask("/sessions open page:abc")
        assert done.startswith("`page-abc-2` has all up to message 2, “and two?”, and its answer. You are there now")
        assert opened(program) == [GoTo("page-abc-2")]
        await program.ask("and three?", "page-abc-2")
        assert said_to(model) == ["hello", "Hi.", "and two?", "Two.", "and three?"]


async def test_a_retry_asks_again_and_the_old_answer_leaves_what_the_model_sees(tmp_path: Path) -> None:
    model, other = ScriptedProvider("One.", "Bad.", "Good."), ScriptedProvider("Best.", model="scripted/other")
    async with running(tmp_path, model, other) as program:
        await program.ask("first")
        await program.ask("second")
        assert await program.ask("/retry") == "Good."
        assert said_to(model) == ["first", "One.", "second"]
        assert await program.ask("/retry scripted/other") == "Best."
        assert said_to(other) == ["first", "One.", "second"]
        assert_legal(program.history)
        assert "nanoclaw: Bad." in await program.ask("/history")  # nothing that was said is lost
    async with running(tmp_path, ScriptedProvider("Yes."), other) as program:
        assert [one.text for one in program.history if getattr(one, "origin", "") == "person"] == ["first", "second"]


async def test_what_was_done_is_named_before_it_is_asked_again(tmp_path: Path) -> None:
    model = ScriptedProvider(WRITES, "Written.", "There.", "Here.")
    async with running(tmp_path, model) as program:
        await program.ask("write it")
        said = await program.ask("/retry")
        assert said.startswith("This was done since then: ") and "bird.txt" in said and "`/retry yes`" in said
        assert await program.ask("/retry yes") == "There."
        assert await program.ask("/edit say it") == "Here."
        assert said_to(model) == ["say it"]


async def test_an_edit_brings_the_last_message_back_into_the_line_and_takes_its_place(tmp_path: Path) -> None:
    model = ScriptedProvider("One.", "Two.", "Three.")
    async with running(tmp_path, model) as program:
        assert "nothing was said" in await program.ask("/edit")
        await program.ask("first")
        await program.ask("secnod")
        await program.ask("/edit")
        assert opened(program) == [GoTo("", "/edit secnod")]
        assert await program.ask("/edit second") == "Three."
        assert said_to(model) == ["first", "One.", "second"]


async def test_a_rewind_lists_messages_and_goes_back_with_the_files(tmp_path: Path) -> None:
    model = ScriptedProvider("One.", WRITES, "Written.", "Fresh.")
    async with running(tmp_path, model) as program:
        await program.ask("first")
        await program.ask("write it")
        assert "- 2, 2026-03-06, " in (said := await program.ask("/rewind")) and ": write it" in said
        said = await program.ask("/rewind 2")
        assert "`/rewind 2 yes` goes back, and puts back bird.txt" in said
        assert (program.workspace / "bird.txt").exists()
        said = await program.ask("/rewind 2 yes")
        assert said.startswith("Back to before message 2, “write it”: 1 of your messages")
        assert said.endswith("bird.txt was removed again.") and not (program.workspace / "bird.txt").exists()
        assert opened(program) == [GoTo("", "write it")]
        assert await program.ask("fresh") == "Fresh."
        assert said_to(model) == ["first", "One.", "fresh"]
        assert "there is no message '2' to go back to" in await program.ask("/rewind 2")
        assert "there is no message 'x'" in await program.ask("/rewind x")


async def test_a_file_that_another_hand_changed_since_stays(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(WRITES, "Written.")) as program:
        await program.ask("write it")
        (program.workspace / "bird.txt").write_text("mine")
        assert "bird.txt was changed by something else since" in await program.ask("/rewind 1 yes")
        assert (program.workspace / "bird.txt").read_text() == "mine"


async def test_a_rewind_behind_a_summary_brings_back_what_it_stood_for(tmp_path: Path) -> None:
    model = ScriptedProvider("One.", "Two.", "Three.", "Again.")
    async with running(tmp_path, model) as program:
        for number in ("first", "second", "third"):
            await program.ask(number)
        session = program.app.sessions.of(MAIN)
        session.compact(session.placed()[-1].id, "a summary", "")
        await program.ask("/rewind 2")
        assert await program.ask("again") == "Again."
        assert said_to(model) == ["first", "One.", "again"]


async def test_a_conversation_whose_question_is_open_is_not_changed(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(call("exec", {"command": "rm *.txt"}), "Noted.")) as program:
        for number in range(5):
            (program.workspace / f"{number}.txt").write_text("x" * 400)
        await program.ask("delete them")
        for command in ("/retry", "/retry yes", "/edit", "/edit yes keep them", "/rewind", "/rewind 1 yes"):
            refused = "Question 1 is open here: answer it first, or drop it with /stop."
            assert await program.ask(command) == refused, command


async def test_a_conversation_goes_on_from_a_summary(tmp_path: Path) -> None:
    own, model = ScriptedProvider("\u200b", "The boots.", model="scripted/sums"), ScriptedProvider("One.", "Sure.")
    async with running(tmp_path, model, own, settings=NAMES) as program:
        assert "nothing was said here yet" in await program.ask("/continue")
        await program.ask("Where are the boots?")
        assert "wrote no summary" in await program.ask("/continue")
        assert (await program.ask("/continue")).startswith("`main-2` begins with a summary of this one. You are there")
        assert opened(program) == [GoTo("main-2")] and len(own.requests) == 2
        assert await program.ask("And now?", "main-2") == "Sure."
        first = model.requests[-1].history[0]
        assert isinstance(first, UserMessage) and first.origin == "runtime"
        assert "goes on from an earlier one, terminal:main. Its summary:\n\nThe boots." in first.text
        assert said_to(model) == ["And now?"]


async def test_the_model_sees_what_the_person_ran_as_text_of_others(tmp_path: Path) -> None:
    model = ScriptedProvider("Three files.")
    async with running(tmp_path, model) as program:
        assert await program.ask("/ran ls\na.md") == "The model sees it with your next message."
        assert await program.ask("How many?") == "Three files."
        first = model.requests[0].history[0]
        assert (
            isinstance(first, UserMessage)
            and "ls\na.md" in first.text
            and "a command that the person ran" in first.text
        )
        assert first.outside and said_to(model) == ["How many?"]
        assert "!COMMAND in a terminal" in await program.ask("/ran")


async def test_a_command_by_hand_is_named_as_it_was_typed_and_without_its_output(tmp_path: Path) -> None:
    hang = Hang()
    async with running(tmp_path, ScriptedProvider(hang)) as program:
        await program.say("begin")
        await hang.reached.wait()
        await program.say("/ran ls -l\na.md")
        assert await program.ask("/stop") == "Stopped. Not begun: !ls -l."


async def test_a_terminal_opens_a_conversation_by_name(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider("Hi.")) as program:
        await program.ask("hello", "camp")
        assert "`camp` is “hello”. You are there now; `/sessions open main`" in await program.ask("/sessions open camp")
        assert opened(program) == [GoTo("camp")]
        assert (await told(program, "sessions", "open camp", shell="nanoclaw")).data == {
            "conversation": "terminal:camp",
            "opened": "terminal:camp",
        }
        assert "there is no conversation 'sea'" in await program.ask("/sessions open sea")


async def test_what_the_program_answered_is_not_edited_and_stands_in_an_export(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider("Hi.", "Hello.")) as program:
        for first in (STRETCH, "hello"):
            if first == "hello":
                assert await program.ask(first) == "Hi."
            assert "a reminder, is set: " in await program.ask(STRETCH)
            for command in ("/edit remind me in an hour to stretch", "/edit", "/retry"):
                assert f"“{STRETCH}” was answered by the program: /undo undoes it" in await program.ask(command)
        done = await told(program, "export")
        assert done.data
        text = (program.workspace / done.data["file"]).read_text()
        assert text.count(f"## You, 2026-03-06 12:00\n\n{STRETCH}\n\n## nanoclaw, ") == 2
        assert await program.ask("hello again") == "Hello."
        await program.ask("/edit")
        assert opened(program) == [GoTo("", "/edit hello again")]


async def test_an_export_has_words_and_calls_and_no_key(tmp_path: Path) -> None:
    key = "sk-canary-0123456789abcdef"
    model = ScriptedProvider(WRITES, f"Written, with {key}.")
    async with running(tmp_path, model, environment={"OPENAI_API_KEY": key}) as program:
        assert "nothing was said there yet" in await program.ask("/export")
        await program.ask(f"write it, the key is {key}")
        done = await told(program, "export")
        assert done.data and done.text.startswith("Written to exports/main-2026-03-06-120000.md (")
        text = (program.workspace / done.data["file"]).read_text()
        assert text.startswith("# write it") and "## You, 2026-03-06 12:00" in text
        assert "- `write_file {" in text and "> write_file: " in text
        done = await told(program, "export", "json main")
        assert done.data and done.data["format"] == "json"
        whole = (program.workspace / done.data["file"]).read_text()
        assert [one["kind"] for one in json.loads(whole)["messages"]][-3:] == ["assistant", "result", "assistant"]
        assert key not in text + whole
