"""Folders besides the workspace that tools may open, and what must not be one of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from nanoclaw.core.errors import ConfigError
from nanoclaw.named_tuple import NamedTuple


class ExtraFolders(NamedTuple):
    """Folders besides the workspace that file tools and commands may open."""

    read: tuple[str, ...] = ()  # folders that may be read: ["~/Documents"]
    write: tuple[str, ...] = ()  # folders that may be read and written

    def paths(self) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
        return _paths(self.read), _paths(self.write)

    def missing(self) -> Iterator[str]:
        for key, given in self._asdict().items():
            for one, path in zip(given, _paths(given), strict=True):
                if not path.exists():
                    yield f"files.{key}: there is no folder {one!r}, so it has no effect."


_SYSTEM = ("/proc", "/sys")


def check(home: Path, workspace: Path, extra: ExtraFolders) -> None:
    """Raises ConfigError for a folder that is the program's own, or the system's. One around the home is none: what is
    in the home is not opened there either."""
    if _real(workspace) == _real(home):
        raise ConfigError(f"workspace.path: {workspace} has the program's keys: give another folder, or one in it.")
    if _is_in(workspace, home) and _real(workspace).relative_to(_real(home)).parts[0] in _OWN:
        raise ConfigError(f"workspace.path: {workspace} belongs to the program: give another folder.")
    _check_kind("workspace.path", str(workspace), workspace)
    for key, given in extra._asdict().items():
        for one, path in zip(given, _paths(given), strict=True):
            _check_kind(f"files.{key}", one, path)
            if _is_in(path, home) and not _is_in(path, workspace):
                raise ConfigError(
                    f"files.{key}: {one!r} is part of {home}, which has the program's settings, keys and conversations "
                    "and is closed to tools: give another folder."
                )


def _check_kind(key: str, given: str, path: Path) -> None:
    if not path.is_absolute() or str(_real(path)) in ("/", "/dev") or any(_is_in(path, Path(one)) for one in _SYSTEM):
        raise ConfigError(f'{key}: {given!r} must be a folder such as "~/Documents".')
    if key != "workspace.path" and path.exists() and not path.is_dir():
        raise ConfigError(f"{key}: {given!r} is a file: give the folder that it is in.")


_OWN = frozenset({"plugins", "logs", "undo", "models"})


def _paths(given: tuple[str, ...]) -> tuple[Path, ...]:
    return tuple(Path(one).expanduser() for one in given)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _is_in(path: Path, folder: Path) -> bool:
    return _real(path).is_relative_to(_real(folder))
