"""What a person can say to the program rather than to the model: recognised here, alike in every channel."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import tzinfo
from typing import NamedTuple

from nanoclaw.core.messages import Address, AssistantMessage, Message, Role, ToolResult, UserMessage
from nanoclaw.plugins.skills.skills import Skill


class Command(NamedTuple):
    """What a command is for. One that `waits` takes its turn in the queue, as it changes what a turn works on. Without
    `for_guests` it is the owner's alone; what a `private` one says is not for a group to read."""

    help: str
    waits: bool = False
    for_guests: bool = False
    private: bool = False


class Said(NamedTuple):
    """A command as it was given: in which conversation, by whom, and what stood after its name. `role` is "guest" where
    a guest may read the answer, so in groups always; `here` is where it was said, if not at the conversation's own
    address."""

    address: Address
    sender: str
    argument: str
    role: Role = "owner"
    here: Address | None = None

    @property
    def place(self) -> Address:
        return self.here or self.address


Answer = Callable[[Said], str | Awaitable[str]]
"""Carries a command out and returns what is to be said. May raise NanoclawError; only one that waits may take time."""


COMMANDS = {
    "help": Command("what can be said to the program itself", for_guests=True),
    "new": Command("start a new conversation; notes, facts and files stay", waits=True, for_guests=True),
    "compact": Command(
        "sum up the older part, to make room; /compact TEXT keeps above all what concerns it",
        waits=True,
        for_guests=True,
    ),
    "history": Command("all that was said, the newest last; /history 2 is the page before", for_guests=True),
    "stop": Command("stop what is running and drop what waits", for_guests=True),
    "model": Command("show the model, or choose one: /model openai/gpt-5"),
    "skill": Command("start a skill by hand: /skill weather Berlin; alone it lists them", waits=True, private=True),
    "memory": Command(
        "/memory undo takes back the last change of a memory file, /memory log lists them", waits=True, private=True
    ),
    "undo": Command("take back the last change of a file or note made here; /undo 3 the last three", waits=True),
    "receipts": Command("what was done in this conversation; /receipts 50 shows more"),
    "note": Command("write a line into today's note: /note TEXT"),
    "search": Command("find notes and facts: /search TEXT", private=True),
    "remind": Command(
        "set a reminder: /remind tomorrow at 9: call Anna; nag 10m x6 at its end repeats it until done", for_guests=True
    ),
    "jobs": Command("reminders and tasks: when each is due next, and how it went last", for_guests=True),
    "cron": Command(
        "/cron add [task] WHEN: TEXT, list, next ID, and remove, pause, resume, run or rehearse ID", for_guests=True
    ),
    "rehearse": Command(
        "what a job would send: /rehearse 3, or /rehearse 3 Mon 08:00; nothing is sent or changed",
        waits=True,
        private=True,
    ),
    "pin": Command("keep a standing rule, in every conversation: /pin never run `git push`"),
    "pins": Command("the standing rules, and which of them code enforces", private=True),
    "unpin": Command("take a standing rule away: /unpin 2", private=True),
    "budget": Command(
        "what was spent today and this month; /budget yes goes on beyond the limit until the day ends", private=True
    ),
    "context": Command("what the model sees, part by part, and what it costs", private=True),
    "why": Command("where the last answer came from; /why not TEXT: why a note was not recalled", private=True),
    "heartbeat": Command("look at HEARTBEAT.md now, and ask the model about what is due", waits=True, private=True),
    "status": Command("model, workspace, length of the conversation, tokens used", for_guests=True),
    "yes": Command("allow what was asked: /yes 3"),
    "no": Command("refuse it: /no 3"),
    "panic": Command("stop everything, and freeze what would be sent or started until /resume"),
    "resume": Command("go on after /panic"),
    "pair": Command("let somebody in who was told a code: /pair ABCD-2345; alone it lists who waits", private=True),
    "link": Command("/link CODE, with the code of `nanoclaw link`, makes this account the owner's", for_guests=True),
}
"""What works in every channel."""

_SAME = {"start": "help", "cron rehearse": "rehearse"}
"""What chat apps say for somebody who begins, and the one action of /cron that takes time."""

_COMMAND = re.compile(r"/((?i:cron\s+rehearse)\b|[A-Za-z][A-Za-z_-]*)(?:@\S+)?(?:\s+(.*))?", re.DOTALL)


def parse(text: str) -> tuple[str, str] | None:
    """Name and argument when the text is a slash command: "/model x" and "/Model x" but not "/etc/hosts is odd"."""
    match = _COMMAND.fullmatch(text.strip())
    if match is None:
        return None
    name = " ".join(match[1].lower().split())
    return _SAME.get(name, name), (match[2] or "").strip()


def waits(name: str) -> bool:
    return name in COMMANDS and COMMANDS[name].waits


def unknown(name: str) -> str:
    import difflib

    if name in ("exit", "quit"):
        return f"/{name} leaves a chat in the terminal; here there is nothing to leave."
    near = difflib.get_close_matches(name, COMMANDS, 1)
    return f"There is no command /{name}." + (f" Did you mean /{near[0]}?" if near else " /help lists them.")


def skills_text(skills: Iterable[Skill]) -> str:
    """What can be started with /skill NAME; what is off or lacks something comes last."""
    lines = []
    for skill in sorted(skills, key=lambda skill: bool(skill.missing or skill.problem)):
        lacks = f" (lacks {', '.join(skill.missing)})" if skill.missing else ""
        lines.append(f"- `{skill.name}`{' is off' if skill.problem else lacks}: {skill.problem or skill.description}")
    return "\n".join(lines) or "There are no skills yet."


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
    """'' for what no one said."""
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
    line = " ".join(text.split())
    shown = line if len(line) <= LINE else line[: LINE - 1] + "…"
    return f"- {message.at.astimezone(zone):%Y-%m-%d %H:%M} {who}: {shown}"


def link_text(said: Said) -> str:
    """For what is no code, or no longer one: the right one never comes here."""
    if said.argument:
        return "That code is not valid, or not any more. `nanoclaw link` on the owner's machine shows a new one."
    return (
        "`nanoclaw link CHANNEL`, on the owner's machine, shows a code; /link CODE then makes this account the owner's."
    )


def help_text(said: Said) -> str:
    """For a guest only what a guest may say."""
    return "\n".join(
        f"- `/{name}`: {command.help}"
        for name, command in COMMANDS.items()
        if said.role == "owner" or command.for_guests
    )


def not_allowed(name: str, role: Role, is_group: bool) -> str:
    """Why somebody may not say a command there, '' when they may, or when there is none of that name."""
    command = COMMANDS.get(name)
    if command is None or (role == "guest" and command.for_guests):
        return ""
    if role == "guest":
        return "Only the owner can do that."
    return "Others read this: ask me that where we are alone." if is_group and command.private else ""
