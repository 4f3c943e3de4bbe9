"""Takes changes back and tells them: /undo, /receipts, the line after a turn."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from nanoclaw.core.errors import NanoclawError, WorkspaceError
from nanoclaw.core.messages import Effect
from nanoclaw.core.plugin import Host, Said, Tx
from nanoclaw.plugins.undo.memory_history import did, folded, outcome, when

if TYPE_CHECKING:
    from nanoclaw.plugins.undo.file_versions import FileVersions

SHOWN, FILES = 20, 4  # lines of /receipts, where no number is given; files that are named in the line after a turn
ALL = 2**31  # effects of a conversation: a command may have thousands
BY_OTHERS = ("job", "job removal", "calendar", "mailbox")  # kinds of effects that other plugins undo


def receipts(host: Host, said: Said) -> str:
    effects = folded(reversed(host.records.effects(said.conversation, ALL)))
    told = [f"- {when(one)} {outcome(one)}" for one in effects[-_number("receipts", said.argument, SHOWN) :]]
    return "\n".join(told) or "Nothing was changed in this conversation."


def undo(host: Host, versions: FileVersions, said: Said, tx: Tx) -> str:
    count = _number("undo", said.argument, 1)
    for one in asks.open() if (asks := host.get("approvals")) else ():
        if one.turn and one.conversation == said.conversation and not one.ask.asks_back:
            number, does = one.number, "your choice" if one.ask.options else f"/yes {one.number}"
            return f"Question {number} is open, and nothing of it is done: {does} does it, /no {number} doesn't."
    undone, told, passed, left, kept = list[Effect](), list[str](), list[str](), count, 0
    last: Effect | None = None  # was taken back, or could not be
    for effect in host.records.effects(said.conversation, ALL):
        costs = int(last is None or not _is_of_one_command(last, effect))  # all that a command did counts as one
        if left < costs:
            break
        did_nothing = effect.state == "failed" and effect.kind != "command" and not _has_changed(effect)
        if did_nothing or effect.state == "undone":
            continue
        failed = list[str]()
        try:
            became = _take_back(host, versions, tx, effect)
        except WorkspaceError as error:  # one that cannot be taken back must not stand before the others for ever
            became, failed, kept = "", [str(error)], kept + costs
        if became or failed:
            undone += [effect._replace(text=became)] if became else []
            told, passed, left, last = [*told, *passed, *failed], [], left - costs, effect
        elif effect.before is None or effect.before != effect.after:
            passed.append(f"Not undoable: {effect.text}{' (unknown outcome)' * (effect.state == 'begun')}.")
    if left == count:
        told = ["There is nothing to undo in this conversation.", *passed[:5]]
    elif count == kept == 1:
        told.append("/undo 2 goes on to the change before.")
    elif left + kept:
        told.append(f"{count - left - kept} of {count} undone.")
    return "\n".join([*(one.text for one in folded(undone)), *told])


def _take_back(host: Host, versions: FileVersions, tx: Tx, effect: Effect) -> str:
    """Undo one effect, and say so; "" if it cannot be undone. Raises WorkspaceError if it can't be at present."""
    if effect.state == "done" and effect.kind in BY_OTHERS:
        said = ""
        with suppress(NanoclawError):  # the job is over
            said = _by_others(host, tx, effect)
        if said:
            host.records.mark_undone(tx, effect)
        return said
    if not _has_changed(effect):
        return ""
    versions.revert(effect, tx)
    became = "removed again" if effect.before == "" else "put back as before"
    return f"{effect.target} {became} ({when(effect)}, {did(effect)})."


def _by_others(host: Host, tx: Tx, effect: Effect) -> str:
    """Let the plugin that did it undo it; '' if it isn't there."""
    if effect.kind in ("calendar", "mailbox"):
        return str(other.undo(tx, effect)) if (other := host.get(effect.kind)) else ""
    schedule, number = host.get("schedule"), int(effect.target.rpartition(" ")[2])
    change = schedule and (schedule.remove if effect.kind == "job" else schedule.bring_back)
    return str(change(tx, number)) if change else ""


def line_after_turn(effects: Sequence[Effect]) -> str:
    """The line after a turn: its effects in words; '' for none."""
    done = [one for one in effects if one.state == "done" and (one.before is None or _has_changed(one))]
    kinds = Counter(effect.kind for effect in done)
    files = list(dict.fromkeys(effect.text for effect in folded(done) if effect.kind == "file"))
    is_carried_out = any(one.tool == "file_changes" and one.state == "done" for one in effects)
    back = sum(one.kind == "command" and one.state == "undone" for one in effects if not is_carried_out)
    parts = [f"put back what {back} command{'s' * (back > 1)} deleted"] * bool(back) + files[:FILES]
    parts += [f"{len(files) - FILES} more"] * (len(files) > FILES)
    if noted := kinds["note"] + kinds["fact"]:
        parts.append(f"noted {noted}")
    failed = sum(effect.state == "failed" and effect.kind == "command" for effect in effects)
    if commands := kinds["command"] + failed:
        parts.append(f"ran {commands} command{'s' * (commands > 1)}{f' ({failed} failed)' if failed else ''}")
    known = ("file", "note", "fact", "command")
    return "; ".join([*parts, *dict.fromkeys(effect.text for effect in done if effect.kind not in known)])


def _number(command: str, argument: str, default: int) -> int:
    """Raises NanoclawError for what is none."""
    if not re.fullmatch(r"([1-9]\d{0,3})?", argument, re.ASCII):
        raise NanoclawError(f"/{command} takes a number, such as /{command} 5, not {argument!r}.")
    return int(argument or default)


def _is_of_one_command(one: Effect, other: Effect) -> bool:
    return (one.tool, one.kind, one.turn) == (other.tool, other.kind, other.turn) == ("exec", "file", one.turn)


def _has_changed(effect: Effect) -> bool:
    return effect.before is not None and effect.before != effect.after
