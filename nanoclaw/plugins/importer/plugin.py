"""The plugin: /import shows what another assistant has, brings it over in one transaction, and takes it back.

One transaction holds the conversations and jobs, and what is written to files after it; a start goes on with what a
crash left of that, before anybody reads half of it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from importlib import import_module
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING

from nanoclaw.core.channel import MAIN
from nanoclaw.core.errors import ConfigError, NanoclawError, WorkspaceError
from nanoclaw.core.messages import Address, Message
from nanoclaw.core.plugin import Command, Host, Plugin, Reply, Said, Tx

if TYPE_CHECKING:
    from nanoclaw.plugins.importer.changes import FileChange
    from nanoclaw.plugins.importer.found import ForeignHome, ForeignJob, Turns

SOURCES = ("nanobot", "hermes", "openclaw", "claude")
_ON_THE_WAY = "SELECT id, state FROM importer_runs WHERE state IN ('coming', 'going')"
_FILES = "SELECT root, name, text, before, adds FROM importer_files WHERE run = ? ORDER BY id"


def read(source: str, path: str, now: datetime) -> ForeignHome:
    """Read what there is to import. Raises ConfigError."""
    if source not in SOURCES:
        raise ConfigError(f"{source!r} cannot be imported: /import {'|'.join(SOURCES)} FOLDER, or /import undo.")
    if not path or not (place := Path(path).expanduser().absolute()).is_dir():
        raise ConfigError(f"{path!r} is no folder: name the home of {source}. Nothing was imported.")
    found: ForeignHome = import_module(f"nanoclaw.plugins.importer.{source}").read(place, now)
    return found


class Importer(Plugin):
    name = "importer"
    needs = ("schedule",)
    migrations = (
        """CREATE TABLE importer_runs (
            id INTEGER PRIMARY KEY, source TEXT NOT NULL, path TEXT NOT NULL,
            state TEXT NOT NULL CHECK (state IN ('coming', 'there', 'going')),
            made TEXT NOT NULL  -- JSON: conversations, jobs
        ) STRICT;
        CREATE TABLE importer_files (
            id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES importer_runs ON DELETE CASCADE,
            root TEXT NOT NULL, name TEXT NOT NULL, text TEXT, before TEXT, adds INTEGER NOT NULL
        ) STRICT""",
    )
    marks = (
        *("importer_runs.source", "importer_runs.state", "importer_runs.made"),
        *("importer_files.root", "importer_files.name", "importer_files.before"),
    )

    def __init__(self, host: Host, settings: None) -> None:
        self._host = host
        self._roots = {"workspace": host.workspace, "skills": host.program_home / "skills"}
        for run in host.read(_ON_THE_WAY):  # after a crash alone
            with suppress(WorkspaceError):  # `run` says it
                self._follow(*run)

    def commands(self) -> Iterable[Command]:
        told = f"bring over what another assistant knows: /import nanobot ~/.nanobot ({', '.join(SOURCES)})"
        return [Command("import", told, self._import, private=True, cli=True, part_of="backup")]

    async def run(self) -> None:
        await self._go_on()

    async def _import(self, said: Said) -> Reply:
        await self._go_on()
        source, _, rest = said.argument.strip().partition(" ")
        if source == "undo":
            return await self._undo()
        path, _, flag = rest.strip().partition(" --")
        found = await asyncio.to_thread(read, source, path, self._host.now())
        if self._host.read("SELECT 1 FROM importer_runs WHERE path = ? AND state = 'there'", str(found.path)):
            raise ConfigError(f"{path} is imported already: /import undo takes that back first.")
        from nanoclaw.plugins.importer.card import card, judged
        from nanoclaw.plugins.importer.changes import planned

        now, zone = self._host.now(), str(getattr(self._host.now().tzinfo, "key", None) or "UTC")
        jobs = [judged(job, now, zone) for job in found.jobs]
        try:
            changes = planned(found, self._roots, self._host.shipped / "workspace_template", now.date())
            shown, mark = card(found, changes, jobs, path), flag.removeprefix("yes ")
            if not flag.startswith("yes "):
                how = f"\n\n`/import {source} {path} --yes {found.mark}` imports this." if not flag else ""
                return shown._replace(text=shown.text + how)
            if mark != found.mark:
                raise ConfigError(f"{path} has changed since it was shown: look again. Nothing was imported.")
            return await self._bring(found, changes, [job for job in jobs if not job.lacks])
        except OSError as error:
            raise WorkspaceError(f"{error} Nothing was imported.") from None

    async def _bring(self, found: ForeignHome, changes: Sequence[FileChange], jobs: Sequence[ForeignJob]) -> Reply:
        def write(tx: Tx) -> None:
            talks = [self._add_talk(tx, found.source, *one) for one in found.talks.items()]
            made = {"talks": talks, "jobs": self._add_jobs(tx, jobs)}
            sql = "INSERT INTO importer_runs (source, path, state, made) VALUES (?, ?, 'coming', ?) RETURNING id"
            ((run,),) = tx.execute(sql, found.source, str(found.path), json.dumps(made))
            sql = "INSERT INTO importer_files (run, root, name, text, before, adds) VALUES (?, ?, ?, ?, ?, ?)"
            for one in changes:
                tx.execute(sql, run, *one[:5])

        await self._host.write(write)
        return Reply("\n".join(["Imported. /import undo takes it back.", *await self._go_on()]))

    def _add_talk(self, tx: Tx, source: str, chat: str, turns: Turns) -> str:
        """Keep a conversation; its name here."""
        places = (Address(source, f"{chat}{number}") for number in ("", *(f" {n}" for n in range(2, 1_000))))
        place = next(one for one in places if not self._host.records.context(one))
        had: list[list[Message]] = [[question, *answers] for question, answers in turns]
        self._host.conversations.add(place, had, tx, had_before=True)
        return place.chat

    def _add_jobs(self, tx: Tx, jobs: Sequence[ForeignJob]) -> list[int]:
        schedule, made = self._host.get("schedule"), list[int]()
        for job in jobs if schedule else ():
            asked = schedule.request(job.when, job.text, "task", zone=job.zone)
            new, _ = schedule.add(tx, asked, self._host.owner() or MAIN, "owner")
            made.append(new.id)
            if not job.is_on:
                schedule.pause(tx, new.id)
        return made

    # --- what follows the transaction, also after a crash -------------------------------------------------------------

    async def _go_on(self) -> list[str]:
        """Complete imports that are on their way, in or out; what stays as it was, and why."""
        stay = list[str]()
        for run, state in self._host.read(_ON_THE_WAY):
            stay += self._follow(run, state)
            sql = "UPDATE importer_runs SET state = 'there'" if state == "coming" else "DELETE FROM importer_runs"
            await self._host.write(methodcaller("execute", f"{sql} WHERE id = ?", run))
            for one in self._host.plugins() if state == "going" else ():
                one.reload()  # what they know of the conversations
        return stay

    def _follow(self, run: int, state: str) -> list[str]:
        from nanoclaw.plugins.importer.changes import FileChange, make, take_back

        step = make if state == "coming" else take_back
        try:
            files = [one for row in self._host.read(_FILES, run) if (one := FileChange(*row)).root in self._roots]
            return [f"- {told}." for one in files if (told := step(one, self._roots[one.root]))]
        except OSError as error:
            raise WorkspaceError(f"the import is not complete: {error} The next start goes on with it.") from None

    async def _undo(self) -> Reply:
        last = "SELECT id, source, made FROM importer_runs WHERE state = 'there' ORDER BY id DESC LIMIT 1"
        if not (rows := self._host.read(last)):
            raise NanoclawError("there is no import to take back.")
        ((row, source, text),) = rows
        made, schedule = json.loads(text), self._host.get("schedule")

        def write(tx: Tx) -> None:
            for chat in made["talks"]:
                self._host.conversations.erase(Address(source, chat), tx)
            for job in made["jobs"] if schedule else ():
                with suppress(NanoclawError):  # it is over
                    schedule.remove(tx, job)
            tx.execute("UPDATE importer_runs SET state = 'going' WHERE id = ?", row)

        await self._host.write(write)
        stay = await self._go_on()
        self._host.drop_bytes()
        return Reply("\n".join([f"The import from {source} is taken back.", *stay]))
