"""Help, a new conversation, its history, the model, and the state of everything."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import tzinfo
from typing import Any

from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.messages import AssistantMessage, Message, ToolResult, UserMessage
from nanoclaw.core.plugin import EVERYBODY, Command, Host, Plugin, Reply, Said, Tx
from nanoclaw.escapes import one_line
from nanoclaw.runtime_metadata import said_to_program

PAGE, LINE = 40, 300
"""Messages on a page of /history, and characters of each."""

GROUPS = {
    "talk": "this conversation",
    "time": "reminders, tasks and lists",
    "knowledge": "notes, skills and rules",
    "work": "plans, background commands and helpers",
    "safety": "what it may do, and what it did",
    "more": "the program and its users",
}
"""The groups of /help, each with its subject. Commands without a group are in the last."""


class Basics(Plugin):
    name = "basics"

    def __init__(self, host: Host, settings: None) -> None:
        self._host = host

    def commands(self) -> Sequence[Command]:
        every = "the commands: /help GROUP, /help COMMAND"
        return (
            Command("new", "start a new conversation; notes and files stay", self._new, "talk", EVERYBODY, waits=True),
            Command("model", "the models; /model openai/gpt-5 chooses one", self._model, "talk", cli=True),
            Command("history", "what was said; /history 2 is the page before", self._history, "talk", EVERYBODY),
            Command("help", every, self._help, "talk", EVERYBODY, cli=True, also=("start",)),
            Command("status", "model, folders, length, tokens used", self._status, open_to=EVERYBODY),
        )

    def _help(self, said: Said, tx: Tx) -> str:
        """The groups, the commands of one, or a command with its parts, in a shell without; only those open to one."""
        open_, wanted = self._host.commands(said.profile), said.argument.lower().removeprefix("/")
        groups: dict[str, list[Command]] = {name: [] for name in GROUPS}
        for one in open_.values():
            if one.part_of not in open_:
                groups[one.group if one.group in GROUPS else "more"].append(one)
        if wanted:
            found = next((one for one in open_.values() if wanted in (one.name, *one.also)), None)
            whole = (found.part_of if found.part_of in open_ and not said.shell else found.name) if found else ""
            parts = [one for one in open_.values() if found and one.part_of == whole and not said.shell]
            ones = groups.get(wanted) or [*filter(None, [open_.get(whole)]), *parts]
            return "\n".join(_told(one, open_, ones) for one in ones) or _no_command(wanted, open_)
        lines = list[str]()
        for name, ones in groups.items():
            best = ", ".join(f"`/{one.name}`" for one in ones[:3])
            lines += [f"- {name} ({GROUPS[name]}): {best}{' …' * (len(ones) > 3)}"] if ones else []
        return "\n".join([*lines, "", "`/help talk` lists a group, `/help new` explains a command."])

    def _new(self, said: Said, tx: Tx) -> str:
        texts = "; ".join(one_line(text, 60) for text in self._host.conversations.reset(said.conversation, tx))
        dropped = f" Not answered: {texts}." if texts else ""
        return f"A new conversation. What was said stays in the store; notes and files are as they were.{dropped}"

    def _history(self, said: Said, tx: Tx) -> str:
        whole, asks = self._host.conversations.of(said.conversation).whole(), self._host.get("approvals")
        asked = asks.of(said.conversation) if asks and said.role == "owner" else ()
        return history_text(_with_questions(whole, asked), said.argument, self._host.now().tzinfo)

    def _model_name(self, chosen: str) -> str:
        try:
            return self._host.models.of(chosen).model
        except NanoclawError as error:
            return f"none ({error})"

    def _model(self, said: Said, tx: Tx) -> str | Reply:
        session, models = self._host.conversations.of(said.conversation), self._host.models
        if not said.argument:
            told = models.listing(session.model)
            return told._replace(text=told.text.replace("/model", f"{said.shell} model")) if said.shell else told
        name, remark = models.choose(said.argument)
        if models.of(name).model == self._model_name(session.model) and models.forget_window(name):
            return f"This conversation uses {name}. The window that was learned from an error is forgotten."
        session.use_model(name)
        return f"This conversation now uses {name}.{remark}"

    def _status(self, said: Said, tx: Tx) -> str:
        session = self._host.conversations.of(said.conversation)
        if said.profile == "guest":
            return _length(session.history)
        return "\n".join([*self._host.about(), f"Model: {self._model_name(session.model)}", _length(session.history)])


def _told(one: Command, open_: Mapping[str, Command], ones: Sequence[Command]) -> str:
    """A line about a command, with its parts that have none of their own."""
    also = [f"`/{part.name}`" for part in open_.values() if part.part_of == one.name and part not in ones]
    return f"- `/{one.name}`: {one.help}" + f" (also {', '.join(also)})" * bool(also)


def _no_command(name: str, open_: Mapping[str, Command]) -> str:
    import difflib

    near = difflib.get_close_matches(name, open_, 1)
    return f"There is no command /{name}." + (f" Did you mean /{near[0]}?" if near else " /help lists them.")


def _length(history: Sequence[Message]) -> str:
    """Length of a conversation, as the person sees it, and the tokens that its answers took."""
    answers = [message for message in history if isinstance(message, AssistantMessage)]
    said = sum(isinstance(message, UserMessage) and message.origin != "runtime" for message in history)
    said += sum(bool(answer.text) for answer in answers)
    taken = [answer.usage.input_tokens for answer in answers if answer.usage]
    given = [answer.usage.output_tokens for answer in answers if answer.usage]
    return f"Messages: {said}\nTokens: {sum(taken):,} in, {sum(given):,} out"


def _with_questions(messages: Sequence[Message], asked: Sequence[Any]) -> Iterator[Message]:
    """Messages, and what was asked before the result that waited for it, with the person's answer."""
    left = list(asked)
    for message in messages:
        if isinstance(message, ToolResult):
            for one in [one for one in left if one.call == message.call_id and one.asked <= message.at]:
                left.remove(one)
                yield from (AssistantMessage(one.ask.question, one.asked), UserMessage(one.answer.text, message.at))
        yield message


