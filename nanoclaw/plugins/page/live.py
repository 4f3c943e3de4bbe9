"""Turns while they run, as the page shows them: every change is an event, and a page that comes now gets all so far."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

from nanoclaw.core import events
from nanoclaw.core.events import Event
from nanoclaw.core.messages import Outbound, ToolCall
from nanoclaw.plugins.page import render

if TYPE_CHECKING:
    from nanoclaw.plugins.page.transcript import Transcript

Item = dict[str, Any]
"""One thing that the page shows. `id` and `kind` (said, text, tool, note) are always there."""

FLUSH_SECONDS = 0.015  # words of models that come so soon after others are shown together
MOST_ANSWERED = 100  # answers that are on their way through the outbox
ARGUMENTS, PREVIEW = 400, 200  # characters of a call, and of its result, that are shown before somebody unfolds it


class _Turn:
    """One turn: `mark` is the row of its conversation's last message when it began."""

    def __init__(self, reply_to: str, mark: int) -> None:
        self.reply_to, self.mark = reply_to, mark
        self.items: dict[str, Item] = {}
        self.growing: render.Growing | None = None
        self.text = ""  # the id of the text that grows, or was the last to
        self.superseded = list[str]()  # texts that were broken off: the answer begins anew, or has all of it
        self.is_paused = False


