"""Commands: what a person can say to the program rather than to the model, alike in every channel."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import cast

from nanoclaw.core.errors import FAULTS, ConfigError, NanoclawError, ScheduleError, SkillError
from nanoclaw.core.messages import Inbound, UserMessage
from nanoclaw.core.plugin import Command, Done, Reply, Said, Tx
from nanoclaw.core.profiles import profile_of
from nanoclaw.core.store.tx import Transaction, Transactions
from nanoclaw.core.wording import NOT_NOW, sorry
from nanoclaw.escapes import one_line
from nanoclaw.redaction import within

GROUPS = {
    "talk": "this conversation",
    "time": "reminders, tasks and lists",
    "knowledge": "notes, skills and rules",
    "work": "plans, background commands and helpers",
    "safety": "what it may do, and what it did",
    "more": "the program and its users",
}
"""The groups of /help, each with its subject. Commands without a group are in the last."""

_COMMAND = re.compile(r"/(?:([A-Za-z][\w-]*:)(?=.)|([A-Za-z][A-Za-z0-9_-]*)(?:@\S+)?(?!\S))\s*(.*)", re.DOTALL)


def parse(text: str) -> tuple[str, str] | None:
    """Name and argument when the text is a slash command: "/model x" and "/Model x" but not "/etc/hosts is odd". Of
    a family, "/notes:sum up", the command is "notes:" and the rest its argument."""
    match = _COMMAND.fullmatch(text.strip())
    return ((match[1] or match[2]).lower(), match[3]) if match else None


def is_talk(inbound: Inbound) -> bool:
    """True for words of a person to the model, which can be answered together with others."""
    return inbound.message.origin == "person" and parse(inbound.message.text) is None


class Commands:
    """All commands by name: the core's own, then those of plugins, in their order."""

    def __init__(
        self, commands: Iterable[Command], transactions: Transactions, redact: Callable[[str], str] = str
    ) -> None:
        """`redact` hides known secrets in what commands say."""
        self._commands: dict[str, Command] = {}
        for command in commands:
            for name in (command.name, *command.also):
                self._commands.setdefault(name, command)
        self._transactions, self._redact = transactions, redact

    def __iter__(self) -> Iterator[Command]:
        """The commands that /help lists."""
        return iter(self._listed(self.open_to("person")))

    def open_to(self, profile: str) -> dict[str, Command]:
        """The commands that a profile may use, without their older names."""
        return {name: one for name, one in self._commands.items() if name == one.name and profile in one.open_to}

    def _listed(self, commands: Mapping[str, Command]) -> list[Command]:
        """The commands that are not part of another command."""
        return [one for one in commands.values() if one.part_of not in commands]

    def find(self, name: str) -> Command | None:
        return self._commands.get(name)

    def is_command(self, inbound: Inbound) -> bool:
        """False for a forwarded one, such as the text of an inline bot."""
        is_own = inbound.message.origin == "person" and not inbound.message.outside
        return is_own and parse(inbound.message.text) is not None

    def waits(self, inbound: Inbound) -> bool:
        """True for messages that wait in the queue: talk, and commands that change what a turn works on."""
        if not self.is_command(inbound):
            return True
        found = self.find(self._said(inbound)[0])
        return found is not None and found.waits

    def is_async(self, inbound: Inbound) -> bool:
        """True for a command that runs outside any transaction."""
        name, _ = self._said(inbound)
        return not self._refused(name, inbound) and inspect.iscoroutinefunction(self._commands[name].run)

    def is_quick(self, inbound: Inbound) -> bool:
        """True for a command that is carried out inside the transaction that accepts its message."""
        return self.is_command(inbound) and not self.is_async(inbound) and not self.waits(inbound)

    def run_in(self, inbound: Inbound, tx: Transaction) -> Reply | UserMessage:
        """Carry out a command inside a transaction; its writes are rolled back if it fails."""
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
        from nanoclaw.log import logger

        if not isinstance(error, NanoclawError):
            logger.opt(exception=error).error("the command {} failed", one_line(inbound.message.text))
        if isinstance(error, ScheduleError | SkillError) or profile_of(inbound).name != "guest":
            return Reply(sorry(error))
        logger.warning("a message in {} was not answered: {}", inbound.address, error)
        return Reply(NOT_NOW)

    def _said(self, inbound: Inbound) -> tuple[str, Said]:
        name, argument = self.named(*(parse(inbound.message.text) or ("", "")))
        return name, Said(
            argument,
            inbound.conversation or inbound.address,
            inbound.address,
            inbound.sender,
            "guest" if inbound.is_group else inbound.role or "guest",
            profile_of(inbound).name,
            inbound.is_group,
        )

    def named(self, name: str, argument: str) -> tuple[str, str]:
        """The command that is meant, and its argument: "/memory search tea" is "/search tea", a part of /memory."""
        whole, part, rest = self.find(name), *(*argument.split(maxsplit=1), "", "")[:2]
        found = self.find(part.lower())
        return (found.name, rest) if whole and found and found.part_of == whole.name else (name, argument)

    def _refused(self, name: str, inbound: Inbound) -> str:
        """Reason why somebody may not give a command there, '' when they may. The role of the sender counts, not the
        profile: the owner may command in a group, but for commands that are `private`."""
        found = self.find(name)
        if found is None:
            return self._unknown(name)
        if inbound.role != "owner":
            return "" if "guest" in found.open_to else "Only the owner can do that."
        if inbound.is_group and found.private:
            return "Others can read this: ask me in private."
        return ""

    def _unknown(self, name: str) -> str:
        import difflib

        if name in ("exit", "quit"):
            return f"/{name} leaves a chat in the terminal; here there is nothing to leave."
        near = difflib.get_close_matches(name, self.open_to("person"), 1)
        return f"There is no command /{name}." + (f" Did you mean /{near[0]}?" if near else " /help lists them.")

    def help_text(self, said: Said) -> str:
        """The groups, the commands of one, or a command with its parts; for guests only what is open to them."""
        open_, wanted = self.open_to(said.profile), said.argument.lower().removeprefix("/")
        groups: dict[str, list[Command]] = {name: [] for name in GROUPS}
        for one in self._listed(open_):
            groups[one.group if one.group in GROUPS else "more"].append(one)
        if wanted:
            found = self.find(wanted)
            whole = found and (found.part_of or found.name)
            parts = [one for one in open_.values() if one.part_of == whole]
            ones = groups.get(wanted) or [*filter(None, [open_.get(whole or "")]), *parts]

            def told(one: Command) -> str:
                also = [f"`/{part.name}`" for part in open_.values() if part.part_of == one.name and part not in ones]
                return f"- `/{one.name}`: {one.help}" + f" (also {', '.join(also)})" * bool(also)

            return "\n".join(map(told, ones)) or self._unknown(wanted)
        lines = list[str]()
        for name, ones in groups.items():
            best = ", ".join(f"`/{one.name}`" for one in ones[:3])
            lines += [f"- {name} ({GROUPS[name]}): {best}{' …' * (len(ones) > 3)}"] if ones else []
        return "\n".join([*lines, "", "`/help talk` lists a group, `/help new` explains a command."])
