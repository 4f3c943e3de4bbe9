"""Write the lines into the links of docs/core.md: each names a class, a function or a constant of its file."""

from __future__ import annotations

import re
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "core.md"
LINK = re.compile(r"\[`([\w.]+)`\]\((\.\./[\w/]+\.py)#L\d+\)")


def line_of(name: str, path: Path) -> int:
    """The line that defines a name, `Class.method` for a method; 1 for the file itself. Raises ValueError."""
    lines, at = path.read_text(encoding="utf-8").splitlines(), 0
    for part in () if name == path.name else name.split("."):
        defined = re.compile(rf"\s*(?:class|def|async def) {part}\b|{part}\b.* = ")
        at = next((number for number in range(at, len(lines)) if defined.match(lines[number])), -1) + 1
        if not at:
            raise ValueError(f"docs/core.md: {path.name} has no {name}")
    return at or 1


def written(text: str) -> str:
    def link(found: re.Match[str]) -> str:
        name, file = found.groups()
        return f"[`{name}`]({file}#L{line_of(name, PAGE.parent / file)})"

    return LINK.sub(link, text)


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(new := written(text), encoding="utf-8")
    sys.exit("--check" in sys.argv and new != text)
