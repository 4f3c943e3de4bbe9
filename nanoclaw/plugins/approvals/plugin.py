"""Approvals: asks the owner what a call needs first, a yes or one of several options, and hears the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import ClassVar

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.messages import CheckedCall, Inbound, is_stop
from nanoclaw.core.plugin import Ask, Command, Finding, Hears, Host, Plugin, Reply, Said, Tool, Turn, Tx, Verdict
from nanoclaw.plugins.approvals import grants, permissions
from nanoclaw.plugins.approvals.asks import LOOK_SECONDS
from nanoclaw.plugins.approvals.choices import EXTENT_WORDS
from nanoclaw.plugins.approvals.grants import ELEVATED, OwnerGrants
from nanoclaw.plugins.approvals.permissions import Permissions, ToolRules
from nanoclaw.plugins.approvals.questions import NOTED, OwnerQuestions

STALE_DAYS = 30  # from then on a grant is named as a stale one


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
        self.asker = self.public = self._questions = OwnerQuestions(host, self._grants, self._covers)
        self._changed, self._is_checked = asyncio.Event(), False

    def banner(self) -> str:
        return self._grants.banner()

    def commands(self) -> Iterable[Command]:
        answer = "answer a question: /answer 3 blue; /answer 3 shows it"
        grants = "what is not asked about: /grants, /grants revoke 2"
        elevated = "fewer questions for a while: /elevated shows it, /elevated 30m, /elevated off"
        return [
            self._answering("yes", "allow what was asked: /yes 3, /yes 3 hour"),
            self._answering("no", "refuse it: /no 3"),
            Command("answer", answer, self._said, "safety", private=True),
            Command("grants", grants, self._grants.command, cli=True, private=True, part_of="answer"),
            Command("elevated", elevated, self._elevate, private=True, part_of="answer"),
        ]

    def _answering(self, word: str, help: str) -> Command:
        return Command(word, help, lambda said, tx: self._said(said, tx, word), private=True, part_of="answer")

    def on_message(self, inbound: Inbound, tx: Tx) -> Reply | None:
        """Hear words that answer a question. A message with files is something else, and so is a command, and what was
        written by others."""
        is_own = inbound.message.origin == "person" and not inbound.message.outside
        is_talk = is_own and not inbound.is_edit and not inbound.profile
        text = inbound.message.text.strip()
        if not is_talk or inbound.role != "owner" or inbound.is_group or text.startswith("/") or is_stop(text):
            return None
        self._questions.expire()
        said = self._questions.match_answer(tx, inbound)
        tx.after(self._changed.set)
        return Reply("" if said == NOTED else said, is_news=False) if said else None  # what it was about goes on

    def _said(self, said: Said, tx: Tx, word: str = "") -> str:
        """Take an answer that names its question, or that only one can mean. `word` is that of /yes and /no."""
        tx.after(self._changed.set)
        self._questions.expire()
        argument = said.argument.strip().removeprefix("#").replace(":", " ", 1)
        number, _, rest = argument.partition(" ")
        is_number = number.isascii() and number.isdigit() and len(number) < 10
        rest = " ".join((rest if is_number else argument).split())
        is_extent = word == "yes" and rest.casefold() in EXTENT_WORDS
        if is_number and (not rest or is_extent if word else self._questions.find(int(number))):
            return self._questions.answer(tx, int(number), f"{word} {rest}".strip(), said.address)
        return self._questions.answer_the_one(tx, f"{word} {said.argument}".strip(), said.address)

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
            said = f"{key}: there is no tool {name!r}; {permissions.near(name, [one.casefold() for one in names])}"
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
        self._questions.close()

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
