"""What a person can say to the program rather than to the model: recognised here, alike in every channel."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from nanoclaw.workspace.skills import Skill

_COMMAND = re.compile(r"/([a-z][a-z_-]*)(?:@\S+)?(?:\s+(.*))?", re.DOTALL)


def parse(text: str) -> tuple[str, str] | None:
    """Name and argument when the text is a slash command: "/model x" but not "/etc/hosts is odd"."""
    match = _COMMAND.fullmatch(text.strip())
    return (match[1], (match[2] or "").strip()) if match else None


def is_stop(text: str) -> bool:
    """Whether the text asks to stop: read before the queue, so that it need not wait for what it is to end."""
    word = text.strip().lower()
    command = parse(word)
    return word == "stop" or (command is not None and command[0] == "stop")


def unknown(name: str, helps: Mapping[str, str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, helps, 1)
    return f"There is no command /{name}." + (f" Did you mean /{near[0]}?" if near else " /help lists them.")


def skills_text(skills: Iterable[Skill]) -> str:
    """What can be started with /skill NAME; what is off or lacks something comes last."""
    lines = []
    for skill in sorted(skills, key=lambda skill: bool(skill.missing or skill.problem)):
        lacks = f" (lacks {', '.join(skill.missing)})" if skill.missing else ""
        lines.append(f"- `{skill.name}`{' is off' if skill.problem else lacks}: {skill.problem or skill.description}")
    return "\n".join(lines) or "There are no skills yet."


def help_text(helps: Mapping[str, str]) -> str:
    return "\n".join(f"- `/{name}`: {text}" for name, text in helps.items())
