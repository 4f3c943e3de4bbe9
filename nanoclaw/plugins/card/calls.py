"""Tells by a call's name and arguments that it goes far, in words for a question."""

from __future__ import annotations

from nanoclaw.core.messages import Address, CheckedCall
from nanoclaw.core.plugin import Host, Turn
from nanoclaw.plugins.card.wording import quoted, size


def far(call: CheckedCall, turn: Turn, host: Host) -> str:
    """The question about a call, in words; '' for nothing."""
    if call.name in ("write_file", "edit_file"):
        return _overwrite(call, turn, host)
    if call.name == "message" and _is_to_new_person(call, host):
        return f"Write to {quoted(str(call.arguments['to']))}, to whom you have not written before"
    return ""


def _overwrite(call: CheckedCall, turn: Turn, host: Host) -> str:
    """The words for one that writes a file again, with much less in it."""
    from nanoclaw.beneath.paths import resolve
    from nanoclaw.plugins.card.losses import shrinks

    path, arguments = str(call.arguments.get("path", "")), call.arguments
    made = {one.target for one in turn.effects if one.kind == "file" and one.before == ""}
    try:
        place = resolve(host.reach, path, for_writing=True)
        old = place.stat().st_size if place.is_file() else 0
    except (OSError, ValueError):
        return ""  # the tool says what is wrong with it
    left = len(str(arguments.get("content", arguments.get("new", ""))).encode())
    if call.name == "edit_file":
        left += max(0, old - len(str(arguments.get("old", "")).encode()))
    if not shrinks(old, left) or path.removeprefix("./") in made:
        return ""
    back = " (/undo brings it back)" if host.get("undo") else ""
    return f"Overwrite {quoted(path)}: {size(old)} become {size(left)}{back}"


def _is_to_new_person(call: CheckedCall, host: Host) -> bool:
    """True for a message to somebody with whom there was no word yet, and whom the owner has not listed for it."""
    channel, colon, chat = str(call.arguments.get("to", "")).strip().partition(":")
    if not colon or not chat:
        return False
    target, access = Address(channel, chat), host.get("access")
    if access and (access.is_owners(target) or access.is_listed(target, "send_to")):
        return False
    return not host.records.context(target) and host.records.is_last(target, 0)
