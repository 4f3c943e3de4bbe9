"""Notes of a project that a message brings up: those with its rarer words, the newer first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

FEW, MOST, CHARACTERS = 20, 12, 1_500
"""Notes that are all told; of more the most that a message brings up, and their characters."""

_WORD = re.compile(r"\w{3,}")


def recalled(notes: Sequence[str], message: str, is_told: Callable[[str], bool]) -> list[str]:
    """Lines to tell, in the order of the notes."""
    if len(notes) <= FEW and sum(map(len, notes)) <= CHARACTERS:
        return [note for note in notes if not is_told(note)]
    words = [set(_WORD.findall(note.casefold())) for note in notes]
    count, asked = Counter(word for one in words for word in one), set(_WORD.findall(message.casefold()))
    scores = [sum(1 / count[word] for word in one & asked) for one in words]
    found, room = list[int](), CHARACTERS
    for at in sorted(range(len(notes)), key=lambda at: (scores[at], at), reverse=True)[:MOST]:
        if scores[at] and not is_told(notes[at]) and len(notes[at]) <= room:
            found.append(at)
            room -= len(notes[at])
    return [notes[at] for at in sorted(found)]
