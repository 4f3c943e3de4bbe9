"""The core's own commands: help, a new conversation, its summary and history, the model, status, stop and panic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nanoclaw.core.actors import Actors
from nanoclaw.core.commands import Commands, history_text, short
from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.messages import AssistantMessage, Inbound, Message, Outbound, UserMessage
from nanoclaw.core.model_call import Models
from nanoclaw.core.plugin import EVERYBODY, Command, Reply, Said, Tx
from nanoclaw.core.router import Router
from nanoclaw.core.runner import NOT_NOW, Runner
from nanoclaw.core.store.flags import PANIC, Flags
from nanoclaw.core.store.outbox import Outbox
from nanoclaw.core.store.sessions import Session
from nanoclaw.core.wording import not_begun


class Program(Protocol):
    """The parts of the program that commands use. `freeze` stops the background work of plugins, `thaw` starts it."""

    def about(self) -> str: ...  # version and folders, a line each
    def freeze(self) -> None: ...
    def thaw(self) -> None: ...


class OwnCommands:
    """The core's commands; `parts` are given once the rest is made."""

    def __init__(self, program: Program, flags: Flags, outbox: Outbox, models: Models) -> None:
        self._program, self._flags, self._outbox, self._models = program, flags, outbox, models
        self.commands: Commands
        self.router: Router
        self.runner: Runner
        self.conversations: Actors

    def all(self) -> Sequence[Command]:
        shorten = "sum up the older part, to make room; /compact TEXT keeps above all what concerns TEXT"
        every = "the commands: /help GROUP, /help COMMAND"
        return (
            Command("new", "start a new conversation; notes and files stay", self._new, "talk", EVERYBODY, waits=True),
            Command("stop", "stop what is running and drop what waits", self._stop, "talk", EVERYBODY),
            Command("model", "the models; /model openai/gpt-5 chooses one", self._model, "talk", cli=True),
            Command("history", "what was said; /history 2 is the page before", self._history, "talk", EVERYBODY),
            Command("compact", shorten, self._compact, "talk", EVERYBODY, waits=True),
            Command("help", every, self._help, "talk", EVERYBODY, cli=True, also=("start",)),
            Command("status", "model, folders, length, tokens used", self._status, open_to=EVERYBODY),
            Command("panic", "stop everything, and send and start nothing until /resume", self._panic, "safety"),
            Command("resume", "go on after /panic", self._resume, part_of="panic"),
        )

    def _session(self, said: Said) -> Session:
        return self.runner.sessions.of(said.conversation)

    def _help(self, said: Said, tx: Tx) -> str:
        return self.commands.help_text(said)

    def _stop(self, said: Said, tx: Tx) -> str:
        return "Nothing is running."

    def _new(self, said: Said, tx: Tx) -> str:
        dropped = ""
        if paused := self.conversations.of(said.conversation).take_paused():
            self.runner.inbox.done((paused.turn.inbox,))
            dropped = f" Not answered: {'; '.join(map(short, paused.turn.texts))}."
        self.router.chain.on_reset(said.conversation, tx)  # type: ignore[arg-type]
        self._session(said).reset(tx)
        return f"A new conversation. What was said stays in the store; notes and files are as they were.{dropped}"

    async def _compact(self, said: Said) -> str:
        """Sum the conversation up; it stays as it is where the model fails or the person stops it."""
        message = UserMessage("", self.runner.sessions.transactions.clock())
        inbound = Inbound(said.address, said.sender, "", message, role=said.role, is_group=said.is_group)
        try:
            return await self.runner.compact(said.conversation, inbound, said.argument)
        except NanoclawError as error:
            why = str(error) if said.profile != "guest" else NOT_NOW
            return f"Not summed up: {why} The conversation is as it was."

    def _history(self, said: Said, tx: Tx) -> str:
        zone = self.runner.sessions.transactions.clock().tzinfo
        return history_text(self._session(said).whole(), said.argument, zone)

    def _model_name(self, session: Session) -> str:
        try:
            return self._models.of(session.model).model
        except NanoclawError as error:
            return f"none ({error})"

    def _model(self, said: Said, tx: Tx) -> str | Reply:
        session = self._session(said)
        if not said.argument:
            return self._models.listing(session.model)
        name, remark = self._models.choose(said.argument)
        if self._models.of(name).model == self._model_name(session) and self._models.forget_window(name):
            return f"This conversation uses {name}. The window that was learned from an error is forgotten."
        session.use_model(name)
        return f"This conversation now uses {name}.{remark}"

    def _status(self, said: Said, tx: Tx) -> str:
        session = self._session(said)
        if said.profile == "guest":
            return _length(session.history)
        faults = [f"The plugin {name} failed: {fault}" for name, fault in self.router.chain.faults.items()]
        troubles = [f"The model for {name} does not answer: {why}" for name, why in self._models.troubles().items()]
        model = f"Model: {self._model_name(session)}"
        frozen = ["Everything is frozen by /panic until /resume."] if self.router.is_frozen else []
        return "\n".join([*frozen, self._program.about(), model, *troubles, _length(session.history), *faults])

    async def _panic(self, said: Said) -> str:
        self._flags.set(PANIC, str(self._outbox.last()))
        self._program.freeze()
        stopped = 0
        for address, was_running in self.conversations.halt_all().items():
            if was_running:
                stopped += 1
            elif dropped := self.conversations.of(address).dropped():
                rows = [row for row, _ in dropped]
                self.runner.inbox.done(rows, Outbound(address, f"Stopped.{not_begun(dropped)}"))
        ran = f" Stopped: {stopped} running." if stopped else ""
        return f"Everything is frozen: nothing is sent or started until /resume, also after a restart.{ran}"

    async def _resume(self, said: Said) -> Reply:
        if not self.router.is_frozen:
            return Reply("Nothing is frozen.")
        self._flags.clear(PANIC)
        return Reply("Going on. What waited is sent and answered now.", change=lambda tx: tx.after(self._program.thaw))


def _length(history: Sequence[Message]) -> str:
    """Length of a conversation, as the person sees it, and the tokens that its answers took."""
    answers = [message for message in history if isinstance(message, AssistantMessage)]
    said = sum(isinstance(message, UserMessage) and message.origin != "runtime" for message in history)
    said += sum(bool(answer.text) for answer in answers)
    taken = [answer.usage.input_tokens for answer in answers if answer.usage]
    given = [answer.usage.output_tokens for answer in answers if answer.usage]
    return f"Messages: {said}\nTokens: {sum(taken):,} in, {sum(given):,} out"
