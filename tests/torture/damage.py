"""A week's home, as shipped, damaged at random: `python -m tests.torture.damage [TIMES] [FIRST]` prints what each kind
of damage costs.

Every row whose bytes are whole is still there, and every row that SQLite's own `.recover` reads. The home always
starts, keeps the damaged file as it is, names what is missing, and answers the next message.
"""

from __future__ import annotations

import asyncio
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, suppress
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from nanoclaw.core.messages import ModelRequest, UserMessage
from nanoclaw.providers.scripted import Answer, ScriptedProvider, call
from nanoclaw.sqlite_salvage.copies import COPIES
from nanoclaw.sqlite_salvage.table_list import WHOLE_TABLES
from nanoclaw.sqlite_salvage.wal import WriteAheadLog
from nanoclaw.start.build import ModelFacts, classes
from nanoclaw.start.config import load
from nanoclaw.start.opening import PAGE_BYTES, open_store
from nanoclaw.start.recovery import NAMES
from tests.core.store.test_recovery import DAY, kept, warnings
from tests.program import NOON, FakeChannel, HandClock, Program, running

TIMES = 30
"""Damages of each kind."""
FIXTURE = Path(__file__).parents[1] / "fixtures" / "home_0"
CHATS = ("main", "garden", "trip", "taxes", "recipes", "music")
SECONDS = 60.0

Rows = dict[str, dict[int, tuple[object, ...]]]
"""The rows of each table by their numbers."""
Links = dict[tuple[str, int], set[tuple[str, int]]]


# --- a home ----------------------------------------------------------------------------------------------------------


class Home(NamedTuple):
    """A home as a kill left it, with writes of its last day in the journal, and the store of the day before."""

    folder: Path
    copy: bytes
    rows: Rows
    links: Links

    def file(self, suffix: str) -> bytes:
        return (self.folder / f"state.db{suffix}").read_bytes()


def lived_in(folder: Path, days: int = 7) -> Home:
    """One in which every table has rows."""
    home = folder / "home"
    shutil.copytree(FIXTURE, home, ignore=shutil.ignore_patterns("config.toml", "state.sql"))
    with closing(sqlite3.connect(home / "state.db")) as db:
        db.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        db.executescript((FIXTURE / "state.sql").read_text("utf-8"))
    return asyncio.run(_lived_in(home, folder / "killed", days))


async def _lived_in(home: Path, killed: Path, days: int) -> Home:
    for day in range(1, days):
        async with _awake(home, day) as program:
            await _a_day(program, day)
    with closing(sqlite3.connect(home / "state.db", isolation_level=None)) as db:
        _fill_the_empty(db)
    copy = (home / "state.db").read_bytes()
    async with _awake(home, days) as program:
        await _a_day(program, days)
        ModelFacts(program.app.store).learned_window("scripted/model", 100_000)
        program.app.flags.set("last", "write")  # which damage cannot be told from a power failure
        rows, links = rows_of(program.app.store.db), links_of(program.app.store.db)
        shutil.copytree(home, killed, ignore=shutil.ignore_patterns(COPIES, "state.lock", "state.db-shm", "logs"))
    return Home(killed, copy, rows, links)


async def _a_day(program: Program, day: int) -> None:
    for number, chat in enumerate(CHATS, 10 * day):
        await _answered(program, f"letter {number}", chat)
    for command in (f"/remind in {day} days: water the plants", f"/pin rule {day}", f"/note A bird sang {day} times."):
        await _answered(program, command)


@asynccontextmanager
async def _awake(home: Path, day: int) -> AsyncIterator[Program]:
    model, telegram = ScriptedProvider(*[_model] * 500), FakeChannel("telegram")
    clock = HandClock(NOON + timedelta(days=day))
    async with running(home, model, others=[telegram], clock=clock, wakes=True, seconds=SECONDS) as program:
        yield program


