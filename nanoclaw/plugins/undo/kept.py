"""Tools that write, with their effects: changes of files can be undone, and a big loss of memory needs a yes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial, wraps
from typing import Any

from nanoclaw.core.errors import NanoclawError, Refused
from nanoclaw.core.messages import Effect
from nanoclaw.core.tool import Tool, ToolContext, ToolOutput
from nanoclaw.escapes import visible
from nanoclaw.plugins.memory.notes import lines_of, memory_files
from nanoclaw.plugins.undo.changes import LARGEST_BYTES, Changes, memory_name, name_in

SMALL = 200
"""Bytes; a memory file with less may shrink freely."""

WATCHED_FILES = 60
"""A command could do away with memory files: so many, MEMORY.md and the newest notes, are looked at after it."""

LOSS = "loss"
"""The kind of a effect that a command did besides: most of a memory file is gone."""


def kept(tools: Iterable[Tool], changes: Changes) -> list[Tool]:
    """The same tools in the same order; what they do can be told, and what they do to files undone."""
    commands = Commands(changes)
    made: dict[str, Callable[[Tool], Tool]] = {
        "exec": commands.watched,
        "memory_forget": lambda tool: replace(tool, audit=_forgetting),
        **dict.fromkeys(("write_file", "edit_file", "append_file", "memory_add"), partial(_writing, changes)),
    }
    return [made[tool.spec.name](tool) if tool.spec.name in made else tool for tool in tools]


# --- tools that write files ------------------------------------------------------------------------------------------


def _writing(changes: Changes, tool: Tool) -> Tool:
    """A tool that changes one file. The copy is kept before, whatever becomes of the call."""

    @wraps(tool.run)
    async def run(context: ToolContext, *arguments: Any, **named: Any) -> str | ToolOutput:
        effect = _effect(changes, tool.spec.name, named)
        if memory_name(changes.workspace, effect.target):
            content = changes.read(effect.target) or b""
            _check_size(changes, effect.target, content, _outcome(tool.spec.name, content, named))
        before = changes.keep(effect.target) if effect.target else None
        try:
            return await tool.run(*arguments, **named)
        finally:
            after = changes.state(effect.target) if before is not None else None
            context.report(replace(effect, before=None if after is None else before, after=after))

    return replace(tool, run=run, wants_context=True, audit=partial(_effect, changes, tool.spec.name))


_VERBS = {"write_file": "wrote", "edit_file": "edited", "append_file": "added to"}


def _effect(changes: Changes, tool: str, named: dict[str, Any]) -> Effect:
    if tool != "memory_add":
        name = name_in(changes.workspace, named["path"])
        return Effect(tool, "file", name, f"{_VERBS[tool]} {visible(name or named['path'])}")
    is_fact = named.get("kind") == "fact" or bool(str(named.get("replaces", "")).strip())
    target = "MEMORY.md" if is_fact else changes.today()
    return Effect(tool, "fact" if is_fact else "note", target, f"noted “{_short(named['text'])}”")


def _check_size(changes: Changes, name: str, old: bytes, new: bytes | None) -> None:
    """Raises Refused when more than half of a memory file would go and nobody said yes."""
    if new is None or not _shrinks(old, new) or changes.use_allowance():
        return
    lost, lines = _lost(old, new)
    raise Refused(
        f"this would take {lost} of {lines} lines out of {visible(name)}, so nothing was done. Ask the person, "
        "who can allow it once with /memory allow; to forget single lines use memory_forget."
    )


def _shrinks(old: bytes, new: bytes) -> bool:
    return len(old) > SMALL and len(new) * 2 < len(old)


def _lost(old: bytes, new: bytes) -> tuple[int, int]:
    """How many lines go, of how many."""
    lines, left = (lines_of(content.decode("utf-8", "surrogateescape")) for content in (old, new))
    return len(lines) - sum(line in lines for line in set(left)), len(lines)


def _outcome(tool: str, content: bytes, named: dict[str, Any]) -> bytes | None:
    """What a file would say after the call; None for tools that take nothing away."""
    if tool == "edit_file":
        return content.replace(named["old"].encode(), named["new"].encode(), 1)
    return str(named["content"]).encode() if tool == "write_file" else None


# --- commands --------------------------------------------------------------------------------------------------------


class Commands:
    """What a command does nobody can undo, but for memory files that it empties: those are kept for it."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._known: dict[str, tuple[tuple[int, int, int], bytes]] = {}  # stamp and content by name

    def watched(self, tool: Tool) -> Tool:
        @wraps(tool.run)
        async def run(context: ToolContext, *arguments: Any, **named: Any) -> str | ToolOutput:
            self._look()
            losses: list[str] = []
            try:
                output = await tool.run(*arguments, **named)
            except NanoclawError as error:
                losses += self._losses(context)
                raise type(error)("\n".join([str(error), *losses])) from error
            except BaseException:
                self._losses(context)
                raise
            text = output if isinstance(output, str) else output.text
            return "\n".join([text, *self._losses(context)])

        return replace(tool, run=run, wants_context=True, audit=_command)

    def _look(self) -> None:
        """Read what was changed since the last look."""
        names = memory_files(self._changes.workspace)
        first = [name for name in names if name == "MEMORY.md"]
        watched = first + [name for name in names if name != "MEMORY.md"][-WATCHED_FILES:]
        stamps = {name: self._stamp(name) for name in watched}
        self._known = {
            name: self._known[name]
            if name in self._known and self._known[name][0] == stamp
            else (stamp, self._changes.read(name) or b"")
            for name, stamp in stamps.items()
            if stamp and stamp[1] <= LARGEST_BYTES // 10
        }

    def _stamp(self, name: str) -> tuple[int, int, int] | None:
        try:
            found = os.lstat(self._changes.workspace.root / name)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _losses(self, context: ToolContext) -> list[str]:
        """Keep and report what is gone; what is to be said of it."""
        said = []
        for name, (stamp, old) in self._known.items():
            if self._stamp(name) == stamp or not _shrinks(old, new := self._changes.read(name) or b""):
                continue
            lost, lines = _lost(old, new)
            text = f"a command took {lost} of {lines} lines out of {visible(name)}"
            before = self._changes.keep_copy(old, name)
            context.report(Effect("exec", LOSS, name, text, "done", before, self._changes.state(name)))
            said.append(f"[{text}. The person is told; /undo brings them back.]")
        return said


def _command(named: dict[str, Any]) -> Effect:
    command = str(named["command"])
    return Effect("exec", "command", command[:500], f"ran `{_short(command)}`")


def _forgetting(named: dict[str, Any]) -> Effect | None:
    """Without the words that are to be forgotten; a call that only lists changes nothing."""
    return Effect("memory_forget", "forgetting", "", "forgot what was asked for") if named.get("numbers") else None


def _short(text: str) -> str:
    line = visible(" ".join(text.split()))
    return line if len(line) <= 60 else line[:59] + "…"
