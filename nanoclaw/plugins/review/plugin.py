"""The plugin: when the review is due, its card, and how that is answered."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from datetime import datetime, time, timedelta
from typing import Annotated, Any, ClassVar

from nanoclaw.core.channel import MAIN
from nanoclaw.core.errors import ConfigError, NanoclawError
from nanoclaw.core.messages import Address, Button, Effect, Inbound, Outbound
from nanoclaw.core.plugin import Command, Ended, Hears, Host, NamedTuple, Plugin, Profile, Said, Tool, Turn, Tx
from nanoclaw.core.tool import ToolContext, tool
from nanoclaw.escapes import one_line

PLACE = Address("review", "main")
"""The conversation in which it is made."""

REVIEW = Profile("review", "minimal", frozenset({"propose"}), "", "tasks", can_ask=False, can_allow=False, keeps=False)
MOST = 8
"""Proposals of a card: with its first and last line it has ten."""

NOTHING = "I went through the day: there is nothing in it to add to memory, to strike or to remind you of."

OTHER_WORDS = " | "
"""Stands between a proposed fact and other words that it is found by, which the card doesn't show."""
LONGEST = 160
LONGEST_SLEEP = 300.0
OPEN_FOR = timedelta(days=1)

LABELS = {"fact": "note", "outdated": "strike", "promise": "remind"}


class ReviewSettings(NamedTuple):
    """The evening review of the day's notes."""

    at: str = ""  # time of day at which to review the day's notes, such as "22:30"; empty: never

    def check(self) -> None:
        if self.at:
            self.time()

    def time(self) -> time:
        if not re.fullmatch(r"([01]?\d|2[0-3]):[0-5]\d", self.at):
            raise ConfigError(f"memory.review must be a time of day such as 22:30, not {self.at!r}.")
        return time.fromisoformat(self.at.zfill(5))


class Card(NamedTuple):
    """A day's proposals, (kind, text) each; `outbox` is the message that shows them."""

    day: str
    place: Address
    outbox: int
    items: list[tuple[str, str]]


