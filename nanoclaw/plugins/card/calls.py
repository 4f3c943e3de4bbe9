"""Tells by a call's name and arguments that it goes far, in words for a question."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from nanoclaw.core.messages import Address, CheckedCall
from nanoclaw.core.plugin import Host, Turn
from nanoclaw.exact_text import call_text
from nanoclaw.plugins.card.wording import quoted, size

_BUYING = r"(?i)\b(buy|purchase|pay|payment|checkout|charge|donate|(place|submit|create) order)\b"
_DELETING = r"(?i)\b(delete|remove|trash|purge|destroy|erase)\b"


class CallReader:
    """`costly` are names of tools that spend money, `*` for any part; `deletions` are those that a turn may make."""

    def __init__(self, host: Host, costly: Sequence[str], deletions: int) -> None:
        self._host, self._costly, self._deletions = host, costly, deletions

    def far(self, call: CheckedCall, turn: Turn, deleted: int) -> str:
        """The question about a call, in words; '' for nothing. `deleted` files were taken by commands of the turn."""
        if call.name in ("write_file", "edit_file"):
            return self._overwrite(call, turn)
        used = f"use {call.name} with {quoted(call_text(call.arguments))}"
        if self._is_costly(call):
            return f"Pay: {used}"
        if call.name == "message" and self._is_to_new_person(call):
            return f"Write to {quoted(str(call.arguments['to']))}, to whom you have not written before"
        if _deletes(call.name) and deleted + self._earlier(call, turn) >= self._deletions:
            return f"Delete more: {used}"
        return ""

    def _earlier(self, call: CheckedCall, turn: Turn) -> int:
        """Count earlier calls that delete; ids may come again, and the call's own is the last."""
        later = next((n for n, one in enumerate(reversed(turn.calls), 1) if one.id == call.id), 0)
        return sum(_deletes(one.name) for one in turn.calls[: len(turn.calls) - later])

    def _overwrite(self, call: CheckedCall, turn: Turn) -> str:
        """The words for one that writes a file again, with much less in it."""
        from nanoclaw.beneath.paths import resolve
        from nanoclaw.plugins.card.losses import shrinks

        path, arguments = str(call.arguments.get("path", "")), call.arguments
        made = {one.target for one in turn.effects if one.kind == "file" and one.before == ""}
        try:
            place = resolve(self._host.reach, path, for_writing=True)
            old = place.stat().st_size if place.is_file() else 0
        except (OSError, ValueError):
            return ""  # the tool says what is wrong with it
        left = len(str(arguments.get("content", arguments.get("new", ""))).encode())
        if call.name == "edit_file":
            left += max(0, old - len(str(arguments.get("old", "")).encode()))
        if not shrinks(old, left) or path.removeprefix("./") in made:
            return ""
        back = " (/undo brings it back)" if self._host.get("undo") else ""
        return f"Overwrite {quoted(path)}: {size(old)} become {size(left)}{back}"

    def _is_costly(self, call: CheckedCall) -> bool:
        if any(fnmatchcase(call.name.casefold(), one.strip().casefold()) for one in self._costly):
            return True
        return call.name.startswith("mcp_") and bool(re.search(_BUYING, _as_words(call.name)))

    def _is_to_new_person(self, call: CheckedCall) -> bool:
        """True for a message to somebody with whom there was no word yet, and whom the owner has not listed for it."""
        channel, colon, chat = str(call.arguments.get("to", "")).strip().partition(":")
        if not colon or not chat:
            return False
        target, access = Address(channel, chat), self._host.get("access")
        if access and (access.is_owners(target) or access.is_listed(target, "send_to")):
            return False
        return not self._host.records.context(target) and self._host.records.is_last(target, 0)


def _deletes(name: str) -> bool:
    return name.startswith("mcp_") and bool(re.search(_DELETING, _as_words(name)))


def _as_words(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[_-]+", " ", name)
