"""Models that run inside this process: the ones that can be pulled, and the ones that are on disk."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from nanoclaw.core.errors import ConfigError
from nanoclaw.installation import start_command

PREFIX = "local/"


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model of local_models.toml."""

    name: str
    file: str
    size: int
    sha256: str
    licence: str
    url: str
    wheel: str
    wheel_version: str
    part_size: int
    least_memory: int
    part: str = "part{:02}.bin"
    beside: tuple[LocalModel, ...] = ()
    """Small files that belong to it."""

    @property
    def parts(self) -> int:
        return -(-self.size // self.part_size)

    def draft(self, folder: Path) -> Path:
        """The file that a pull fills, beside the model's own."""
        return folder / f"{self.file}.part"


@dataclass(frozen=True, slots=True)
class Installed:
    name: str
    path: Path
    size: int


@cache
def catalogue() -> tuple[LocalModel, ...]:
    """The models that can be pulled, the best first."""
    text = Path(__file__).with_name("local_models.toml").read_text(encoding="utf-8")
    return tuple(_entry(**entry) for entry in tomllib.loads(text)["models"])


def _entry(beside: Sequence[Mapping[str, Any]] = (), **fields: Any) -> LocalModel:
    made = LocalModel(**fields)
    return replace(made, beside=tuple(replace(made, **one, part_size=one["size"]) for one in beside))


def recommended(free_bytes: int | None = None) -> LocalModel:
    """The best model for the free memory (of this machine, unless given)."""
    free = free_memory() if free_bytes is None else free_bytes
    return next(entry for entry in catalogue() if free >= entry.least_memory)


def find(name: str) -> LocalModel:
    """The entry of a name, with or without "local/"; raises ConfigError."""
    wanted = name.removeprefix(PREFIX).casefold()
    for entry in catalogue():
        if wanted == entry.name:
            return entry
    names = [entry.name for entry in catalogue()]
    near = difflib.get_close_matches(wanted, names, 1) or names
    raise ConfigError(f"there is no local model {name!r}. Known: {', '.join(near)}")


def locate(model: str, folder: Path) -> Path:
    """The file of "local/<catalogue name>" or "local/<path of a GGUF file>"; raises ConfigError when it is missing."""
    wanted = model.removeprefix(PREFIX)
    entry = next((one for one in catalogue() if one.name == wanted.casefold()), None)
    path = folder / entry.file if entry else Path(wanted).expanduser()
    if path.is_file():
        return path
    if entry:
        pull = f"{start_command()} local pull {entry.name}"
        raise ConfigError(f"the local model {entry.name} is not on this machine yet: {pull}")
    if "/" not in wanted and not wanted.endswith(".gguf"):
        find(wanted)  # a misspelt name
    raise ConfigError(f"no model file {path}. Give the path of a GGUF file, or: {start_command()} local pull")


def installed(folder: Path) -> list[Installed]:
    """The models in the folder: those of the catalogue by name, others by file name."""
    names = {entry.file: entry.name for entry in catalogue()}
    files = sorted(folder.glob("*.gguf")) if folder.is_dir() else []
    return [Installed(names.get(file.name, file.name), file, file.stat().st_size) for file in files]


def remove(name: str, folder: Path) -> int:
    """Delete a model and what an unfinished pull of it left behind; the number of bytes freed. Raises ConfigError."""
    entry = find(name)
    freed = 0
    for file in (path for one in (*entry.beside, entry) for path in (folder / one.file, one.draft(folder))):
        if file.exists():
            freed += file.stat().st_size
            file.unlink()
    if not freed:
        raise ConfigError(f"the local model {entry.name} is not on this machine")
    return freed


def free_memory() -> int:
    """Bytes of memory that could be used now; a guess from the total where the system doesn't tell."""
    try:
        available = re.search(r"^MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    except OSError:
        available = None
    if available:
        return int(available.group(1)) * 1024
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (OSError, ValueError):
        return 0
