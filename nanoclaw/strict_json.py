"""JSON that others wrote, read so that whatever uses the value can rely on it.

Pure: knows nothing of an assistant. A value that was read can be written as JSON again, in UTF-8, from any place.
"""

from __future__ import annotations

import json
from typing import Any

MOST_LEVELS = 200
"""Brackets within one another. The interpreter's own limit depends on who asks, so that a value just below it can be
read in one place and not be written in another."""


def read(text: str | bytes) -> Any:
    """The value of a JSON text. Raises ValueError, with a reason in few words, for text that is no JSON, the same key
    twice, numbers that are none (NaN, 1e400) or endless, half characters, and values that are nested too deeply."""
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
        check_levels(value)
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("not valid Unicode text: a lone surrogate") from None
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("the same key twice")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError("a number that is too large")
    return value


def check_levels(value: Any) -> None:
    """Raises ValueError for a value that cannot be written as JSON."""
    level = [value]
    for _ in range(MOST_LEVELS + 1):
        level = [inner for outer in level if isinstance(outer, dict | list) for inner in _inner(outer)]
        if not level:
            return
    raise ValueError("nested too deeply")


def _inner(value: dict[str, Any] | list[Any]) -> Any:
    return value.values() if isinstance(value, dict) else value
