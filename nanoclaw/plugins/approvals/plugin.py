"""Approvals: asks the owner what a call needs first, a yes or one of several options, and hears the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.messages import CheckedCall, Inbound, is_stop
from nanoclaw.core.plugin import Ask, Command, Finding, Hears, Host, Plugin, Reply, Said, Tool, Turn, Tx, Verdict
from nanoclaw.named_tuple import NamedTuple
from nanoclaw.plugins.approvals import grants
from nanoclaw.plugins.approvals.asks import LOOK_SECONDS, NOTED, Asks
from nanoclaw.plugins.approvals.grants import ELEVATED, OwnerGrants

if TYPE_CHECKING:
    from nanoclaw.plugins.approvals.questions import OwnersAnswers

STALE_DAYS = 30  # from then on a grant is named as a stale one

Rule = Literal["deny", "ask", "allow"]
RULES: tuple[Rule, ...] = ("deny", "ask", "allow")  # the first of several that name a tool holds
PROFILES = ("person", "guest", "job", "heartbeat", "helper")


class ToolRules(NamedTuple):
    """`tools` is the table [tools] as written in the file."""

    tools: Any = ()

    def check(self) -> None:
        self.parsed()

    def parsed(self) -> dict[str, dict[Rule, tuple[str, ...]]]:
        """By profile, '' for all of them, the names under each rule. Raises ConfigError."""
        own, found = self.tools, dict[str, dict[Rule, tuple[str, ...]]]()
        if isinstance(own, Mapping):
            found = {name: _lists(f"tools.{name}", own[name]) for name in PROFILES if own.get(name) is not None}
            own = {key: value for key, value in own.items() if key not in PROFILES}
        return {} if own == () else {"": _lists("tools", own), **found}


class Approvals(Plugin):
    name = "approvals"
    needs = ("access",)
    settings = ToolRules
    keys: ClassVar[Mapping[str, str]] = {"tools": "tools.*"}
    migrations = (
        """
        CREATE TABLE approvals_copies (             -- messages that ask a question once more, in the terminal
            outbox INTEGER PRIMARY KEY REFERENCES outbox ON DELETE CASCADE,
            ask INTEGER NOT NULL REFERENCES approvals_asks ON DELETE CASCADE,
            channel TEXT NOT NULL,
            chat TEXT NOT NULL
        ) STRICT;
        """
        + grants.TABLE,
        "DROP TABLE IF EXISTS approvals_elevated",
        """CREATE TABLE approvals_numbers (last INTEGER NOT NULL) STRICT;  -- of questions: none comes again
        INSERT INTO approvals_numbers SELECT coalesce(max(id), 0) FROM approvals_asks""",
    )
    marks = ("approvals_copies.channel", "approvals_copies.chat", *grants.MARKS)

    def __init__(self, host: Host, settings: ToolRules) -> None:
        self._host, self._permissions = host, Permissions(settings)
        self.hears = {} if self._permissions.asks else {"before_tool": Hears()}
        self.hears["on_message"] = Hears(rows="approvals_asks WHERE by = ''")  # the open ones
        self._grants = OwnerGrants(host)
        self.asker = self.public = self._asks = Asks(host, self._covers)
        self._changed, self._is_checked = asyncio.Event(), False

    @cached_property
    def _answers(self) -> OwnersAnswers:
        from nanoclaw.plugins.approvals.questions import OwnersAnswers

        return OwnersAnswers(self._host, self._asks, self._grants)

    def banner(self) -> str:
        return self._grants.banner()

    def commands(self) -> Iterable[Command]:
        yes = "allow what was asked: /yes 3, /yes 3 hour"
        answer = "answer a question: /answer 3 blue; /answer 3 shows it"
        grants = "what is not asked about: /grants, /grants revoke 2"
        elevated = "fewer questions for a while: /elevated shows it, /elevated 30m, /elevated off"
        return [
            Command("yes", yes, partial(self._said, word="yes"), private=True, part_of="answer"),
            Command("no", "refuse it: /no 3", partial(self._said, word="no"), private=True, part_of="answer"),
            Command("answer", answer, self._said, "safety", private=True),
            Command("grants", grants, self._grants.command, cli=True, private=True, part_of="answer"),
            Command("elevated", elevated, self._elevate, private=True, part_of="answer"),
        ]

    def on_message(self, inbound: Inbound, tx: Tx) -> Reply | None:
        """Hear words that answer a question. A message with files is something else, and so is a command, and what was
        written by others."""
        is_own = inbound.message.origin == "person" and not inbound.message.outside
        is_talk = is_own and not inbound.is_edit and not inbound.profile
        text = inbound.message.text.strip()
        if not is_talk or inbound.role != "owner" or inbound.is_group or text.startswith("/") or is_stop(text):
            return None
        self._asks.expire()
        said = self._answers.match_answer(tx, inbound)
        tx.after(self._changed.set)
        return Reply("" if said == NOTED else said, is_news=False) if said else None  # what it was about goes on

    def _said(self, said: Said, tx: Tx, word: str = "") -> str:
        tx.after(self._changed.set)
        self._asks.expire()
        return self._answers.said(tx, said, word)

    # --- what needs no yes, or always one ----------------------------------------------------------------------------

    def restrict_tools(self, tools: Sequence[Tool]) -> Iterable[Tool]:
        if not self._is_checked:
            self._is_checked = True
            self._check_names([one.name for one in tools])
        return self._permissions.without_denied(tools)

    async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
        """Ask about each call of a tool that is said to ask."""
        if self._permissions.rule(call.name, turn.profile.name) != "ask":
            return None
        return Ask(f"Run `{call.name}`?")

    def _covers(self, ask: Ask, call: CheckedCall, turn: Turn) -> bool:
        """Tells whether a yes was extended to a call by a grant, or the policy's question about it is answered by the
        hour or by the configuration, which say nothing of what others' text may want."""
        if ask.scope is None or self._grants.covers(ask.scope, turn.sender, turn.conversation):
            return ask.scope is not None
        is_listed = not ask.scope.lifts_boundary and self._permissions.rule(call.name, turn.profile.name) == "allow"
        others = (taint := self._host.get("taint")) and taint.learned(call, turn).sources
        is_elevated = turn.profile.name == "person" and self._grants.elevated(turn.conversation) is not None
        return not others and (is_listed or is_elevated)

    def _check_names(self, names: Sequence[str]) -> None:
        """Raises ConfigError for a name that no tool has, unless its tool may be of a plugin that is off or of an MCP
        server, which may not be there yet."""
        servers = tuple(f"{name.casefold()}__" for name in self._host.setting("mcp") or ())
        for key, name in self._permissions.unknown(names):
            said = f"{key}: there is no tool {name!r}; {near(name, [one.casefold() for one in names])}"
            if name.startswith(servers):
                continue
            if self._host.setting("plugins.off") or "*" in name:
                self._host.log.warning("{}", said)
                continue
            raise ConfigError(f"{self._host.program_home / 'config.toml'}: {said}")

    # --- grants ------------------------------------------------------------------------------------------------------

    def _elevate(self, said: Said, tx: Tx) -> str:
        tx.after(self._changed.set)
        return self._grants.elevate(said, tx)

    async def check(self, deep: bool) -> Iterable[Finding]:
        there = self._grants.all()
        return [Finding(True, f"{len(there)} not asked about: /grants lists them", "grants")] if there else []

    async def audit(self) -> Iterable[Finding]:
        now, found = self._host.now(), list[Finding]()
        for one in self._grants.all():
            days = (now - one.given).days
            is_risk = days >= STALE_DAYS or one.scope == ELEVATED.key
            stale = ", which is long: /grants revoke takes it back" if days >= STALE_DAYS else ""
            text = f"{one.number}: {one.in_words(now)}; given {days} days ago{stale}"
            found.append(Finding(not is_risk, text, "grant", risk="warning" if is_risk else "note"))
        return [*found, *self._permissions.opened()]

    async def aclose(self) -> None:
        self._asks.close()

    async def run(self) -> None:
        """Say when something that was allowed for a time has ended."""
        self._grants.show_elevated()
        while True:
            self._changed.clear()
            if (end := self._grants.next_end()) is None:
                await self._changed.wait()
                continue
            if (left := (end - self._host.now()).total_seconds()) <= 0:
                await self._host.write(self._grants.ended)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, LOOK_SECONDS)):
                    await self._changed.wait()