class LiveTurns:
    """By key of their conversation, "channel:chat"."""

    def __init__(self, publish: Callable[[Item], None], transcript: Transcript, keep: Callable[..., object]) -> None:
        """`keep` is given a conversation and its notes at the end of a turn."""
        self._publish, self._mark, self._broken, self._keep = publish, transcript.end, transcript.broken, keep
        self._turns: dict[str, _Turn] = {}
        # by conversation and message that was answered, the item with that, and its row, 0 where the history lacks it
        self._answered: dict[tuple[str, str], tuple[str, int]] = {}
        self._notes: dict[str, dict[str, Item]] = {}  # by conversation and id, of the turn that runs, or is about to
        self._growing = set[str]()  # whose news wait for the next flush, which is one for all
        self._flushed = 0.0
        self._new_id = map("l{}".format, count(1)).__next__

    def running(self) -> list[str]:
        return [key for key, turn in self._turns.items() if not turn.is_paused]

    def so_far(self, key: str) -> tuple[int | None, list[Item]]:
        """The row after which all is live, None where nothing runs; and what is shown of the turn."""
        turn = self._turns.get(key)
        if turn is None:
            return None, []
        self._flush(key)
        found = [{**item} for item in turn.items.values()]
        for item in found:
            if turn.growing and item["id"] == turn.text:
                item["html"] = turn.growing.whole()
        return turn.mark, found

    def said(self, key: str, item: Item) -> None:
        """Show a message of the person in every browser."""
        self._put(key, item)

    def joined(self, key: str, item: Item) -> None:
        """Show a message from before as part of the turn that runs."""
        if turn := self._turns.get(key):
            turn.items.pop(item["id"], None)  # it stands where it was taken up
            turn.items[item["id"]] = item
        if item.pop("waits", False):
            self._tell(key, "item", item=item)

    def gone(self, key: str, id_: str) -> None:
        """Show an item no more."""
        if turn := self._turns.get(key):
            turn.items.pop(id_, None)
        self._tell(key, "gone", id=id_)

    def text(self, key: str, id_: str) -> str:
        """The text of an item of the turn that runs, as it was written."""
        turn = self._turns.get(key)
        return str(turn.items.get(id_, {}).get("source", "")) if turn else ""

    def words(self, key: str) -> str:
        """The text of the model before what its turn asks, as it was written."""
        self._close_text(key)
        shown = self._turns[key].items.values() if key in self._turns else ()
        return str(next((one for one in reversed(shown) if one["kind"] in ("text", "tool")), {}).get("source", ""))

    def sent(self, key: str, outbound: Outbound, item: Item) -> bool:
        """Show what came through the outbox; an answer takes the place of what was shown of it while it grew. True if
        the history of the conversation has it, too."""
        shown, row = self._answered.pop((key, outbound.reply_to), ("", 0))
        if shown:
            self._tell(key, "item", item=item | ({"row": row} if row else {}), instead=shown)
            return row > 0
        self._put(key, item)
        return not outbound.reply_to

    def show(self, key: str, event: Event) -> None:
        match event:
            case events.TurnBegan(reply_to):
                self._turns[key] = _Turn(reply_to, self._mark(key))
                self._turns[key].items.update(self._notes.get(key, {}))
                self._tell(key, "began", id=f"i{reply_to}", row=self._turns[key].mark)
            case events.TextDelta(text):
                self._grow(key, text)
            case events.ToolStarted(call, parent, number):
                self._close_text(key)
                self._goes_on(key)
                self._turn(key).superseded.clear()
                self._put(key, {**_shown(call, parent, number), "state": "running"})
            case events.ToolProgress(call, text, fraction):
                self._tell(key, "progress", call=call.id, text=text[-2_000:], fraction=fraction)
            case events.ToolFinished(call, text, is_error, seconds, parent, number, diff, refused):
                result = {"seconds": round(seconds, 1), "number": number, **of_result(text, diff)}
                self._put(key, {**_shown(call, parent, number), **result, "state": state_of(is_error, refused)})
            case events.Notice(text, fraction, is_failure, stays):
                if fraction is None:
                    if (turn := self._turns.get(key)) and turn.growing:
                        turn.superseded.append(turn.text)
                    self._close_text(key)
                self._note(key, "notice failure" if is_failure else "notice", text, is_failure or stays, fraction)
            case events.Receipt(text):
                self._note(key, "receipt", text, True)
            case events.StatusLines(name, text):
                self._put(key, {"id": f"s{name}", "kind": "note", "what": "status", "text": text})
            case events.Settled(id_):
                self._tell(key, "settled", id="o" + id_.removeprefix("page-").partition(".")[0])
            case events.TurnPaused():
                self._close_text(key)
                if turn := self._turns.get(key):
                    turn.is_paused = True
                self._tell(key, "paused")
            case events.TurnEnded(_, "answered") if key in self._turns and self._turns[key].is_paused:
                del self._turns[key]  # a command was answered meanwhile, and its reply comes
            case events.TurnEnded(answer, reason):
                self._end(key, answer, reason)

    # --- a text that grows -------------------------------------------------------------------------------------------

    def _grow(self, key: str, text: str) -> None:
        turn = self._turn(key)
        if turn.growing is None:
            if not text.strip():
                return
            self._goes_on(key)
            turn.growing, turn.text = render.Growing(), self._new_id()
            self._put(key, {"id": turn.text, "kind": "text", "html": "", "grows": True})
        turn.growing.feed(text)
        if not self._growing:
            loop = asyncio.get_running_loop()
            loop.call_at(max(loop.time(), self._flushed + FLUSH_SECONDS), self._flush_all)
        self._growing.add(key)

    def _flush_all(self) -> None:
        self._flushed = asyncio.get_running_loop().time()
        for key in list(self._growing):
            self._flush(key)

    def _flush(self, key: str) -> None:
        turn = self._turns.get(key)
        if key in self._growing and turn and turn.growing:
            self._tell(key, "text", id=turn.text, **turn.growing.news())
        self._growing.discard(key)

    def _close_text(self, key: str, *, is_whole: bool = True) -> None:
        """The text that grows is followed by something else; it is not whole if it was broken off."""
        self._flush(key)
        turn = self._turns.get(key)
        if turn and turn.growing:
            text, turn.growing = turn.growing.text, None
            item = of_text(turn.text, text, source=text)
            self._put(key, item if is_whole else item | {"interrupted": True})

    def _end(self, key: str, answer: str, reason: str) -> None:
        turn = self._turns.get(key)
        grew = turn.growing.text if turn and turn.growing else ""
        is_answer = reason not in ("cancelled", "failed") and bool(grew)
        shown = turn.text if turn and is_answer else ""
        self._close_text(key, is_whole=is_answer or not grew)
        notes = self._notes.pop(key, {})
        if reason == "failed" and (last := notes.pop("notice", None)):  # when it is tried again
            self._notes[key] = {"notice": last}
        if notes:
            self._keep(key, [*notes.values()])
        self._turns.pop(key, None)
        for id_ in turn.superseded if turn and answer else ():
            self._tell(key, "gone", id=id_)
        broken = self._broken(key) if turn and reason in ("cancelled", "failed") else None
        if broken and reason == "cancelled":
            self._tell(key, "item", item=broken)
        if answer and turn and reason != "cancelled":  # that comes below what it dropped
            if not shown or answer.strip() != grew.strip():
                item = of_text(shown or self._new_id(), answer)
                shown = item["id"]
                self._tell(key, "item", item=item)
            if len(self._answered) > MOST_ANSWERED:
                del self._answered[next(iter(self._answered))]
            if turn.reply_to:
                self._answered[key, turn.reply_to] = shown, self._mark(key) * (reason != "failed")
        if broken and reason == "failed":
            self._tell(key, "item", item=broken)
        self._tell(key, "ended", reason=reason)

    # --- events ------------------------------------------------------------------------------------------------------

    def _turn(self, key: str) -> _Turn:
        if key not in self._turns:
            self._turns[key] = _Turn("", self._mark(key))
        return self._turns[key]

    def _put(self, key: str, item: Item) -> None:
        """Show an item, in place of one with the same id; it is part of the turn that runs."""
        if turn := self._turns.get(key):
            turn.items[item["id"]] = item
        self._tell(key, "item", item={one: value for one, value in item.items() if one != "source"})

    def _note(self, key: str, what: str, text: str, stays: object, fraction: float | None = None) -> None:
        """Show what the program says of a turn: one line about its progress, and those that stay."""
        id_ = self._new_id() if stays or key not in self._turns else "notice"
        item = {"id": id_, "kind": "note", "what": what, "text": text, "fraction": fraction, "after": self._mark(key)}
        self._put(key, item)
        if text and fraction is None:
            self._notes.setdefault(key, {})[id_] = item

    def _goes_on(self, key: str) -> None:
        """Take away what was said of its progress: that is past."""
        if self._notes.get(key, {}).pop("notice", None):
            self.gone(key, "notice")

    def _tell(self, key: str, what: str, **more: Any) -> None:
        self._publish({"c": key, "t": what, **more})


def of_text(id_: str, text: str, **more: Any) -> Item:
    """The item of a text of the assistant."""
    html, is_long = render.shown(text)
    return {"id": id_, "kind": "text", "html": html, **({"long": True} if is_long else {}), **more}


def state_of(is_error: bool, refused: str) -> str:
    return "refused" if is_error and refused else "failed" if is_error else "done"


def of_result(text: str, diff: str) -> Item:
    """Summarize a result that is folded."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return {"preview": first[:PREVIEW], "lines": text.count("\n") + 1 if text.strip() else 0, "diff": bool(diff)}


def _shown(call: ToolCall, parent: str, number: int) -> Item:
    item = {"id": f"c{number}" if number else f"c-{call.id}", "kind": "tool", "call": call.id, "name": call.name}
    return {**item, "arguments": call.arguments[:ARGUMENTS], "parent": parent}
