"""How many tokens a text is, estimated without a network."""

from __future__ import annotations


def estimate(text: str) -> int:
    return -(-len(text.encode("utf-8", "replace")) // 4)
