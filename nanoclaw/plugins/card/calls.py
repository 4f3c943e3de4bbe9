"""Tells how far a call goes by its name and arguments, and says it in words."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nanoclaw.core.messages import Address, CheckedCall
from nanoclaw.core.plugin import Host, Turn
from nanoclaw.exact_text import call_text
from nanoclaw.plugins.card.wording import quoted, size

if TYPE_CHECKING:
    from nanoclaw.plugins.card.steps import CardTurn

_BUYING = re.compile(r"(?i)\b(buy|purchase|pay|payment|checkout|charge|donate|(place|submit|create) order)\b")
_DELETING = re.compile(r"(?i)\b(delete|remove|trash|purge|destroy|erase)\b")


class FileLoss(NamedTuple):
    """Files that a call takes away, in words; `is_cut` where one is overwritten by much less."""

    files: int
    words: str
    is_cut: bool = False


class CallReader:
    """`costly` are names of tools that spend money, `*` for any part."""

    def __init__(self, host: Host, costly: Sequence[str]) -> None:
        self._host, self._costly = host, costly

    @cached_property
    def _root(self) -> Path:
        return Path(os.path.realpath(self._host.workspace))

    async def only_looks(self, call: CheckedCall) -> bool:
        from nanoclaw.plugins.card.looks import only_looks

        return await asyncio.to_thread(only_looks, str(call.arguments.get("command", "")))

    async def deleted(self, call: CheckedCall, known: CardTurn) -> list[str]:
        """Files older than the turn that a command names to be deleted."""
        from nanoclaw.plugins.card.deletions import deleted_by
        from nanoclaw.plugins.card.losses import is_in_remade

        home = Path(self._host.environment.get("HOME") or Path.home())
        command = str(call.arguments.get("command" if call.name == "exec" else "text") or "")
        paths = await asyncio.to_thread(deleted_by, command, self._root, home)
        paths = [one for one in paths if one not in known.made and not is_in_remade(one, self._root)]
        return [one for one in paths if _is_older(one, known.began)]

    def overwrite(self, call: CheckedCall, turn: Turn) -> FileLoss | None:
        """The loss by a call that writes a file again, with much less in it."""
        from nanoclaw.beneath.paths import resolve
        from nanoclaw.plugins.card.losses import shrinks

        path, arguments = str(call.arguments.get("path", "")), call.arguments
        made = {one.target for one in turn.effects if one.kind == "file" and one.before == ""}
        try:
            place = resolve(self._host.reach, path, for_writing=True)
            old = place.stat().st_size if place.is_file() else 0
        except (OSError, ValueError):
            return None  # the tool says what is wrong with it
        left = len(str(arguments.get("content", arguments.get("new", ""))).encode())
        if call.name == "edit_file":
            left += max(0, old - len(str(arguments.get("old", "")).encode()))
        if not shrinks(old, left) or path.removeprefix("./") in made:
            return None
        return FileLoss(0, f"overwrite {quoted(path)}: {size(old)} become {size(left)}", is_cut=True)

    def deletes(self, call: CheckedCall) -> bool:
        return call.name.startswith("mcp_") and bool(_DELETING.search(_as_words(call.name)))

    def is_costly(self, call: CheckedCall) -> bool:
        if any(fnmatchcase(call.name.casefold(), one.strip().casefold()) for one in self._costly):
            return True
        return call.name.startswith("mcp_") and bool(_BUYING.search(_as_words(call.name)))

    def is_to_new_person(self, call: CheckedCall) -> bool:
        """True for a message to somebody with whom there was no word yet, and whom the owner has not listed for it."""
        channel, colon, chat = str(call.arguments.get("to", "")).strip().partition(":")
        if call.name != "message" or not colon or not chat:
            return False
        target, access = Address(channel, chat), self._host.get("access")
        if access and (access.is_owners(target) or access.is_listed(target, "send_to")):
            return False
        return not self._host.records.context(target) and self._host.records.is_last(target, 0)

    def words(self, call: CheckedCall, loss: FileLoss | None) -> str:
        given = call.arguments
        if loss:
            back = " (/undo brings it back)" if call.name != "exec" and self._host.get("undo") else ""
            return f"{loss.words[:1].upper()}{loss.words[1:]}{back}"
        if call.name == "exec":
            return f"Run {quoted(str(given.get('command', '')))}"
        if call.name == "message":
            new = " (nobody you have written to before)" if self.is_to_new_person(call) else ""
            return f"Send to {quoted(str(given.get('to') or 'this chat'))}{new}: {quoted(str(given.get('text', '')))}"
        if "path" in given:
            verb = {"write_file": "Write", "edit_file": "Edit", "append_file": "Add to"}.get(call.name, call.name)
            return f"{verb} {quoted(str(given['path']))}"
        return f"{'Pay: use' if self.is_costly(call) else 'Use'} {call.name} with {quoted(call_text(given))}"


def _is_older(path: str, began: float) -> bool:
    try:
        return os.lstat(path).st_mtime <= began
    except OSError:
        return False


def _as_words(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[_-]+", " ", name)
