"""A day of the assistant from a script: `python -m tests.torture.day HOME LEDGER` lives it, `again` starts on it anew.

What the platforms did and saw is written to the ledger, which lies outside of the home and outlives the process.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from nanoclaw.core.delivery import FULL_SECONDS
from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.events import Event, TurnEnded
from nanoclaw.core.messages import Address, AssistantMessage, Inbound, ModelRequest, Outbound, ToolResult, UserMessage
from nanoclaw.plugins.compaction import summary
from nanoclaw.providers.scripted import Answer, Hang, Say, ScriptedProvider
from tests.program import NOON, FakeChannel, HandClock, Program, running
from tests.torture import shim

LETTERS, WIRE = Address("letters", "anna"), Address("wire", "bob")
SHOPPING, PLAN = "lists/shopping.md", "plan.md"
LONG_TEXT = "".join(f"{number:05} a line of a plan that is longer than a block of the disk\n" for number in range(300))
SUMMARY = "Summary of the day, whole."
LOG_BYTES = 4_999_950
"""So much is in the log when the day begins: its next lines turn it over."""

Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Task:
    """A person's words, and the calls that a model answers it with, one reply after the other."""

    where: Address
    text: str
    replies: tuple[tuple[Call, ...], ...] = ()
    hangs: bool = False


def _write(path: str, content: str) -> Call:
    return "write_file", {"path": path, "content": content}


def _append(path: str, content: str) -> Call:
    return "append_file", {"path": path, "content": content}


def _edit(path: str, old: str, new: str) -> Call:
    return "edit_file", {"path": path, "old": old, "new": new}


def _remember(text: str, **more: str) -> Call:
    return "memory_add", {"text": text, **more}


def tasks(outside: Path) -> dict[str, Task]:
    """By the token that each text begins with; commands leave their lines in the file `outside`."""

    def run(token: str) -> Call:
        return "exec", {"command": f"echo {token} >> {outside}"}

    return {
        "m1": Task(LETTERS, "note that the plumber came", ((_remember("The plumber came."),),)),
        "m2": Task(WIRE, "Anna's birthday is 4 May", ((_remember("Anna's birthday: 4 May", kind="fact"),),)),
        "m3": Task(
            LETTERS,
            "make a shopping list",
            (
                (_write(SHOPPING, "bread\nmilk\n"), _append(SHOPPING, "olive oil\n")),
                (_append(SHOPPING, "salt\n"), ("read_file", {"path": SHOPPING})),
            ),
        ),
        "m4": Task(LETTERS, "and what is on it?", ((("search_files", {"pattern": "oil", "path": "lists"}),),)),
        "m5": Task(WIRE, "run my script", ((run("m5-a"),), (run("m5-b"), _remember("The script ran.")))),
        "m6": Task(LETTERS, "oat milk, not milk", ((_edit(SHOPPING, "milk", "oat milk"),),)),
        "m7": Task(
            WIRE, "no, it is 5 May", ((_remember("Anna's birthday: 5 May", kind="fact", replaces="birthday: 4 May"),),)
        ),
        "m8": Task(LETTERS, "write the long plan", ((_write(PLAN, LONG_TEXT), _remember("There is a plan.")),)),
        "m9": Task(LETTERS, "all is bought", ((_write(SHOPPING, "all bought\n"),),)),
        "m10": Task(LETTERS, "think about it", hangs=True),
        "m11": Task(LETTERS, "and then about this", ((_remember("This was thought about."),),)),
        "m12": Task(WIRE, "what was today?", ((("memory_search", {"query": "plumber"}),),)),
    }


COMMANDS = {
    "c1": (LETTERS, "/status"),
    "c2": (WIRE, "/pin answer in one line"),
    "c3": (LETTERS, "/compact"),
    "c4": (LETTERS, "/new"),
    "c5": (LETTERS, "/stop"),
    "c6": (WIRE, "/note A bird sang."),
    "c7": (LETTERS, "/undo"),
}
"""By the id that the platform gives them."""