def _model(request: ModelRequest) -> Answer:
    """Writes a file for each letter, and says which messages it has read."""
    last = request.history[-1]
    if isinstance(last, UserMessage) and (letter := re.search(r"letter (\d+)", last.text)):
        return call("write_file", {"path": f"letters/{letter[1]}.md", "content": f"{letter[1]} {'y' * 900}"})
    said = [message.text for message in request.history if isinstance(message, UserMessage)]
    return f"Read: {said[-1] if said else ''} {'x' * 300}"


async def _answered(program: Program, text: str, chat: str = "main") -> str:
    """The answer to that; what else is sent meanwhile is let by."""
    await program.say(text, chat)
    await program.app.conversations.idle()
    ((row,),) = program.rows("SELECT max(id) FROM inbox WHERE channel = 'terminal'")
    found = program.rows("SELECT text FROM outbox WHERE inbox = ? AND state IN ('pending', 'delivered')", row)
    return str(found[-1][0]) if found else ""


def _fill_the_empty(db: sqlite3.Connection) -> None:
    """Give each table twelve rows at least, whatever its columns may hold."""
    for table, sql in db.execute(TABLES).fetchall():
        choices: dict[str, list[Any]] = {
            name: re.findall(r"'(\w+)'", words) for name, words in re.findall(r"(\w+) IN \(([^)]*)\)", sql)
        }
        for _, _, parent, column, *_ in db.execute(f"PRAGMA foreign_key_list({table})").fetchall():
            choices[column] = [row for (row,) in db.execute(f"SELECT rowid FROM {parent} ORDER BY rowid DESC")]
        columns = db.execute(f"PRAGMA table_info({table})").fetchall()
        ((already,),) = db.execute(f"SELECT count(*) FROM {table}")
        for number in range(already, 12):
            values = [
                None if (name, kind, key) == ("id", "INTEGER", 1) else _value(number, name, kind, choices.get(name, []))
                for _, name, kind, _, _, key in columns
            ]
            db.execute(f"INSERT INTO {table} VALUES (?{', ?' * (len(values) - 1)})", values)


def _value(number: int, name: str, kind: str, choices: list[Any]) -> object:
    if choices:
        return choices[number % len(choices)]
    if name == "conversation":
        return f"terminal:\n{number}"  # some plugins put one between channel and chat, some the other
    if kind == "TEXT":
        return USUAL.get(name, f"{NOON + timedelta(days=30, hours=number)}")
    return number if kind != "BLOB" else random.Random(number).randbytes(5000)


USUAL = {"state": "told", "exact": "", "until": ""} | dict.fromkeys(
    ("arguments", "options", "items", "files", "hashes", "texts", "buttons", "rule", "sources", "body"), "[]"
)
"""What the columns of these names hold; others hold a time."""
TABLES = "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'sqlite_*'"


def rows_of(db: sqlite3.Connection) -> Rows:
    """All rows; links to others, which may be emptied when those are lost, are left out."""
    found: Rows = {}
    for table, _ in db.execute(TABLES).fetchall():
        links = {each[3] for each in db.execute(f"PRAGMA foreign_key_list({table})")}
        own = [at for at, name, *_ in db.execute(f"PRAGMA table_info({table})").fetchall() if name not in links]
        usual, db.text_factory = db.text_factory, bytes  # what is no text any more can be read, too
        with suppress(UnicodeDecodeError):  # in the name of a column
            rows = db.execute(f"SELECT rowid, * FROM {table}").fetchall()
            found[table] = {row[0]: tuple(row[1 + at] for at in own) for row in rows}
        db.text_factory = usual
    return found


def links_of(db: sqlite3.Connection) -> Links:
    """What each row cannot be without."""
    found: Links = defaultdict(set)
    for table, _ in db.execute(TABLES).fetchall():
        columns = {each[1] for each in db.execute(f"PRAGMA table_info({table})") if each[3] or each[5]}
        for _, _, parent, column, *_ in db.execute(f"PRAGMA foreign_key_list({table})").fetchall():
            if column in columns:
                for row, link in db.execute(f"SELECT rowid, {column} FROM {table}"):
                    found[table, row].add((parent, link))
    return found


# --- damages ---------------------------------------------------------------------------------------------------------


