"""A home damaged at random: `python -m tests.torture.damage [TIMES] [FIRST]`. It always starts, keeps the damaged file
as it is, names what is missing, and answers the next message."""

from __future__ import annotations

import asyncio
import os
import random
import re
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from nanoclaw.core.messages import ModelRequest, UserMessage
from nanoclaw.core.store.copies import COPIES, daily_copies, keep_daily_copy
from nanoclaw.core.store.recovery import NAMES
from nanoclaw.providers.scripted import Answer, ScriptedProvider, call
from tests.core.store.test_recovery import DAY, kept, warnings
from tests.program import NOON, FakeChannel, HandClock, Program, running

TIMES = 200
FIXTURE = Path(__file__).parents[1] / "fixtures" / "home_0"
LATER = NOON + timedelta(hours=6)
SECONDS = 20.0


# --- a home ----------------------------------------------------------------------------------------------------------


class Home(NamedTuple):
    """A home as a kill left it, with writes in the journal, and the copy of the store that was made before."""

    folder: Path
    copy: bytes

    def file(self, suffix: str) -> bytes:
        return (self.folder / f"state.db{suffix}").read_bytes()


def lived_in(folder: Path) -> Home:
    """One in which every table has rows."""
    home = folder / "home"
    shutil.copytree(FIXTURE, home, ignore=shutil.ignore_patterns("config.toml", "state.sql"))
    with closing(sqlite3.connect(home / "state.db")) as db:
        db.executescript((FIXTURE / "state.sql").read_text("utf-8"))
    return asyncio.run(_lived_in(home, folder / "killed"))


async def _lived_in(home: Path, killed: Path) -> Home:
    async with _awake(home) as program:
        for number in range(20):
            await _answered(program, f"letter {number}")
            await _answered(program, f"/remind in {number + 1} days: water plant {number}")
        keep_daily_copy(program.app.store.path, DAY)
        copy = next(each for each in daily_copies(program.app.store.path) if str(DAY) in each.name).read_bytes()
        for number in range(20, 40):
            await _answered(program, f"letter {number}")
            await _answered(program, f"/pin rule {number}")
        program.app.facts.learned_window("scripted/model", 100_000)
        program.app.flags.set("some", "switch")
        shutil.copytree(home, killed, ignore=shutil.ignore_patterns(COPIES, "state.lock", "state.db-shm", "logs"))
    return Home(killed, copy)


@asynccontextmanager
async def _awake(home: Path) -> AsyncIterator[Program]:
    model, telegram = ScriptedProvider(*[_model] * 500), FakeChannel("telegram")
    async with running(home, model, others=[telegram], clock=HandClock(LATER), wakes=True, seconds=SECONDS) as program:
        yield program


def _model(request: ModelRequest) -> Answer:
    """Writes a file for each letter, and says which messages it has read."""
    last = request.history[-1]
    if isinstance(last, UserMessage) and (letter := re.search(r"letter (\d+)", last.text)):
        return call("write_file", {"path": f"letters/{letter[1]}.md", "content": f"{letter[1]} {'y' * 300}"})
    said = [message.text for message in request.history if isinstance(message, UserMessage)]
    return f"Read: {said[-1] if said else ''} {'x' * 300}"


async def _answered(program: Program, text: str) -> str:
    """The answer to that; what else is sent meanwhile is let by."""
    await program.say(text)
    await program.app.conversations.idle()
    ((row,),) = program.rows("SELECT max(id) FROM inbox WHERE channel = 'terminal'")
    found = program.rows("SELECT text FROM outbox WHERE inbox = ? AND state IN ('pending', 'delivered')", row)
    return str(found[-1][0]) if found else ""


# --- damages ---------------------------------------------------------------------------------------------------------