class Ledger:
    """Each line says what happened, in which life, and how many system calls had been made by then."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries = read(path)
        self.life = 1 + max((entry["life"] for entry in self.entries), default=0)

    def note(self, what: str, **more: object) -> None:
        entry = {"life": self.life, "at": shim.count(), "what": what, **more}
        self.entries.append(entry)
        with self.path.open("a") as file:
            file.write(json.dumps(entry) + "\n")


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Platform(FakeChannel):
    """Remembers what it was sent, over restarts: a repeat gets the id that the first one got."""

    def __init__(self, name: str, ledger: Ledger, refuse: int = 0) -> None:
        """The message with number `refuse` is not taken at the first attempt."""
        super().__init__(name)
        self._ledger, self._left = ledger, refuse
        self._ids: dict[str, str] = {
            entry["key"]: entry["id"]
            for entry in ledger.entries
            if entry["what"] == "sent" and entry["channel"] == name
        }

    async def send(self, outbound: Outbound) -> str:
        self._left -= 1
        if self._left == 0:
            raise ConnectionError("the platform is down")
        is_new = outbound.key not in self._ids
        identity = self._ids.setdefault(outbound.key, f"{self.name}-{len(self._ids) + 1}")
        more = {"channel": self.name, "key": outbound.key, "id": identity, "is_new": is_new}
        self._ledger.note("sent", reply_to=outbound.reply_to, text=outbound.text, **more)
        return identity

    def show(self, address: Address, event: Event) -> None:
        if isinstance(event, TurnEnded):
            self._ledger.note("shown", text=event.answer)


@dataclass
class Model:
    """Does for each open message what its task says, one reply after the other, and then tells what it did.

    What counts is the conversation that it is shown, so a turn that goes on after a crash is gone on with.
    """

    tasks: dict[str, Task]
    hang: Hang | None = None

    def __call__(self, request: ModelRequest) -> Answer:
        begun = next((n for n, m in reversed(list(enumerate(request.history))) if _is_final(m)), -1)
        since = request.history[begun + 1 :]
        tokens = _tokens(since)
        if not tokens:
            return SUMMARY
        asked = {(c.name, c.arguments) for m in since if isinstance(m, AssistantMessage) for c in m.tool_calls}
        errors = [message.text for message in since if isinstance(message, ToolResult) and message.is_error]
        if errors:
            return f"Failed: {', '.join(tokens)} because {errors[0]}"
        for token in tokens:
            if self.tasks[token].hangs and self.hang:
                return self.hang
            for reply in self.tasks[token].replies:
                if not any((name, json.dumps(arguments, ensure_ascii=False)) in asked for name, arguments in reply):
                    return Say(f"On {token}.", reply)
        return f"Done: {', '.join(tokens)}."


def _is_final(message: object) -> bool:
    return isinstance(message, AssistantMessage) and not message.tool_calls


def _tokens(messages: Iterable[object]) -> list[str]:
    texts = [message.text for message in messages if isinstance(message, UserMessage) and message.origin == "person"]
    return [token for text in texts for token in re.findall(r"^(m\d+): ", text, re.MULTILINE)]


@dataclass
class Live:
    """One life of the process, from the platforms' side."""

    program: Program
    ledger: Ledger
    channels: tuple[Platform, ...]
    clock: HandClock

    async def say(self, identity: str, where: Address, text: str) -> bool:
        """True if the message was taken."""
        self.ledger.note("offered", id=identity, channel=where.channel, chat=where.chat, text=text)
        try:
            message = UserMessage(text, self.clock())
            await self.program.deliver(Inbound(where, "owner", identity, message))
        except NanoclawError as error:
            self.ledger.note("refused", id=identity, text=str(error))
            return False
        self.ledger.note("accepted", id=identity)
        return True

    async def settle(self) -> None:
        """Until every message is answered and every answer delivered, as far as they can be."""
        app = self.program.app
        await app.conversations.idle()
        for _ in range(3):
            for _ in range(100):
                pending = [row for channel in self.channels for row in app.outbox.pending(channel.name)]
                if not pending:
                    return
                await asyncio.sleep(0)
            full = self.clock.now + timedelta(seconds=FULL_SECONDS)
            self.clock.now = max(full, min(row.due for row in pending))  # what was refused is due again
            app.delivery.wake()
        self.ledger.note("undelivered")


