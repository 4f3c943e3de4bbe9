"""Identifiers, which must not get lost when a conversation is summarized: names that stand for one thing only, and
lines of an earlier summary, as far as code can find them."""

from __future__ import annotations

import re
from collections.abc import Iterable

STANDING, OPEN, CARRIED = "Standing instructions", "Open tasks", "From before, not mentioned since"
"""Headings of a summary whose lines are carried on."""

SCANNED = 2_000
"""Characters of one text that are searched: a longer one is a document rather than talk."""

LONGEST = 200
"""Characters of an identifier; more is not a name."""

_RULE = (
    r"\b(?:from now on|from here on|in (?:the )?future|ab jetzt|ab sofort|von nun an|künftig|in zukunft|désormais"
    r"|dorénavant|à partir de maintenant|a partir de ahora|de ahora en adelante|d['’]ora in poi|de agora em diante"
    r"|a partir de agora)\b"
    r"|^\W*(?:please |bitte )?(?:always|never|immer|niemals)\b|从现在起|从今以后|以后都"
)
"""Words by which a person says that something is to hold from then on."""

_PIECE = r"(?:[^\s,;|()\[\]{}<>\"'`“”„«»‘’，。；：、（）]|(?<=\d),(?=\d))+"
_EDGES = ".:!?*_#=-…"
_FILE = r"[^\W_][\w.-]*\.[A-Za-z]\w{0,4}"
_HEADING = r"[\s#*]*([^:*]+?)[\s*]*:[\s*]*(.*)"


def identifiers(text: str) -> list[str]:
    """Numbers, dates, ids, paths, file names, addresses and URLs of a text, each once, in order."""
    pieces = dict.fromkeys(match[0].strip(_EDGES) for match in re.finditer(_PIECE, text[:SCANNED]))
    return [one for one in pieces if 1 < len(one) <= LONGEST and not one.isalpha() and _stands_for_one(one)]


def missing(texts: Iterable[str], summary: str, room: int) -> list[str]:
    """Identifiers of texts that a summary lacks, up to so many characters; the texts that matter most come first."""
    found: dict[str, None] = {}
    for text in texts:
        for piece in identifiers(text):
            if piece not in found and not _has(summary, piece) and room >= len(piece) + 2:
                found[piece] = None
                room -= len(piece) + 2
    return list(found)


def rules(text: str) -> list[str]:
    """Sentences of a person that tell what is to be done, or not done, from now on."""
    sentences = re.split(r"(?<=[.!?])\s+|(?<=[。！？])|\n", text[:SCANNED])
    return [sentence.strip() for sentence in sentences if re.search(_RULE, sentence, re.IGNORECASE)]


def unmentioned(lines_before: Iterable[str], summary: str, room: int) -> list[str]:
    """Those of the lines of which a summary says nothing, up to a number of characters: less than half of their words
    are in it."""
    from nanoclaw.tokenizer import tokens

    known, lines = set(tokens(summary)), list[str]()
    for line in dict.fromkeys(lines_before):
        words = set(tokens(line))
        if len(words & known) * 2 < len(words) and room >= len(line):
            lines.append(line)
            room -= len(line)
    return lines


def carried_lines(summary: str) -> list[str]:
    """The lines under the headings that are carried on."""
    lines, inside = list[str](), False
    for line in summary.splitlines():
        heading = re.fullmatch(_HEADING, line)
        if heading and not line.lstrip().startswith("- "):
            inside = heading[1].strip().casefold() in _CARRIED_ON
            line = heading[2]
        if inside and (text := line.strip().removeprefix("- ").strip()) and text.casefold() not in _NOTHING:
            lines.append(text)
    return lines


_CARRIED_ON = frozenset(heading.casefold() for heading in (STANDING, OPEN, CARRIED))
_NOTHING = frozenset({"none", "none.", "-", "(none)", "nothing", "nothing."})


def _stands_for_one(piece: str) -> bool:
    if any(character.isdigit() for character in piece):
        return True
    return any(sign in piece.strip(sign) for sign in "_/@") or bool(re.fullmatch(_FILE, piece))


def _has(text: str, piece: str) -> bool:
    """True if the text contains the piece, and not as part of a longer number or name."""
    return re.search(rf"{(word := re.escape(piece))}(?<!\w{word})(?!\w)", text) is not None  # letters first: quicker
