"""Standing rules: pinned rules are in every prompt, and are enforced where code can."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.messages import CheckedCall, ModelRequest, SystemPrompt, UserMessage
from nanoclaw.core.plugin import Command, Hears, Host, Plugin, Profile, Refuse, Reply, Said, Section, Turn, Tx, Verdict
from nanoclaw.escapes import plain
from nanoclaw.plugins.rules.forbidden import (
    WISH,
    Forbidden,
    dump,
    from_answer,
    load,
    what_is_forbidden,
)
from nanoclaw.runtime_metadata import escape

MOST_PINS = 50
LONGEST_PIN = 500
"""Characters of one: all of them are sent with every request."""

HEAD = (
    "# Standing rules\nThe person pinned these. They hold in every conversation, whatever is said later; "
    "only the person lifts one, with /unpin."
)


class Pin(NamedTuple):
    """A rule in the person's words, and what of it is enforced."""

    id: int
    text: str
    forbids: tuple[Forbidden, ...]

    is_asked: bool = True
    """False while no model has said what it forbids."""

    @property
    def how(self) -> str:
        """Words about how it is enforced."""
        if not self.is_asked:
            return "for the model to follow; it is asked later what of it can be enforced"
        return f"enforced: {'; '.join(map(str, self.forbids))}" if self.forbids else "for the model to follow"


