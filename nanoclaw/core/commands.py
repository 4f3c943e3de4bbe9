"""Commands: what a person can say to the program rather than to the model, alike in every channel."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import cast

from nanoclaw.core.errors import FAULTS, ConfigError, NanoclawError, ScheduleError, SkillError
from nanoclaw.core.messages import AssistantMessage, Inbound, Message, ToolResult, UserMessage
from nanoclaw.core.plugin import Command, Done, Profile, Reply, Said, Tx
from nanoclaw.core.profiles import profile_of
from nanoclaw.core.store.tx import Transaction, Transactions
from nanoclaw.redaction import within

_SAME = {"start": "help", "cron rehearse": "rehearse"}
"""Other names of commands: what chat apps say for somebody who begins, and the one action of /cron that takes time."""

_COMMAND = re.compile(r"/((?i:cron\s+rehearse)\b|[A-Za-z][A-Za-z0-9_-]*)(?:@\S+)?(?:\s+(.*))?", re.DOTALL)
_OF_FAMILY = re.compile(r"/([A-Za-z][\w-]*:)(.+)", re.DOTALL)

SHORT = 60
"""Characters of a text that is only named."""


def parse(text: str) -> tuple[str, str] | None:
    """Name and argument when the text is a slash command: "/model x" and "/Model x" but not "/etc/hosts is odd". Of
    a family, "/notes:sum up", the command is "notes:" and the rest its argument."""
    if family := _OF_FAMILY.fullmatch(text.strip()):
        return family[1].lower(), family[2].strip()
    match = _COMMAND.fullmatch(text.strip())
    if match is None:
        return None
    name = " ".join(match[1].lower().split())
    return _SAME.get(name, name), (match[2] or "").strip()


def is_talk(inbound: Inbound) -> bool:
    """True for words of a person to the model, which can be answered together with others."""
    return inbound.message.origin == "person" and parse(inbound.message.text) is None


def short(text: str, most: int = SHORT) -> str:
    """A text on one line, cut where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


