"""Forgetting in a real home: after the turn no file under it has the words."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest

from nanoclaw.core.plugin import Host, Plugin
from nanoclaw.core.store.history import whole_history
from nanoclaw.providers.scripted import ScriptedProvider, call
from nanoclaw.start.opening import read_store
from tests.journeys.command import Home
from tests.model_server import ModelServer, Scripted, call_delta, delta, events, says
from tests.program import assert_legal, results, running

SECRET = "Zebulon"
FACT = f"The parrot is called {SECRET}, it bites"


def calls(name: str, arguments: dict[str, Any], id: str = "call_1") -> Scripted:
    return events(call_delta(0, id, name, json.dumps(arguments)), delta("tool_calls"))


def holding(home: Home, words: str = SECRET) -> list[str]:
    """Files of the home that have the words in their bytes, in any case."""
    found = []
    for path in sorted(home.root.rglob("*")):
        if path.is_file() and words.lower().encode() in path.read_bytes().lower():
            found.append(path.relative_to(home.root).as_posix())
    return found


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home after a day on which the fact was told, noted, looked up and written into a daily note."""
    server, home = ModelServer(), Home(tmp_path_factory.mktemp("day") / "home")
    home.configure(server.base)
    server.script(
        calls("memory_add", {"text": FACT, "kind": "fact"}), says(f"I noted that your parrot {SECRET} bites.")
    )
    home.run("-m", f"Remember: my parrot {SECRET} bites!")
    server.script(calls("memory_add", {"text": f"{SECRET} bit the neighbour"}), says("Ouch."))
    home.run("-m", f"Note that {SECRET} bit the neighbour", "--session", "work")
    server.script(calls("memory_search", {"query": "parrot"}), says(f"It is called {SECRET}."))
    home.run("-m", "What is my parrot called?", "--session", "other")
    server.script(says("It is lighter than coffee, and lovely in the morning."))
    home.run("-m", "I like green tea")
    (home.root / "history").write_text(
        f"\n# 2026-05-03 10:00:00.1\n+Remember: my parrot {SECRET} bites!\n"
        "\n# 2026-05-03 10:01:00.1\n+I like green tea\n+and cake\n"
    )
    (home.root / "logs").mkdir(exist_ok=True)
    (home.root / "logs" / "nanoclaw.log").write_text(f"one\ntwo {SECRET.lower()} two\nthree\n")
    server.stop()
    return home.root


@pytest.fixture
def told(home: Home, server: ModelServer, day: Path) -> None:
    """The home is as it was after the day."""
    shutil.copytree(day, home.root, dirs_exist_ok=True)
    home.configure(server.base)
    assert {"history", "logs/nanoclaw.log", "state.db", "workspace/MEMORY.md"} <= set(holding(home))


@pytest.mark.usefixtures("told")
def test_after_forgetting_in_a_chat_no_file_of_the_home_has_the_words(home: Home, server: ModelServer) -> None:
    server.script(calls("memory_forget", {"query": SECRET}), says("Both?"))
    home.run("-m", f"Forget all about {SECRET}")
    listed = server.asked[-1].json["messages"][-1]["content"]
    assert listed.startswith("1. MEMORY.md:")
    assert "bit the neighbour" in listed
    assert "3. conversations: " in listed
    asked = len(server.asked)
    server.script(
        calls("memory_forget", {"query": SECRET, "numbers": [1, 2, 3]}), says(f"I have forgotten {SECRET}, for good.")
    )
    said = home.run("-m", f"yes, all of {SECRET}")
    assert holding(home) == []
    assert holding(home, "bites") == []
    assert said.out == "I have forgotten [forgotten], for good.\n"
    assert SECRET.encode() in server.asked[asked].body
    assert SECRET.encode() not in server.asked[asked + 1].body, "the request after the forgetting has the words"
    server.script(says("No idea."))
    home.run("-m", "What is my parrot called?")
    assert SECRET.encode() not in server.asked[-1].body
    assert "I like green tea" in json.dumps(server.asked[-1].json)
    for name in ("main", "work", "other"):
        store = read_store(home.root / "state.db")
        history = whole_history(store, f"terminal:{name}")
        store.close()
        assert history
        assert_legal(history)
    assert (home.root / "history").read_text() == "\n# 2026-05-03 10:01:00.1\n+I like green tea\n+and cake\n"
    assert (home.root / "logs" / "nanoclaw.log").read_text() == "one\nthree\n"


@pytest.mark.usefixtures("told")
def test_forgetting_on_the_command_line_lists_asks_and_leaves_no_trace(home: Home, server: ModelServer) -> None:
    asked = home.run("memory", "forget", SECRET, stdin="n\n", check=1)
    listed = asked.out.splitlines()
    assert listed[0].startswith("1. MEMORY.md:")
    _, asked_for = next(line for line in listed if "conversations: " in line).split(": ")
    assert listed[-1] == "Nothing was forgotten."
    assert "state.db" in holding(home)
    done = home.run("memory", "forget", SECRET, "--yes")
    assert "Forgotten: MEMORY.md:" in done.out
    assert f"; {asked_for} and " in done.out, "the list and what was done count alike"
    assert holding(home) == []
    assert home.run("memory", "forget", SECRET, "--yes").out == "Nothing found.\n"
    home.run("memory", "add", "the pin of my bike is QUAGGA")
    home.run("memory", "undo")
    assert "undo" in {one.partition("/")[0] for one in holding(home, "QUAGGA")}
    assert home.run("memory", "forget", "QUAGGA", "--yes").out.startswith("1. changes: ")
    assert holding(home, "QUAGGA") == [] and "QUAGGA" not in home.run("memory", "log").out


