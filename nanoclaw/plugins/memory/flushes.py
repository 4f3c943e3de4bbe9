"""Flushes: what is worth keeping is noted before a summary takes the place of talk, and after /new.

What is to be written down is a row of the store, made with the new context; the model is asked by a message of its own,
beside what the person says meanwhile.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from nanoclaw.core.errors import NanoclawError, ToolError
from nanoclaw.core.messages import Address, Inbound, Limits, ModelRequest, Outbound, UserMessage
from nanoclaw.core.plugin import Ended, Host, Profile, Turn, Tx
from nanoclaw.core.tool import ToolContext
from nanoclaw.outside_text import own_words, without_documents
from nanoclaw.plugins.memory.plugin import PLACE
from nanoclaw.tool_schema import ArgumentsError, parse

if TYPE_CHECKING:
    from nanoclaw.plugins.memory.notes import MemoryStore
    from nanoclaw.plugins.memory.origins import Origins

PURPOSE = "summaries"  # of [models]; without one there it is the conversation's model
PROMPT = (
    "Below are MEMORY.md, and what was said in a conversation that has ended. Call keep once with what "
    "will matter on another day and is not in memory yet: decisions, dates, names, preferences, promises, results. "
    "Each is one sentence in the person's language that can be understood alone, with its names, its numbers and the "
    "date of a day that is meant, then ` | ` and 2-6 other words to find it by. facts are only for what stays true, "
    "everything else is a note. What follows “Noted:” is in memory. Give empty lists if nothing is worth keeping."
)

FLUSH = (
    "This conversation has grown long: a summary will take the place of everything above. Before that, keep what will "
    "matter on another day and is not in memory yet: decisions, dates, names, preferences, promises, results. Call "
    "memory_add once for each, in one sentence that can be understood alone, with its names and numbers, and in `also` "
    "other words that somebody may look for it with; kind fact only for what stays true. No other tool runs now, and "
    "the person does not see your answer. When nothing is worth keeping, answer: nothing."
)

PART, PARTS = 40_000, 4
"""Characters of talk that one request has, and the most of them for one conversation: the newest."""
LOCAL_PART = 6_000  # the same for a model on this machine, whose window is small and which reads slowly
LONGEST_SAID, MOST_FACTS = 4_000, 4_000  # characters of one message, and of MEMORY.md
LEAST, LEAST_OF_ONESELF = 2.5, 1.0
"""Telling words of the person's that are needed in all, by the values of `Wording`, and of who speaks of themselves:
fewer are greetings."""

AGAIN_SECONDS = (600.0, 3_600.0, 21_600.0, 86_400.0)
"""Pauses after a model that could not be asked; then it is given up: what was said can still be searched."""
CALM_SECONDS = 120.0  # a model on this machine is not asked while the person talks: it answers one after the other
MOST_KEPT, SHOWN = 20, 3


async def flush(host: Host, request: ModelRequest, turn: Turn) -> None:
    """Ask the model for its calls of memory_add, and run them. Raises ProviderError."""
    if not any(spec.name == "memory_add" for spec in request.tools):
        return
    asked = UserMessage(FLUSH, turn.now(), "runtime")
    answer = await host.complete(request._replace(history=(*request.history, asked)), turn)
    whole = answer.tool_calls[:-1] if answer.finish == "length" else answer.tool_calls
    for call in whole:
        if call.name.strip().casefold() == "memory_add":
            await host.call(call, turn)


class Flush(NamedTuple):
    """A row: talk of one conversation that is to be written down."""

    id: int
    session: int
    conversation: str
    model: str
    after: int
    upto: int
    reached: int
    tries: int
    kept: str


class Line(NamedTuple):
    id: int
    is_persons: bool
    text: str


class Flushes:
    """Puts down what has ended, has the model asked about it, and notes what it keeps."""

    def __init__(self, host: Host, store: MemoryStore, origins: Origins) -> None:
        self._host, self._store, self._origins = host, store, origins
        self._wake = asyncio.Event()
        self._has_forgotten = False  # something, since the model was asked

    # --- what is to be written down ----------------------------------------------------------------------------------

    def begins_anew(self, conversation: Address, tx: Tx) -> None:
        """Put down that the context of a conversation has ended, in the transaction that ends it."""
        stored = self._host.conversations.of(conversation)
        ((mark,),) = tx.execute("SELECT coalesce(max(upto), 0) FROM memory_flushes WHERE session = ?", stored.id)
        if rows := [one.id for one in stored.unsummed() if one.id]:
            after, upto = max(mark, rows[0] - 1), rows[-1]
            if after < upto:
                columns = "session, after, upto, due, reached, is_new"
                sql = f"INSERT INTO memory_flushes ({columns}) VALUES (?, ?, ?, ?, 0, 1)"
                tx.execute(sql, stored.id, after, upto, self._now())
        tx.execute(_CLEAR)
        tx.after(self._wake.set)

    async def run(self) -> None:
        while True:
            self._wake.clear()
            for flush in self._rows("due <= ? ORDER BY id", self._now()):
                await self._host.write(partial(self._ask, flush))
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds()):
                    await self._wake.wait()

    def _now(self) -> float:
        return self._host.now().timestamp()

    def _seconds(self) -> float | None:
        """Pause until something is due; None for ever."""
        ((due,),) = self._host.read("SELECT min(due) FROM memory_flushes")
        return None if due is None else max(1.0, due - self._now())

    def _rows(self, where: str, *values: object) -> list[Flush]:
        known, columns = self._host.records.conversations(), "id, session, after, upto, reached, tries, kept"
        found = self._host.read(f"SELECT {columns} FROM memory_flushes WHERE {where}", *values)
        return [Flush(row, session, *known[session], *rest) for row, session, *rest in found]

    def _ask(self, flush: Flush, tx: Tx) -> None:
        """Have the model asked about the next part of it; nothing is asked where nothing was said."""
        models, has_own = self._host.models, bool(self._host.setting(f"models.{PURPOSE}").name)
        chosen = "" if has_own else flush.model
        try:
            provider = models.of(chosen, PURPOSE)
        except NanoclawError as error:  # there is no key, or no such model any more
            self._later(flush._replace(tries=flush.tries + 1), str(error), tx)
            return
        is_local, window = models.is_local(provider.model), models.window_of(provider.model)
        is_small = getattr(provider, "cuts_history", False)  # it notes wishes and questions as if they were news
        if is_local and (pause := self._until_calm()):
            tx.execute("UPDATE memory_flushes SET due = ? WHERE id = ?", self._now() + pause, flush.id)
            return
        most = min(LOCAL_PART if is_local else PART, window // 2 if window else PART)
        said = self._said(flush, most)
        reached = said[-1].id if said else flush.upto
        rules = self._host.get("rules")
        if is_small or (rules and rules.refusal("memory_add", {})) or not _says_enough(said):
            self._done(flush._replace(reached=reached), tx)
            return
        facts = self._store.own("MEMORY.md").strip()[-min(MOST_FACTS, most // 4) :]
        talk = "\n\n".join(one.text for one in said)
        pinned = "\n".join(f"- {pin.text}" for pin in rules.all()) if rules else ""
        ruled = f"\n\n## Rules of the person\n{pinned}" if pinned else ""
        text = f"{PROMPT}{ruled}\n\n## MEMORY.md\n{facts or '(empty)'}\n\n## Said\n{talk}"
        message = UserMessage(text, self._host.now(), "job")
        inbound = Inbound(PLACE, PLACE.channel, f"flush {flush.id} {reached} {flush.tries}", message, role="owner")
        profile = Profile(
            "flush",
            mode="none",
            only=frozenset({"keep"}),
            model=chosen,
            purpose=PURPOSE,
            limits=Limits(output_tokens=2_048, rounds=3, calls=3, seconds=900.0),
            can_ask=False,
            keeps=False,
            words="noting what was said before",
        )
        self._has_forgotten = False
        sql = "UPDATE memory_flushes SET due = NULL, reached = ?, tries = tries + 1 WHERE id = ?"
        tx.execute(sql, reached, flush.id)
        tx.deliver(inbound, profile)

    def _until_calm(self) -> float:
        last = self._host.records.last_spoke()
        return max(0.0, CALM_SECONDS - (self._now() - last.timestamp())) if last else 0.0

    def _said(self, flush: Flush, most: int) -> list[Line]:
        """The first part of what was said, or of the newest parts where it was more than all of them hold."""
        lines = list[Line]()
        outside, day = set[int](), ""
        found = self._host.records.said(flush.session, flush.after + 1, flush.upto)
        for id_, turn, is_said, kind, at, text, source, calls in found:
            if source:
                outside.add(turn)
            is_own = kind == "assistant" and turn not in outside
            noted = [f"Noted: {one}" for one in _noted(calls)] if is_own else []
            spoken = ""
            if is_said and not (kind == "assistant" and turn in outside):
                speaker = "Person" if kind == "user" else "You"
                words = without_documents(own_words(text)).strip()[:LONGEST_SAID]
                spoken = f"{speaker}: {words}" if words else ""
            if not (shown := [*filter(None, [spoken]), *noted]):
                continue
            if kind == "user" and (on := _day(at, self._host.now())) != day:
                day = on
                shown.insert(0, f"# {day}")
            lines.append(Line(id_, kind == "user", "\n\n".join(shown)))
        return _first_part(lines, most)

    # --- what the model keeps ----------------------------------------------------------------------------------------

    async def keep(self, context: ToolContext, notes: list[str], facts: list[str]) -> str:
        """Put down what the model wants to keep, until its turn ends."""
        if self._has_forgotten:
            self._has_forgotten = False
            raise ToolError("something was forgotten meanwhile: call keep once more, with what is above now.")
        entries = [[is_fact, *_parts(text)] for is_fact, texts in ((1, facts), (0, notes)) for text in texts]
        kept = json.dumps([one for one in entries if one[1]][:MOST_KEPT], ensure_ascii=False)
        _, number, _, _ = self._host.records.answered(context.turn).split()
        sql = "UPDATE memory_flushes SET kept = ? WHERE id = ?"
        await context.write(lambda tx: tx.execute(sql, kept, int(number)))
        return "kept"

    def forgot(self) -> None:
        """Let the model answer again, as it may have been shown what is to be forgotten."""
        self._has_forgotten = True

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> Ended:
        """Note what the model keeps, and go on with the next part; a model that could not be asked is asked later."""
        _, number, _, _ = turn.external_id.split()
        for flush in self._rows("id = ?", int(number)):
            if flush.kept != "[]" or ended.reason == "answered":
                self._note(flush, tx)
                self._done(flush, tx)
            elif ended.reason == "cancelled":
                self._done(flush._replace(reached=flush.upto), tx)
            else:
                self._later(flush, ended.text, tx)
        return ended._replace(outbound=None)

    def _done(self, flush: Flush, tx: Tx) -> None:
        """Go on with the next part, if there is one."""
        due = self._now() if flush.reached < flush.upto else None
        sql = "UPDATE memory_flushes SET after = ?, tries = 0, kept = '[]', due = ? WHERE id = ?"
        tx.execute(sql, flush.reached, due, flush.id)
        tx.after(self._wake.set)

    def _later(self, flush: Flush, why: str, tx: Tx) -> None:
        """Ask again after a pause; after the last one that is given up."""
        if flush.tries > len(AGAIN_SECONDS):
            self._host.log.warning("a conversation that ended was not written down: {}", why)
            self._done(flush._replace(reached=flush.upto), tx)
            return
        due = self._now() + AGAIN_SECONDS[flush.tries - 1]
        tx.execute("UPDATE memory_flushes SET due = ?, tries = ? WHERE id = ?", due, flush.tries, flush.id)
        tx.after(self._wake.set)

    def _note(self, flush: Flush, tx: Tx) -> None:
        """Write the entries into the memory's files, and a line about them to the person who began again."""
        place = Address(*flush.conversation.split(":", 1))
        done = [line for one in json.loads(flush.kept) if (line := self._entry(tx, place, *one))]
        if not done:
            return
        more = f"; and {len(done) - SHOWN} more" if len(done) > SHOWN else ""
        told = f"Of the conversation before: {'; '.join(done[:SHOWN])}{more}. /undo takes the last one back."
        tx.send(Outbound(place, told), is_news=False)

    def _entry(self, tx: Tx, place: Address, is_fact: int, text: str, also: str) -> str:
        """Note one; its line in words, '' for one that was there. A fact that contradicts another one is a note: which
        of them is true only the person can say."""
        from nanoclaw.plugins.memory.commands import watch
        from nanoclaw.plugins.memory.tools import noted, remember

        kept = watch(self._host, place, tx)
        try:
            added = remember(self._store, kept, "flush", text, also=also, is_fact=bool(is_fact))
        except NanoclawError as error:
            if is_fact:
                return self._entry(tx, place, 0, text, also)
            self._host.log.warning("not noted: {}", error)
            return ""
        if not added.is_new and self._origins.of_line(added.file, added.line):
            return ""  # one without an origin was written just before a crash
        self._origins.add(tx, text, ("conversation that ended", place, None))
        return noted("flush", self._store, text, is_fact=bool(is_fact)).text


