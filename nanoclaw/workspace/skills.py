"""Skills: folders with a SKILL.md whose front matter says what it is for. The first folder that has a name wins."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

SYSTEMS = {"linux": "linux", "darwin": "darwin", "win32": "windows"}


@dataclass(frozen=True, slots=True)
class Skill:
    """`missing` says what this machine lacks for it, such as "gh (command)"."""

    name: str
    description: str
    path: Path
    always: bool = False
    missing: tuple[str, ...] = ()


def discover(folders: Iterable[Path]) -> tuple[Skill, ...]:
    """All usable skills by name. A broken one is left out with a warning; a name's first folder wins."""
    found: dict[str, Skill] = {}
    for folder in folders:
        for path in sorted(folder.glob("*/SKILL.md")) if folder.is_dir() else ():
            if path.parent.name not in found and (loaded := _load(path, _stamp(path))):
                skill, front = loaded
                found[skill.name] = replace(skill, missing=_missing(front))
    return tuple(found[name] for name in sorted(found))


def body(skill: Skill) -> str:
    """The text below the front matter; '' when it has become unreadable."""
    try:
        return _split(skill.path.read_text(encoding="utf-8"))[1].strip()
    except (OSError, ValueError):
        return ""


def summary(skills: Iterable[Skill]) -> str:
    """What a model chooses from: one XML element a skill."""
    lines = ["<skills>"]
    for skill in skills:
        missing = f' available="false" missing="{_escape(", ".join(skill.missing))}"' if skill.missing else ""
        lines.append(
            f'<skill name="{_escape(skill.name)}" location="{_escape(str(skill.path))}"{missing}>'
            f"{_escape(skill.description)}</skill>"
        )
    return "\n".join([*lines, "</skills>"])


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=1024)  # parsed, and warned of, once for each state of the file
def _load(path: Path, stamp: tuple[int, int]) -> tuple[Skill, Mapping[str, object]] | None:
    """A skill and its front matter; what is missing for it may change while the file does not."""
    try:
        if not path.is_file():
            raise ValueError("it is no plain file")
        front, _ = _split(path.read_text(encoding="utf-8"))
        name, description = _text(front, "name"), _text(front, "description")
        if name != path.parent.name:
            raise ValueError(f"its name {name!r} is not its folder's")
        return Skill(name, description, path, front.get("always") is True), front
    except (OSError, ValueError) as error:
        from nanoclaw.log import logger

        logger.warning("skill {} is off: {}", path, error)
        return None


def _split(text: str) -> tuple[Mapping[str, object], str]:
    """Front matter and the rest. Raises ValueError with the reason."""
    parts = text.removeprefix("\ufeff").split("---\n", 2) if text.lstrip("\ufeff").startswith("---\n") else []
    if len(parts) != 3:
        raise ValueError("it must begin with front matter between two lines of ---")
    import yaml

    try:
        front = yaml.safe_load(parts[1])
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"its front matter is not YAML: {error}") from error
    if not isinstance(front, dict):
        raise ValueError("its front matter is not a mapping")
    return front, parts[2]


def _text(front: Mapping[str, object], key: str) -> str:
    value = front.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"its front matter lacks {key!r}")
    return " ".join(value.split())


def _missing(front: Mapping[str, object]) -> tuple[str, ...]:
    requires = _requirements(front)
    missing = [f"{name} (command)" for name in _names(requires, "bins") if not shutil.which(name)]
    any_of = _names(requires, "anyBins")
    if any_of and not any(shutil.which(name) for name in any_of):
        missing.append(f"one of {', '.join(any_of)} (command)")
    missing += [f"{name} (environment)" for name in _names(requires, "env") if not os.environ.get(name)]
    systems = _names(requires, "os")
    if systems and SYSTEMS.get(sys.platform, sys.platform) not in systems:
        missing.append(f"{' or '.join(systems)} (system)")
    return tuple(missing)


def _requirements(front: Mapping[str, object]) -> Mapping[str, object]:
    metadata = front.get("metadata")
    for key in ("nanoclaw", "openclaw", "clawdbot", "nanobot"):
        ours = metadata.get(key) if isinstance(metadata, dict) else None
        if isinstance(ours, dict):
            requires = ours.get("requires", {})
            return {**(requires if isinstance(requires, dict) else {}), **({"os": ours["os"]} if "os" in ours else {})}
    return {}


def _names(requires: Mapping[str, object], key: str) -> list[str]:
    value = requires.get(key, [])
    return [str(name) for name in (value if isinstance(value, list) else [value])]


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