@pytest.mark.usefixtures("told")
def test_copies_kept_aside_that_hold_the_words_go_with_them(home: Home, server: ModelServer) -> None:
    archive = home.root.parent / "archive"
    home.run("backup", str(archive))
    home.run("restore", str(archive))
    (home.root / "state.db.damaged-2026-11-22-120000").write_bytes(f"garbage {SECRET} garbage".encode())
    (home.root / "state.db.damaged-2026-11-22-130000").write_bytes(b"garbage")
    ended = home.run("memory", "forget", SECRET, "--yes")
    assert holding(home) == []
    assert "Deleted, as they contained the words too:" in ended.out
    assert (home.root / "state.db.damaged-2026-11-22-130000").exists()
    assert archive.exists()


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize("choice", [("--number", "1"), ("--number", "1,")])
def test_only_the_chosen_number_is_forgotten(home: Home, server: ModelServer, choice: tuple[str, ...]) -> None:
    home.run("memory", "forget", SECRET, *choice)
    assert FACT.encode() not in (home.workspace / "MEMORY.md").read_bytes()
    assert holding(home, "called Zebulon, it bites") == []
    assert any(name.startswith("workspace/memory/") for name in holding(home, "bit the neighbour"))


@pytest.mark.usefixtures("told")
def test_a_wrong_number_is_a_sentence(home: Home, server: ModelServer) -> None:
    assert "it has 3 numbers" in home.run("memory", "forget", SECRET, "--number", "9", check=1).err
    assert "give numbers of the list" in home.run("memory", "forget", SECRET, "--number", "x", check=2).err


def test_there_is_nothing_to_forget_in_a_new_home(home: Home) -> None:
    assert home.run("memory", "forget", "zebra", "--yes").out == "Nothing found.\n"


async def test_in_one_process_the_conversation_forgets_for_good(tmp_path: Path) -> None:
    asked = call("memory_forget", {"query": SECRET}), call("memory_forget", {"query": SECRET, "numbers": [1]})
    model = ScriptedProvider("Hello.", asked[0], "Shall I?", asked[1], "Gone.", "What parrot?")
    async with running(tmp_path, model) as here:
        (here.workspace / "MEMORY.md").write_text(f"- {FACT}\n- Likes tea\n")
        await here.ask("Hello")
        assert FACT in model.requests[-1].system.text
        await here.ask("Forget the parrot")
        await here.ask("yes")
        assert SECRET not in repr(model.requests[-1])
        assert holding(Home(tmp_path)) == []
        await here.ask("And now?")
        assert SECRET not in repr(model.requests[-1])
        assert "nothing to undo" in await here.ask("/undo")
        assert holding(Home(tmp_path)) == []


async def test_a_long_output_and_a_job_are_forgotten_too(tmp_path: Path) -> None:
    command = f"for n in $(seq 6000); do echo $n {SECRET} sat there; done"
    model = ScriptedProvider(
        call("exec", {"command": command}),
        "It is long.",
        call("memory_forget", {"query": SECRET}),
        "Shall I?",
        call("memory_forget", {"query": SECRET, "numbers": [1]}),
        "Gone.",
    )
    async with running(tmp_path, model) as here:
        await here.ask("Where did it sit?")
        await here.ask(f"/remind tomorrow at 9: feed {SECRET}")
        await here.ask("/remind tomorrow at 10: call Anna")
        (output,) = (here.workspace / "outputs").iterdir()
        assert output.read_bytes().count(SECRET.encode()) == 6000
        await here.ask("Forget the parrot")
        assert "1. conversations: " in results(here.history)[-1].text
        await here.ask("yes")
        assert "Removed, as it was about it: job 1." in results(here.history)[-1].text
        assert "Still in" not in results(here.history)[-1].text
        assert holding(Home(tmp_path)) == []
        listed = await here.ask("/jobs")
        assert "call Anna" in listed
        assert "forgotten" not in listed


async def test_what_was_forgotten_goes_from_other_plugins_too(tmp_path: Path) -> None:
    model = ScriptedProvider(call("memory_forget", {"query": SECRET, "numbers": [1]}), "Gone.")
    async with running(tmp_path, model, extra=[Aviary]) as here:
        (here.workspace / "MEMORY.md").write_text(f"- {FACT}\n")
        aviary, folder = here.public("aviary"), tmp_path / "plugins" / "aviary"
        (folder / "birds.txt").write_text(f"a tit\n{FACT}\n")
        (tmp_path / "songs").write_text(f"of {SECRET}")
        await aviary.write(lambda tx: tx.execute("INSERT INTO aviary_birds VALUES (?, ?)", FACT, SECRET))
        assert (await here.ask(f"Forget {SECRET}")) == "Gone."
        assert here.rows("SELECT * FROM aviary_birds") == [("[forgotten]", SECRET)], "a mark stays"
        assert (folder / "birds.txt").read_text() == "a tit\n[forgotten]\n"
        assert (tmp_path / "songs").read_text() == "of [forgotten]"
        assert aviary.reloads == 1


class Aviary(Plugin):
    """Somebody's, with a table, a folder and a file of its own."""

    name = "aviary"
    migrations = ("CREATE TABLE aviary_birds (words TEXT, ring TEXT) STRICT",)
    marks = ("aviary_birds.ring",)

    def __init__(self, host: Host, settings: None) -> None:
        self._songs = host.program_home / "songs"
        self.public = Birds(host)

    def files(self) -> Mapping[Path, Literal["kept", "derived"]]:
        return {self._songs: "kept"}

    def reload(self) -> None:
        self.public.reloads += 1


class Birds:
    reloads = 0

    def __init__(self, host: Host) -> None:
        self.folder, self.write = host.home, host.write
