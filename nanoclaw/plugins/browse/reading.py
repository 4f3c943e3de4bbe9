"""A page's text as the model gets it: in parts, or only what is new in it."""

from __future__ import annotations

import re

PART = 8_000
"""Characters of a page that are shown at once."""


def whole(texts: list[str]) -> str:
    """The text of a page from those of its frames. `texts` are in the order in which they were read, depth first; where
    a frame stands, the text around it has a line with a mark."""
    rest = iter(texts)

    def filled(text: str) -> str:
        def inner(_: re.Match[str]) -> str:
            return f"--- frame ---\n{filled(next(rest, ''))}\n--- end of frame ---"

        return re.sub(r"(?m)^\x01\d+$", inner, text)

    return filled(next(rest, ""))


def part(text: str, start: int, most: int = PART) -> int:
    """The end of the part of a text that begins there: a line's, where there is one."""
    if len(text) - start <= most:
        return len(text)
    end = text.rfind("\n", start, start + most)
    return end + 1 if end > start else start + most


def goes_on(old: str, end: int, new: str) -> int:
    """The place in a text that was read anew where the old one's part ended. A page that loads more at its end has the
    same beginning; one that takes away at its top has the last lines elsewhere."""
    if new[:end] == old[:end]:
        return end
    for lines in (3, 1):
        last = "\n".join(old[:end].rstrip("\n").split("\n")[-lines:])
        if last and (at := new.rfind(last)) >= 0:
            return min(len(new), at + len(last) + 1)
    return 0


def news(old: str, new: str) -> tuple[str, int]:
    """The lines of a text that were not in the old one, and how many of the old one are gone."""
    before, after = old.split("\n"), new.split("\n")
    known, kept = set(before), set(after)
    return "\n".join(line for line in after if line not in known), sum(line not in kept for line in before)


def label(text: str, number: int) -> str:
    """An element as a page's text shows it, such as link "Docs"; '' for one that it doesn't show."""
    found = re.search(rf"\[{number}: ([a-z ]+?(?: \"[^\"\n]*\")?)(?: =|,|\]| (?:not )?[a-z]+[,\]])", text)
    return found[1] if found else ""
