"""A skill in words for its owner: what it asks for, its files in full, and what was changed since it was looked at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nanoclaw.core.errors import SkillError
from nanoclaw.escapes import revealed
from nanoclaw.packages import shown
from nanoclaw.packages.pins import PackagePin
from nanoclaw.packages.reading import Package
from nanoclaw.plugins.skills.package import main_of
from nanoclaw.plugins.skills.skills import Requirements, Skill, parse, parsed, split

_HEEDED = frozenset({"name", "description", "always", "metadata", "requires", "disable-model-invocation"})
_WORDLESS = frozenset({"license", "version", "author", "homepage", "compatibility", "keywords", "tags"})
_KINDS = {
    "bins": "commands",
    "anyBins": "one of the commands",
    "env": "environment (commands get it only where [skills] environment names it)",
    "config": "settings",
    "os": "system",
    "tools": "tools",
}


def front_of(package: Package, name: str) -> tuple[Skill, Requirements, tuple[str, ...]]:
    """The skill that a package is, what it requires, and fields of its front matter that change nothing here. Raises
    SkillError."""
    skill, requires = parsed(main_of(package), Path(name) / "SKILL.md")
    fields = parse(split(main_of(package))[0])
    return skill, requires, tuple(key for key in fields if key not in _HEEDED | _WORDLESS)


def lines(package: Package, name: str, pin: PackagePin | None = None) -> Iterator[str]:
    """All of a skill, or the changes since it was last reviewed."""
    try:
        skill, requires, unheeded = front_of(package, name)
        yield revealed(f"{skill.name}: {skill.description}")
        if skill.always:
            yield "Always in the prompt, as a whole."
        yield from (f"Needs {_KINDS[kind]}: {revealed(', '.join(names))}" for kind, names in requires.items())
        if unheeded:
            yield f"Ignored, as a skill gives no rights: {revealed(', '.join(unheeded))}"
    except SkillError as error:
        yield f"It would be off: {revealed(str(error))}"
    yield from _warnings(package)
    yield from shown.lines(package, pin)


def _warnings(package: Package) -> Iterator[str]:
    """Lines that the owner is pointed to before a yes (beware.txt). One without such words may do the same."""
    for what, pattern in (
        line.split("\t") for line in Path(__file__).with_name("beware.txt").read_text("utf-8").splitlines()
    ):
        for path, file in package.files.items():
            if match := re.search(pattern, file.text or "", re.IGNORECASE | re.MULTILINE):
                where = f"{path}:{match.string.count(chr(10), 0, match.start()) + 1}"
                yield revealed(f"Careful, it {what}: {where} “{match[0][:120]}”")


def as_data(package: Package, name: str) -> dict[str, Any]:
    """The same for --json, without the texts."""
    found: dict[str, Any] = shown.as_data(package)
    try:
        skill, requires, unheeded = front_of(package, name)
    except SkillError as error:
        return {**found, "problem": str(error)}
    about = {"name": skill.name, "description": skill.description, "always": skill.always}
    return {**found, **about, "requires": {kind: list(names) for kind, names in requires.items()}, "unheeded": unheeded}
