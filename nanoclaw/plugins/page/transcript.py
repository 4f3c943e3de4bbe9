"""Messages of a conversation as things that the page shows: a part of it at a time, the newest first."""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from nanoclaw.core.messages import AssistantMessage, Message, Placed, ToolResult, UserMessage
from nanoclaw.core.plugin import Host
from nanoclaw.outside_text import own_words, without_documents
from nanoclaw.plugins.page.channel import BETWEEN, conversation_of
from nanoclaw.plugins.page.live import ARGUMENTS, Item, of_result, of_text, state_of
from nanoclaw.silence_token import spoken

SHOWN = 120  # messages of a conversation that are loaded at once, whole turns
BEHIND, BEFORE = 25, 5  # messages of the person that are shown after one that was asked for, and before it
LAST, BROKEN = 2**62, ("cancelled", "failed")  # a row behind every other; how turns end that broke off
FILE = r"(?m)^(?:\[media attached[\d/ ]*: (.*) \([^()]*\)\]|(.+) came with the message but is not here: .*)$"
"""A file in the metadata of a message, by its name."""
_Line = tuple[int, int, str, str, str]


class TranscriptPage(NamedTuple):
    """A part of a conversation. `first` is its first row; `is_earlier` and `is_later`: there is more on that side."""

    items: list[Item]
    first: int
    is_earlier: bool
    is_later: bool


class Transcript:
    def __init__(self, host: Host) -> None:
        self._host = host

    def last(self, key: str, count: int = 1) -> list[Placed]:
        return self._host.conversations.of(conversation_of(key)).said(LAST, count)

    def end(self, key: str, before: int = 0) -> int:
        """The row of the last message, or of one before it."""
        return self.last(key, before + 1)[0].id if self.last(key) else 0

    def message(self, key: str, row: int) -> Message | None:
        found = self._host.conversations.of(conversation_of(key)).said(row + 1, 1)
        return found[0].message if found and found[0].id == row else None

    def page(self, key: str, before: int = LAST) -> TranscriptPage:
        """The last messages before a row."""
        found, is_earlier = self._turns(key, before)
        return self._shown(key, found, before, is_earlier, False)

    def around(self, key: str, row: int, end: int = LAST) -> TranscriptPage:
        """The messages around a row."""
        asked = self.asked(key)
        here = bisect_right(asked, row) - 1
        first = asked[max(0, here - BEFORE)] if asked else 0
        return self._from(key, first, here, asked, end)

    def after(self, key: str, row: int, end: int = LAST) -> TranscriptPage:
        """The messages behind a row, which is the last of a page before."""
        asked = self.asked(key)
        return self._from(key, row + 1, bisect_right(asked, row), asked, end)

    def on(self, key: str, day: str, end: int = LAST) -> TranscriptPage:
        """The messages from a day on."""
        rows = [(datetime.fromisoformat(at), row) for _, row, _, at, _ in self._rows(key)]
        since = datetime.fromisoformat(day).replace(tzinfo=self._host.now().tzinfo)
        row = next((row for at, row in rows if at >= since), self.end(key))
        return self.around(key, row, end)

    def number(self, key: str, row: int) -> int:
        """The number of the message of the person whose turn a row is in, as commands count them."""
        return bisect_right([row for _, row, *_ in self._host.records.asked(conversation_of(key))], row)

    def broken(self, key: str) -> Item | None:
        """A remark on the newest turn, if it was broken off."""
        if not (found := self.last(key)):
            return None
        reason = self._host.records.reasons([turn := found[0].turn]).get(turn, "")
        tools = [one for one in self.last(key, SHOWN) if one.turn == turn and isinstance(one.message, ToolResult)]
        return _broken(turn, reason, len(tools), True, isinstance(found[0].message, AssistantMessage))

    def _rows(self, key: str) -> list[tuple[int, int, int, str, str]]:
        return [one for one in self._host.records.asked(conversation_of(key)) if one[2] > 0]

    def asked(self, key: str) -> list[int]:
        """The row of each message with which the person began a turn."""
        return [row for _, row, *_ in self._rows(key)]

    def _from(self, key: str, first: int, here: int, asked: Sequence[int], end: int) -> TranscriptPage:
        is_later = here + BEHIND < len(asked)
        before = asked[here + BEHIND] if is_later else end
        found = self._host.conversations.of(conversation_of(key)).said(before, 10 * SHOWN)
        begins = bisect_left(found, first, key=lambda one: one.id)
        has_metadata = begins and getattr(found[begins - 1].message, "origin", "") == "runtime"  # of what is said first
        kept = found[begins - bool(has_metadata) :]
        return self._shown(key, kept, before, is_earlier=len(kept) < len(found), is_later=is_later)

    def _turns(self, key: str, before: int) -> tuple[list[Placed], bool]:
        """The last messages before a row, from the beginning of a turn on, and if there are more."""
        conversation, most = self._host.conversations.of(conversation_of(key)), SHOWN
        while len(found := conversation.said(before, most + 1)) > most:
            if kept := [one for one in found if one.turn != found[0].turn]:
                return kept, True
            most *= 2  # one turn that is long
        return found, False

    def _shown(self, key: str, placed: list[Placed], before: int, is_earlier: bool, is_later: bool) -> TranscriptPage:
        first = placed[0].id if placed else 0
        sql = "SELECT id, after, kind, text, at FROM page_lines WHERE session = ? AND after >= ? AND after < ?"
        session = self._host.conversations.of(conversation_of(key)).id
        lines = self._host.read(f"{sql} ORDER BY id DESC LIMIT 200", session, first if is_earlier else 0, before)[::-1]
        reasons = self._host.records.reasons(sorted({one.turn for one in placed}))
        return TranscriptPage(items(placed, reasons, lines, is_newest=not is_later), first, is_earlier, is_later)


