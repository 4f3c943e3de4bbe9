"""The home of another assistant, as it was found, and its reading: nothing in it is ever written."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.messages import AssistantMessage, UserMessage

FILES = ("SOUL.md", "IDENTITY.md", "USER.md", "AGENTS.md", "TOOLS.md", "HEARTBEAT.md")
"""Files of a workspace that have the same names in ours."""

MOST_OF_SKILL, MOST_FILES = 5_000_000, 200
_NO_PART = frozenset({".git", "__pycache__", "node_modules"})
NOTHING = "Nothing was imported."
IS_DAY = re.compile(r"\d{4}-\d\d-\d\d")

Table = Mapping[str, Any]
Turns = tuple[tuple[UserMessage, tuple[AssistantMessage, ...]], ...]
"""A conversation: questions with their answers."""


class ForeignJob(NamedTuple):
    """`when` in our time words; `at` for one that comes once. `lacks` says why it cannot go on."""

    name: str
    text: str
    when: str = ""
    zone: str = ""
    is_on: bool = True
    at: datetime | None = None
    lacks: str = ""


class ForeignHome(NamedTuple):
    """`facts` are texts by where they stand there; `notes` lines by day; `talks` conversations by name, such as
    "telegram:555"; `lost` are things that don't come."""

    source: str
    path: Path
    files: Mapping[str, str] = {}
    facts: Mapping[str, str] = {}
    notes: Mapping[str, tuple[str, ...]] = {}
    talks: Mapping[str, Turns] = {}
    jobs: tuple[ForeignJob, ...] = ()
    skills: Mapping[str, Mapping[str, str]] = {}
    servers: Mapping[str, Table] = {}
    keys: Mapping[str, str] = {}
    lost: tuple[str, ...] = ()

    @property
    def mark(self) -> str:
        """Changes with whatever is found."""
        return hashlib.sha256(repr(self).encode("utf-8", "replace")).hexdigest()[:12]


