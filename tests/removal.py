"""Journeys through the program, each with the plugins that it uses: what must work whichever other one is taken out.

`python -m tests.removal` takes each plugin's folder out of a source tree and goes through all that don't use it; the
tests only pretend, each in a fork of one process that has imported all, and with a sample for each.
"""

import asyncio
import builtins
import importlib
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from nanoclaw.core.errors import ContextTooLong
from nanoclaw.core.messages import Address, Attachment
from nanoclaw.core.plugin import Command, Tool
from nanoclaw.providers.scripted import ScriptedProvider, call
from nanoclaw.start import build
from tests.program import FakeChannel, assert_legal, results, running

Journey = Callable[[Path, frozenset[str]], Awaitable[None]]
PACKAGE, PLUGINS = Path(build.__file__).parents[1], "nanoclaw.plugins"


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


BROUGHT: dict[str, set[str]] = {}
"""The tools and commands that each plugin brings, where that is known."""


def _capabilities(*all: Iterable[Tool | Command]) -> set[str]:
    return {one.name for some in all for one in some}


@way()
async def talk_and_restart(root: Path, without: frozenset[str]) -> None:
    async with running(root, ScriptedProvider("Hello."), without=without) as program:
        assert await program.ask("Hi") == "Hello."
        if not without:
            BROUGHT.update((one.name, _capabilities(one.tools(), one.commands())) for one in program.app.plugins)
        there = _capabilities(program.app.chain.tools(), program.app.commands.open_to("person").values())
        assert not there & set[str]().union(*(BROUGHT.get(name, ()) for name in without)), "what it brought is there"
    async with running(root, ScriptedProvider("Again."), without=without) as program:
        assert await program.ask("Still there?") == "Again."
        assert_legal(program.history)


@way("basics")
async def begin_anew(root: Path, without: frozenset[str]) -> None:
    async with running(root, ScriptedProvider("Hello."), without=without) as program:
        await program.ask("Hi")
        assert "/new" in await program.ask("/help")
        assert "A new conversation." in await program.ask("/new")
        assert program.history == ()


@way("compaction")
async def sum_up_a_long_talk(root: Path, without: frozenset[str]) -> None:
    too_long = ContextTooLong("The conversation is longer than the model can read.")
    talk = [f"{number} " + "word " * 900 for number in range(8)]
    model = ScriptedProvider(*talk, too_long, "Standing instructions: none. Done: eight stories.", "Fine.")
    async with running(root, model, without=without | {"memory"}) as program:
        for _ in talk:
            await program.ask("Tell me a story")
        assert await program.ask("And how are you?") == "Fine."


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
        assert "Only what it cost is kept" in await program.ask("/incognito off")
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
        assert await program.ask("b") == "OK: “blue”."
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


@way("service")
async def ask_for_the_service(root: Path, without: frozenset[str]) -> None:
    async with running(root, without=without) as program:
        assert "service install" in await program.ask("/service begin")


@way("redact")
async def keep_a_secret(root: Path, without: frozenset[str]) -> None:
    provider = ScriptedProvider("It is sk-canary-12345678.")
    environment = {"SOME_API_KEY": "sk-canary-12345678"}
    async with running(root, provider, environment=environment, without=without) as program:
        assert "canary" not in await program.ask("Which key?")


def ways(without: frozenset[str]) -> list[str]:
    """The ways that use no plugin that is not there."""
    return [name for name, one in WAYS.items() if not one.uses & without]


def sample(without: str) -> list[str]:
    """Of the ways without a plugin the first and two more, other ones for each plugin."""
    first, *others = ways(frozenset([without]))
    at = 2 * list(build.BUILT_IN).index(without) % len(WAYS)
    turned = [name for name in (*WAYS, *WAYS)[at:] if name in others]
    return [first, *turned[:2]]


async def all_ways(root: Path, without: frozenset[str], names: Sequence[str] = ()) -> list[str]:
    """Go all ways that don't use a plugin that is not there, or those with a name; their names."""
    gone = list(names) or ways(without)
    for name in gone:
        await WAYS[name].go(root / name, without)
    return gone


