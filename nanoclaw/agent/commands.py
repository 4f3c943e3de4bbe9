"""What a person can say to the program rather than to the model: recognised here, alike in every channel."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from nanoclaw.messages import Address, AssistantMessage, Message, ToolResult, UserMessage
from nanoclaw.workspace.skills import Skill


@dataclass(frozen=True, slots=True)
class Command:
    """What a command is for. One that `waits` takes its turn in the queue, as it changes what a turn works on."""

    help: str
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Said:
    """A command as it was given: where, by whom, and what stood after its name."""

    address: Address
    sender: str
    argument: str


Answer = Callable[[Said], str | Awaitable[str]]
"""Carries a command out and returns what is to be said. May raise NanoclawError; only one that waits may take time."""


COMMANDS = {
    "help": Command("what can be said to the program itself"),
    "new": Command("start a new conversation; notes, facts and files stay", waits=True),
    "compact": Command(
        "sum up the older part, to make room; /compact TEXT keeps above all what concerns it", waits=True
    ),
    "history": Command("all that was said, the newest last; /history 2 is the page before"),
    "stop": Command("stop what is running and drop what waits"),
    "model": Command("show the model, or choose one: /model openai/gpt-5"),
    "skill": Command("start a skill by hand: /skill weather Berlin; alone it lists them", waits=True),
    "memory": Command("/memory undo takes back the last change of a memory file, /memory log lists them", waits=True),
    "undo": Command("take back the last change of a file or note made here; /undo 3 the last three", waits=True),
    "receipts": Command("what was done in this conversation; /receipts 50 shows more"),
    "note": Command("write a line into today's note: /note TEXT"),
    "search": Command("find notes and facts: /search TEXT"),
    "remind": Command("set a reminder: /remind tomorrow at 9: call Anna; nag 10m x6 at its end repeats it until done"),
    "jobs": Command("reminders and tasks: when each is due next, and how it went last"),
    "cron": Command("/cron add [task] WHEN: TEXT, list, next ID, and remove, pause, resume or run ID"),
    "pin": Command("keep a standing rule, in every conversation: /pin never run `git push`"),
    "pins": Command("the standing rules, and which of them code enforces"),
    "unpin": Command("take a standing rule away: /unpin 2"),
    "budget": Command("what was spent today and this month; /budget yes goes on beyond the limit until the day ends"),
    "context": Command("what the model sees, part by part, and what it costs"),
    "why": Command("where the last answer came from; /why not TEXT: why a note was not recalled"),
    "heartbeat": Command("look at HEARTBEAT.md now, and ask the model about what is due", waits=True),
    "status": Command("model, workspace, length of the conversation, tokens used"),
    "panic": Command("stop everything, and freeze what would be sent or started until /resume"),
    "resume": Command("go on after /panic"),
}
"""What works in every channel."""

_COMMAND = re.compile(r"/([A-Za-z][A-Za-z_-]*)(?:@\S+)?(?:\s+(.*))?", re.DOTALL)


def parse(text: str) -> tuple[str, str] | None:
    """Name and argument when the text is a slash command: "/model x" and "/Model x" but not "/etc/hosts is odd"."""
    match = _COMMAND.fullmatch(text.strip())
    return (match[1].lower(), (match[2] or "").strip()) if match else None


def waits(name: str) -> bool:
    return name in COMMANDS and COMMANDS[name].waits


def is_stop(text: str) -> bool:
    """Whether the text asks to stop: read before the queue, so that it need not wait for what it is to end."""
    word = text.strip().lower()
    command = parse(word)
    return word == "stop" or (command is not None and command[0] == "stop")


def unknown(name: str) -> str:
    import difflib

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


def help_text() -> str:
    return "\n".join(f"- `/{name}`: {command.help}" for name, command in COMMANDS.items())