# --- the table [tools] -----------------------------------------------------------------------------------------------


class Permissions:
    """Rules of the table for each tool. Names are compared in small letters, `*` stands for any part of one."""

    def __init__(self, rules: ToolRules) -> None:
        self._rules = rules.parsed()

    @property
    def asks(self) -> bool:
        """True if any tool is said to ask."""
        return any(lists.get("ask") for lists in self._rules.values())

    def rule(self, tool: str, profile: str) -> Rule | None:
        """The rule for a tool: a denial for all holds always; else what its profile says, then what is said for all."""
        named = (rule for whose in (profile, "") for rule in RULES if self._named(whose, rule, tool))
        return "deny" if self._named("", "deny", tool) else next(named, None)

    def without_denied(self, tools: Sequence[Tool]) -> list[Tool]:
        """The tools, each closed to those to whom it is denied."""
        if not any("deny" in lists for lists in self._rules.values()):
            return list(tools)
        open_to = [frozenset(who for who in one.open_to if self.rule(one.name, who) != "deny") for one in tools]
        return [one._replace(open_to=who) for one, who in zip(tools, open_to, strict=True)]

    def opened(self) -> Iterator[Finding]:
        """A line for each list of the table; to allow all tools, or any to guests, is a risk."""
        for profile, rules in self._rules.items():
            for rule, names in rules.items():
                if names:
                    is_wide = rule == "allow" and (profile == "guest" or "*" in names)
                    whose = f"tools.{profile}" if profile else "tools"
                    text = f"[{whose}] {rule}: {', '.join(names)}"
                    yield Finding(not is_wide, text, "tools", risk="warning" if is_wide else "note")

    def unknown(self, tools: Collection[str]) -> Iterator[tuple[str, str]]:
        """Names in the table that no tool has, each with its key."""
        known = {name.casefold() for name in tools}
        for profile, lists in self._rules.items():
            for rule, names in lists.items():
                for name in names:
                    if not any(_fits(name, one) for one in known):
                        yield f"tools.{profile}.{rule}".replace("..", "."), name

    def _named(self, profile: str, rule: Rule, tool: str) -> bool:
        return any(_fits(name, tool.casefold()) for name in self._rules.get(profile, {}).get(rule, ()))


