"""One message's whole path: stored, queued in its lane, answered by a command or a turn, handed to delivery."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from nanoclaw.agent import commands, xray
from nanoclaw.agent import opening as openings
from nanoclaw.agent.context import ContextBuilder, joined, recent_talk
from nanoclaw.agent.delivery import Delivery
from nanoclaw.agent.lanes import Lanes
from nanoclaw.agent.manifest import manifest
from nanoclaw.agent.opening import Opening
from nanoclaw.agent.tokens import Calibration
from nanoclaw.agent.turn import Turn
from nanoclaw.errors import NanoclawError, SkillError, StoreError
from nanoclaw.events import Event, Notice, Reason, TurnEnded
from nanoclaw.messages import Address, AssistantMessage, Inbound, Limits, Message, Outbound, Usage, UserMessage
from nanoclaw.providers.base import Provider
from nanoclaw.store.inbox import Inbox
from nanoclaw.store.sessions import Session, Sessions
from nanoclaw.tools.base import Toolbox, ToolContext
from nanoclaw.workspace.skills import Skill, by_hand, find

if TYPE_CHECKING:
    from nanoclaw.workspace.recall import Hit

COMMANDS = {
    "help": "what can be said to the program itself",
    "new": "start a new conversation; notes, facts and files stay",
    "stop": "stop what is running and drop what waits",
    "model": "show the model, or choose one: /model openai/gpt-5",
    "skill": "start a skill by hand: /skill weather Berlin; alone it lists them",
    "memory": "/memory undo takes back the last change of a memory file, /memory log lists them",
    "context": "what the model sees, part by part, and what it costs",
    "why": "where the last answer came from; /why not TEXT: why a note was not recalled",
    "status": "model, workspace, length of the conversation, tokens used",
}
"""Commands that work in every channel, with their help."""


Accepted = tuple[int, Inbound]
"""A message and its row in the inbox."""


class Assistant:
    def __init__(
        self,
        *,
        sessions: Sessions,
        inbox: Inbox,
        delivery: Delivery,
        builder: ContextBuilder,
        toolbox: Toolbox,
        provider_for: Callable[[str], Provider],
        show: Callable[[Address, Event], None],
        status: Callable[[], str],
        clock: Callable[[], datetime],
        rounds: int,
        limits: Limits = Limits(),
        memory_command: Callable[[str], str] = lambda argument: "There is nothing to undo here.",
        search: Callable[[str, int], list[Hit]] = lambda query, limit: [],
        cost: Callable[[str, Usage], str] = lambda model, usage: "price unknown",
        calibration: Calibration | None = None,
        skills: Callable[[], Sequence[Skill]] = lambda: (),
    ) -> None:
        """`provider_for(name)` gives the provider of a model ('' = as configured) and raises ConfigError.

        `memory_command` answers /memory and raises NanoclawError; `search(query, limit)` finds notes;
        `cost(model, usage)` puts a price in words; `skills` are those that can be started by hand.
        """
        self._sessions, self._inbox, self._delivery = sessions, inbox, delivery
        self._builder, self._toolbox, self._provider_for = builder, toolbox, provider_for
        self._show, self._status, self._clock = show, status, clock
        self._rounds, self._limits, self._search, self._cost = rounds, limits, search, cost
        self._calibration = calibration or Calibration()
        self._memory_command, self._skills = memory_command, skills
        self._lanes: Lanes[Accepted] = Lanes(self._handle, self._apologize)
        self._stopped: dict[Address, tuple[str, ...]] = {}
        self._resumed: set[int] = set()

    async def deliver(self, inbound: Inbound) -> None:
        """Take a message in. It is on disk when this returns; its answer comes through the outbox."""
        row = self._inbox.accept(inbound)
        if row is None:
            return
        if commands.is_stop(inbound.message.text):
            self._stop(row, inbound)
        else:
            self._lanes.of(str(inbound.address)).put((row, inbound))

    def resume(self, is_served: Callable[[Address], bool]) -> None:
        """After a start: tell of the turn that was cut off, and take up what was accepted but not begun."""
        for cut in self._inbox.interrupted():
            if not is_served(cut.address):
                continue
            doing = f" It was running: {'; '.join(cut.calls)}." if cut.calls else ""
            text = f"I was interrupted while I worked on “{_short(cut.text)}”.{doing} Ask again if it still matters."
            self._inbox.close(cut, Outbound(cut.address, text, reply_to=cut.external_id))
            self._delivery.wake(cut.address.channel)
        for row, inbound in self._inbox.waiting():
            if is_served(inbound.address):
                self._resumed.add(row)
                self._lanes.of(str(inbound.address)).put((row, inbound))

    async def idle(self) -> None:
        """Wait until every accepted message is answered."""
        await self._lanes.idle()

    async def close(self) -> None:
        """End what runs as if it had been stopped; what waits stays in the inbox for the next start."""
        await self._lanes.close()

    async def _handle(self, accepted: Accepted) -> None:
        row, inbound = accepted
        self._stopped.pop(inbound.address, None)
        if row in self._resumed:
            self._resumed.discard(row)
            self._show(inbound.address, Notice(f"going on with what was waiting: “{_short(inbound.message.text)}”"))
        command = commands.parse(inbound.message.text)
        if command and inbound.message.origin == "person":
            if command[0] == "skill" and command[1]:
                await self._start_skill(row, inbound, command[1])
            else:
                self._reply(row, inbound, self._command(inbound.address, *command))
        else:
            await self._answer(row, inbound)
        self._delivery.wake(inbound.address.channel)

    async def _start_skill(self, row: int, inbound: Inbound, argument: str) -> None:
        """A turn on what follows the skill's name; the model is given the skill's text with it."""
        name, task = (*argument.split(maxsplit=1), "")[:2]
        try:
            text = by_hand(find(self._skills(), name), task)
        except SkillError as error:
            self._reply(row, inbound, str(error))
            return
        await self._answer(row, replace(inbound, message=replace(inbound.message, text=task)), text)

    async def _answer(self, row: int, inbound: Inbound, said: str = "") -> None:
        """`said` is what the model is told where that is more than the person's own words."""
        address = inbound.address
        session = self._sessions.of(address)
        try:
            provider = self._provider_for(session.model)
        except NanoclawError as error:
            self._reply(row, inbound, str(error), "failed")
            return
        opening, late = self._builder.reopen(session.memory, inbound.message.text, recent_talk(session.history))
        self._tell_of_cuts(address, openings.load(session.memory or ""), opening)
        try:
            frame = await self._frame(inbound, said or inbound.message.text, late)
        except asyncio.CancelledError:
            self._reply(row, inbound, self._cut(address), "cancelled")
            return
        built = self._builder.sections("full", opening)
        session.keep_opening(opening.dump())
        made_of = manifest("full", built, opening, late, self._toolbox.specs)
        journal = session.begin_turn(row, frame, made_of.dump())
        turn = Turn(
            provider=provider,
            toolbox=self._toolbox,
            system=joined(built),
            context=ToolContext(address, inbound.sender, inbound.message.origin),
            journal=journal,
            show=lambda event: self._show(address, event),
            clock=self._clock,
            rounds=self._rounds,
            limits=self._limits,
            calibration=self._calibration,
        )

        def refresh() -> None:  # what is forgotten in the midst of a turn is not sent again
            turn.system = self._builder.system("full", openings.load(session.memory or ""))

        session.on_forget = refresh
        try:
            ended = await turn.run()
        except asyncio.CancelledError:
            ended = TurnEnded(self._cut(address), "cancelled", turn.usage)
        outbound = Outbound(address, ended.answer, reply_to=inbound.external_id)
        journal.end(ended, turn.final, outbound, provider.model)
        if turn.calls:
            begun = openings.load(session.memory or "") or opening
            session.keep_opening(self._builder.settle(begun, turn.calls).dump())
        self._show(address, ended)

    def _tell_of_cuts(self, address: Address, before: Opening | None, now: Opening) -> None:
        """Once for each change of the set of files that are too long to be shown whole."""
        if now.cut_files and (before is None or before.cut_files != now.cut_files):
            names = ", ".join(now.cut_files)
            self._show(address, Notice(f"too long for the model to see whole: {names} (/context shows how much)"))

    async def _frame(self, inbound: Inbound, text: str, notes: Sequence[Hit]) -> tuple[UserMessage, UserMessage]:
        stopped, problems = threading.Event(), list[str]()
        frame = partial(
            self._builder.user_messages,
            text,
            media=inbound.attachments,
            channel=inbound.address.channel,
            chat_id=inbound.address.chat,
            sender=inbound.sender,
            origin=inbound.message.origin,
            notes=notes,
            tell=problems.append,
            stopped=stopped.is_set,
        )
        if not inbound.attachments:
            return frame()
        try:
            return await asyncio.to_thread(frame)
        finally:
            stopped.set()  # when this is cancelled, the thread is not, and ends by itself
            for problem in problems:
                self._show(inbound.address, Notice(problem))

    def _reply(self, row: int, inbound: Inbound, text: str, reason: Reason = "answered") -> None:
        """End a message that needed no turn."""
        self._inbox.done(row, Outbound(inbound.address, text, reply_to=inbound.external_id))
        self._show(inbound.address, TurnEnded(text, reason))

    def _stop(self, row: int, inbound: Inbound) -> None:
        address = inbound.address
        lane = self._lanes.of(str(address))
        dropped = lane.drain()
        for waiting, _ in dropped:
            self._inbox.done(waiting)
        texts = self._stopped.pop(address, ()) + tuple(waiting.message.text for _, waiting in dropped)
        if lane.cancel():
            self._stopped[address] = texts
            self._inbox.done(row)
        else:
            self._reply(row, inbound, f"Nothing is running.{_not_begun(texts)}")
            self._delivery.wake(address.channel)

    def _cut(self, address: Address) -> str:
        return f"Stopped.{_not_begun(self._stopped.pop(address, ()))}"

    def _apologize(self, accepted: Accepted, error: Exception) -> None:
        """A message whose handling raised: say so in one sentence and go on with the next."""
        from nanoclaw.log import logger

        row, inbound = accepted
        logger.opt(exception=error).error("answering a message in {} failed", inbound.address)
        known = isinstance(error, NanoclawError)
        text = (
            str(error) if known else f"Something went wrong in the program ({type(error).__name__}); the log has more."
        )
        try:
            self._reply(row, inbound, text, "failed")
        except StoreError:  # nothing can be kept, but it can still be shown
            self._show(inbound.address, TurnEnded(text, "failed"))
        self._delivery.wake(inbound.address.channel)

    def _command(self, address: Address, name: str, argument: str) -> str:
        session = self._sessions.of(address)
        match name:
            case "help":
                return commands.help_text(COMMANDS)
            case "new":
                session.reset()
                return "A new conversation. What was said stays in the store; notes and files are as they were."
            case "model":
                return self._model(session, argument)
            case "skill":
                return commands.skills_text(self._skills())
            case "memory":
                try:
                    return self._memory_command(argument)
                except NanoclawError as error:
                    return str(error)
            case "context":
                return self._context(session)
            case "why":
                return self._why(session, argument)
            case "status":
                return f"{self._status()}\nModel: {self._model_name(session)}\n{_length(session.history)}"
            case _:
                return commands.unknown(name, COMMANDS)

    def _context(self, session: Session) -> str:
        opening, late = self._builder.reopen(session.memory, "", ())
        made_of = manifest("full", self._builder.sections("full", opening), opening, late, self._toolbox.specs)
        shown = xray.rows(made_of, session.history, ())
        return "\n\n".join([xray.table(shown), *xray.remarks(made_of, xray.past(session.last_turn()))])

    def _why(self, session: Session, argument: str) -> str:
        last = xray.past(session.last_turn())
        negated, _, text = argument.partition(" ")
        if negated.lower() == "not" and text.strip():
            return xray.why_not(text.strip(), xray.question_of(last.messages if last else ()), last, self._search)
        return xray.why(last, self._cost)

    def _model(self, session: Session, name: str) -> str:
        if not name:
            return f"Model: {self._model_name(session)}. Choose another with /model provider/name."
        try:
            self._provider_for(name)
        except NanoclawError as error:
            return str(error)
        session.use_model(name)
        return f"This conversation now uses {name}."

    def _model_name(self, session: Session) -> str:
        try:
            return self._provider_for(session.model).model
        except NanoclawError as error:
            return f"none ({error})"


def _length(history: Sequence[Message]) -> str:
    """How long a conversation is, as the person sees it, and what its answers took."""
    answers = [message for message in history if isinstance(message, AssistantMessage)]
    said = sum(isinstance(message, UserMessage) and message.origin != "runtime" for message in history)
    said += sum(bool(answer.text) for answer in answers)
    taken = [answer.usage.input_tokens for answer in answers if answer.usage]
    given = [answer.usage.output_tokens for answer in answers if answer.usage]
    return f"Messages: {said}\nTokens: {sum(taken):,} in, {sum(given):,} out"


def _not_begun(texts: Sequence[str]) -> str:
    return f" Not begun: {'; '.join(map(_short, texts))}." if texts else ""


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:59] + "…"
