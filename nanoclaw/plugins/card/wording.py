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
    gone, cut = ([name(one.path) for one in lost if (one.left is None) == is_gone] for is_gone in (True, False))
    parts = (("deletes", gone), ("takes away most of", cut))
    return "; ".join(f"{verb} {files_named(paths)}" for verb, paths in parts if paths)


def step_words(command: str, lost: Sequence[Lost], back: Collection[str], name: Callable[[str], str]) -> str:
    """Say what a yes does: of a command's losses those that are back, and which are gone whatever the answer."""
    words = f"{quoted(command)} {lost_words([one for one in lost if one.path in back], name)}"
    gone = [name(one.path) for one in lost if one.path not in back]
    return f"{words} (already gone, as no copy was kept: {named(gone)})" if gone else words


def exact_losses(one: HeldCommand, name: Callable[[str], str]) -> str:
    """All that a command is held back from, line by line; what it is to the last character is for a code block."""
    verb = {(True, False): "delete the folder", (False, True): "change"}
    lines = (f"{verb.get((each.is_folder, bool(each.left)), 'delete')} {name(each.path)}" for each in one.held)
    return "\n".join(line.replace("\n", " ⏎ ") for line in lines)


def numbered(commands: Iterable[HeldCommand]) -> str:
    return "\n".join(f"{number}. {one.words}" for number, one in enumerate(commands, 1))
