"""Words of the card: files, losses and commands as a person reads them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from nanoclaw.exact_text import as_code

if TYPE_CHECKING:
    from nanoclaw.plugins.card.held import HeldCommand
    from nanoclaw.plugins.card.losses import Lost

NAMED = 3
"""Files that are named in a sentence."""

MOST_CUT, MOST_LISTED = 3, 1_000


def size(count: int) -> str:
    return f"{count:,} bytes" if count < 10_000 else f"{count / 1000:,.0f} kB"


def quoted(text: str) -> str:
    """A name or a command on one line, as it is shown in a sentence."""
    return as_code(text, 120)


def named(paths: Iterable[str], most: int = NAMED) -> str:
    """The first few file names."""
    all_ = list(paths)
    more = f" and {len(all_) - most:,} more" if len(all_) > most else ""
    return ", ".join(map(quoted, all_[:most])) + more


def files_named(names: Collection[str]) -> str:
    """The number of files and their names; those of a git history that goes as a whole are not named one by one."""
    histories = [one.removesuffix("/HEAD") for one in names if f"/{one}".endswith("/.git/HEAD")]
    own = [one for one in names if not one.startswith(tuple(f"{git}/" for git in histories))]
    files = f"{len(own):,} file{'s' * (len(own) != 1)} ({named(own)})" if own or not histories else ""
    return " and ".join(filter(None, (files, f"the git history ({named(histories)})" if histories else "")))


def lost_words(lost: Sequence[Lost], name: Callable[[str], str]) -> str:
    """Losses in words, for use after the name of a command."""
    gone = [name(one.path) for one in lost if one.left is None]
    parts = [f"deletes {files_named(gone)}"] if gone else []
    cut = [one for one in lost if one.left is not None]
    parts += [
        f"overwrites {quoted(name(one.path))}: {size(one.size)} become {size(one.left or 0)}" for one in cut[:MOST_CUT]
    ]
    parts += [f"overwrites {len(cut) - MOST_CUT:,} more"] if len(cut) > MOST_CUT else []
    return "; ".join(parts)


def step_words(command: str, lost: Sequence[Lost], back: Collection[str], name: Callable[[str], str]) -> str:
    """Say what a yes does: of a command's losses those that are back, and which are gone whatever the answer."""
    words = f"{quoted(command)} {lost_words([one for one in lost if one.path in back], name)}"
    gone = [name(one.path) for one in lost if one.path not in back]
    return f"{words} (already gone, as no copy was kept: {named(gone)})" if gone else words


def exact_losses(one: HeldCommand, name: Callable[[str], str]) -> str:
    """All that a command is held back from, line by line; what it is to the last character is for a code block."""
    held = one.held[:MOST_LISTED]
    lines = [f"{_verb(each.left, each.is_folder)} {name(each.path)}".replace("\n", " ⏎ ") for each in held]
    return "\n".join([*lines, f"and {len(one.held) - MOST_LISTED:,} more"] if len(one.held) > MOST_LISTED else lines)


def _verb(left: str, is_folder: bool) -> str:
    return "change" if left else "delete the folder" if is_folder else "delete"


def numbered(commands: Iterable[HeldCommand]) -> str:
    return "\n".join(f"{number}. {one.words}" for number, one in enumerate(commands, 1))
