"""`nanoclaw send`: on disk when it ends, once for each id, to a known chat; with a gateway and without."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.core.channel import Hints
from nanoclaw.core.errors import ConfigError, NanoclawError
from nanoclaw.core.messages import Address
from nanoclaw.core.plugin import Said
from nanoclaw.providers.scripted import ScriptedProvider
from tests.journeys.command import Home, Running
from tests.program import MAIN, FakeChannel, Program, running

ANNA = '[channels.telegram]\ntoken = "1:a"\nsend_to = ["555"]\n'


async def send(program: Program, *words: str, folder: str = "/", piped: str = "") -> str:
    said = Said(json.dumps([folder, piped, *words]), MAIN, MAIN, "owner", "owner", shell="nanoclaw")
    return (await program.app.commands.for_said("send", said)).text


def outbox(home: Home) -> list[Any]:
    import sqlite3

    with sqlite3.connect(home.root / "state.db") as db:
        return db.execute("SELECT channel, chat, text, state FROM outbox ORDER BY id").fetchall()


def test_without_a_gateway_it_is_on_disk_and_the_next_one_to_run_shows_it(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    assert "On disk for terminal:main: it goes out when nanoclaw runs." in home.run("send", "Dinner  at 7").out
    assert home.run("send", "--id", "a", "-", stdin="--to x\nline two\n").status == 0
    assert "with the id a is on disk already" in home.run("send", "again", "--id", "a").out
    assert (
        "--di is not understood, or lacks its value: nanoclaw send"
        in home.run("send", "again", "--di", "a", check=2).err
    )
    assert "there is no conversation 'terminal:typo'" in home.run("send", "--to", "terminal:typo", "x", check=2).err
    texts = ["Dinner  at 7", "--to x\nline two"]
    assert outbox(home) == [("terminal", "main", text, "pending") for text in texts]
    failed = home.run("send", "--wait", "now", check=1)
    assert "it is saved, but nothing can deliver it to terminal:main now: start nanoclaw gateway." in failed.err
    assert home.run("send", "--to", "telegram:5", "x", check=2).err.count("\n") == 1
    assert len(outbox(home)) == 3


def test_while_one_runs_it_goes_out_through_that(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    with closing(Running(home, "gateway")) as gateway:
        gateway.expect("Ctrl-C ends it.")
        told = json.loads(home.run("send", "--to", "terminal:main", "--id", "1", "Milk", "--json").out)
        assert (told["to"], told["state"], told["new"]) == ("terminal:main", "pending", True)
        assert not json.loads(home.run("send", "--id", "1", "Milk", "--json").out)["new"]
    assert outbox(home) == [("terminal", "main", "Milk", "pending")]


async def test_it_waits_until_the_platform_has_it_and_says_why_not(tmp_path: Path) -> None:
    chat = FakeChannel("telegram")
    async with running(tmp_path, ScriptedProvider("Hm."), settings=ANNA, others=[chat], wakes=True) as program:
        await program.ask("Hi", chat="pantry")
        assert await send(program, "--wait", "--to", "telegram:555", "It is done") == "Delivered to telegram:555."
        assert (await chat.sent.get()).text == "It is done"
        with pytest.raises(ConfigError, match=r"nobody in telegram:666 has written yet"):
            await send(program, "--to", "telegram:666", "x")
        assert await send(program, "Milk") == "On disk for terminal:pantry: it goes out as soon as it can."
        assert (await program.channel.sent.get()).address == Address("terminal", "pantry")
        said = program.app.sessions.of(Address("terminal", "pantry")).history[-1]
        assert said.text == "Milk"
        await program.ask("/panic")
        with pytest.raises(NanoclawError, match=r"/panic holds everything"):
            await send(program, "--wait", "x")


async def test_a_file_is_copied_first_and_is_sent_whatever_becomes_of_it(tmp_path: Path) -> None:
    file = tmp_path / "a report.txt"
    file.write_text("numbers")
    chat = FakeChannel(hints=Hints(caption=100, file_bytes=1_000, notices=True))
    async with running(tmp_path / "home", ScriptedProvider(), channel=chat) as program:
        await send(program, "--file", file.name, "Look", folder=str(tmp_path))
        file.unlink()
        sent = await program.channel.sent.get()
        assert Path(sent.files[0]).read_text() == "numbers" and Path(sent.files[0]).name == file.name
        file.touch()
        with pytest.raises(ConfigError, match=r"it is empty"):
            await send(program, "--file", str(file))
        for wrong in (
            ("--to", "nowhere", "x"),
            ("--nope", "x"),
            ("--id", " ", "x"),
            ("-",),
            ("\u200b",),
            ("--file",),
            ("x" * 100_001,),
        ):
            with pytest.raises(ConfigError):
                await send(program, *wrong)
        with pytest.raises(ConfigError, match=r"it cannot be sent: .*/nope"):
            await send(program, "--file", "/nope", "x")
        assert "attach the file" in await program.ask("/send --file a.txt x")
        await program.say("/send --to terminal:main Well, two\nlines")
        assert {(await program.channel.sent.get()).text for _ in "ab"} >= {"Well, two\nlines"}
