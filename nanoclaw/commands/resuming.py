"""Going on with an earlier conversation of the terminal: `nanoclaw -c` the last one, `nanoclaw -r` any."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from nanoclaw.commands.arguments import Options
from nanoclaw.core.errors import ConfigError
from nanoclaw.core.messages import AssistantMessage, Message, UserMessage
from nanoclaw.escapes import one_line
from nanoclaw.installation import start_command
from nanoclaw.start.config import Config
from nanoclaw.start.home import stored

_PLACE = "terminal:"
_QUOTED = 200  # characters of the last question, and of the answer


def choose(config: Config, options: Options) -> bool:
    """Put the conversation that is meant into the options. False where the person picked none. Raises ConfigError."""
    from nanoclaw.core.store.history import list_sessions, whole_history
    from nanoclaw.plugins.conversations.titles import age, size, titled

    now = config.clock()()
    with stored(config) as store:
        every = titled(store.rows, list_sessions(store)) if store else []
        rows = [{**row, "name": row["name"].removeprefix(_PLACE)} for row in every if row["name"].startswith(_PLACE)]
        rows = [row for row in rows if row["messages"]]
        if not rows:
            raise ConfigError(f"there is no earlier conversation: {start_command()} begins the first")
        for one in rows:
            one["about"] = f"{age(one['last'], now)}, {size(one)}"
        wanted = options.picked
        row = rows[0] if wanted is None else _picked(rows, wanted)
        if not row:
            return False
        said = whole_history(store, _PLACE + row["name"]) if store else None
    options.session = row["name"]
    title = f": “{row['title']}”" * bool(row["title"])
    options.last = [f"Going on with {row['name']}{title} ({row['about']}).", *_end_of(said or ())]
    return True


def _picked(rows: Sequence[dict[str, Any]], wanted: str) -> dict[str, Any] | None:
    """The conversation of a name, of words in its title, or that the person picks; without a terminal they are
    listed."""
    named, words = [row for row in rows if row["name"] == wanted.removeprefix(_PLACE)], wanted.casefold()
    named = named or [row for row in rows if words == row["title"].casefold()]
    named = named or [row for row in rows if words in row["title"].casefold()]
    if wanted and len(named) == 1:
        return named[0]
    if wanted and not named:
        raise ConfigError(f"there is no conversation {wanted!r}: {start_command()} -r lists those there are")
    if sys.stdin.isatty() and sys.stdout.isatty():
        from nanoclaw.channels.terminal.picker import pick

        place = pick([(row["title"] or row["name"], f"{row['name']}, {row['about']}") for row in named])
        return None if place is None else named[place]
    for row in named:
        print(f"{row['name']:<20} {row['about']:<44} {row['title']}".rstrip())
    print(f"{start_command()} -r NAME goes on with one.")
    return None


def _end_of(said: Sequence[Message]) -> list[str]:
    """The last question and its answer, so that one knows what it was about."""
    asked = answered = ""
    for one in said:
        if isinstance(one, UserMessage) and one.origin == "person":
            asked, answered = one.text, "(the answer broke off, or is still being written)"
        elif isinstance(one, AssistantMessage) and not one.tool_calls:
            answered = one.text or answered
    return [f"{who}: {one_line(text, _QUOTED)}" for who, text in (("you", asked), ("nanoclaw", answered)) if text]
