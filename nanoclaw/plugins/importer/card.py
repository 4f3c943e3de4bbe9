"""The card: what an import brings, what it changes, and what is lost."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime

from nanoclaw import time_words
from nanoclaw.core.plugin import Reply
from nanoclaw.escapes import one_line
from nanoclaw.plugins.importer.changes import FileChange
from nanoclaw.plugins.importer.found import ForeignHome, ForeignJob, Table

LISTED = 8


def judged(job: ForeignJob, now: datetime, zone: str) -> ForeignJob:
    """A job with why it cannot go on."""
    if job.lacks:
        return job
    if job.at and job.at <= now:
        return job._replace(lacks=f"it was due {job.at:%-d %b %Y, %H:%M}, and is not sent any more")
    try:
        heard = time_words.read(job.when, now, job.zone or zone)
    except time_words.TimeWordsError as error:
        return job._replace(lacks=str(error))
    return job._replace(lacks=heard.question) if isinstance(heard, time_words.Unclear) else job


def card(found: ForeignHome, changes: Sequence[FileChange], jobs: Sequence[ForeignJob], path: str) -> Reply:
    comes, going = list[str](), [job for job in jobs if not job.lacks]
    files = [one for one in changes if one.root == "workspace" and one.text is not None and not one.adds]
    skills = {one.name.partition("/")[0] for one in changes if one.root == "skills"}
    if new := [one.name for one in files if not one.why]:
        comes.append(f"{_few(new)}: nothing of yours is there yet")
    comes += [f"{one.name}: {one.why}" for one in files if one.why]
    if facts := sum(bool(line.strip()) for text in found.facts.values() for line in text.splitlines()):
        comes.append(f"{_count(facts, 'line')} of memory, into MEMORY.md under “Imported from {found.source}”")
    if days := list(found.notes):
        comes.append(f"notes of {_count(len(days), 'day')} ({days[0]} to {days[-1]}), into memory/")
    if found.talks:
        said = _count(sum(1 + len(one) for turns in found.talks.values() for _, one in turns), "message")
        names = _few([f"{found.source}:{chat}" for chat in found.talks])
        comes.append(f"{_count(len(found.talks), 'conversation')} with {said}, for search: {names}")
    if going:
        comes.append(f"{_count(len(going), 'task')}: {_few([_told(job) for job in going])}")
    if skills:
        comes.append(f"{_count(len(skills), 'skill')}, not used before you review it: {_few(sorted(skills))}")
    changed = ["BOOTSTRAP.md goes, which has me ask who you are"] if any(one.text is None for one in changes) else []
    changed += ["tasks report where you talk to me, and each asks the model"] if going else []
    asked = [f"{_count(len(found.keys), 'key')}: {', '.join(found.keys)}"] if found.keys else []
    asked += [f"the MCP server {name}: `nanoclaw mcp add {name} {_server(one)}`" for name, one in found.servers.items()]
    lost = [*found.lost, *(f"the task “{one_line(job.name, 40)}”: {job.lacks}" for job in jobs if job.lacks)]
    lost += [f"the skill {name}: there is one of that name" for name in found.skills if name not in skills]
    lost += ["pictures, files and results of tools in conversations"] if found.talks else []
    parts = {"Comes": comes, "Changes": changed, "Only after a yes of its own": asked, "Is lost": lost}
    texts = [f"{title}:\n" + "\n".join(f"- {line}" for line in lines) for title, lines in parts.items() if lines]
    data = {"source": found.source, "mark": found.mark, "comes": comes, "changes": changed, "asks": asked, "lost": lost}
    return Reply("\n\n".join([f"From {found.source} in {path}:", *texts]), data)


def _told(job: ForeignJob) -> str:
    when = f"{job.at:%-d %b %Y, %H:%M}" if job.at else f"{job.when}, {job.zone}".removesuffix(", ")
    return f"“{one_line(job.name, 40)}” ({when}{'' if job.is_on else ', paused'})"


def _server(one: Table) -> str:
    """Its arguments; the values of its variables and headers are left to keys."""
    more = [f"--env {name}=${name} " for name in one.get("env") or ()]
    more += [f"--header '{name}: $KEY' " for name in one.get("headers") or ()]
    command = [str(one.get("command") or ""), *map(str, one.get("args") or ())]
    return "".join(more) + (f"--url {one['url']}" if one.get("url") else f"-- {shlex.join(command)}")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _few(names: Sequence[str]) -> str:
    return f"{', '.join(names[:LISTED])}{f' and {len(names) - LISTED} more' if len(names) > LISTED else ''}"
