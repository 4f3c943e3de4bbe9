"""Notes that are not in the index yet: the words of a question are looked up in the files themselves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress

from nanoclaw.core.errors import WorkspaceError
from nanoclaw.core.workspace import Workspace
from nanoclaw.plugins.memory.notes import read_memory_file
from nanoclaw.tokenizer import STOP_WORDS, fold, is_cjk, tokens, words

MOST_WORDS = 16
MOST_LOOKED_THROUGH = 32_000_000
"""Characters of notes, the newest first: a fifth of a second."""


def mentioning(workspace: Workspace, names: Iterable[str], question: str) -> list[str]:
    """Those of the files that have words of a question, the files with the rarest words first."""
    wanted = _wanted(question)
    found: list[tuple[str, list[str]]] = []
    left = MOST_LOOKED_THROUGH
    for name in names if wanted else ():
        text = ""
        with suppress(WorkspaceError):
            text = fold(read_memory_file(workspace, name) or "")
        if here := [word for word in wanted if word in text]:
            found.append((name, here))
        left -= len(text)
        if left < 0:
            break
    files = {word: sum(word in here for _, here in found) for word in wanted}
    worth = {word: math.log(1 + len(found) / count) for word, count in files.items() if count}
    found.sort(key=lambda each: -math.fsum(worth[word] for word in each[1]))
    return [name for name, _ in found]


def _wanted(question: str) -> Sequence[str]:
    """Words of a question, and their stems, which other forms begin with."""
    said = [word for word in words(question) if word not in STOP_WORDS and not is_cjk(word)]
    every = dict.fromkeys([*said, *tokens(question)])
    return [word for word in every if len(word) > (1 if is_cjk(word) else 2)][:MOST_WORDS]
