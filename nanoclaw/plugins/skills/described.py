"""A skill in words for its owner: what it asks for, its files in full, and what was changed since it was looked at."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nanoclaw.core.errors import SkillError
from nanoclaw.escapes import revealed
from nanoclaw.plugins.skills import front_matter
from nanoclaw.plugins.skills.package import Package
from nanoclaw.plugins.skills.pins import SkillPin
from nanoclaw.plugins.skills.skills import Requirements, Skill, parsed

MOST_SHOWN = 200_000
"""Characters of one file that are shown."""

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
    skill, requires = parsed(package.main, Path(name) / "SKILL.md")
    fields = front_matter.parse(front_matter.split(package.main)[0])
    return skill, requires, tuple(key for key in fields if key not in _HEEDED | _WORDLESS)


def lines(package: Package, name: str, pin: SkillPin | None = None) -> Iterator[str]:
    """All of a skill; of one that was looked at before, what was changed since."""
    try:
        skill, requires, unheeded = front_of(package, name)
        yield revealed(f"{skill.name}: {skill.description}")
        if skill.always:
            yield "Always in the prompt, as a whole."
        yield from (f"Needs {_KINDS[kind]}: {revealed(', '.join(names))}" for kind, names in requires.items())
        if unheeded:
            yield f"Not heeded, as a skill gives no rights: {revealed(', '.join(unheeded))}"
    except SkillError as error:
        yield f"It would be off: {revealed(str(error))}"
    was = pin.hashes if pin else {}
    yield f"Files ({package.sha256[:12]}):"
    for path, file in package.files.items():
        told = [f"{len(file.data):,} bytes"]
        told += ["script"] if package.is_script(path) else []
        told += [] if file.text is not None else ["no text"]
        told += ["new"] if pin and path not in was else []
        told += ["changed"] if path in was and was[path] != package.hashes[path] else []
        yield f"  {revealed(path)} ({', '.join(told)})"
    yield from (f"  {revealed(path)} (taken away)" for path in was if path not in package.files)
    for path, file in package.files.items():
        if pin and was.get(path) == package.hashes[path]:
            continue
        if file.text is not None:
            yield ""
            before = pin.texts.get(path) if pin else None
            yield f"--- {revealed(path)}{' (what was changed)' if before is not None else ''}"
            yield from _text(file.text, before)


def _text(text: str, before: str | None) -> Iterator[str]:
    if before is not None:
        changes = list(difflib.unified_diff(before.splitlines(), text.splitlines(), lineterm="", n=3))[2:]
        text = "\n".join(changes) or "(only the ends of lines)"
    shown = revealed(text[:MOST_SHOWN]).rstrip("\n")
    yield f"{shown}\n[{len(text) - MOST_SHOWN:,} characters more]" if len(text) > MOST_SHOWN else shown


def as_data(package: Package, name: str) -> dict[str, Any]:
    """The same for --json, without the texts."""
    files: list[Mapping[str, object]] = [
        {"path": path, "bytes": len(file.data), "script": package.is_script(path), "sha256": package.hashes[path]}
        for path, file in package.files.items()
    ]
    found: dict[str, Any] = {"sha256": package.sha256, "files": files}
    try:
        skill, requires, unheeded = front_of(package, name)
    except SkillError as error:
        return {**found, "problem": str(error)}
    about = {"name": skill.name, "description": skill.description, "always": skill.always}
    return {**found, **about, "requires": {kind: list(names) for kind, names in requires.items()}, "unheeded": unheeded}