class ForeignFolder:
    """Reads files below a folder, and collects what of them is `lost`."""

    def __init__(self, path: Path, now: datetime) -> None:
        self.path, self.lost, self._zone = path, list[str](), now.tzinfo

    def need(self, source: str, *names: str) -> None:
        """Raises ConfigError if none of these is there."""
        if not any((self.path / name).exists() for name in names):
            raise ConfigError(f"{self.path} is no home of {source}: it has none of {', '.join(names)}. {NOTHING}")

    def read(self, name: str | Path) -> bytes:
        """b"" for what is not there, or no plain file. Raises ConfigError."""
        path = self.path / name
        try:
            return path.read_bytes() if path.is_file() else b""
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror or error}. {NOTHING}") from None

    def text(self, *names: str) -> str:
        """That of the first that has any."""
        texts = (self.read(name).decode("utf-8-sig", "replace").replace("\r\n", "\n").strip() for name in names)
        return next(filter(None, texts), "")

    def json(self, *names: str) -> Table:
        """The object in the first that is there. Raises ConfigError for one that is not whole."""
        name = next((one for one in names if (self.path / one).is_file()), "")
        try:
            found = json.loads(self.text(name) or "{}") if name else {}
        except (ValueError, RecursionError) as error:
            line = f", line {error.lineno}," if isinstance(error, json.JSONDecodeError) else ""
            raise ConfigError(f"{self.path / name}{line} is broken JSON: mend it first. {NOTHING}") from None
        return found if isinstance(found, dict) else {}

    def lines(self, path: Path) -> list[dict[str, Any]]:
        """The objects of a file with one on each line; a broken line is left out and told."""
        found, broken = list[dict[str, Any]](), 0
        for line in filter(str.strip, self.read(path).decode("utf-8", "replace").splitlines()):
            try:
                found.append(dict(json.loads(line)))
            except (ValueError, TypeError, RecursionError):
                broken += 1
        if broken:
            self.lost.append(f"{broken} broken line{'s' * (broken > 1)} of {path.relative_to(self.path)}")
        return found

    def texts(self, *names: str) -> dict[str, str]:
        return {name: text for name in names if (text := self.text(name))}

    def daily_notes(self) -> dict[str, tuple[str, ...]]:
        """The lines of files in memory/ that are named by days."""
        found = dict[str, tuple[str, ...]]()
        for path in sorted((self.path / "memory").glob("????-??-??*.md")):
            if IS_DAY.match(day := path.name[:10]) and (text := self.text(f"memory/{path.name}")):
                found[day] = (*found.get(day, ()), *text.splitlines())
        return found

    def skills(self, *places: str) -> dict[str, dict[str, str]]:
        """The texts of each folder with a skill in it; no link is followed."""
        found = dict[str, dict[str, str]]()
        for folder in (main.parent for place in places for main in sorted(self.path.glob(f"{place}/*/SKILL.md"))):
            paths = [one for one in sorted(folder.rglob("*")) if one.is_file() and not one.is_symlink()]
            paths = [one for one in paths if not _NO_PART.intersection(one.parts)]
            if len(paths) > MOST_FILES or sum(one.stat().st_size for one in paths) > MOST_OF_SKILL:
                self.lost.append(f"the skill {folder.name}: it has more than {MOST_FILES} files or 5 MB")
                continue
            texts = found.setdefault(folder.name, {})
            for name, data in ((one.relative_to(folder).as_posix(), self.read(one)) for one in paths):
                try:
                    texts[name] = data.decode()
                except UnicodeDecodeError:
                    self.lost.append(f"{name} of the skill {folder.name}, which is no text")
        return found

    def keys(self, variables: Table) -> dict[str, str]:
        """Keys among variables, by the names that they have here."""
        is_key = re.compile(r"[A-Z_]+_API_KEY|TELEGRAM_BOT_TOKEN").fullmatch
        found = {name: key for name, key in variables.items() if is_key(name) and isinstance(key, str) and key}
        return {name.replace("TELEGRAM_BOT_TOKEN", "NANOCLAW_TELEGRAM_TOKEN"): key for name, key in found.items()}

    def moment(self, value: Any, otherwise: datetime | None = None) -> datetime:
        """A time as other programs write them: ISO text, or seconds or milliseconds since 1970."""
        try:
            if isinstance(value, int | float):
                return datetime.fromtimestamp(value / 1000 if value > 1e11 else value, UTC).astimezone(self._zone)
            at = datetime.fromisoformat(value)
            return (at if at.tzinfo else at.replace(tzinfo=self._zone)).astimezone(self._zone)
        except (ValueError, TypeError, OverflowError, OSError):
            return otherwise or datetime.fromtimestamp(self.path.stat().st_mtime, self._zone)

    def talk(self, chat: str, messages: Iterable[Table], begun: Any = None) -> dict[str, Turns]:
        """The words of both sides in messages with `role`, `content` and `timestamp`; none where nobody spoke. A turn
        with results of tools had read others' text."""
        turns, at, read = list[tuple[UserMessage, list[AssistantMessage]]](), self.moment(begun), ""
        for one in messages:
            at, role, text = self.moment(one.get("timestamp"), at), one.get("role"), words_of(one.get("content"))
            if role in ("tool", "toolResult"):
                read = str(one.get("name") or one.get("toolName") or "a tool")
            elif role == "user" and text:
                read = ""
                turns.append((UserMessage(text, at), []))
            elif role == "assistant" and text:
                question, answers = turns.pop() if turns else (UserMessage("", at), [])
                turns.append(
                    (question._replace(outside=read or question.outside), [*answers, AssistantMessage(text, at)])
                )
        return {chat: tuple((question, tuple(answers)) for question, answers in turns)} if turns else {}

    def jobs(self, name: str) -> Iterator[ForeignJob]:
        """Those of a file as nanobot and OpenClaw write it. Raises ConfigError for another version."""
        stored = self.json(name)
        if stored.get("version", 1) != 1:
            raise ConfigError(f"{self.path / name} is of version {stored['version']}; only 1 is known. {NOTHING}")
        for one in objects(stored.get("jobs")):
            payload, schedule = table_of(one, "payload"), table_of(one, "schedule")
            if text := clean(payload.get("message") or payload.get("text") or ""):
                job = ForeignJob(clean(one.get("name") or text[:40]), text, zone=str(schedule.get("tz") or ""))
                yield self.timed(job, schedule)._replace(is_on=bool(one.get("enabled", True)))

    def timed(self, job: ForeignJob, schedule: Table) -> ForeignJob:
        """A job with its time, in any of their ways."""
        seconds = (schedule.get("everyMs") or 0) // 1000 + 60 * (schedule.get("minutes") or 0)
        if at := schedule.get("atMs") or schedule.get("at") or schedule.get("run_at"):
            when = self.moment(at)
            return job._replace(when=when.isoformat(timespec="seconds"), at=when)
        if seconds:
            return job._replace(when=f"every {seconds} seconds" if seconds % 60 else f"every {seconds // 60} minutes")
        lacks = "" if schedule.get("expr") else f"its schedule {schedule.get('kind')!r} is not known here"
        return job._replace(when=str(schedule.get("expr")), lacks=lacks)


def table_of(table: Any, *names: str) -> Table:
    """A table in a table, {} where none is."""
    for name in names:
        table = table.get(name) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else {}


def objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def words_of(content: Any) -> str:
    """The text of a message: a string, or blocks of which some are text."""
    if isinstance(content, list):
        content = "\n\n".join(str(one.get("text") or "") for one in objects(content) if one.get("type") == "text")
    return content.strip() if isinstance(content, str) else ""


def clean(text: object) -> str:
    """Half characters (lone surrogates), which JSON may hold, are replaced: the store takes none."""
    return str(text).encode("utf-8", "replace").decode()