class Removal:
    """A plugin that is not there, for this process: neither its line, nor its modules, nor a file of its folder."""

    def __init__(self, name: str) -> None:
        self._package, self._folder = f"{PLUGINS}.{name}", PACKAGE / "plugins" / name
        del build.BUILT_IN[name]
        for one in _needing(self._package):
            del sys.modules[one]
            above, _, last = one.rpartition(".")
            if above in sys.modules and hasattr(sys.modules[above], last):
                delattr(sys.modules[above], last)
        sys.meta_path.insert(0, self)
        sys.addaudithook(self._look)

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if f"{name}.".startswith(f"{self._package}."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    def _look(self, event: str, given: tuple[object, ...]) -> None:
        if event not in ("open", "os.listdir", "os.scandir", "sqlite3.connect"):
            return
        if isinstance(given[0], (str, os.PathLike)) and Path(given[0]).absolute().is_relative_to(self._folder):
            raise FileNotFoundError(2, "No such file or directory", str(given[0]))


_IMPORTS: dict[str, set[str]] = {}
"""Modules, each with what it imported to be there."""


def _needing(package: str) -> set[str]:
    """The modules of a package, and those that had to import one of them to be there, directly or not."""
    found = {name for name in sys.modules if f"{name}.".startswith(f"{package}.")}
    while more := {name for name, needed in _IMPORTS.items() if needed & found} - found:
        found |= more
    return found


_WHOLE: list[str] = []
"""The journeys that were gone with all plugins."""


def warm() -> None:
    """Import what the journeys need: a child that goes them all says what that is. None is gone in this process, so
    nothing that a plugin's files say is known yet."""
    read, write = os.pipe()
    if not os.fork():
        with tempfile.TemporaryDirectory() as folder, os.fdopen(write, "wb") as told:
            _WHOLE.extend(asyncio.run(all_ways(Path(folder), frozenset())))
            patterns = [(pattern, flags) for _, pattern, flags in vars(re)["_cache"]]
            pickle.dump((list(sys.modules), patterns, _WHOLE, BROUGHT), told)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        names, patterns, gone, brought = pickle.load(answer)
    _WHOLE.extend(gone)
    BROUGHT.update(brought)
    usual = builtins.__import__

    def noted(name: str, within: Any = None, *given: Any) -> Any:
        parts = given[1] or () if len(given) > 1 else ()
        _IMPORTS.setdefault((within or {}).get("__name__", ""), set()).update(
            (name, *(f"{name}.{one}" for one in parts))
        )
        return usual(name, within, *given)

    assert not any(name.startswith(f"{PLUGINS}.") for name in sys.modules), "no plugin is imported with the core"
    with patch.object(builtins, "__import__", noted):
        for name in names:
            with suppress(ImportError):  # some libraries have modules that they make themselves
                importlib.import_module(name)
    for pattern, flags in patterns:
        re.compile(pattern, flags)
    os.wait()


def answer() -> None:
    """Print the names of the ways that were gone with all plugins, or go the sample without one and print theirs."""
    names = _WHOLE
    if gone := sys.argv[1]:
        names = sample(gone)
        Removal(gone)
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(all_ways(Path(folder), frozenset([gone]), names))
    print(*names)


def take_out(name: str, source: Path) -> None:
    """Make a source tree without a plugin's folder and its line."""
    shutil.copytree(PACKAGE, source / "nanoclaw", ignore=shutil.ignore_patterns("shipped", "__pycache__"))
    for shared in ("skills", "workspace_template"):
        (source / shared).symlink_to(PACKAGE.parent / shared)
    shutil.rmtree(source / "nanoclaw" / "plugins" / name)
    table = source / "nanoclaw" / "start" / "build.py"
    lines = table.read_text().splitlines(keepends=True)
    table.write_text("".join(line for line in lines if f'"{name}": "{PLUGINS}.' not in line))


def take_out_each() -> int:
    """Go all ways with source trees that lack one plugin each; how many fail."""
    failed = 0
    for name in build.BUILT_IN:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "source")
            take_out(name, source)
            environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{source}:{PACKAGE.parent}"}
            command = [sys.executable, "-m", "tests.removal", name]
            failed += subprocess.run(command, cwd=source, env=environment).returncode != 0
    return failed


def go_without(name: str) -> None:
    """Go all ways with the source tree of this process, which lacks a plugin."""
    assert name not in build.BUILT_IN and not (PACKAGE / "plugins" / name).exists(), f"{name} is there"
    with tempfile.TemporaryDirectory() as folder:
        gone = asyncio.run(all_ways(Path(folder), frozenset([name])))
    print(f"without {name}: {len(gone)} of {len(WAYS)} journeys, all whole")


if __name__ == "__main__":
    match sys.argv[1:]:
        case [one]:
            go_without(one)
        case _:
            sys.exit(take_out_each())
