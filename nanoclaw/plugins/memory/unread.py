"""Notes that are not in the index yet: the words of a question are looked up in the files themselves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from nanoclaw.core.errors import WorkspaceError
from nanoclaw.plugins.memory.notes import read_memory_file
from nanoclaw.tokenizer import STOP_WORDS, fold, is_cjk, tokens, words

MOST_WORDS = 16
FEW_FILES = 10
"""A word that more of them have, and more than a tenth of all, is not rare."""
MOST_LOOKED_THROUGH = 32_000_000
"""Characters of notes, the newest first: a fifth of a second."""


def mentioning(workspace: Path, names: Iterable[str], question: str) -> list[str]:
    """Those of the files that have rare words of a question, the files with the rarest first."""
    wanted = _wanted(question)
    having: dict[str, list[str]] = {word: [] for word in wanted}
    left, looked = MOST_LOOKED_THROUGH, 0
    for name in names if wanted else ():
        text = ""
        with suppress(WorkspaceError):
            text = fold(read_memory_file(workspace, name) or "")
        for word in wanted:
            if word in text:
                having[word].append(name)
        looked += 1
        left -= len(text)
        if left < 0:
            break
    worth: dict[str, float] = {}
    for files in having.values():
        if len(files) <= max(FEW_FILES, looked // 10):
            for name in files:
                worth[name] = worth.get(name, 0.0) + math.log(1 + looked / len(files))
    return sorted(worth, key=worth.__getitem__, reverse=True)


def _wanted(question: str) -> Sequence[str]:
    """Words of a question, and their stems, which other forms begin with."""
    said = [word for word in words(question) if word not in STOP_WORDS and not is_cjk(word)]
    every = dict.fromkeys([*said, *tokens(question)])
    return [word for word in every if len(word) > (1 if is_cjk(word) else 2)][:MOST_WORDS]