def some_bytes(whole: bytes, chance: random.Random) -> bytes:
    """One to 300 of them changed: in a row, in the header, or anywhere."""
    damaged, number = bytearray(whole), chance.choice((1, 2, 10, chance.randint(1, 300)))
    reach = chance.choice((0, 0, 0, 100, 50_000, len(whole)))
    start = chance.randrange(len(whole))
    for at in range(start, start + number):
        place = chance.randrange(min(reach, len(whole))) if reach else at % len(whole)
        damaged[place] = chance.choice((chance.randrange(256), chance.randrange(32, 127)))
    return bytes(damaged)


def zeroed_pages(whole: bytes, chance: random.Random) -> bytes:
    """One to four of them."""
    damaged = bytearray(whole)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        at = PAGE_BYTES * chance.randrange(len(whole) // PAGE_BYTES)
        damaged[at : at + PAGE_BYTES] = bytes(PAGE_BYTES)
    return bytes(damaged)


def list_of_tables(whole: bytes, chance: random.Random) -> bytes:
    """One to 300 in a row changed on one of its pages."""
    pages = [at for at in range(0, len(whole), PAGE_BYTES) if not at or b"CREATE " in whole[at : at + PAGE_BYTES]]
    start, number = chance.choice(pages) + chance.randrange(PAGE_BYTES), chance.choice((1, 2, 10, 40, 300))
    return (whole[:start] + chance.randbytes(number) + whole[start + number :])[: len(whole)]


def a_cut(whole: bytes, chance: random.Random) -> bytes:
    return whole[: chance.randrange(1, len(whole))]


KINDS: dict[str, tuple[str, Callable[[bytes, random.Random], bytes]]] = {
    "bytes": ("", some_bytes),
    "zeroed pages": ("", zeroed_pages),
    "list of tables": ("", list_of_tables),
    "cut": ("", a_cut),
    "journal: bytes": ("-wal", some_bytes),
    "journal: zeroed": ("-wal", zeroed_pages),
    "journal: cut": ("-wal", a_cut),
    "journal: missing": ("-wal", lambda whole, chance: b""),
}
"""The file that is damaged, and how."""


# --- what is to be there after it -----------------------------------------------------------------------------------


def shell() -> str | None:
    """SQLite's own program, where it is installed with `.recover`: some systems leave the command without its works."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.db"
        with closing(sqlite3.connect(path)) as db:
            db.execute("CREATE TABLE one (a)")
        found = shutil.which("sqlite3")
        told = subprocess.run([found, path, ".recover"], capture_output=True).stdout if found else b""
    return found if b"one" in told else None


def recovered(program: str, place: Path) -> Rows:
    """The rows that SQLite's own program reads of the store in this folder."""
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        copies = [shutil.copy(place / name, folder) for name in ("state.db", "state.db-wal")]
        read = subprocess.run([program, copies[0], ".recover --ignore-freelist"], capture_output=True)
        subprocess.run([program, f"{folder}/new.db"], input=read.stdout, capture_output=True)
        with closing(sqlite3.connect(f"{folder}/new.db")) as db:
            db.text_factory = lambda text: text.decode(errors="replace")
            return rows_of(db)


def untouched(home: Home, kind: str, damaged: bytes) -> Rows:
    """The rows of which every byte is as it was: their page in the tree, those where the rest of a long row is, and
    that which says whose they are."""
    file, journal = home.file(""), home.file("-wal")
    whole, found = played(file, journal), played(file, b"") if KINDS[kind][0] else played(damaged, journal)
    same = {at for at in _pages(whole) if _page(whole, at) == _page(found, at)}
    listings = _listings(whole)
    return {
        table: {
            number: home.rows[table][number] for number, pages in _places(whole, root) if pages | {listings[at]} <= same
        }
        for at, table, root in _roots(whole)
    }


def played(file: bytes, journal: bytes) -> bytes:
    return _log(journal).played_into(file)


@cache
def _log(journal: bytes) -> WriteAheadLog:
    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder) / "wal").write_bytes(journal)
        return WriteAheadLog(path)


