"""/show: the result of a call as a whole, by the number at the end of its line."""

from pathlib import Path

from nanoclaw.core.channel import Hints
from nanoclaw.core.events import ToolFinished, ToolStarted
from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from tests.program import FakeChannel, everybody_is, running


def numbers(channel: FakeChannel) -> list[int]:
    return [event.number for _, event in channel.events if isinstance(event, ToolStarted | ToolFinished)]


async def test_calls_are_numbered_through_turns_restarts_and_new_contexts(tmp_path: Path) -> None:
    two = Say(calls=(("list_dir", {}), ("read_file", {"path": "no.md"})))
    async with running(tmp_path, ScriptedProvider(two, call("list_dir", {}), "Done.")) as program:
        await program.ask("look")
        assert sorted(numbers(program.channel)) == [1, 1, 2, 2, 3, 3]
        await program.ask("/new")
    async with running(tmp_path, ScriptedProvider(call("list_dir", {}), "Done.")) as program:
        await program.ask("look again")
        assert numbers(program.channel) == [4, 4]


async def test_a_result_is_shown_with_its_arguments_also_after_a_restart(tmp_path: Path) -> None:
    command = "printf 'one\\ntwo ```\\n'; exit 3"
    model = ScriptedProvider(call("exec", {"command": command}), "Done.")
    async with running(tmp_path, model, without=["sandbox"]) as program:
        await program.ask("run it")
    async with running(tmp_path, ScriptedProvider()) as program:
        for asked in ("/show", "/show 1", "/show #1"):
            assert await program.ask(asked) == (
                f"**✗ exec**, call 1, 06 Mar, 12:00\n\n````text\ncommand: {command}\n````\n\n".replace(
                    "````", "```" if "```" not in command else "````"
                )
                + "````text\none\ntwo ```\n[exit status 3]\n````"
            )


async def test_a_change_is_shown_as_its_diff_whole(tmp_path: Path) -> None:
    content = "".join(f"line {number}\n" for number in range(40))
    write = call("write_file", {"path": "a.md", "content": content})
    async with running(tmp_path, ScriptedProvider(write, call("list_dir", {}), "Done.")) as program:
        await program.ask("write it")
        shown = await program.ask("/show 1")
    diff = "\n".join(f"+line {number}" for number in range(40))
    assert shown.startswith("**✓ write_file**, call 1 of 2, 06 Mar, 12:00\n\n```text\npath: a.md\n```\n\n")
    assert f"```diff\n@@ new file @@\n{diff}\n```" in shown and shown.count("line 7") == 1


async def test_what_there_is_not_is_said(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(call("list_dir", {}), "Done.")) as program:
        assert await program.ask("/show") == "No tool has been used in this conversation."
        await program.ask("look")
        assert await program.ask("/show 2") == "There is no call 2: the last one is 1."
        assert await program.ask("/show 0") == "There is no call 0: the last one is 1."
        assert (await program.ask("/show me")).startswith("/show shows the last result")


async def test_a_chat_app_is_sent_the_ends_of_a_long_result(tmp_path: Path) -> None:
    chat = FakeChannel("chat", Hints(bursts=False))
    model = ScriptedProvider(call("exec", {"command": "seq 1 2000"}), "Done.")
    extra, without = [everybody_is("owner")], ["access", "sandbox"]
    async with running(tmp_path, model, channel=chat, extra=extra, without=without) as program:
        await program.ask("count")
        shown = await program.ask("/show")
    assert len(shown) < 3_300 and "\n1\n2\n" in shown and "\n2000\n[exit status 0]" in shown
    assert "A terminal shows all." in shown


async def test_a_damaged_row_is_said_and_stops_no_turn(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(call("list_dir", {}), "Done.")) as program:
        await program.ask("look")
        await program.app.transactions.write(
            lambda tx: tx.execute("UPDATE messages SET body = json_remove(body, '$.at') WHERE body LIKE '%result%'")
        )
        assert await program.ask("/show") == "The result of call 1 cannot be read: its row in the store is damaged."
    async with running(tmp_path, ScriptedProvider(call("list_dir", {}), "Again.")) as program:
        await program.app.transactions.write(
            lambda tx: tx.execute("UPDATE messages SET body = 'no JSON' WHERE body LIKE '%result%'")
        )
        assert await program.ask("look") == "Again."