_CLEAR = """
    DELETE FROM memory_flushes WHERE after >= upto
    AND upto < (SELECT max(upto) FROM memory_flushes AS newest WHERE newest.session = memory_flushes.session)"""


def _first_part(lines: Sequence[Line], most: int) -> list[Line]:
    newest = sum(size <= most * PARTS for size in accumulate(len(one.text) for one in reversed(lines)))
    kept = lines[len(lines) - newest :]
    within = sum(size <= most for size in accumulate(len(one.text) for one in kept))
    return list(kept[: max(1, within)])


def _says_enough(said: Sequence[Line]) -> bool:
    """Tell talk from greetings and thanks, in any language."""
    from nanoclaw.plugins.memory.wording import Wording
    from nanoclaw.tokenizer import words

    text = "\n".join(one.text.rpartition("Person: ")[2] for one in said if one.is_persons).casefold()
    spoken = list(words(text))
    wording = Wording(spoken)
    telling = sum(dict(wording.says(wording.content(spoken)).values()).values())
    return telling >= (LEAST_OF_ONESELF if wording.is_first_person(text) else LEAST)


def _noted(calls: str | None) -> list[str]:
    """Texts that an answer's calls have noted."""
    texts = list[str]()
    for call in json.loads(calls or "[]"):
        if call[1] == "memory_add":
            with suppress(ArgumentsError, KeyError):
                texts.append(str(parse(call[2])["text"]))
    return texts


def _parts(text: str) -> tuple[str, str]:
    """An entry, and other words to find it by."""
    entry, _, also = text.partition("|")
    return entry.strip(), also.strip()


def _day(at: str, now: datetime) -> str:
    try:
        return f"{datetime.fromisoformat(at).astimezone(now.tzinfo):%Y-%m-%d (%A)}"
    except ValueError:
        return ""