class Commands:
    """All commands by name: the core's own, then those of plugins, in their order."""

    def __init__(
        self, commands: Iterable[Command], transactions: Transactions, redact: Callable[[str], str] = str
    ) -> None:
        """`redact` takes known secrets out of what commands say."""
        self._commands: dict[str, Command] = {}
        for command in commands:
            self._commands.setdefault(command.name, command)
        self._transactions, self._redact = transactions, redact

    def __iter__(self) -> Iterator[Command]:
        return iter(self._commands.values())

    def find(self, name: str) -> Command | None:
        return self._commands.get(name)

    def of(self, profile: Profile) -> Mapping[str, Command]:
        """Those that are open to a profile."""
        return {name: one for name, one in self._commands.items() if profile.name in one.open_to}

    def is_command(self, inbound: Inbound) -> bool:
        """False for one that the person only hands on, as what an inline bot wrote for them."""
        is_own = inbound.message.origin == "person" and not inbound.message.outside
        return is_own and parse(inbound.message.text) is not None

    def waits(self, inbound: Inbound) -> bool:
        """True for what takes its turn in the queue: talk, and commands that change what a turn works on."""
        said = parse(inbound.message.text) if self.is_command(inbound) else None
        found = self.find(said[0]) if said else None
        return said is None or (found is not None and found.waits)

    def takes_time(self, inbound: Inbound) -> bool:
        """True for a command that runs outside any transaction."""
        name, _ = self._said(inbound)
        return not self._refused(name, inbound) and inspect.iscoroutinefunction(self._commands[name].run)

    def is_quick(self, inbound: Inbound) -> bool:
        """True for a command that is carried out inside the transaction that accepts its message."""
        return self.is_command(inbound) and not self.takes_time(inbound) and not self.waits(inbound)

    def run_in(self, inbound: Inbound, tx: Transaction) -> Reply | UserMessage:
        """Carry out a command inside a transaction; what it wrote is taken back where it fails."""
        name, said = self._said(inbound)
        if refused := self._refused(name, inbound):
            return Reply(refused)
        try:
            with tx.part():
                return self._reply(cast(Done, self._commands[name].run(said, tx)))  # type: ignore[call-arg]
        except FAULTS as error:
            return self._sorry(error, inbound)

    async def carry_out(self, inbound: Inbound) -> Reply | UserMessage:
        """Carry out a command that takes time."""
        name, said = self._said(inbound)
        try:
            return self._reply(await cast(Callable[[Said], Awaitable[Done]], self._commands[name].run)(said))
        except FAULTS as error:
            return self._sorry(error, inbound)

    async def for_said(self, name: str, said: Said) -> Reply:
        """Carry a command out outside any message. Raises NanoclawError where it cannot be."""
        found = self.find(name)
        if found is None or said.profile not in found.open_to:
            raise ConfigError(self._unknown(name) if found is None else f"/{name} cannot be used here.")
        if inspect.iscoroutinefunction(found.run):
            done: Done = await found.run(said)
        else:
            run = cast(Callable[[Said, Tx], Done], found.run)
            done = await self._transactions.write(lambda tx: run(said, tx))
        said_back = self._reply(done)
        reply = said_back if isinstance(said_back, Reply) else Reply(said_back.text)
        if reply.change:
            await self._transactions.write(reply.change)
        return reply

    def _reply(self, done: Done) -> Reply | UserMessage:
        """A result as it may be shown: a model's words in it may be a secret."""
        if isinstance(done, UserMessage):
            return done
        reply = Reply(done) if isinstance(done, str) else done
        return reply._replace(text=self._redact(reply.text), data=within(reply.data, self._redact))

    def _sorry(self, error: BaseException, inbound: Inbound) -> Reply:
        """A sentence about a command that failed. What went wrong is the owner's business."""
        from nanoclaw.core.log import logger
        from nanoclaw.core.runner import NOT_NOW
        from nanoclaw.core.wording import sorry

        if not isinstance(error, NanoclawError):
            logger.opt(exception=error).error("the command {} failed", short(inbound.message.text))
        if isinstance(error, ScheduleError | SkillError) or profile_of(inbound).name != "guest":
            return Reply(sorry(error))
        logger.warning("a message in {} was not answered: {}", inbound.address, error)
        return Reply(NOT_NOW)

    def said(self, inbound: Inbound, argument: str) -> Said:
        return Said(
            argument,
            inbound.conversation or inbound.address,
            inbound.address,
            inbound.sender,
            "guest" if inbound.is_group else inbound.role or "guest",
            profile_of(inbound).name,
            inbound.is_group,
        )

    def _said(self, inbound: Inbound) -> tuple[str, Said]:
        name, argument = parse(inbound.message.text) or ("", "")
        return name, self.said(inbound, argument)

    def _refused(self, name: str, inbound: Inbound) -> str:
        """Reason why somebody may not give a command there, '' when they may. The role of the sender counts, not the
        profile: the owner may command in a group, but for commands that are `private`."""
        found = self.find(name)
        if found is None:
            return self._unknown(name)
        if inbound.role != "owner":
            return "" if "guest" in found.open_to else "Only the owner can do that."
        if inbound.is_group and found.private:
            return "Others read this: ask me that where we are alone."
        return ""

    def _unknown(self, name: str) -> str:
        import difflib

        if name in ("exit", "quit"):
            return f"/{name} leaves a chat in the terminal; here there is nothing to leave."
        near = difflib.get_close_matches(name, self._commands, 1)
        return f"There is no command /{name}." + (f" Did you mean /{near[0]}?" if near else " /help lists them.")

    def help_text(self, said: Said) -> str:
        """For a guest only what a guest may say."""
        return "\n".join(
            f"- `/{command.name}`: {command.help}"
            for command in self._commands.values()
            if said.profile in command.open_to
        )


PAGE, LINE = 40, 300
"""Messages on a page of /history, and characters of each."""


def history_text(messages: Sequence[Message], page: str, zone: tzinfo | None) -> str:
    """One page of a conversation, '' for the newest; long messages in part, times in the person's zone."""
    lines = [line for message in messages if (line := _line(message, zone))]
    pages = max(1, -(-len(lines) // PAGE))
    if page and not (page.isdecimal() and 0 < int(page) <= pages):
        return f"/history takes a page from 1 (the newest) to {pages}."
    number = int(page or 1)
    end = len(lines) - (number - 1) * PAGE
    older = f"(page {number} of {pages}; /history {number + 1} is the one before)\n" if number < pages else ""
    return older + "\n".join(lines[max(0, end - PAGE) : end]) or "Nothing was said yet."


def _line(message: Message, zone: tzinfo | None) -> str:
    """One message as a line; '' for what no one said."""
    match message:
        case UserMessage(origin="runtime"):
            return ""
        case UserMessage():
            who, text = "you", message.text
        case AssistantMessage():
            who = "nanoclaw"
            text = " ".join([message.text, *(f"[{call.name} {call.arguments}]" for call in message.tool_calls)])
        case ToolResult():
            who, text = message.name, message.text
    return f"- {message.at.astimezone(zone):%Y-%m-%d %H:%M} {who}: {short(text, LINE)}"