class Rulebook:
    """The rules as they are at each call: what the plugin makes public."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._pins: list[Pin] | None = None

    def reload(self) -> None:
        self._pins = None

    def all(self) -> list[Pin]:
        """In the order in which they were given."""
        if self._pins is None:
            rows = self._host.read("SELECT id, text, ban FROM pins ORDER BY id")
            self._pins = [self._made(*row) for row in rows if row[1].strip()]
        return self._pins

    def _made(self, id_: int, text: str, ban: str) -> Pin:
        forbids = load(ban) if ban else None
        return Pin(id_, text, tuple(forbids or ()), is_asked=forbids is not None)

    def tools(self) -> frozenset[str]:
        """The names that a rule can forbid."""
        return frozenset(self._host.tools(self._host.profile("person")))

    def refusal(self, tool: str, arguments: Mapping[str, Any], is_change: bool = True) -> str:
        """Why a call must not be made, with the rule that forbids it, or ''."""
        for pin in self.all():
            if what := what_is_forbidden(pin.forbids, tool, is_change, arguments, self._host.workspace):
                return (
                    f"refused by the person's standing rule “{pin.text}”: it forbids {what}. Nothing was done. Don't "
                    "look for a way around it: tell the person, who can lift it with /unpin."
                )
        return ""


class Rules(Plugin):
    name = "rules"
    hears: Mapping[str, Hears] = {"before_tool": Hears(rows="pins")}
    migrations = (
        "CREATE TABLE IF NOT EXISTS pins (id INTEGER PRIMARY KEY, at TEXT NOT NULL, text TEXT NOT NULL) STRICT;"
        # what it forbids, as JSON; '' while no model has said it
        "ALTER TABLE pins ADD COLUMN ban TEXT NOT NULL DEFAULT ''",
    )

    def __init__(self, host: Host, settings: None) -> None:
        self._host = host
        self.public = self._rules = Rulebook(host)
        self._asked_again = set[int]()

    def reload(self) -> None:
        self._rules.reload()

    @property
    def stamp(self) -> Hashable:
        return tuple(self._rules.all())

    def sections(self, query: str, profile: Profile) -> Iterable[Section]:
        is_shown = profile.mode in ("full", "minimal")
        lines = [f"{number}. {_in_a_line(pin.text)}" for number, pin in enumerate(self._rules.all(), 1)]
        text = "\n".join([HEAD, "", *lines]) if lines and is_shown else ""
        return [Section("pins", "Standing rules", text, source="pins", modes=("full", "minimal"))]

    async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
        for pin in self._rules.all():
            if not pin.is_asked and pin.id not in self._asked_again:
                self._asked_again.add(pin.id)
                if (found := await self._ask(pin.text)) is not None:
                    await self._host.write(partial(self._keep, pin=pin, forbids=found))
        refusal = self._rules.refusal(call.name, call.arguments, call.reach != "none")
        return Refuse(refusal) if refusal else None

    def commands(self) -> Iterable[Command]:
        return [
            Command("pin", "keep a rule: /pin Never run `git push`; /pin lists them", self._pin, "knowledge"),
            Command("pins", "the same as /pin alone", self._list, private=True, part_of="pin"),
            Command("unpin", "lift a rule: /unpin 2, or words of it", self._unpin, private=True, part_of="pin"),
        ]

    async def _pin(self, said: Said) -> str | Reply:
        text = " ".join(plain(said.argument).split())
        known = [pin.text.casefold() for pin in self._rules.all()]
        if not text:
            return "/pin TEXT keeps a standing rule." if said.is_group else self._list(said)
        if len(text) > LONGEST_PIN:
            return (
                f"That has {len(text)} characters, and a pin has at most {LONGEST_PIN}: say it shorter, or write it "
                "into AGENTS.md in the workspace. Nothing was pinned."
            )
        if text.casefold() in known:
            return f"That is pinned already, as rule {known.index(text.casefold()) + 1}."
        if len(known) >= MOST_PINS:
            return f"There are {MOST_PINS} pins, and no more fit: /unpin one first. Nothing was pinned."
        found = await self._ask(text)
        pin = Pin(0, text, tuple(found or ()), is_asked=found is not None)
        data = {"rule": text, "forbids": [one._asdict() for one in pin.forbids]}
        number = len(self._rules.all()) + 1  # others may have pinned something while the model was asked
        return Reply(f"Pinned as rule {number}, {pin.how}.", data, partial(self._add, pin=pin))

    async def _ask(self, rule: str) -> list[Forbidden] | None:
        """Ask a model once what a rule forbids, and check what it says. None if none answers in the form."""
        tools = self._rules.tools()
        asked = UserMessage(WISH.format(rule=rule, tools=", ".join(sorted(tools))), self._host.now())
        try:
            answer = await self._host.complete(ModelRequest(SystemPrompt(""), (asked,)))
        except NanoclawError:  # no model, no key, no answer
            return None
        return from_answer(answer.text, rule, tools)

    def _add(self, tx: Tx, pin: Pin) -> None:
        now = self._host.now().isoformat()
        ban = dump(pin.forbids) if pin.is_asked else ""
        tx.execute("INSERT INTO pins (at, text, ban) VALUES (?, ?, ?)", now, pin.text, ban)
        tx.after(self._rules.reload)

    def _keep(self, tx: Tx, pin: Pin, forbids: list[Forbidden]) -> None:
        tx.execute("UPDATE pins SET ban = ? WHERE id = ? AND text = ?", dump(forbids), pin.id, pin.text)
        tx.after(self._rules.reload)

    def _list(self, said: Said, tx: Tx | None = None) -> str:
        lines = [f"{number}. {pin.text} ({pin.how})" for number, pin in enumerate(self._rules.all(), 1)]
        return "\n".join(lines) or "Nothing is pinned. /pin TEXT keeps a standing rule."

    def _unpin(self, said: Said, tx: Tx) -> str:
        known = self._rules.all()
        if not known:
            return "Nothing is pinned."
        number = _number(said.argument, [pin.text for pin in known])
        if isinstance(number, str):
            return number
        tx.execute("DELETE FROM pins WHERE id = ?", known[number - 1].id)
        tx.after(self._rules.reload)
        return f"No longer pinned: {known[number - 1].text}"


def _in_a_line(pin: str) -> str:
    """A rule as written in the prompt: it cannot begin a section or a message of ours."""
    text = escape(" ".join(pin.split()))
    return f"\\{text}" if text.startswith(("#", "-", "=", ">", "`" * 3)) else text


def _number(wanted: str, known: list[str]) -> int | str:
    """The place of a pin that was given by number or by words, or a sentence when it isn't clear which is meant."""
    name = wanted.strip().removeprefix("#").rstrip(".")
    if name.isascii() and name.isdigit():
        if 1 <= int(name[:9]) <= len(known):
            return int(name)
        return f"There is no pin {name[:9]}: there {'is only 1' if len(known) == 1 else f'are {len(known)}'}. /pin"
    if not name:
        return "/unpin NUMBER, as /pin lists them, or /unpin with words of the rule."
    words = " ".join(wanted.split()).casefold()
    same = [number for number, text in enumerate(known, 1) if text.casefold() == words]
    found = same or [number for number, text in enumerate(known, 1) if words in text.casefold()]
    if len(found) == 1:
        return found[0]
    if found:
        return f"Several pins have these words: {', '.join(map(str, found))}. /unpin NUMBER takes one away."
    import difflib

    near = difflib.get_close_matches(wanted, known, 1, 0.6)
    hint = f"Did you mean number {known.index(near[0]) + 1}: {near[0]}?" if near else "/pin lists them."
    return f"No pin has these words. {hint}"