def items(
    placed: Sequence[Placed], reasons: dict[int, str], lines: Iterable[_Line] = (), *, is_newest: bool = True
) -> list[Item]:
    """Messages, and what was kept besides, as things that the page shows."""
    found: list[Item] = []
    calls: dict[str, Item] = {}
    ran: Counter[int] = Counter(one.turn for one in placed if isinstance(one.message, ToolResult))
    rows, answered = {one.id for one in placed}, dict[int, Item]()
    besides = [one for one in lines if one[2] != "note" or one[1] in rows]  # else its turn was taken back
    besides.sort(key=lambda one: (one[1], one[0]))
    kept = Counter(text for _, _, kind, text, _ in besides if kind == "text")
    begun = {one.turn for one in placed if getattr(one.message, "origin", "") != "runtime"}

    def tell_besides(row: int, but: str = "") -> None:
        while besides and besides[0][1] < row and besides[0][2] != but:
            if (line := besides.pop(0))[2] != "words" or row == LAST:  # else the message has them
                found.append(_line(line))

    def end(turn: int, row: int, is_last: bool = False) -> None:
        if reasons.get(turn) == "failed":  # first why
            tell_besides(row, "said")
        if turn in begun and (broken := _broken(turn, reasons.get(turn, ""), ran[turn], is_last, turn in answered)):
            found.append(broken)
            if reasons[turn] == "cancelled" and turn in answered:
                answered[turn]["interrupted"] = True

    turn, names = 0, list[str]()
    for row, own, message in placed:
        if turn and own != turn:
            end(turn, row)
        has_asked = own == turn and isinstance(message, AssistantMessage) and message.tool_calls
        turn = own
        tell_besides(row, "asked" if has_asked else "")  # it was shown before what its calls asked
        at = message.at.isoformat()
        match message:
            case UserMessage(text, _, "runtime"):
                names = [name or lost for name, lost in re.findall(FILE, text)]
            case UserMessage(text, _, "person"):
                answered.pop(turn, None)
                words = without_documents(own_words(text))
                words = "" if names and words.startswith("(sent without text") else words
                said = {"id": f"m{row}", "kind": "said", "text": words, "names": names}
                found.append({**said, "at": at, "row": row})
                names = []
            case AssistantMessage(text) if reasons.get(turn) == "told" and kept[text]:
                kept[text] -= 1  # a line has it already, where it was said
            case AssistantMessage(text, _, made):
                if (superseded := answered.pop(turn, None)) and text.strip() and reasons.get(turn) != "told":
                    found.remove(superseded)  # it was revised
                if any(after == row and kind == "files" for _, after, kind, *_ in besides):
                    text = "\n".join(line for line in text.splitlines() if not line.startswith("MEDIA:"))
                if text := spoken(text).strip():
                    found.append(of_text(f"m{row}", text, at=at, row=row))
                    if not made:
                        answered[turn] = found[-1]
                tell_besides(row)
                for call in made:
                    state = "broken" if turn in reasons else "running"
                    item = {"id": f"m{row}-{call.id}", "kind": "tool", "state": state, "name": call.name}
                    calls[call.id] = item | {"arguments": call.arguments[:ARGUMENTS]}
                    found.append(calls[call.id])
            case ToolResult(call_id, _, text) if call_id in calls:
                calls[call_id]["state"] = state_of(message.is_error, message.refused)
                calls[call_id] |= {"row": row, **of_result(text, message.diff)}
    if turn:
        end(turn, LAST, is_newest)
    tell_besides(LAST)
    return found


def _broken(turn: int, reason: str, tools: int, is_last: bool, has_text: bool) -> Item | None:
    if reason not in BROKEN:
        return None
    is_cut = reason == "cancelled" or has_text  # one that a crash cut off has the text that says so
    done = f", {tools} tool{'s' * (tools != 1)} had run" if tools else ""
    told = f"Interrupted{done}: this is not complete." if is_cut else f"This failed{done}."
    acts: list[Any] = [["Go on", "Go on."]] if is_last and (tools or is_cut) else []
    return {"id": f"b{turn}", "kind": "broken", "text": told, "acts": acts, "retry": is_last}


def _line(one: _Line) -> Item:
    row, _, kind, text, at = one
    if kind == "said":
        text, *names = text.split(BETWEEN)
        return {"id": f"p{row}", "kind": kind, "text": text, "names": names, "at": at}
    if kind == "note":
        what, _, text = text.partition(BETWEEN)
        return {"id": f"p{row}", "kind": "note", "what": what, "text": text}
    if kind == "files":
        sent, names = json.loads(text)
        files = [{"name": name, "url": f"/files/{sent}/{number}"} for number, name in enumerate(names)]
        return {"id": f"p{row}", "kind": "text", "html": "", "at": at, "files": files}
    sent, _, asked = text.partition(" ") if kind == "asked" else ("", "", "")
    return of_text(f"o{sent}" if sent else f"p{row}", asked or text, at=at)