def _pages(content: bytes) -> range:
    return range(1, len(content) // PAGE_BYTES + 1)


def _page(content: bytes, number: int) -> bytes:
    return content[(number - 1) * PAGE_BYTES : number * PAGE_BYTES]


def _listings(content: bytes) -> dict[int, int]:
    """The page of each row of the list of tables."""
    return {row: max(pages) for row, pages in _places(content, 1)}


def _roots(content: bytes) -> list[tuple[int, str, int]]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.deserialize(content[:18] + b"\1\1" + content[20:])
        return db.execute(TABLES.replace("name, sql", "rowid, name, rootpage")).fetchall()


def _places(content: bytes, number: int) -> Iterator[tuple[int, set[int]]]:
    """Each row of a tree, and the pages where it stands."""
    page, begin = _page(content, number), 100 if number == 1 else 0
    is_leaf = page[begin] == 0x0D
    cells = begin + (8 if is_leaf else 12)
    for at in range(cells, cells + 2 * _number(page, begin + 3, 2), 2):
        cell = _number(page, at, 2)
        if not is_leaf:
            yield from _places(content, _number(page, cell, 4))
            continue
        length, cell = _varint(page, cell)
        row, cell = _varint(page, cell)
        most, least = PAGE_BYTES - 35, (PAGE_BYTES - 12) * 32 // 255 - 23
        here = least + (length - least) % (PAGE_BYTES - 4)
        pages, more = {number}, _number(page, cell + (here if here <= most else least), 4) if length > most else 0
        while more:
            pages.add(more)
            more = _number(_page(content, more), 0, 4)
        yield row, pages
    if not is_leaf:
        yield from _places(content, _number(page, begin + 8, 4))


def _number(content: bytes, at: int, length: int) -> int:
    return int.from_bytes(content[at : at + length], "big")


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = 0
    while content[at] & 0x80:
        value, at = value << 7 | content[at] & 0x7F, at + 1
    return value << 7 | content[at], at + 1


# --- promises --------------------------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """Rows of one damaged home, each counted where it is as it was."""

    was_noticed: bool
    before: int
    after: int
    untouched: int
    recovered: int
    broken: list[str]
    lost_untouched: int
    lost_recovered: int


def disturbed(
    place: Path, home: Home, kind: str, seed: int, *, program: str | None = None, lives: bool = False
) -> Outcome:
    """Damage a copy of the home in that place, and open it; compare it with what the program reads, and where it
    `lives`, talk to it."""
    chance = random.Random(f"{kind} {seed}")
    suffix, way = KINDS[kind]
    damaged = way(home.file(suffix), chance)
    shutil.copytree(home.folder, place)
    (place / f"state.db{suffix}").write_bytes(damaged)
    if chance.random() < 0.15:
        (place / COPIES).mkdir()
        (place / COPIES / f"state-{DAY}.db").write_bytes(home.copy)
    by_shell = recovered(program, place) if program else {}
    whole, broken = untouched(home, kind, damaged), list[str]()
    with warnings() as said:
        store = open_store(place / "state.db", plugins=kinds())
        has = rows_of(store.db)
        store.close()
    told, asides = "".join(said), kept(place / "state.db")
    if ("was damaged and is kept" in told) != bool(asides):
        broken.append(f"{len(asides)} files are kept, and the person was told: {told}")
    if asides and not any(aside.read_bytes() == damaged for aside in asides):
        broken.append("the damaged file was changed")
    lost = {
        name: _own(left(_common(wanted, home.rows), has), home, has)
        for name, wanted in (("untouched", whole), ("recovered", by_shell))
    }
    for name, rows in lost.items():
        if rows:
            broken.append(f"rows that were {name} are lost: {_counted(rows)}; the person was told: {told}")
    if asides and "some of the last" not in told:
        for table, missing in left(home.rows, has, is_changed=False).items():
            words = NAMES.get(table, f"rows of {table.replace('_', ' ')}")
            is_named = re.search(rf"(some|at most [\d,]+) {words}\b", told) or "Nothing of it could be read" in told
            is_new = len(has.get(table, {})) <= 1  # made again, with one row at most
            is_whole = is_new and f"some {WHOLE_TABLES}" in told
            if not is_named and not is_whole:
                broken.append(f"{len(missing)} rows of {table} are missing, and the person was told: {told}")
    if lives:
        broken += asyncio.run(_used(place))
    return Outcome(
        bool(asides),
        _size(home.rows),
        _size(_common(has, home.rows)),
        _size(whole),
        _size(_common(by_shell, home.rows)),
        broken,
        _size(lost["untouched"]),
        _size(lost["recovered"]),
    )


@cache
def kinds() -> list[Any]:
    return list(classes(load({"NANOCLAW_HOME": "/nowhere"})))


def _common(some: Rows, others: Rows) -> Rows:
    """The rows that are the same in both."""
    return {
        table: {number: row for number, row in rows.items() if others.get(table, {}).get(number) == row}
        for table, rows in some.items()
    }


def left(some: Rows, others: Rows, *, is_changed: bool = True) -> Rows:
    """The rows that the others lack, those that they have otherwise among them."""
    found = {
        table: {
            number: row
            for number, row in rows.items()
            if number not in others.get(table, {}) or (is_changed and others[table][number] != row)
        }
        for table, rows in some.items()
    }
    return {table: rows for table, rows in found.items() if rows}


def _own(lost: Rows, home: Home, has: Rows) -> Rows:
    """Without rows that cannot be without others, which are lost."""
    own = {
        table: {
            number: row
            for number, row in rows.items()
            if all(link in has.get(parent, {}) for parent, link in home.links.get((table, number), ()))
        }
        for table, rows in lost.items()
    }
    return {table: rows for table, rows in own.items() if rows}


def _size(rows: Rows) -> int:
    return sum(map(len, rows.values()))


def _counted(rows: Rows) -> str:
    return ", ".join(f"{len(each)} of {table}" for table, each in rows.items())


async def _used(home: Path) -> list[str]:
    """Faults in an hour of the program in that home."""
    wrong = []
    async with _awake(home, 8) as program:
        for text in ("Are you there?", *COMMANDS, "/new", "And now?"):
            if not (answer := await _answered(program, text)):
                wrong.append(f"{text} was not answered")
            elif text.endswith("?") and text not in answer:
                wrong.append(f"{text} was answered {answer!r}")
        wrong += [f"the plugin {name} failed: {fault}" for name, fault in program.app.chain.faults.items()]
    return wrong


COMMANDS = ("/jobs", "/pins", "/history", "/receipts", "/status", "/heartbeat", "/why", "/budget", "/model")


def main(times: int = TIMES, first: int = 0) -> int:
    broken, program = 0, shell()
    if not program:
        print("not compared with .recover: there is no sqlite3 that has it.")
    print(
        f"{'':<18}{'noticed':>8}{'rows':>9}{'after':>9}{'untouched':>11}{'lost':>6}{'.recover':>10}{'lost':>6}{'broken':>8}"
    )
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        home = lived_in(Path(name))
        for kind in KINDS:
            sums, noticed = Counter[str](), 0
            for seed in range(first, first + times):
                place = Path(name) / "damaged"
                try:
                    one = disturbed(place, home, kind, seed, program=program, lives=seed % 3 == 0)
                finally:
                    shutil.rmtree(place, ignore_errors=True)
                for line in one.broken:
                    print(f"  {kind} {seed}: {line}")
                noticed += one.was_noticed
                sums.update(rows=one.before, after=one.after, untouched=one.untouched, recovered=one.recovered)
                sums.update(lost=one.lost_untouched, lost_recovered=one.lost_recovered, broken=len(one.broken))
            print(
                f"{kind:<18}{noticed:>8}{sums['rows']:>9,}{sums['after']:>9,}{sums['untouched']:>11,}{sums['lost']:>6,}"
                f"{sums['recovered']:>10,}{sums['lost_recovered']:>6,}{sums['broken']:>8,}",
                flush=True,
            )
            broken += sums["broken"]
    print(f"{times * len(KINDS)} damaged homes, {broken} broken promises")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
