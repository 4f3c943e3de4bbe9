"""Sizes of files in words."""

from __future__ import annotations


def in_words(size: int) -> str:
    """Such as "4.2 kB"."""
    if size < 1_000:
        return f"{size} bytes"
    unit, scale = next((unit, scale) for unit, scale in _UNITS if size >= scale)
    return f"{size / scale:.1f} {unit}"


_UNITS = (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000))
