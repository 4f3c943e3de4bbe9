"""What the terminal says at its start: which model answers, and what the person has to know at once."""

from __future__ import annotations

from nanoclaw import __version__
from nanoclaw.core import parts
from nanoclaw.core.config import Config
from nanoclaw.core.errors import StoreError
from nanoclaw.core.store.flags import PANIC, Flags
from nanoclaw.core.store.sessions import Sessions
from nanoclaw.plugins.schedule.jobs import Jobs
from nanoclaw.plugins.schedule.reminders import important
from nanoclaw.providers.choose import LOCAL


def greeting(config: Config, model: str, first: bool) -> str:
    lines = [f"nanoclaw {__version__} · {model} · /help"]
    if first:
        lines.append(f"New here: your workspace is {config.workspace_path}.")
    if model.startswith(LOCAL) and first:
        lines.append(
            "This is a small offline model: good for notes, files and short commands, slow on long ones, and often "
            "wrong about the world.\nFor a better one: nanoclaw init --model openai/gpt-5 (or anthropic/…, ollama/…; "
            "see the README)."
        )
    return "\n".join([*lines, *_pending(config)])


def _pending(config: Config) -> list[str]:
    """A line each: that all is frozen, important reminders without an answer."""
    now = parts.person_clock(config)
    try:
        with parts.stored(config) as store:
            if store is None:
                return []
            frozen = ["Everything is frozen by /panic; /resume goes on."] if Flags(store, now).get(PANIC) else []
            return [*frozen, *important(Jobs(store, Sessions(store, now), now))]
    except StoreError:  # of an older format, or damaged: what opens it for good tells
        return []