def near(name: str, known: Collection[str]) -> str:
    """Say which names come near to one, else all."""
    import difflib

    found = difflib.get_close_matches(name.casefold(), known, 3, 0.6)
    return f"did you mean {' or '.join(map(repr, found))}?" if found else f"there are {', '.join(sorted(known))}."


def _lists(where: str, table: Any) -> dict[Rule, tuple[str, ...]]:
    if not isinstance(table, Mapping):
        raise ConfigError(f"'{where}' is a table: write [{where}], and below it deny, ask or allow.")
    found: dict[Rule, tuple[str, ...]] = {}
    for key, value in table.items():
        if key not in RULES:
            known = (*RULES, *PROFILES) if where == "tools" else RULES
            raise ConfigError(f"unknown key '{where}.{key}'; {near(key, known)}")
        if not isinstance(value, list) or not all(isinstance(one, str) and one.strip() for one in value):
            raise ConfigError(f'{where}.{key} must be a list of tools in quotes, such as ["exec", "github_*"].')
        found[key] = tuple(one.strip().casefold() for one in value)
    return found


def _fits(pattern: str, name: str) -> bool:
    from fnmatch import fnmatchcase

    return fnmatchcase(name, pattern.replace("[", "[[]")) if set("*?[") & set(pattern) else pattern == name
