"""Greeting: what the terminal says at its start, the model that answers and what the owner has to know at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nanoclaw import __version__
from nanoclaw.providers.choose import LOCAL

if TYPE_CHECKING:
    from nanoclaw.core.app import App


def greeting(model: str, urgent: Sequence[str], workspace: Path | None = None) -> str:
    """The lines of a greeting; `workspace` is given at the first start."""
    lines = [f"nanoclaw {__version__} · {model} · /help"]
    if workspace:
        lines.append(f"New here: your workspace is {workspace}.")
        lines.append("Try: “remind me tomorrow at 9 to call Anna”, “write a list to list.txt”, /help")
    if model.startswith(LOCAL) and workspace:
        from nanoclaw.installation import start_command

        lines.append(
            "This is a small offline model: good for notes, files and short commands, slow on long ones, and often "
            "wrong about the world.\n"
            f"For a better one: {start_command()} init (openai/…, anthropic/…, ollama/…; see the README)."
        )
    return "\n".join([*lines, *urgent])


def urgent(app: App) -> list[str]:
    """Lines about what the owner must know at once: plugins left out, the sandbox of commands, a freeze by /panic,
    important reminders without an answer."""
    frozen = ["Everything is frozen by /panic; /resume ends that."] if app.router.is_frozen else []
    schedule = app.public("schedule")
    mcp = app.public("mcp")
    sandbox = app.public("sandbox")
    access = app.public("access") if app.chat_apps else None
    return [
        *filter(None, (app.config.problem,)),
        *app.left_out.values(),
        *((sandbox.banner(),) if sandbox else ()),
        *frozen,
        *(schedule.important() if schedule else ()),
        *(mcp.important() if mcp else ()),
        *(access.important() if access else ()),
    ]
