"""Examples that are data: a .jsonl file beside its test. Each line is a name, and one example of it."""

import json
from pathlib import Path
from typing import Any


def examples(test: str, file: str) -> dict[str, list[Any]]:
    """Those of a file beside a test (its `__file__`), by name: a value, or a tuple of several."""
    found = dict[str, list[Any]]()
    for name, *parts in map(json.loads, Path(test).with_name(file).read_text().splitlines()):
        found.setdefault(name, []).append(parts[0] if len(parts) == 1 else tuple(parts))
    return found
