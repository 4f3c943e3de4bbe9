"""Asks whoever sits at the terminal for a yes."""

from __future__ import annotations

import sys

from nanoclaw.core.errors import NanoclawError


def says_yes(question: str, otherwise: str = "Nothing was added.") -> bool:
    """Raises NanoclawError if nobody is there."""
    from nanoclaw.yes_no import yes_or_no

    if not sys.stdin.isatty():
        raise NanoclawError(f"{question} Nobody is here to answer: use --yes")
    print(f"{question} yes or no: ", end="", flush=True)
    is_yes = yes_or_no(sys.stdin.readline()) is True
    if not is_yes:
        print(otherwise)
    return is_yes