def history_text(messages: Iterable[Message], page: str, zone: tzinfo | None) -> str:
    """One page of a conversation, '' for the newest; long messages in part, times in the person's zone."""
    lines = [line for message in messages if (line := _line(message, zone))]
    pages = max(1, -(-len(lines) // PAGE))
    if page and not (page.isdecimal() and 0 < int(page) <= pages):
        return f"/history takes a page from 1 (the newest) to {pages}."
    number = int(page or 1)
    end = len(lines) - (number - 1) * PAGE
    older = f"(page {number} of {pages}; /history {number + 1} is the one before)\n" if number < pages else ""
    return older + "\n".join(lines[max(0, end - PAGE) : end]) or "Nothing was said yet."


def _first(arguments: str) -> str:
    """The first text among a call's arguments: a command, a path; all of them where there is none."""
    with suppress(ValueError, AttributeError, RecursionError):
        return next((one for one in json.loads(arguments).values() if isinstance(one, str)), arguments)
    return arguments


def _line(message: Message, zone: tzinfo | None) -> str:
    """One message as a line; '' for what no one said."""
    match message:
        case UserMessage(origin="runtime"):
            if not (text := said_to_program(message.text)):
                return ""
            who = "you"
        case UserMessage():
            who, text = "you", message.text
        case AssistantMessage():
            who = "nanoclaw"
            text = " ".join([message.text, *(f"[{call.name} {_first(call.arguments)}]" for call in message.tool_calls)])
        case ToolResult():
            who, text = message.name, message.text
    return f"- {message.at.astimezone(zone):%Y-%m-%d %H:%M} {who}: {one_line(text, LINE)}"
