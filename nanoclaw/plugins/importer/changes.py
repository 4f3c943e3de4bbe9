"""Changes of files by an import: each can be made again after a crash, and taken back."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import NamedTuple

from nanoclaw.atomic_write import replace_in
from nanoclaw.beneath.paths import open_named, open_parent_named
from nanoclaw.plugins.importer.found import ForeignHome, clean

Roots = Mapping[str, Path]


class FileChange(NamedTuple):
    """A file below "workspace" or "skills" gets this `text`, None takes it away. `before` is what is there, None for
    nothing: a template of ours, if anything; but what is added (`adds`) goes to the end of whatever is there. `why`
    tells the person."""

    root: str
    name: str
    text: str | None
    before: str | None = None
    adds: bool = False
    why: str = ""


def planned(found: ForeignHome, roots: Roots, templates: Path, today: date) -> list[FileChange]:
    """The changes that an import makes. Raises OSError for what is no plain file."""
    changes, workspace = list[FileChange](), roots["workspace"]

    def change(name: str, text: str | None, *, adds: bool = False, why: str = "") -> None:
        there, text = content(workspace, name), None if text is None else clean(text)
        changes.append(FileChange("workspace", name, text, "" if adds and there else there, adds, why))

    def is_ours(name: str) -> bool:
        """True where the person has written nothing."""
        there, template = (content(workspace, name) or "").strip(), templates / name
        return not there or (template.is_file() and template.read_text("utf-8").strip() == there)

    for name, text in found.files.items():
        if is_ours(name):
            change(name, f"{text}\n")
        elif (content(workspace, name) or "").strip() != text:
            beside = (f"{name.removesuffix('.md')}.{found.source}{n}.md" for n in ("", *range(2, 1_000)))
            change(next(one for one in beside if content(workspace, one) is None), f"{text}\n", why=f"{name} stays")
    if found.files.keys() & {"SOUL.md", "USER.md"} and content(workspace, "BOOTSTRAP.md") and is_ours("BOOTSTRAP.md"):
        change("BOOTSTRAP.md", None)
    head = f"## Imported from {found.source}"
    if found.facts:
        parts = (re.sub(r"^#+ ", r"#\g<0>", re.sub(r"\A# .*\n+", "", one), flags=re.M) for one in found.facts.values())
        change("MEMORY.md", "\n".join(["", f"{head}, {today.day} {today:%b %Y}", "", *parts, ""]), adds=True)
    for day, lines in found.notes.items():
        change(f"memory/{day}.md", "\n".join(["", head, "", *lines, ""]), adds=True)
    for skill, files in found.skills.items():
        if not (roots["skills"] / skill).exists():
            changes += [FileChange("skills", f"{skill}/{name}", data) for name, data in files.items()]
    return changes


def content(root: Path, name: str) -> str | None:
    """Every byte of it; None where nothing is. Raises OSError for what is no plain file."""
    try:
        with open_named(root, name) as file:
            return file.read().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return None


def make(one: FileChange, root: Path) -> str:
    """Make a change, unless it is made; a sentence if another hand was quicker. Raises OSError."""
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    now = content(root, one.name)
    if one.adds and one.text:
        if one.text not in (now or ""):
            _write(root, one.name, (now or "") + ("\n" if now and not now.endswith("\n") else "") + one.text)
    elif now == one.before:
        _write(root, one.name, one.text)
    elif now != one.text:
        return f"{one.name} was changed meanwhile, and stays as it is"
    return ""


def take_back(one: FileChange, root: Path) -> str:
    """Undo a change; a sentence about what was changed since, and stays. Raises OSError."""
    now = content(root, one.name)
    if one.adds and one.text and now is not None:
        ours = frozenset(filter(str.strip, one.text.splitlines()))  # where somebody has changed some since, that stays
        rest = "".join(line for line in now.splitlines(keepends=True) if line.rstrip("\r\n") not in ours)
        rest = now.replace(one.text, "", 1) if one.text in now else rest
        _write(root, one.name, None if one.before is None and not rest.strip() else rest)
    elif now == one.text:
        _write(root, one.name, one.before)
    elif now != one.before:
        return f"{one.name} was changed since, and stays"
    return ""


def _write(root: Path, name: str, text: str | None) -> None:
    """Replace a file's content; None removes it, and folders of a skill that are empty then."""
    with open_parent_named(root, name) as (folder, file):
        if text is not None:
            replace_in(folder, file, text.encode("utf-8", "surrogateescape"))
            return
        with suppress(FileNotFoundError):
            os.unlink(file, dir_fd=folder)
        os.fsync(folder)
    for parent in (root / name).parents:
        if parent == root or any(parent.iterdir()):
            return
        parent.rmdir()
