"""Promises that hold after every end and the next starts, looked at from outside."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

from nanoclaw.core.store.db import Transactions
from nanoclaw.core.store.history import list_sessions, whole_history
from nanoclaw.core.store.sessions import Sessions
from nanoclaw.plugins.memory.notes import lines_of, memory_files
from nanoclaw.sqlite_salvage.copies import daily_copies, is_whole
from nanoclaw.start.home import shipped
from nanoclaw.start.opening import open_store
from tests.program import NOON, assert_legal
from tests.torture import day
from tests.torture.day import LETTERS, PLAN, SHOPPING, WIRE

Entry = dict[str, Any]
TEMPLATE = shipped("workspace_template")


def violations(home: Path, ledger: Path, statuses: Sequence[int]) -> list[str]:
    """One line for each broken promise, after two starts on `home` without disturbance that ended with `statuses`."""
    entries = day.read(ledger)
    if any(statuses):
        said = [entry["text"] for entry in entries if entry["what"] == "ended"]
        return [f"the next start did not come to its end: {said[-1:]}"]
    found: list[str] = []
    found += _in_answers(entries)
    found += _in_deliveries(entries)
    found += _in_commands(day.outside_of(ledger))
    found += _in_store(home / "state.db", entries)
    found += _in_workspace(home / "workspace", _done(entries), _accepted(entries))
    if (home / "config.toml").read_text() != day.CONFIG:
        found.append("config.toml is not as it was")
    return found


# -- what was said


def _in_answers(entries: Sequence[Entry]) -> Iterable[str]:
    """All that was accepted is answered or told of, and has one end."""
    sent = {(entry["channel"], entry["key"]): entry for entry in entries if entry["what"] == "sent"}.values()
    ends = Counter(entry["reply_to"] for entry in sent if entry["reply_to"])
    for identity in sorted({*_accepted(entries)} - {"c5"}):  # /stop is answered by the end of what it stopped
        told = [entry for entry in sent if re.search(rf"\b{identity}\b", f"{entry['reply_to']} {entry['text']}")]
        if not told:
            yield f"{identity} was accepted and is neither answered nor told of"
    for identity, count in ends.items():
        if count > 1:
            texts = [entry["text"][:80] for entry in sent if entry["reply_to"] == identity]
            yield f"{identity} has {count} ends: {texts}"
    finals = Counter(token for entry in sent for token in _said_done(entry["text"]))
    yield from (f"{token} was done {count} times" for token, count in finals.items() if count > 1)
    last = max(entry["life"] for entry in entries)
    again = [entry["text"][:80] for entry in entries if entry["life"] == last and entry["what"] in ("sent", "shown")]
    if again:
        yield f"at the start after the next, there was something to say: {again}"


def _said_done(text: str) -> list[str]:
    found = re.search(r"^Done: (.*)", text, re.MULTILINE)
    return re.findall(r"m\d+", found[1]) if found else []


def _done(entries: Iterable[Entry]) -> set[str]:
    return {token for entry in entries if entry["what"] == "sent" for token in _said_done(entry["text"])}


def _accepted(entries: Iterable[Entry]) -> list[str]:
    """In the order in which it was."""
    return list(dict.fromkeys(entry["id"] for entry in entries if entry["what"] == "accepted"))


def _in_deliveries(entries: Sequence[Entry]) -> Iterable[str]:
    """A repeat is the one message that was on its way in a channel when the process ended."""
    if any(entry["what"] == "undelivered" for entry in entries if entry["life"] > 1):
        yield "an answer stays in the outbox"
    lives = Counter((e["channel"], e["life"]) for e in entries if e["what"] == "sent" and not e["is_new"])
    for (channel, life), count in lives.items():
        if count > 1:
            yield f"{count} messages were sent again on {channel} in life {life}"
    for life, key in {(e["life"], e["key"]) for e in entries if e["what"] == "sent"}:
        count = sum(e["what"] == "sent" and e["life"] == life and e["key"] == key for e in entries)
        if count > 1:
            yield f"sent {count} times in life {life}: {key!r}"


def _in_commands(outside: Path) -> Iterable[str]:
    lines = outside.read_text().splitlines() if outside.exists() else []
    yield from (f"the command {line} ran {count} times" for line, count in Counter(lines).items() if count > 1)


# -- what is kept


def _in_store(path: Path, entries: Sequence[Entry]) -> Iterable[str]:
    for copy in daily_copies(path):
        with closing(sqlite3.connect(copy)) as db:
            if not is_whole(db):
                yield f"the copy {copy.name} is damaged"
    raw = sqlite3.connect(path)
    verdict = [row[0] for row in raw.execute("PRAGMA integrity_check")]
    orphans = raw.execute("PRAGMA foreign_key_check").fetchall()
    raw.close()
    if verdict != ["ok"]:
        yield f"state.db is damaged: {verdict[:3]}"
    if orphans:
        yield f"state.db has rows that lead nowhere: {orphans[:3]}"
    store = open_store(path)
    try:
        if left := store.rows("SELECT external_id, state FROM inbox WHERE state <> 'done'"):
            yield f"messages are still open: {left}"
        if left := store.rows("SELECT id, running FROM turns WHERE ended IS NULL"):
            yield f"turns are still open: {left}"
        sessions = Sessions(Transactions(store, lambda: NOON))
        if lost := _platform_ids(entries) - {row[0] for row in store.rows("SELECT platform_id FROM outbox")}:
            yield f"sent, and the store does not know: {sorted(lost)}"
        whole = {session.key: whole_history(store, session.key) or [] for session in list_sessions(store)}
        for key, history in whole.items():
            yield from _in_history(f"{key}, whole", history)
        yield from _not_remembered([message.text for history in whole.values() for message in history], _done(entries))
        for address in (LETTERS, WIRE):
            yield from _in_history(str(address), sessions.of(address).history)
    finally:
        store.close()


def _platform_ids(entries: Iterable[Entry]) -> set[str]:
    return {entry["id"] for entry in entries if entry["what"] == "sent"}


def _not_remembered(texts: Sequence[str], done: set[str]) -> Iterable[str]:
    answered = {token for text in texts for token in _said_done(text)}
    for token in sorted(done):
        if token not in answered or not any(text.startswith(f"{token}: ") for text in texts):
            yield f"{token} was done and is not in the history"


def _in_history(name: str, history: Sequence[Any]) -> Iterable[str]:
    try:
        assert_legal(history)
    except AssertionError as error:
        yield f"the history of {name} is not legal: {error}"


# -- files


def _in_workspace(workspace: Path, done: set[str], accepted: list[str]) -> Iterable[str]:
    for source in TEMPLATE.glob("*.md"):
        path, text = workspace / source.name, source.read_text()
        if not path.exists():
            yield f"{source.name} is missing from the workspace"
        elif not (path.read_text().startswith(text) if source.name == "MEMORY.md" else path.read_text() == text):
            yield f"{source.name} is not as it was: {path.read_text()[-80:]!r}"
    wanted = _files(done, accepted)
    for name, contents in wanted.items():
        yield from _in_file(workspace / name, contents)
    yield from _in_memory(workspace, done, "c7" in accepted)
    known = {*wanted, *memory_files(workspace), *(source.name for source in TEMPLATE.glob("*.md"))}
    for path in workspace.rglob("*"):
        if path.is_file() and not path.name.startswith(".") and str(path.relative_to(workspace)) not in known:
            yield f"{path.relative_to(workspace)} was not asked for"


def _in_file(path: Path, contents: set[str | None]) -> Iterable[str]:
    text = path.read_text(errors="replace") if path.exists() else None
    if text not in contents:
        shown = repr(text) if text is None or len(text) < 200 else f"{len(text)} characters ending {text[-80:]!r}"
        yield f"{path.name} is none of what was written: {shown}"


def _files(done: set[str], accepted: list[str]) -> dict[str, set[str | None]]:
    """Contents that each file may have: any of the writes may have been cut off, but not one whose message was done."""
    writes: dict[str, list[tuple[str, str, dict[str, Any]]]] = {PLAN: [], SHOPPING: []}
    every = day.tasks(Path("outside"))
    for token in (each for each in accepted if each in every):
        for name, arguments in (call for reply in every[token].replies for call in reply):
            if name in ("write_file", "append_file", "edit_file"):
                writes[arguments["path"]].append((token, name, arguments))
    return {path: _outcomes(steps, done, "c7" in accepted) for path, steps in writes.items()}


def _outcomes(steps: Sequence[tuple[str, str, dict[str, Any]]], done: set[str], undone: bool) -> set[str | None]:
    """`undone`: one of them may have been taken back."""
    sure = [token in done for token, _, _ in steps]
    return {
        _outcome([step for step, chosen in zip(steps, made, strict=True) if chosen])
        for made in product((False, True), repeat=len(steps))
        if sum(needed and not chosen for needed, chosen in zip(sure, made, strict=True)) <= undone
    }


def _outcome(steps: Iterable[tuple[str, str, dict[str, Any]]]) -> str | None:
    text: str | None = None
    for _, name, arguments in steps:
        match name:
            case "write_file":
                text = arguments["content"]
            case "append_file":
                text = (text or "") + arguments["content"]
            case "edit_file" if text:
                text = text.replace(arguments["old"], arguments["new"], 1)
    return text


def _in_memory(workspace: Path, done: set[str], undone: bool) -> Iterable[str]:
    """Each line is one that was asked for, whole and once, and those of what was done are there, but for an undone."""
    entries = [
        (token, arguments["text"])
        for token, task in day.tasks(Path("outside")).items()
        for name, arguments in (call for reply in task.replies for call in reply)
        if name == "memory_add"
    ]
    texts: list[str] = []
    template = set(lines_of((TEMPLATE / "MEMORY.md").read_text()))
    for name in memory_files(workspace):
        content = (workspace / name).read_text(errors="replace")
        if content and not content.endswith("\n"):
            yield f"{name} ends in the middle of a line: {content[-80:]!r}"
        for line in lines_of(content):
            match = re.fullmatch(r"- (?:~~)?(?:\d{4}-\d\d-\d\d:|\d\d:\d\d) (.*?)(?:~~ \(\d{4}-\d\d-\d\d\))?", line)
            if match and match[1] in {*(text for _, text in entries), day.SUMMARY, "A bird sang."}:
                texts.append(match[1])
            elif not (name == "MEMORY.md" and line in template):
                yield f"{name} has a line that nobody wrote: {line!r}"
    for text, count in Counter(texts).items():
        if count > 1 and text != day.SUMMARY:
            yield f"noted {count} times: {text!r}"
    missing = [(token, text) for token, text in entries if token in done and text not in texts]
    if len(missing) > undone:
        yield from (f"{token} was done and {text!r} is not noted" for token, text in missing)