class Review(Plugin):
    name = "review"
    needs = ("memory",)
    settings = ReviewSettings
    hears: Mapping[str, Hears] = {
        "on_message": Hears(rows="review_cards WHERE state = 'open'"),
        "on_end": Hears(channels=(PLACE.channel,)),
    }
    keys: ClassVar[Mapping[str, str]] = {"at": "memory.review"}
    migrations = (
        """
        CREATE TABLE review_cards (
            day TEXT PRIMARY KEY,
            at TEXT NOT NULL,
            state TEXT NOT NULL,              -- asked, open, done
            channel TEXT NOT NULL DEFAULT '',
            chat TEXT NOT NULL DEFAULT '',
            outbox INTEGER NOT NULL DEFAULT 0,
            items TEXT NOT NULL DEFAULT '[]'  -- as JSON: [kind, text]
        ) STRICT;
        """,
    )
    marks = ("review_cards.day", "review_cards.at", "review_cards.state", "review_cards.channel", "review_cards.chat")

    def __init__(self, host: Host, settings: ReviewSettings) -> None:
        self._host, self._settings = host, settings
        self._proposed = dict[int, list[tuple[str, str]]]()
        self._tool = tool(self._propose, reach="none", open_to=("review",))._replace(ends=True)

    # --- making one --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Wait for the time of day; a review that fails is logged, and the next day has its own."""
        while self._settings.at:
            now = self._host.now()
            due = datetime.combine(now.date(), self._settings.time(), now.tzinfo)
            if now >= due and not self._host.read("SELECT 1 FROM review_cards WHERE day = ?", now.date().isoformat()):
                try:
                    await self._begin()
                except NanoclawError as error:
                    self._host.log.error("the evening review failed: {}", error)
            await asyncio.sleep(
                min(LONGEST_SLEEP, max(1.0, (due - now).total_seconds()) if now < due else LONGEST_SLEEP)
            )

    async def _begin(self, asker: Address | None = None) -> bool:
        """Ask the model about today. False: there is nothing to ask about, and no request was made. What comes of it is
        told to who asked for it in any case."""
        from nanoclaw.plugins.review.material import question

        now = self._host.now()
        message = question(self._host, now)

        def change(tx: Tx) -> None:
            state = "asked" if message else "done"
            sql = (
                "INSERT INTO review_cards (day, at, state, channel, chat) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE"
                " SET at = excluded.at, state = excluded.state, channel = excluded.channel, chat = excluded.chat"
            )
            tx.execute(sql, now.date().isoformat(), now.isoformat(), state, *(asker or ("", "")))
            if message:
                inbound = Inbound(PLACE, PLACE.channel, f"review {now.isoformat()}", message, role="owner")
                tx.deliver(inbound, REVIEW)

        await self._host.write(change)
        return message is not None

    def tools(self) -> Iterable[Tool]:
        return [self._tool]

    async def _propose(
        self,
        context: ToolContext,
        facts: Annotated[
            list[str], "to add to MEMORY.md, each one sentence, then ` | ` and 2-6 other words to find it by"
        ],
        outdated: Annotated[list[str], "lines of MEMORY.md that are no longer true, word for word"],
        promises: Annotated[list[str], "left open, each as “tomorrow at 9 to call Anna”"],
    ) -> str:
        """Propose what the person may want to keep of the day. Empty lists where there is nothing."""
        found = [("fact", one) for one in facts] + [("outdated", one) for one in outdated]
        found += [("promise", one) for one in promises]
        told = [(kind, " ".join(text.split())) for kind, text in found]
        self._proposed[context.turn] = [(kind, text) for kind, text in told if text][:MOST]
        return "proposed"

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> Ended | None:
        """Show what the model proposes, and nothing else that it said."""
        day, items = turn.now().date().isoformat(), self._proposed.pop(turn.id, [])
        if not items:
            sql = "UPDATE review_cards SET state = 'done' WHERE day = ? RETURNING channel, chat"
            why = f"The day was not reviewed: {ended.text}" if ended.reason == "failed" else NOTHING
            for channel, chat in tx.execute(sql, day):
                if channel:
                    tx.send(Outbound(Address(channel, chat), why), is_news=False)
            return ended._replace(outbound=None)
        shown = [(kind, one_line(text.partition(OTHER_WORDS)[0], LONGEST)) for kind, text in items]
        lines = [f"{n}. {LABELS[kind]}: {text}" for n, (kind, text) in enumerate(shown, 1)]
        text = "\n".join(["From today, for your memory:", *lines, "“yes” accepts all, “1 3” only these, “no” none."])
        place = self._host.owner() or MAIN
        buttons = (Button("All", "/review yes"), Button("None", "/review no"))
        row = tx.send(Outbound(place, text, buttons=buttons), "From the evening review.")
        sql = "UPDATE review_cards SET state = 'open', channel = ?, chat = ?, outbox = ?, items = ? WHERE day = ?"
        tx.execute(sql, place.channel, place.chat, row, json.dumps(items, ensure_ascii=False), day)
        return ended._replace(outbound=None)

    # --- its answer --------------------------------------------------------------------------------------------------

    def on_message(self, inbound: Inbound, tx: Tx) -> Inbound | None:
        """Read “yes”, “no” or “1 3” right below a card as an answer to it."""
        message = inbound.message
        is_word = message.origin == "person" and not inbound.attachments and not inbound.is_edit and not inbound.profile
        if not is_word or inbound.role != "owner" or inbound.is_group or len(message.text) > 40:
            return None
        card = self._open()
        if card is None or card.place != inbound.address or not self._is_last_said(card):
            return None
        from nanoclaw.yes_no import yes_or_no

        chosen = message.text.strip().rstrip(".!")
        if not re.fullmatch(r"\d(?:[\s,;+]+\d)*", chosen):
            if (answer := yes_or_no(message.text)) is None:
                return None
            chosen = "yes" if answer else "no"
        return inbound._replace(message=message._replace(text=f"/review {chosen}"))

    def _open(self) -> Card | None:
        """The newest card that waits for an answer."""
        since = (self._host.now() - OPEN_FOR).isoformat()
        sql = (
            "SELECT day, channel, chat, outbox, items FROM review_cards WHERE state = 'open' AND at > ?"
            " ORDER BY day DESC LIMIT 1"
        )
        for day, channel, chat, outbox, items in self._host.read(sql, since):
            return Card(day, Address(channel, chat), outbox, [(kind, text) for kind, text in json.loads(items)])
        return None

    def _is_last_said(self, card: Card) -> bool:
        return self._host.records.is_last(card.place, card.outbox)

    def commands(self) -> Iterable[Command]:
        told = "answer the evening review: /review yes, /review 1 3, /review no; /review now makes one"
        return [Command("review", told, self._review, private=True, part_of="memory")]

    async def _review(self, said: Said) -> str:
        if said.argument == "now":
            begun = "The review has started; its proposals come as a card."
            return begun if await self._begin(said.address) else "Nothing was said or noted today."
        card = self._open()
        if card is None:
            return "No review waits for an answer. /review now makes one."
        chosen = self._chosen(said.argument, len(card.items))
        if chosen is None:
            return f"Say /review yes, /review no, or numbers from 1 to {len(card.items)}, such as /review 1."
        await self._host.write(lambda tx: tx.execute("UPDATE review_cards SET state = 'done' WHERE day = ?", card.day))
        items = [card.items[number - 1] for number in chosen]
        items.sort(key=lambda item: item[0] != "outdated")  # what a new fact contradicts goes first
        told = [await apply(self._host, said, *item) for item in items]
        return "\n".join(told) or "Nothing is written."

    def _chosen(self, argument: str, most: int) -> list[int] | None:
        """Numbers of the proposals that are accepted; None for other words."""
        if argument in ("yes", "no"):
            return list(range(1, most + 1)) if argument == "yes" else []
        numbers = [int(number) for number in re.findall(r"\d+", argument)]
        is_list = bool(numbers) and re.fullmatch(r"[\d\s,;+]+", argument) is not None
        return list(dict.fromkeys(numbers)) if is_list and all(1 <= number <= most for number in numbers) else None


async def apply(host: Host, said: Said, kind: str, text: str) -> str:
    """Apply one proposal; the result, in words."""
    try:
        if kind == "promise":
            return (await host.carry_out("remind", said._replace(argument=text))).text
        memory = host.get("memory")
        if kind == "fact":
            fact, _, also = text.partition(OTHER_WORDS)
            words = f' --also "{also.replace(chr(34), " ")}"' if also.strip() else ""
            return (await host.carry_out("memory", said._replace(argument=f"add --fact{words} {fact}"))).text
        return _strike(host, memory, said, text)
    except NanoclawError as error:
        return f"Not done: {error}"


def _strike(host: Host, memory: Any, said: Said, text: str) -> str:
    undo, line = host.get("undo"), memory.outdated(text)
    effect = Effect("/review", "fact", line.file, f"struck “{text[:60]}”")
    with undo.of(effect, conversation=said.conversation) if undo else nullcontext():
        return f"Struck in {line.file}: {memory.end(line)}"
