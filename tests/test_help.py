"""/help, the commands that are parts of others, and all of them in a shell."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest

from nanoclaw.core.plugin import Said
from nanoclaw.markdown.terminal import to_terminal
from nanoclaw.providers.scripted import ScriptedProvider
from tests.journeys.command import Home, Running
from tests.program import MAIN, running

OLDER = (
    *("start", "note", "search", "review", "yes", "no", "grants", "elevated", "taint", "pins", "unpin", "receipts"),
    *("show", "why", "skill", "held", "link", "cron", "rehearse", "heartbeat", "resume"),
)


def named(text: str) -> list[str]:
    return re.findall(r"`/(\w+)`", text)


async def test_help_is_six_groups_on_a_screen_and_each_command_is_in_one(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider()) as program:
        shown = await program.ask("/help")
        assert len(to_terminal(shown, 80, False).splitlines()) <= 12
        groups = re.findall(r"^- (\w+) \(.*?\): (.*)$", shown, re.MULTILINE)
        assert len(groups) == 6
        listed = list[str]()
        for name, best in groups:
            of_it = re.findall(r"^- `/(\w+)`", await program.ask(f"/help {name}"), re.MULTILINE)
            assert named(best) == of_it[:3]
            listed += of_it
        assert sorted(listed) == sorted(command.name for command in program.app.commands)
        assert len(listed) <= 24 and not set(listed) & set(OLDER)


async def test_parts_and_older_names_answer_and_are_told_with_the_whole(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider()) as program:
        for name in OLDER:
            assert "no command" not in await program.ask(f"/{name}"), name
        assert named(await program.ask("/help memory")) == ["memory", "note", "search", "review"]
        assert "(also `/note`, `/search`, `/review`)" in await program.ask("/help knowledge")
        assert await program.ask("/help memory") == await program.ask("/help /note")
        assert named(await program.ask("/help cron"))[0] == "jobs"
        for one in [one.name for one in program.app.commands if one.cli]:  # in a shell each has its own line alone
            said = Said(one, MAIN, MAIN, "owner", "owner", shell="nanoclaw")
            assert re.fullmatch(f"- `/{one}`: .*", (await program.app.commands.for_said("help", said)).text)
        assert await program.ask("/help recepits") == "There is no command /recepits. Did you mean /receipts?"
        assert "Noted in" in await program.ask("/memory note the plumber came")
        for asked in ("/memory search plumber", "/memory plumber"):
            assert "the plumber came" in await program.ask(asked)
        await program.ask("/pin Never run `git push`")
        same = ("/undo receipts", "/receipts"), ("/pin", "/pins"), ("/cron rehearse 1", "/jobs rehearse 1")
        assert all([await program.ask(one) == await program.ask(other) != "" for one, other in same])


@pytest.mark.parametrize("has_gateway", [False, True])
def test_a_command_of_the_chat_is_one_of_the_shell(tmp_path: Path, has_gateway: bool) -> None:
    home = Home(tmp_path / "home")
    home.configure("http://127.0.0.1:9/v1")
    with closing(Running(home, "gateway" if has_gateway else "help")) as process:
        process.expect("serves" if has_gateway else "safety")
        assert "Noted in" in home.run("note", "the", "plumber", "came").out
        assert "noted “the plumber came”" in home.run("undo", "receipts").out
        assert "is as it was before" in home.run("memory", "undo").out
        assert home.run("jobs", "heartbeat").out == home.run("-m", "/heartbeat").out
        assert home.run("new").out.startswith("A new conversation.")
        assert home.run("stop").out == "Nothing is running.\n"
        assert "now uses openai/gpt-5." in home.run("model", "openai/gpt-5").out
        assert named(home.run("help", "unpin").out) == named(home.run("unpin", "2", "--help").out)[:1] == ["unpin"]
        told = {name: home.run(*name.split(), "--help").out for name in ("send", "web", "web token", "memory")}
        assert all(one in told["send"] for one in ("--to", "--file", "--id", "--wait")) and "/pair" not in told["send"]
        for line in ("web token NAME", "web token --revoke", "web tokens", "web browsers", "web browser --revoke"):
            assert line in told["web"] and line in told["web token"] and "restore 3" in told["memory"]
        assert "did you mean 'forget'?" in home.run("memory", "forgt", "x", check=2).err
