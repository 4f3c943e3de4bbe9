"""The passages of a long text that fit a question best."""

from __future__ import annotations

import re

from nanoclaw.tokenizer import tokens

LONGEST_PASSAGE = 1_500
GAP = "\n\n[…]\n\n"


def fitting(text: str, question: str, most: int) -> str:
    """Passages by their rank of BM25, up to a number of characters, in the order of the text; '' if no word of the
    question is in it."""
    from rank_bm25 import BM25Plus

    passages, wanted = _passages(text), set(tokens(question))
    terms = [tokens(passage) for passage in passages]
    if not any(wanted.intersection(one) for one in terms):
        return ""
    scores = BM25Plus(terms).get_scores(sorted(wanted))
    ranked = sorted(range(len(passages)), key=lambda at: (-scores[at], at))
    chosen, left = list[int](), most
    for at in ranked:
        if not wanted.intersection(terms[at]):
            break
        if len(passages[at]) <= left:
            chosen.append(at)
            left -= len(passages[at]) + len(GAP)
    return _joined(passages, sorted(chosen))


def _joined(passages: list[str], chosen: list[int]) -> str:
    """Passages in their order, with a mark where something lies between two."""
    parts, before = list[str](), -1
    for at in chosen:
        parts += [GAP if at != before + 1 else "\n\n", passages[at]]
        before = at
    return "".join(parts[1:]) + (GAP.rstrip() if before < len(passages) - 1 else "")


def _passages(text: str) -> list[str]:
    """Paragraphs, a heading with the one that follows it; long ones in pieces, short ones of a list together."""
    found, heading = list[str](), ""
    for block in re.split(r"\n[ \t]*\n", text):
        if not block.strip():
            continue
        if block.startswith("#") and "\n" not in block:
            heading = f"{heading}{block}\n\n"
            continue
        found += _pieces(heading + block)
        heading = ""
    return found + ([heading.strip()] if heading else [])


def _pieces(block: str) -> list[str]:
    pieces, piece = list[str](), ""
    for line in re.split(r"(?<=\n)|(?<=[.!?。！？])(?=\s)", block):
        for start in range(0, max(1, len(line)), LONGEST_PASSAGE):
            part = line[start : start + LONGEST_PASSAGE]
            if piece and len(piece) + len(part) > LONGEST_PASSAGE:
                pieces.append(piece.strip())
                piece = ""
            piece += part
    return [*pieces, piece.strip()] if piece.strip() else pieces
