"""Commands: what a person can say to the program rather than to the model, alike in every channel."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import cast

from nanoclaw.core.errors import FAULTS, ConfigError, NanoclawError, ScheduleError, SkillError
from nanoclaw.core.messages import Address, Inbound, UserMessage
from nanoclaw.core.plugin import Command, Done, Reply, Said, Tx, profile_of
from nanoclaw.core.store.db import Transaction, Transactions
from nanoclaw.escapes import one_line
from nanoclaw.log import logger
from nanoclaw.named_tuple import NamedTuple
from nanoclaw.redaction import Redactor, within

NOT_NOW = "I can't do that just now."
"""For guests: only the owner is told what went wrong."""

_COMMAND = re.compile(r"/(?:([A-Za-z][\w-]*:)(?=.)|([A-Za-z][A-Za-z0-9_-]*)(?:@\S+)?(?!\S))\s*(.*)", re.DOTALL)


def parse(text: str) -> tuple[str, str] | None:
    """Name and argument when the text is a slash command: "/model x" and "/Model x" but not "/etc/hosts is odd". Of
    a family, "/notes:sum up", the command is "notes:" and the rest its argument."""
    match = _COMMAND.fullmatch(text.strip())
    return ((match[1] or match[2]).lower(), match[3]) if match else None


class Given(NamedTuple):
    """A command as a message gives it, parsed once. Without a `command` there is none of that name; `refusal` says why
    its sender cannot give it."""

    command: Command | None
    argument: str
    refusal: str

    @property
    def waits(self) -> bool:
        """True for one that changes what a turn works on: it takes its place in the queue."""
        return self.command is not None and self.command.waits

    @property
    def is_async(self) -> bool:
        """True for one that runs outside any transaction."""
        return not self.refusal and self.command is not None and inspect.iscoroutinefunction(self.command.run)


class Accepted(NamedTuple):
    """A message, its row in the inbox, and the command that it is. `is_left_over`: an earlier process accepted it."""

    row: int
    inbound: Inbound
    given: Given | None = None
    is_left_over: bool = False

    @property
    def address(self) -> Address:
        return self.inbound.address

    @property
    def is_talk(self) -> bool:
        """True for words of a person to the model, which can be answered together with others."""
        return self.given is None and self.inbound.message.origin == "person"


class Commands:
    """All commands by name: the core's own, then those of plugins, in their order; asked for when one is given."""

    def __init__(
        self, commands: Iterable[Command], transactions: Transactions, redact: Redactor, brings: Mapping[str, str]
    ) -> None:
        """`redact` hides known secrets in what commands say; `brings` says of some that lack which table has them."""
        self._all, self._transactions, self._redact, self.brings = commands, transactions, redact, brings

    @cached_property
    def _commands(self) -> dict[str, Command]:
        found: dict[str, Command] = {}
        for name, command in ((name, one) for one in self._all for name in (one.name, *one.also)):
            found.setdefault(name, command)
        return found

    def __iter__(self) -> Iterator[Command]:
        """The commands that /help lists."""
        open_ = self.open_to("person")
        return (one for one in open_.values() if one.part_of not in open_)

    def open_to(self, profile: str) -> dict[str, Command]:
        """The commands that a profile may use, without their older names."""
        return {name: one for name, one in self._commands.items() if name == one.name and profile in one.open_to}

    def find(self, name: str) -> Command | None:
        return self._commands.get(name)

    def given(self, inbound: Inbound) -> Given | None:
        """The command that a message gives; None for other words, and for a forwarded one, such as the text of an
        inline bot."""
        said = None if inbound.message.outside else parse(inbound.message.text)
        if said is None or inbound.message.origin != "person":
            return None
        name, argument = self.named(*said)
        found = self.find(name)
        return Given(found, argument, self._refusal(found, inbound) if found else self._unknown(name))

    def run_in(self, given: Given, inbound: Inbound, tx: Transaction) -> Reply | UserMessage:
        """Carry out a command inside a transaction; its writes are rolled back if it fails."""
        if given.refusal or given.command is None:
            return Reply(given.refusal)
        try:
            with tx.part():
                return self._reply(cast(Callable[[Said, Tx], Done], given.command.run)(_said(given, inbound), tx))
        except FAULTS as error:
            return self._sorry(error, inbound)

    async def carry_out(self, given: Given, inbound: Inbound) -> Reply | UserMessage:
        """Carry out a command that takes time."""
        assert given.command
        try:
            run = cast(Callable[[Said], Awaitable[Done]], given.command.run)
            return self._reply(await run(_said(given, inbound)))
        except FAULTS as error:
            return self._sorry(error, inbound)

    async def for_said(self, name: str, said: Said) -> Reply:
        """Carry out a command without a message. Raises NanoclawError if that is not possible."""
        name, argument = self.named(name, said.argument)
        found, said = self.find(name), said._replace(argument=argument)
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
        """A result that may be shown: words of a model in it may contain a secret."""
        if isinstance(done, UserMessage):
            return done
        reply = Reply(done) if isinstance(done, str) else done
        return reply._replace(text=self._redact(reply.text), data=within(reply.data, self._redact))

    def _sorry(self, error: BaseException, inbound: Inbound) -> Reply:
        """A sentence about a failed command. Only the owner is told the reason."""
        if not isinstance(error, NanoclawError):
            logger.opt(exception=error).error("the command {} failed", one_line(inbound.message.text))
        if isinstance(error, ScheduleError | SkillError) or profile_of(inbound).name != "guest":
            return Reply(sorry(error))
        logger.warning("a message in {} was not answered: {}", inbound.address, error)
        return Reply(NOT_NOW)

    def as_typed(self, text: str) -> str:
        """A message as its writer typed it: "!ls" for a command by hand that comes with its output."""
        name, argument = parse(text) or ("", "")
        found = self.find(name)
        return found.typed + argument.partition("\n")[0] if found and found.typed else text

    def named(self, name: str, argument: str) -> tuple[str, str]:
        """The command that is meant, and its argument: "/memory search tea" is "/search tea", a part of /memory."""
        whole, part, rest = self.find(name), *(*argument.split(maxsplit=1), "", "")[:2]
        found = self.find(part.lower())
        return (found.name, rest) if whole and found and found.part_of == whole.name else (name, argument)

    def _refusal(self, found: Command, inbound: Inbound) -> str:
        """Reason why somebody may not give a command there, '' when they may. The role of the sender counts, not the
        profile: the owner may command in a group, but for commands that are `private`."""
        if inbound.role != "owner":
            return "" if "guest" in found.open_to else "Only the owner can do that."
        return "Others can read this: ask me in private." if inbound.is_group and found.private else ""

    def _unknown(self, name: str) -> str:
        import difflib

        if name in ("exit", "quit"):
            return f"/{name} leaves a chat in the terminal; here there is nothing to leave."
        near = difflib.get_close_matches(name, self.open_to("person"), 1)
        hint = f". Did you mean /{near[0]}?" if near else ". /help lists them."
        return f"There is no command /{name}{self.brings.get(name, hint)}"


def _said(given: Given, inbound: Inbound) -> Said:
    return Said(
        given.argument,
        inbound.conversation or inbound.address,
        inbound.address,
        inbound.sender,
        "guest" if inbound.is_group else inbound.role or "guest",
        profile_of(inbound).name,
        inbound.is_group,
    )


def sorry(error: BaseException) -> str:
    """One sentence about what went wrong."""
    if isinstance(error, NanoclawError):
        return str(error)
    return f"Something went wrong in the program ({type(error).__name__}); the log has more."