def damage(home: Home, chance: random.Random) -> tuple[str, bytes]:
    """The file that is damaged, and its bytes: 1 to 300 of them changed, or all after some place cut off."""
    suffix = chance.choice(("", "", "", "-wal"))
    whole = home.file(suffix)
    if chance.random() < 0.15:
        return suffix, whole[: chance.randrange(len(whole))]
    damaged, count = bytearray(whole), chance.choice((1, 2, 10, chance.randint(1, 300)))
    reach = chance.choice((100, 50_000, len(whole))) if chance.random() < 0.4 else 0
    start = _some_text(home, whole, chance)
    for number in range(count):
        place = chance.randrange(min(reach, len(whole))) if reach else (start + number) % len(whole)
        damaged[place] = chance.choice((chance.randrange(256), chance.randrange(32, 127)))
    return suffix, bytes(damaged)


def _some_text(home: Home, whole: bytes, chance: random.Random) -> int:
    """Where a text of some table stands, each table as likely as the others."""
    with tempfile.TemporaryDirectory() as folder, closing(_opened(home, Path(folder))) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()]
        chance.shuffle(tables)
        for table in tables:
            texts = [text for row in db.execute(f"SELECT * FROM {table}") for text in row if isinstance(text, str)]
            if texts and (found := [place for text in chance.sample(texts, min(9, len(texts))) if len(text) > 3
                                    and (place := whole.find(text.encode())) > 0]):
                return found[0]
    return chance.randrange(len(whole))


def _opened(home: Home, folder: Path) -> sqlite3.Connection:
    for suffix in ("", "-wal"):
        (folder / f"state.db{suffix}").write_bytes(home.file(suffix))
    return sqlite3.connect(folder / "state.db")


def rows(path: Path) -> dict[str, set[object]]:
    """The numbers of the rows of each table."""
    with closing(sqlite3.connect(path)) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()]
        return {table: {row for (row,) in db.execute(f"SELECT rowid FROM {table}")} for table in tables}


# --- promises --------------------------------------------------------------------------------------------------------


def broken(place: Path, home: Home, seed: int) -> Iterator[str]:
    """One line for each promise that does not hold."""
    chance = random.Random(seed)
    suffix, damaged = damage(home, chance)
    shutil.copytree(home.folder, place)
    had = rows_of(home)
    (place / f"state.db{suffix}").write_bytes(damaged)
    if chance.random() < 0.5:
        (place / COPIES).mkdir()
        (place / COPIES / f"state-{DAY}.db").write_bytes(home.copy)
    try:
        with warnings() as said:
            yield from asyncio.run(_used(place))
    except Exception as error:
        yield f"it does not start: {error!r}"
        return
    told = "".join(said)
    asides = kept(place / "state.db")
    if (told.count("damaged") > 0) != bool(asides):
        yield f"{len(asides)} files are kept, and the person was told: {told}"
    if asides and not any(aside.read_bytes() == damaged for aside in asides):
        yield "the damaged file was changed"
    if "Nothing of it could be read" in told:
        return
    for table, before in had.items():
        lost = len(before - rows(place / "state.db").get(table, set()))
        if lost and NAMES.get(table, table) not in told and "last writes" not in told:
            yield f"{lost} rows of {table} are missing, and the person was told: {told}"


def rows_of(home: Home) -> dict[str, set[object]]:
    with tempfile.TemporaryDirectory() as folder:
        _opened(home, Path(folder)).close()
        return rows(Path(folder) / "state.db")


async def _used(home: Path) -> list[str]:
    """Wrong things in an hour of the program in that home."""
    wrong = []
    async with _awake(home) as program:
        for text in ("Are you there?", "/jobs", "/pins", "/history", "/receipts", "/status", "/heartbeat", "/new", "And now?"):
            if not (answer := await _answered(program, text)):
                wrong.append(f"{text} was not answered")
            elif text.endswith("?") and text not in answer:
                wrong.append(f"{text} was answered {answer!r}")
        wrong += [f"the plugin {name} failed: {fault}" for name, fault in program.app.chain.faults.items()]
    return wrong


def main(times: int, first: int = 0) -> int:
    found = 0
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        home = lived_in(Path(name))
        for seed in range(first, first + times):
            for line in broken(Path(name) / str(seed), home, seed):
                found += 1
                print(f"damage {seed}: {line}")
            shutil.rmtree(Path(name) / str(seed))
    print(f"{times} damaged homes, {found} broken promises")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) if sys.argv[1:] else main(TIMES))
