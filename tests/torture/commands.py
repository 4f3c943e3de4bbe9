"""Commands with an effect: `python -m tests.torture.commands` kills each at every system call of a life of its own.

What is left after the next start is what an undisturbed life leaves: one effect, and one reply.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.messages import Address, AssistantMessage, Inbound, ModelRequest, ToolResult, UserMessage
from nanoclaw.plugins.backup.backup import finish_restore, restore
from nanoclaw.plugins.schedule.plugin import Schedule
from nanoclaw.providers.scripted import Answer, ScriptedProvider, call
from tests.program import MAIN, NOON, HandClock, Program, running
from tests.torture import shim
from tests.torture.day import Ledger, Platform, read

if TYPE_CHECKING:
    from tests.torture.trials import Trials

NOW = NOON + timedelta(minutes=5)
SETTINGS = "[limits]\nday_usd = 1.0\n[heartbeat]\nevery = '0'\n"
LETTERS = Address("letters", "anna")
SECRET = "zanzibar"


@dataclass(frozen=True)
class Story:
    """`before` is said undisturbed; then `said`, from the terminal or a chat app."""

    said: str
    before: tuple[str, ...] = ()
    where: Address = MAIN
    prepare: Callable[[Program], Awaitable[None]] | None = None


async def _fire(program: Program) -> None:
    """Let all fire that is due by now."""
    (schedule,) = (one for one in program.app.plugins if isinstance(one, Schedule))
    await schedule.public.loop.tick(NOW)
    await program.app.conversations.idle()


async def _account(program: Program) -> None:
    def change(tx: Any) -> None:
        sql = "INSERT INTO people (channel, sender, role, name, at) VALUES ('letters', 'bob', 'guest', 'Bob', '')"
        tx.execute(sql)

    program.app.transactions.write_now(change)


async def _code(program: Program) -> None:
    code = program.app.transactions.write_now(lambda tx: program.public("access").accounts.new_link(tx, "letters"))
    (program.root / "code").write_text(code)


async def _fly(program: Program) -> None:
    """Change something since all was saved."""
    (program.workspace / "MEMORY.md").write_text("- It flew away.\n")


REMINDER = "/remind at 12:01: call Anna"
STORIES = {
    "remind": Story("/remind in 20 minutes: call Anna"),
    "cron add": Story("/cron add every day at 9: pills"),
    "cron pause": Story("/cron pause 1", ("/cron add every day at 9: pills",)),
    "cron resume": Story("/cron resume 1", ("/cron add every day at 9: pills", "/cron pause 1")),
    "cron remove": Story("/cron remove 1", ("/cron add every day at 9: pills",)),
    "cron run": Story("/cron run 1", ("/cron add every day at 9: pills",)),
    "done": Story("done 1", (REMINDER,), prepare=_fire),
    "snooze": Story("snooze 1 10m", (REMINDER,), prepare=_fire),
    "stop of a reminder": Story("stop 1", ("/cron add every minute: water",), prepare=_fire),
    "pin": Story("/pin Never run `git push`"),
    "unpin": Story("/unpin 1", ("/pin Never run `git push`",)),
    "budget": Story("/budget yes"),
    "link remove": Story("/pair remove letters:bob", prepare=_account),
    "link by code": Story("/link CODE", where=LETTERS, prepare=_code),
    "note": Story("/note A bird sang."),
    "undo of a file": Story("/undo", ("write it", "write it anew")),
    "undo of a removal": Story("/undo", ("/cron add every day at 9: pills", "/cron remove 1")),
    "forget": Story(
        "forget it", (f"/note The word is {SECRET}.", f"/note Another {SECRET} line.", "/note A bird sang.")
    ),
    "backup": Story("/backup HOME/../saved.tar.gz", ("/note A bird sang.",)),
    "restore": Story("", ("/note A bird sang.", "/backup HOME/../saved.tar.gz"), prepare=_fly),
}


def model(request: ModelRequest) -> Answer:
    """Writes, and forgets, as the last message of the person asks."""
    said = next(n for n, m in reversed(list(enumerate(request.history))) if getattr(m, "origin", "") == "person")
    asked, since = request.history[said].text, request.history[said + 1 :]
    done = [message for message in since if isinstance(message, ToolResult)]
    calls = [message for message in since if isinstance(message, AssistantMessage)]
    if "write it" in asked and not done:
        return call("write_file", {"path": "plan.md", "content": "two\n" if "anew" in asked else "one\n"})
    if asked.startswith("forget it"):
        if not done or done[-1].is_error:  # broken off: as a model would, it looks again
            return call("memory_forget", {"query": SECRET}) if len(calls) < 6 else "It did not work."
        numbers = re.findall(r"^(\d+)\. ", done[-1].text, re.MULTILINE)
        if numbers and "nothing is forgotten yet" in done[-1].text:
            return call("memory_forget", {"query": SECRET, "numbers": [int(one) for one in numbers]})
        return "It is forgotten."
    return '{"tool": "", "commands": [], "paths": []}' if not asked else "Well."


async def _living(home: Path, ledger: Ledger, story: Story, *, is_before: bool = False) -> None:
    """Say what comes before, or give the command, as a platform does until it is told that it was received."""
    terminal, letters = Platform("terminal", ledger), Platform("letters", ledger)
    clock = HandClock(NOON if is_before else NOW)
    async with running(
        home, ScriptedProvider(*[model] * 50), channel=terminal, others=[letters], clock=clock, settings=SETTINGS
    ) as program:

        async def say(identity: str, where: Address, text: str) -> None:
            try:
                await program.deliver(Inbound(where, "anna", identity, UserMessage(text, clock())))
            except NanoclawError as error:
                ledger.note("refused", id=identity, text=str(error))
                return
            ledger.note("accepted", id=identity)
            await settle()

        async def settle() -> None:
            while program.app.router._beside:
                await asyncio.wait(program.app.router._beside)
            await program.app.conversations.idle()
            while any(program.app.outbox.pending(channel) for channel in ("terminal", "letters")):  # noqa: ASYNC110
                await asyncio.sleep(0)

        await settle()
        if is_before:
            for number, text in enumerate(story.before):
                await say(f"before-{number}", MAIN, text.replace("HOME", str(home)))
            if story.prepare:
                clock.now = NOW
                await story.prepare(program)
            await settle()
        elif story.said and not any(entry["what"] == "accepted" for entry in ledger.entries):
            said = story.said.replace("HOME", str(home))
            if "CODE" in said:
                said = said.replace("CODE", (home / "code").read_text())
            await say("the-command", story.where, said)


def _restored(home: Path, ledger: Ledger) -> None:
    """`nanoclaw restore`, given again by the person when it did not come to its end."""
    finish_restore(home)
    if any(entry["what"] == "restored" for entry in ledger.entries):
        return
    if not any("before-restore" in path.name for path in home.iterdir()):
        restore(home.parent / "saved.tar.gz", home, lambda folder: home / "workspace")
    ledger.note("restored")


def prepare(home: Path, name: str) -> None:
    """Make what is there before the command."""
    home.mkdir(parents=True)
    asyncio.run(_living(home, Ledger(home.with_name("before")), STORIES[name], is_before=True))


def run(home: Path, ledger_path: Path, name: str) -> int:
    """One life. What ends it early is a sentence for the person; anything else is raised."""
    ledger = Ledger(ledger_path)
    ledger.note("begun")
    try:
        if name == "restore":
            _restored(home, ledger)
        asyncio.run(_living(home, ledger, STORIES[name]))
    except NanoclawError as error:
        ledger.note("ended", text=str(error))
        return 1
    ledger.note("finished")
    return 0


# --- what is left ----------------------------------------------------------------------------------------------------

_TABLES = {
    "jobs": "*",
    "occurrences": "job, due, state, number, fired, again, nags_left",
    "pins": "text",
    "budget_marks": "*",
    "people": "channel, sender, role",
    "links": "channel, state",
    "ledger": "kind, target, text, state, before, after",
    "inbox": "external_id, state",
}


def left(home: Path, ledger: Path) -> dict[str, Any]:
    """All that a command may have an effect on, and what was said; without what says how it came about."""
    from nanoclaw.start.opening import open_store

    store = open_store(home / "state.db")
    try:
        tables = {row[0] for row in store.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}
        found: dict[str, Any] = {
            table: sorted(map(repr, store.rows(f"SELECT {columns} FROM {table}")))
            for table, columns in _TABLES.items()
            if table in tables
        }
        bodies = [text for (text,) in store.rows("SELECT body FROM messages ORDER BY id")]
        found["history"] = [
            text for text in bodies if SECRET in text and '"calls"' not in text
        ]  # a model may ask again
    finally:
        store.close()
    workspace = home / "workspace"
    found["files"] = {
        str(path.relative_to(workspace)): path.read_text(errors="replace")
        for path in sorted(workspace.rglob("*"))
        if path.is_file()
    }
    found["archive"] = sorted(path.name for path in home.parent.glob("*.tar.gz"))
    found["drafts"] = sorted(str(path) for path in home.parent.rglob(".*draft*"))
    said = {(entry["channel"], entry["key"]): entry["text"] for entry in read(ledger) if entry["what"] == "sent"}
    found["said"] = sorted(text.replace(str(home.parent), "") for text in said.values())
    return found


def expected(name: str, kept: Path) -> dict[str, Any]:
    """The same after an undisturbed life; it is lived once, and kept in that file."""
    if not kept.exists():
        with TemporaryDirectory() as folder:
            home, ledger = Path(folder) / "home", Path(folder) / "ledger"
            prepare(home, name)
            for _ in range(2):
                assert run(home, ledger, name) == 0, name
            kept.write_text(json.dumps(left(home, ledger)))
    found: dict[str, Any] = json.loads(kept.read_text())
    return found


def violations(home: Path, ledger: Path, name: str, statuses: list[int]) -> list[str]:
    """One line for each difference to an undisturbed life."""
    if any(statuses):
        return [f"the next start did not come to its end: {[e for e in read(ledger) if e['what'] == 'ended'][-1:]}"]
    wanted, found = expected(name, home.parent.with_name("expected")), left(home, ledger)
    if name in ("forget", "note", "backup"):  # said otherwise: what broke off, and what is in its place already
        wanted, found = (
            {key: value for key, value in one.items() if key not in ("said", "ledger")} for one in (wanted, found)
        )
    return [f"{key}: {found[key]} in place of {wanted[key]}" for key in wanted if found[key] != wanted[key]]


def story(trials: Trials, name: str) -> Trials:
    """Trials of a command in the place of the day."""
    from tests.torture.trials import Trials

    made = Trials(trials.server, trials.folder / name.replace(" ", "-"), story=name)
    made.folder.mkdir()
    return made


def main() -> int:
    from tests.torture.run import warmed

    parser = argparse.ArgumentParser(prog="python -m tests.torture.commands", description=__doc__)
    parser.add_argument("--stride", type=int, default=1, help="only every n-th point (default: every one)")
    parser.add_argument("--only", default="", help="only the commands whose name has this in it")
    given = parser.parse_args()
    if reason := shim.obstacle():
        print(f"not run: {reason}.")
        return 2
    count, broken, begun = 0, 0, time.monotonic()
    with warmed(1) as (trials,):
        for name in STORIES:
            if given.only not in name:
                continue
            one = story(trials, name)
            for at in one.undisturbed.of_kinds()[:: given.stride]:
                outcome = one.killed(at, "before")
                count += 1
                if outcome.broken:
                    broken += 1
                    print(f"{name}: {outcome.point}", *outcome.broken, sep="\n  ", flush=True)
            print(f"{name}: {len(one.undisturbed.calls)} calls", flush=True)
    print(f"{count} kills in commands, {broken} broken, {time.monotonic() - begun:.0f} s")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
