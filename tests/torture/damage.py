"""A home damaged at random: `python -m tests.torture.damage [TIMES] [FIRST] [AIMED]`. It always starts, keeps the
damaged file as it is, names what is missing, only that where the list of tables alone is damaged, and answers the next
message."""

from __future__ import annotations

import asyncio
import io
import random
import re
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, redirect_stderr
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from nanoclaw.core.messages import ModelRequest, UserMessage
from nanoclaw.core.store.copies import COPIES, daily_copies, keep_daily_copy
from nanoclaw.core.store.db import PAGE_BYTES
from nanoclaw.core.store.recovery import NAMES
from nanoclaw.providers.scripted import Answer, ScriptedProvider, call
from tests.core.store.test_recovery import DAY, kept
from tests.program import NOON, FakeChannel, HandClock, Program, running

TIMES = 200
AIMED = 60
FIXTURE = Path(__file__).parents[1] / "fixtures" / "home_0"
LATER = NOON + timedelta(hours=6)
SECONDS = 20.0


# --- a home ----------------------------------------------------------------------------------------------------------


class Home(NamedTuple):
    """A home as a kill left it, with writes in the journal, and the copy of the store that was made before."""

    folder: Path
    copy: bytes
    rows: dict[str, set[int]]

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
        rows = _rows(program.app.store.db)
        program.app.flags.set("last", "write")  # which damage cannot be told from a power failure
        shutil.copytree(home, killed, ignore=shutil.ignore_patterns(COPIES, "state.lock", "state.db-shm", "logs"))
    return Home(killed, copy, rows)


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


def damage(home: Home, chance: random.Random, aimed: bool) -> tuple[str, bytes]:
    """The file that is damaged, and its bytes: 1 to 300 of them changed, or all after some place cut off; aimed, 1 to
    300 in a row on one page of the list of tables."""
    suffix = "" if aimed else chance.choice(("", "", "", "-wal"))
    whole = home.file(suffix)
    if aimed:
        pages = [at for at in range(0, len(whole), PAGE_BYTES) if not at or b"CREATE " in whole[at : at + PAGE_BYTES]]
        start, count = chance.choice(pages) + chance.randrange(PAGE_BYTES), chance.choice((1, 2, 10, 40, 300))
        return suffix, (whole[:start] + chance.randbytes(count) + whole[start + count :])[: len(whole)]
    if not suffix and chance.random() < 0.15:  # a log that is cut is as one that is shorter
        return suffix, whole[: chance.randrange(len(whole))]
    damaged, count = bytearray(whole), chance.choice((1, 2, 10, chance.randint(1, 300)))
    reach = chance.choice((100, 50_000, len(whole))) if chance.random() < 0.4 else 0
    start = _some_text(home, whole, chance)
    for number in range(count):
        place = chance.randrange(min(reach, len(whole))) if reach else (start + number) % len(whole)
        damaged[place] = chance.choice((chance.randrange(256), chance.randrange(32, 127)))
    return suffix, bytes(damaged)


def _some_text(home: Home, whole: bytes, chance: random.Random) -> int:
    """A place in a text of some table, each column as likely as the others."""
    with tempfile.TemporaryDirectory() as folder, closing(_opened(home, Path(folder))) as db:
        columns = db.execute(COLUMNS).fetchall()
        chance.shuffle(columns)
        for table, column in columns:
            texts = [text for (text,) in db.execute(f'SELECT "{column}" FROM "{table}"') if text and len(text) > 3]
            text = chance.choice(texts).encode() if texts else b""
            if text and (found := whole.find(text)) > 0:
                return found + chance.randrange(len(text))
    return chance.randrange(len(whole))


COLUMNS = """
    SELECT every.name, its.name FROM sqlite_schema AS every JOIN pragma_table_info(every.name) AS its
    WHERE every.type = 'table' AND its.type = 'TEXT'
"""


def _opened(home: Home, folder: Path) -> sqlite3.Connection:
    for suffix in ("", "-wal"):
        (folder / f"state.db{suffix}").write_bytes(home.file(suffix))
    return sqlite3.connect(folder / "state.db")


def _rows(db: sqlite3.Connection) -> dict[str, set[int]]:
    """The numbers of the rows of each table."""
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()]
    return {table: {row for (row,) in db.execute(f"SELECT rowid FROM {table}")} for table in tables}


# --- promises --------------------------------------------------------------------------------------------------------


def broken(place: Path, home: Home, seed: int, aimed: bool = False) -> Iterator[str]:
    """One line for each promise that does not hold."""
    chance = random.Random(seed)
    suffix, damaged = damage(home, chance, aimed)
    shutil.copytree(home.folder, place)
    (place / f"state.db{suffix}").write_bytes(damaged)
    if chance.random() < 0.5:
        (place / COPIES).mkdir()
        (place / COPIES / f"state-{DAY}.db").write_bytes(home.copy)
    told = io.StringIO()
    try:
        with redirect_stderr(told):
            wrong, has = asyncio.run(_used(place))
    except Exception as error:
        yield f"it does not start: {error!r}"
        return
    yield from wrong
    asides, said = kept(place / "state.db"), told.getvalue()
    if ("was damaged and is kept" in said) != bool(asides):
        yield f"{len(asides)} files are kept, and the person was told: {said}"
    if asides and not any(aside.read_bytes() == damaged for aside in asides):
        yield "the damaged file was changed"
    if "Nothing of it could be read" in said or "some of the last" in said:
        return
    for table, before in home.rows.items():
        named = re.search(rf"(some|at most [\d,]+) {NAMES.get(table, table)}\b", said)
        lost = len(before - has.get(table, set()))
        if lost and not (named or (table not in NAMES and "some whole tables" in said)):
            yield f"{lost} rows of {table} are missing, and the person was told: {said}"
        if aimed and named and not lost:
            yield f"no row of {table} is missing, and the person was told: {said}"


async def _used(home: Path) -> tuple[list[str], dict[str, set[int]]]:
    """Faults in an hour of the program in that home, and the rows that it began with."""
    wrong = []
    async with _awake(home) as program:
        has = _rows(program.app.store.db)
        for text in ("Are you there?", *COMMANDS, "/new", "And now?"):
            if not (answer := await _answered(program, text)):
                wrong.append(f"{text} was not answered")
            elif text.endswith("?") and text not in answer:
                wrong.append(f"{text} was answered {answer!r}")
        wrong += [f"the plugin {name} failed: {fault}" for name, fault in program.app.chain.faults.items()]
    return wrong, has


COMMANDS = ("/jobs", "/pins", "/history", "/receipts", "/status", "/heartbeat", "/why", "/budget", "/model")


def main(times: int, first: int = 0, aimed: int = AIMED) -> int:
    found = 0
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        home = lived_in(Path(name))
        for number in range(times + aimed):
            seed, is_aimed = first + number, number >= times
            for line in broken(Path(name) / str(seed), home, seed, is_aimed):
                found += 1
                print(f"damage {seed}{' of the list of tables' * is_aimed}: {line}")
            shutil.rmtree(Path(name) / str(seed))
    print(f"{times + aimed} damaged homes, {found} broken promises")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) if sys.argv[1:] else main(TIMES))