@asynccontextmanager
async def awake(home: Path, ledger: Ledger, model: Model, *, refuse: int = 0) -> AsyncIterator[Live]:
    clock = HandClock(NOON + timedelta(hours=ledger.life - 1))
    channels = (Platform(LETTERS.channel, ledger), Platform(WIRE.channel, ledger, refuse))
    provider = ScriptedProvider(*[model] * 300)
    summary.TAIL_TOKENS = 300  # so that a short day has an older part, too
    async with running(
        home, provider, clock=clock, channel=channels[0], others=channels[1:], makes_store=True
    ) as program:
        _link_the_owner(program, channels)
        yield Live(program, ledger, channels, clock)


def _link_the_owner(program: Program, channels: Iterable[Platform]) -> None:
    """Once, as `nanoclaw link` would; without its codes, which are slow on purpose."""
    known = {name for (name,) in program.rows("SELECT channel FROM people")}
    for channel in channels:
        if channel.name not in known:
            with program.app.store.transaction() as db:
                sql = "INSERT INTO people (channel, sender, role, name, at) VALUES (?, 'owner', 'owner', '', '')"
                db.execute(sql, (channel.name,))


def prepare(home: Path) -> None:
    """Make what was there before the first start: a configuration, and a log that is nearly full."""
    (home / "logs").mkdir(parents=True)
    (home / "config.toml").write_text(CONFIG)
    with (home / "logs" / "nanoclaw.log").open("wb") as file:
        file.truncate(LOG_BYTES)


CONFIG = '[model]\nname = "scripted/model"\n'


async def live(home: Path, ledger: Ledger) -> None:
    """The whole day, from the first start on."""
    every, hang = tasks(outside_of(ledger.path)), Hang("I think")
    async with awake(home, ledger, Model(every, hang), refuse=2) as life:

        async def say(token: str) -> bool:
            if token in COMMANDS:
                return await life.say(token, *COMMANDS[token])
            return await life.say(token, every[token].where, f"{token}: {every[token].text}")

        for together in (
            ("m1", "m2"),
            ("m3", "m4"),
            ("m5",),
            ("c1", "c2"),
            ("m6", "m7", "m1"),
            ("m8", "c6"),
            ("c7",),
            ("c3",),
        ):
            for token in together:
                await say(token)
            await life.settle()
        for token in ("c4", "m9"):
            await say(token)
        await life.settle()
        if await say("m10"):
            waits = [
                asyncio.ensure_future(wait) for wait in (hang.reached.wait(), life.program.app.conversations.idle())
            ]
            _, unfinished = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in unfinished:
                wait.cancel()
            await say("m11")
            if not await say("c5") and not await say("c5"):
                return
            await life.settle()
        await say("m12")
        await life.settle()
    ledger.note("finished")


async def start_again(home: Path, ledger: Ledger) -> None:
    """The platforms hand in once more what they were never told to be received."""
    async with awake(home, ledger, Model(tasks(outside_of(ledger.path)))) as life:
        await life.program.app.conversations.idle()
        for offered in unacknowledged(ledger.entries):
            await life.say(offered["id"], Address(offered["channel"], offered["chat"]), offered["text"])
        await life.settle()
    ledger.note("finished")


def unacknowledged(entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages that were offered and never accepted, in order and once."""
    offered: dict[str, dict[str, Any]] = {}
    for entry in entries:
        if entry["what"] == "offered":
            offered.setdefault(entry["id"], entry)
    accepted = {entry["id"] for entry in entries if entry["what"] == "accepted"}
    return [entry for identity, entry in offered.items() if identity not in accepted]


def outside_of(ledger: Path) -> Path:
    """The file in which commands leave their lines: not in the home."""
    return ledger.with_name("outside")


def run(home: Path, ledger_path: Path, *, again: bool) -> int:
    """One life. What ends it early is a sentence for the person; anything else is raised."""
    ledger = Ledger(ledger_path)
    ledger.note("begun")
    try:
        asyncio.run(start_again(home, ledger) if again else live(home, ledger))
    except NanoclawError as error:
        ledger.note("ended", text=str(error))
        return 1
    return 0


if __name__ == "__main__":
    is_again = sys.argv[3:] == ["again"]
    if not is_again:
        prepare(Path(sys.argv[1]))
    sys.exit(run(Path(sys.argv[1]), Path(sys.argv[2]), again=is_again))
