"""Journeys through the program, each with the plugins that it uses: what must work whichever other one is taken out.

Run as a program, it goes through all that don't use a plugin, with source trees that lack it.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from nanoclaw.core.messages import Address, Attachment
from nanoclaw.core.plugin import Profile
from nanoclaw.core.profiles import PROFILES
from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.program import FakeChannel, assert_legal, results, running

Journey = Callable[[Path, frozenset[str]], Awaitable[None]]
PERSON: Profile = PROFILES["person"]


class Way(NamedTuple):
    uses: frozenset[str]
    go: Journey


WAYS: dict[str, Way] = {}


def way(*uses: str) -> Callable[[Journey], Journey]:
    """Register a journey that uses these plugins."""

    def register(go: Journey) -> Journey:
        WAYS[go.__name__] = Way(frozenset(uses), go)
        return go

    return register


@way()
async def talk_and_restart(root: Path, without: frozenset[str]) -> None:
    async with running(root, ScriptedProvider("Hello."), without=without) as program:
        assert await program.ask("Hi") == "Hello."
        assert "/new" in await program.ask("/help")
    async with running(root, ScriptedProvider("Again."), without=without) as program:
        assert await program.ask("Still there?") == "Again."
        assert_legal(program.history)
        assert await program.ask("/new") != ""


@way("inspect", "files")
async def show_what_a_tool_gave(root: Path, without: frozenset[str]) -> None:
    model = ScriptedProvider(call("write_file", {"path": "a.md", "content": "a line"}), "Done.")
    async with running(root, model, without=without) as program:
        await program.ask("Write it")
        assert "+a line" in await program.ask("/show 1")


@way("review", "memory")
async def look_back_on_a_day(root: Path, without: frozenset[str]) -> None:
    model = ScriptedProvider("Hello.", call("propose", {"facts": ["Plays chess"], "outdated": [], "promises": []}))
    async with running(root, model, without=without) as program:
        await program.ask("I play chess")
        await program.ask("/review now")
        assert "1. note: Plays chess" in await program.answer()
        await program.ask("/review 1")
        assert "Plays chess" in (program.workspace / "MEMORY.md").read_text()


@way("incognito")
async def talk_without_a_trace(root: Path, without: frozenset[str]) -> None:
    async with running(root, ScriptedProvider("Hm."), without=without) as program:
        await program.ask("/incognito")
        assert await program.ask("Hi") == "Hm."
        assert "Nothing of it is left" in await program.ask("/incognito off")
        assert program.rows("SELECT 1 FROM messages") == []


@way("files")
async def write_a_file(root: Path, without: frozenset[str]) -> None:
    steps = (call("write_file", {"path": "a.txt", "content": "one\n"}), "Written to a.txt.")
    async with running(root, ScriptedProvider(*steps), without=without) as program:
        assert "Written" in await program.ask("Write one to a.txt")
        assert (program.workspace / "a.txt").read_text() == "one\n"


@way("files", "undo")
async def take_it_back(root: Path, without: frozenset[str]) -> None:
    steps = (call("write_file", {"path": "a.txt", "content": "one\n"}), "Written to a.txt.")
    async with running(root, ScriptedProvider(*steps), without=without) as program:
        await program.ask("Write one to a.txt")
        assert "a.txt" in await program.ask("/receipts")
        assert "removed again" in await program.ask("/undo")
        assert not (program.workspace / "a.txt").exists()


@way("plan", "approvals", "files")
async def approve_a_plan(root: Path, without: frozenset[str]) -> None:
    write = call("write_file", {"path": "a.txt", "content": "one\n"})
    model = ScriptedProvider(write, call("exit_plan_mode", {"plan": "Write a.txt"}), write, "Which?")
    async with running(root, model, without=without) as program:
        assert "Write a.txt" in await program.ask("/plan Write it")
        assert not (program.workspace / "a.txt").exists()
        await program.ask("yes")
        assert await program.answer() == "Which?"
        assert (program.workspace / "a.txt").exists()


@way("todo")
async def keep_a_list(root: Path, without: frozenset[str]) -> None:
    async with running(root, ScriptedProvider(call("todo", {"steps": ["Look"]}), "Which?"), without=without) as program:
        await program.ask("Begin")
        assert await program.ask("/todo") == "to do: 0 of 1 done\n☐ Look"


@way("question", "approvals")
async def choose(root: Path, without: frozenset[str]) -> None:
    model = ScriptedProvider(call("question", {"text": "Which?", "options": ["red", "blue"]}), "Blue.")
    async with running(root, model, without=without) as program:
        assert (await program.ask("Go")).startswith("Which?")
        assert await program.ask("b") == "“blue”: it goes on."
        assert await program.answer() == "Blue."


@way("shell")
async def run_a_command(root: Path, without: frozenset[str]) -> None:
    async with running(
        root, ScriptedProvider(call("exec", {"command": "echo a$((1+1))"}), "a2"), without=without
    ) as it:
        await it.ask("Run it")
        assert "a2" in results(it.history)[0].text


@way("shell")
async def run_a_command_in_the_background(root: Path, without: frozenset[str]) -> None:
    model = ScriptedProvider(call("exec", {"command": "echo a$((1+1))", "background": True}), "It runs.", "Done.")
    async with running(root, model, without=without, wakes=True) as it:
        said = [await it.ask("Run it"), await it.answer(), await it.answer()]
        assert any("exit status 0. Its last lines:\n```\na2\n```" in one for one in said)


@way("memory")
async def remember(root: Path, without: frozenset[str]) -> None:
    steps = (call("memory_search", {"query": "zebra"}), "A zebra.")
    async with running(root, ScriptedProvider(*steps), without=without) as program:
        await program.ask("/note saw a zebra in the garden")
        assert await program.ask("Which animal did I see?") == "A zebra."
        assert "zebra in the garden" in results(program.history)[0].text


@way("tool_search")
async def find_a_tool(root: Path, without: frozenset[str]) -> None:
    steps = (call("tool_search", {"query": "search notes"}), call("call_tool", {"name": "cron"}), "Done.")
    settings = "[tool_search]\ntokens = 500\n"
    async with running(root, ScriptedProvider(*steps), settings=settings, without=without) as program:
        await program.ask("Do it")
        assert [result.name for result in results(program.history)] == ["tool_search", "cron"]


@way("schedule")
async def remind(root: Path, without: frozenset[str]) -> None:
    async with running(root, without=without) as program:
        await program.ask("/remind in 10 minutes: tea")
        assert "tea" in await program.ask("/jobs")
    async with running(root, without=without) as program:
        assert "tea" in await program.ask("/jobs")


@way("skills")
async def start_a_skill(root: Path, without: frozenset[str]) -> None:
    provider = ScriptedProvider("Done.")
    async with running(root, provider, without=without) as program:
        assert "memory" in await program.ask("/skill")
        await program.ask("Hi")
        assert "# Skills" in provider.requests[0].system.text or "files" in without


@way("rules")
async def pin_a_rule(root: Path, without: frozenset[str]) -> None:
    async with running(root, without=without) as program:
        await program.ask("/pin Never run `git push`")
        assert "git push" in await program.ask("/pins")


@way("access")
async def let_a_guest_in(root: Path, without: frozenset[str]) -> None:
    chat, settings = FakeChannel("telegram"), '[channels.telegram]\ntoken = "1:a"\nallow_from = ["777"]\n'
    provider = ScriptedProvider("Hello, guest.")
    async with running(root, provider, settings=settings, others=[chat], without=without) as program:
        await program.write_from(Address("telegram", "666"), "666", "Who are you?")
        await program.write_from(Address("telegram", "777"), "777", "Hello")
        assert (await chat.sent.get()).text == "Hello, guest."
        assert program.rows("SELECT chat FROM inbox WHERE channel = 'telegram'") == [("777",)]


@way("budget")
async def keep_to_the_money(root: Path, without: frozenset[str]) -> None:
    settings = '[model]\nname = "openai/gpt-5"\n[limits]\nday_usd = 0.000001\n'
    async with running(
        root, ScriptedProvider("Too dear.", model="openai/gpt-5"), settings=settings, without=without
    ) as it:
        assert "limit" in await it.ask("Hi")


@way("silence")
async def say_nothing(root: Path, without: frozenset[str]) -> None:
    async with running(root, ScriptedProvider("NO_REPLY", "Now."), without=without) as program:
        await program.say("ok")
        assert await program.ask("And now?") == "Now."


@way("media")
async def read_an_attached_file(root: Path, without: frozenset[str]) -> None:
    file, provider = root / "list.txt", ScriptedProvider("Eggs.")
    root.mkdir(parents=True, exist_ok=True)
    file.write_text("eggs and milk")
    async with running(root, provider, without=without) as program:
        await program.ask("What is on it?", files=(Attachment(str(file), "list.txt", "text/plain"),))
        assert "eggs and milk" in provider.requests[0].history[-1].text


@way("message")
async def send_in_between(root: Path, without: frozenset[str]) -> None:
    async with running(
        root, ScriptedProvider(call("message", {"text": "A word."}), "Sent."), without=without
    ) as program:
        assert await program.ask("Say something first") == "A word."
        assert await program.answer() == "Sent."


@way("heartbeat")
async def beat(root: Path, without: frozenset[str]) -> None:
    async with running(root, without=without) as program:
        assert "Nothing is due" in await program.ask("/heartbeat")


@way("inspect")
async def look_inside(root: Path, without: frozenset[str]) -> None:
    async with running(root, ScriptedProvider("Hello."), without=without) as program:
        await program.ask("Hi")
        assert "dentity" in await program.ask("/context")


@way("web")
async def read_no_private_page(root: Path, without: frozenset[str]) -> None:
    model = ScriptedProvider(call("web_fetch", {"url": "http://127.0.0.1:9/"}), "It is private.")
    async with running(root, model, without=without) as program:
        assert await program.ask("Read that page") == "It is private."
        assert "this machine" in results(program.history)[0].text


@way("approvals")
async def answer_a_question(root: Path, without: frozenset[str]) -> None:
    async with running(root, without=without) as program:
        assert "no open question 7" in await program.ask("/yes 7")


@way("redact")
async def keep_a_secret(root: Path, without: frozenset[str]) -> None:
    provider = ScriptedProvider("It is sk-canary-12345678.")
    environment = {"SOME_API_KEY": "sk-canary-12345678"}
    async with running(root, provider, environment=environment, without=without) as program:
        assert "canary" not in await program.ask("Which key?")


async def all_ways(root: Path, without: frozenset[str]) -> list[str]:
    """Go all ways that don't use a plugin that is not there; their names."""
    gone = [name for name, one in WAYS.items() if not one.uses & without]
    for name in gone:
        await WAYS[name].go(root / name, without)
    return gone


def _serve() -> None:
    """For each line, a plugin and a source tree without it: go all ways in a fork that has the libraries of this
    process, and no module of ours but those of the tree. Answers with their names, or with a traceback."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(all_ways(Path(folder), frozenset()))
    for name in [one for one in sys.modules if one.partition(".")[0] in ("nanoclaw", "tests")]:
        del sys.modules[name]
    gc.collect()
    gc.freeze()  # what all have is not looked through in each
    for line in sys.stdin:
        gone, source = line.split()
        if not os.fork():
            os._exit(_answer(gone, source))
        os.wait()


def _answer(gone: str, source: str) -> int:
    sys.path.insert(0, source)
    try:
        ours = importlib.import_module("tests.removal")
        assert str(sys.modules["nanoclaw"].__file__).startswith(source)
        with tempfile.TemporaryDirectory(dir=Path(source).parent) as folder:
            said = " ".join(asyncio.run(ours.all_ways(Path(folder), frozenset([gone]))))
    except BaseException:
        said = traceback.format_exc()
    print(json.dumps(said), flush=True)
    return 0


if __name__ == "__main__":
    _serve()
