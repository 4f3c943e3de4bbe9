"""What was done, told by code: the ledger in words, /undo, and whether an answer claims more than the ledger knows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from nanoclaw.core.commands import Answer, Said
from nanoclaw.core.errors import ScheduleError, WorkspaceError
from nanoclaw.core.messages import Address, Effect, EffectState, ToolCall, ToolResult, UserMessage
from nanoclaw.core.store.audit import Ledger
from nanoclaw.core.tool import Toolbox, ToolContext
from nanoclaw.plugins.claims.claims import Claim, Kind, claims, keeps_to
from nanoclaw.plugins.memory.notes import lines_of, memory_files, read_memory_file
from nanoclaw.plugins.undo.changes import Changes, memory_name, name_in

SHOWN = 20
"""Lines of /receipts, where no number is given."""
FILES = 4
"""So many files are named in the line after a turn."""
LOOKED_AT = 500
"""So many effects of a conversation are looked at for what can be undone, or was claimed."""

CHECKLIST = "HEARTBEAT.md"
"""What is written there comes up by itself, as a reminder does."""

LOSS = "loss"
"""What a command did to a memory file, of which the person is told."""


class CallEffects:
    """What the calls of one answer change, from their beginning to their end."""

    def __init__(self, toolbox: Toolbox, calls: Sequence[ToolCall]) -> None:
        found = ((number, toolbox.audit(call)) for number, call in enumerate(calls))
        self._begun = {number: effect for number, effect in found if effect}
        self._reported: dict[int, list[Effect]] = {}
        self._results: dict[int, ToolResult] = {}

    @property
    def begun(self) -> list[Effect]:
        return list(self._begun.values())

    @property
    def ended(self) -> list[Effect]:
        """The same ones with what became of them, then what was done besides. One without a result has only begun."""
        own, others = [], list[Effect]()
        for number, effect in self._begun.items():
            reports = self._reported.get(number, [])
            own.append(
                replace(next((one for one in reports if one.kind == effect.kind), effect), state=self._state(number))
            )
            others += [one for one in reports if one.kind != effect.kind]
        return own + others

    def context(self, number: int, context: ToolContext) -> ToolContext:
        """For the call with this number."""
        return (
            replace(context, report=self._reported.setdefault(number, []).append) if number in self._begun else context
        )

    def end(self, number: int, result: ToolResult) -> None:
        self._results[number] = result

    def _state(self, number: int) -> EffectState:
        result = self._results.get(number)
        return "begun" if result is None else "failed" if result.is_error else "done"


class Doubt(NamedTuple):
    """An answer claims what was not done: what the model is told of it, and the person if it keeps to it."""

    remark: UserMessage
    line: str


class Receipts:
    def __init__(
        self,
        ledger: Ledger,
        changes: Changes,
        remark: Callable[[str], UserMessage],
        undo_forgetting: Callable[[], str] | None = None,
        undo_job: Callable[[int], str] | None = None,
        reminders: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        """`remark` makes a message of the program to the model; `undo_forgetting` brings back what was forgotten last,
        and says what; it raises WorkspaceError. `undo_job` removes a job; it raises ScheduleError when it is over.
        `reminders` are the texts of the jobs that there are."""
        self._undo_job, self._reminders = undo_job, reminders
        self._ledger, self._changes, self._remark, self._undo_forgetting = ledger, changes, remark, undo_forgetting
        self.commands: dict[str, Answer] = {"undo": self._undo, "receipts": self._receipts}

    # --- after a turn ------------------------------------------------------------------------------------------------

    def line(self, turn: int) -> str:
        """What a turn did, in one line; "" for nothing."""
        effects = [effect for effect in self._ledger.of_turn(turn) if effect.state == "done" and effect.kind != LOSS]
        kinds = Counter(effect.kind for effect in effects)
        files = list(
            dict.fromkeys(effect.text for effect in effects if effect.kind == "file" and effect.before != effect.after)
        )
        parts = files[:FILES]
        if len(files) > FILES:
            parts.append(f"{len(files) - FILES} more")
        if noted := kinds["note"] + kinds["fact"]:
            parts.append(f"noted {noted}")
        if commands := kinds["command"]:
            parts.append(f"ran {commands} command{'s' if commands > 1 else ''}")
        known = ("file", "note", "fact", "command")
        return "; ".join([*parts, *dict.fromkeys(effect.text for effect in effects if effect.kind not in known)])

    def losses(self, turn: int) -> str:
        """What the person must know of a turn, whatever its answer says."""
        lost = [effect.text for effect in self._ledger.of_turn(turn) if effect.kind == LOSS]
        return f"(Note from the program: {'; '.join(lost)}. /undo brings them back.)" if lost else ""

    def news(self, address: Address) -> list[UserMessage]:
        """What the model of a conversation is to be told before the next message."""
        undone = [effect.text for effect in self._ledger.untold(address)]
        told = "; ".join(undone[:5]) + (f"; and {len(undone) - 5} more" if len(undone) > 5 else "")
        return [self._remark(f"Undone by the person, so it is as it was before: {told}")] if undone else []

    def doubts(self, address: Address, turn: int, asked: Callable[[], str]) -> Callable[[str], Doubt | None]:
        """Tells of each answer of a turn to what the person asked whether it claims an effect that neither ledger nor
        files know, or keeps to such a claim of an answer before it."""
        doubted: Claim | None = None

        def doubt(text: str) -> Doubt | None:
            nonlocal doubted
            found = self._unfounded(text, address, turn, asked())
            if not found and doubted and keeps_to(text, doubted):
                found = None if self._is_founded(doubted, text, address, turn, asked()) else doubted
            doubted = found or doubted
            return self._doubt(found) if found else None

        return doubt

    def _unfounded(self, text: str, address: Address, turn: int, asked: str) -> Claim | None:
        for claim in claims(text):
            if claim.kind == "file" and claim.names and all(self._is_memory(name) for name in claim.names):
                claim = replace(claim, kind="note")
            if _is_asked_for(claim, asked) and not self._is_founded(claim, text, address, turn, asked):
                return claim
        return None

    def _doubt(self, claim: Claim) -> Doubt:
        done, missing = _CLAIMED[claim.kind]
        sentence = claim.sentence if len(claim.sentence) <= 100 else claim.sentence[:99] + "…"
        return Doubt(
            self._remark(f"{missing}, but your answer says: “{sentence}” {done} Answer the person again."),
            f"(Note from the program: {missing[0].lower()}{missing[1:]}.)",
        )

    def _is_founded(self, claim: Claim, text: str, address: Address, turn: int, asked: str) -> bool:
        kinds = _FOUNDED_BY[claim.kind]
        of_all = self._ledger.of(address, LOOKED_AT)
        effects = [effect for effect in of_all if effect.kind in kinds or effect.kind == "call"]
        reminders = list(self._reminders()) if claim.kind in ("reminder", "calendar") else []
        if claim.kind == "reminder":
            effects = [effect for effect in effects if effect.kind != "command" or _sets_a_timer(effect.target)]
            effects += [effect for effect in of_all if effect.target == CHECKLIST]
        if any(effect.turn == turn and effect.state in ("done", "begun") for effect in effects):
            return True
        others = [name for name in claim.names if not self._is_memory(name)]
        if claim.kind == "deletion" and claim.names:
            return not any(map(self._exists, claim.names))
        if others:
            return any(self._exists(name) for name in others)
        words = f"{asked} {claim.sentence}"
        if _tell_of(reminders, words) or (claim.kind in ("file", "note") and _tell_of(self._noted(), words)):
            return True
        if (
            claim.kind == "file"
            and not claim.names
            and any(line.lstrip()[:2] in _BULLETS for line in text.splitlines())
        ):
            return True  # a list that stands in the conversation itself
        is_small_talk = len(asked.split()) <= 3 and len(asked) < 20
        may_be_earlier = claim.earlier or is_small_talk or "?" in asked or "？" in asked
        return may_be_earlier and (bool(reminders) or any(effect.state == "done" for effect in effects))

    def _is_memory(self, name: str) -> bool:
        return bool(memory_name(self._changes.workspace, name))

    def _exists(self, name: str) -> bool:
        """Anywhere in the workspace: an answer may leave out the folder."""
        root, inside = self._changes.workspace.root, name_in(self._changes.workspace, name)
        return bool(inside) and ((root / inside).exists() or ("/" not in name and any(root.glob(f"*/{name}"))))

    def _noted(self) -> Iterable[str]:
        """Lines of the memory files, without their bullets and times."""
        names = memory_files(self._changes.workspace)
        for name in [*names[:1], *names[1:][-30:]]:
            yield from map(_bare, lines_of(_text(self._changes, name)))

    # --- commands ----------------------------------------------------------------------------------------------------

    def _receipts(self, said: Said) -> str:
        count = _number(said.argument, SHOWN)
        if count is None:
            return f"/receipts takes a number of lines, such as /receipts 50, not {said.argument!r}."
        effects = self._ledger.of(said.address, count)
        return "\n".join(map(_told, reversed(effects))) or "Nothing was changed in this conversation."

    def _undo(self, said: Said) -> str:
        count = _number(said.argument, 1)
        if count is None:
            return f"/undo takes a number of changes, such as /undo 3, not {said.argument!r}."
        told, passed, left, kept = list[str](), list[str](), count, 0
        for effect in self._ledger.of(said.address, LOOKED_AT):
            if not left:
                break
            if effect.state == "undone" or (
                effect.state == "failed" and effect.kind != "command" and not _has_changed(effect)
            ):
                continue
            try:
                undone = self._take_back(effect)
            except WorkspaceError as error:  # one that cannot be taken back must not stand before the others for ever
                told += [*map(_not_undoable, passed), str(error)]
                passed, left, kept = [], left - 1, kept + 1
                continue
            if undone:
                told += [*map(_not_undoable, passed), undone]
                passed, left = [], left - 1
            elif effect.before is None or effect.before != effect.after:
                passed.append(effect.text if effect.state != "begun" else f"{effect.text} (unknown outcome)")
        if left == count:
            told = ["There is nothing to undo in this conversation.", *map(_not_undoable, passed[:5])]
        elif count == kept == 1:
            told.append("/undo 2 goes on to the change before.")
        elif left + kept:
            told.append(f"{count - left - kept} of {count} undone.")
        return "\n".join(told)

    def _take_back(self, effect: Effect) -> str:
        """What was done about it; "" when it cannot be undone. Raises WorkspaceError when it could, but not as things
        are."""
        if effect.kind == "forgetting" and effect.state == "done" and self._undo_forgetting:
            try:
                brought = self._undo_forgetting()
            except WorkspaceError:  # its ten minutes are over
                return ""
            self._ledger.mark_undone(effect)
            return brought
        if effect.kind == "job" and effect.state == "done" and self._undo_job:
            try:
                removed = self._undo_job(int(effect.target.removeprefix("job ")))
            except ScheduleError:
                return ""
            self._ledger.mark_undone(effect)
            return removed
        if not _has_changed(effect):
            return ""
        self._changes.take_back(effect)
        became = "was removed again" if effect.before == "" else "is as it was before"
        return f"{effect.target} {became} ({_when(effect)}, {effect.text})."


_CLAIMED: dict[Kind, tuple[str, str]] = {
    "file": ("Write it now with a tool, or correct yourself.", "No file was written in this turn"),
    "note": ("Note it now with a tool, or correct yourself.", "Nothing was noted in this turn"),
    "reminder": ("Set it now if you have a tool for it, or say that you cannot.", "No reminder was set in this turn"),
    "calendar": (
        "Do it now if you have a tool for it, or say that you cannot.",
        "No calendar was changed in this turn",
    ),
    "mail": ("Send it now if you have a tool for it, or say that you cannot.", "Nothing was sent in this turn"),
    "deletion": ("Delete it now with a tool, or correct yourself.", "No file was deleted in this turn"),
}
_FOUNDED_BY: dict[Kind, frozenset[str]] = {
    "file": frozenset({"file", "note", "fact", "command"}),
    "note": frozenset({"file", "note", "fact", "command"}),
    "reminder": frozenset({"job", "reminder", "command"}),
    "calendar": frozenset({"job", "reminder", "command", "file", "note", "fact"}),
    "mail": frozenset({"command", "message"}),
    "deletion": frozenset({"command", "forgetting"}),
}
_ASKS_TO_KEEP = (
    r"\b(?:note|notes|remember|memori[sz]e|save|store|write|jot|keep|record|log|add|don['’]?t forget)\b"
    r"|\b(?:notier|merk|speicher|schreib|vermerk|vergiss)\w*|\b(?:not|enregistr|retien|souvien|mémoris)\w*"
    r"|\b(?:anot|apunt|recuerd|guard|annot|ricord|salv|lembr)\w*|记|备忘|保存"
)
_ASKS_TO_REMIND = (
    r"\b(?:remind(?! me (?:again|what|who|when|where|why|how|which)\b)|alarm|wake|erinner|weck|rappel"
    r"|réveil|record|recuérd|despert|ricord|svegli|lembr|acord)\w*"
    r"|提醒|闹钟|叫我"
)
_ASKS_TO_SEND = (
    r"\b(?:send|forward|invite|reply)\b|\b(?:e-?mail|mail|text|message) (?!is\b|was\b|from\b)\w"
    r"|\b(?:schick|send|leite)\w*|\benvo\w*|\benv[ií]\w*|\bmanda\w*|\binvi\w*|发"
)
_ASKS_FOR_A_DRAFT = (
    r"\b(?:draft|compose|rephrase|translate|proofread|entwurf|entwirf|formulier\w*|übersetz\w*|rédige\w*|tradui\w*"
    r"|redact\w*|traduc\w*|bozza|traduci|rascunho|traduz\w*)\b|草稿|翻译|润色"
)
_ASKS_TO_DELETE = (
    r"\b(?:delete|remove|erase|get rid|rm|lösch\w*|entfern\w*|supprime\w*|efface\w*|elimina\w*|borra\w*|cancella\w*"
    r"|apaga\w*)\b|删"
)


def _is_asked_for(claim: Claim, asked: str) -> bool:
    """Whether the person asked for what is claimed, where the same words may mean less: "Noted." is also "I see", and
    a letter that is drafted for the person tells of his own effects."""
    if claim.is_word:
        words = _ASKS_TO_REMIND if claim.kind == "reminder" else _ASKS_TO_KEEP
        return re.search(words, asked, re.IGNORECASE) is not None
    if claim.kind == "mail":
        is_draft = re.search(_ASKS_FOR_A_DRAFT, asked, re.IGNORECASE)
        return not is_draft and re.search(_ASKS_TO_SEND, asked, re.IGNORECASE) is not None
    if claim.kind == "deletion" and not claim.names:
        return re.search(_ASKS_TO_DELETE, asked, re.IGNORECASE) is not None
    return True


_BULLETS = ("- ", "* ", "• ", "1.")


def _sets_a_timer(command: str) -> bool:
    return (
        re.search(r"(?:^|[\s;&|])(?:at|crontab|systemd-run|atd|remind|notify-send|schtasks|launchctl)\b", command)
        is not None
    )


def _text(changes: Changes, name: str) -> str:
    try:
        return read_memory_file(changes.workspace, name) or ""
    except WorkspaceError:
        return ""


def _tell_of(lines: Iterable[str], words: str) -> bool:
    """Whether the words of some line are among these."""
    from nanoclaw.tokenizer import tokens

    said = set(tokens(words))
    for line in lines:
        own = {token for token in tokens(line) if not token.isdigit()}
        if len(own) > 1 and len(own & said) * 3 >= len(own) * 2:
            return True
    return False


def _bare(line: str) -> str:
    """An entry's words, without its bullet, time or date."""
    return re.sub(r"^\W*(?:\d{1,2}:\d\d|\d{4}-\d\d-\d\d:?)?\s*", "", line)


def _number(argument: str, default: int) -> int | None:
    if not argument:
        return default
    return (
        int(argument) if argument.isascii() and argument.isdigit() and 0 < len(argument) < 5 and int(argument) else None
    )


def _has_changed(effect: Effect) -> bool:
    return effect.before is not None and effect.before != effect.after


def _told(effect: Effect) -> str:
    marks = {"begun": " (unknown outcome)", "failed": " (failed)", "undone": " (undone)", "done": ""}
    return f"- {_when(effect)} {effect.text}{marks[effect.state]}"


def _when(effect: Effect) -> str:
    return f"{effect.at:%Y-%m-%d %H:%M}" if effect.at else "?"


def _not_undoable(text: str) -> str:
    return f"Not undoable: {text}."
