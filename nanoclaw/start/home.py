"""The home folder: made at the first start, locked while it is, and what ships with the program."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from nanoclaw.atomic_write import reason, sync_folder, try_writing, write_atomically
from nanoclaw.bootstrap_files import NAMES
from nanoclaw.core.errors import ConfigError, WorkspaceError
from nanoclaw.core.store.db import Store
from nanoclaw.start.config import Config
from nanoclaw.start.opening import open_store, read_store


def shipped(name: str) -> Path:
    """A folder that comes with the program: inside the package when installed, beside it in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "shipped" / name
    return inside if inside.is_dir() else package.parent / name


def make_home(config: Config) -> list[str]:
    """The home folder, and at the very first run the workspace from its template. Returns the names of new files."""
    try:
        config.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise WorkspaceError(
            f"cannot make {config.home}: {error.strerror}. Check its permissions, or set NANOCLAW_HOME."
        ) from error
    refuse_pipes(config)
    if config.workspace_path.exists():
        return []
    lock = os.open(config.home, os.O_RDONLY)
    try:
        with suppress(OSError):  # a network drive may not know locks
            fcntl.flock(lock, fcntl.LOCK_EX)  # of several first runs one makes it
        is_made = config.workspace_path.exists()
        return [] if is_made else seed(config.workspace_path, shipped("workspace_template"))
    finally:
        os.close(lock)


def check_writable(workspace: Path) -> None:
    """Raises WorkspaceError unless files can be made there; makes the folder when it is missing."""
    try:
        workspace.mkdir(parents=True, exist_ok=True)
        try_writing(workspace)
    except OSError as error:
        advice = "Give another folder, or make this one writable."
        raise WorkspaceError(f"the workspace {str(workspace)!r} cannot be used: {reason(error)}. {advice}") from None


def seed(root: Path, template: Path) -> list[str]:
    """Copy the template into a folder that is missing or no workspace yet; returns the new names.

    Nothing is overwritten, and in a workspace nothing comes back that the person took away. Raises WorkspaceError if
    the folder cannot be made or written.
    """
    made: list[str] = []
    is_new = not os.path.lexists(root)
    if any(os.path.lexists(root / name) for name in (*NAMES, "memory")):
        return made
    place = root.with_name(f".draft-of-{root.name}") if is_new else root
    try:
        if is_new:  # half a workspace would count as one, and never be completed
            shutil.rmtree(place, ignore_errors=True)
        (place / "memory").mkdir(parents=True, exist_ok=True)
        for source in sorted(template.glob("*.md")):
            if not os.path.lexists(place / source.name):
                write_atomically(place / source.name, source.read_bytes())
                made.append(source.name)
        if is_new:
            place.rename(root)
            sync_folder(root.parent)
    except (OSError, WorkspaceError) as error:
        if is_new:  # once it has its name it is whole, and stays
            shutil.rmtree(place, ignore_errors=True)
        else:
            for name in made:
                (root / name).unlink(missing_ok=True)
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise WorkspaceError(
            f"cannot write to the workspace {root}: {why.rstrip('.')}. Check its permissions and the free space, "
            "or choose another folder ([workspace] path in config.toml)."
        ) from error
    return made


def refuse_pipes(config: Config) -> None:
    """Raises WorkspaceError for a pipe or a device in the place of a file, at which a reader would wait for ever."""
    for folder in (config.home, *(config.home / "plugins").glob("*/")):
        for name in _names(folder):
            with suppress(OSError):  # it is gone
                found = (folder / name).stat()
                if name == "history" and os.path.samestat(found, Path(os.devnull).stat()):
                    continue  # by who wants none
                if stat.S_IFMT(found.st_mode) in (stat.S_IFIFO, stat.S_IFCHR, stat.S_IFBLK):
                    raise WorkspaceError(f"{folder / name} is not a plain file, as it must be: move it away.")


def _names(folder: Path) -> list[str]:
    """All but plain files and folders; config.toml has a last good copy."""
    with suppress(OSError), os.scandir(folder) as found:
        return [one.name for one in found if not one.is_file() and not one.is_dir() and one.name != "config.toml"]
    return []


@contextmanager
def stored(config: Config, how: Literal["read", "beside", "own"] = "read") -> Iterator[Store | None]:
    """The store, None before there is one: only to be read, to be written beside whoever owns it, or as its owner."""
    path = config.home / "state.db"
    if not path.exists():
        yield None
        return
    refuse_pipes(config)
    store = read_store(path) if how == "read" else open_store(path, beside=how == "beside")
    try:
        yield store
    finally:
        store.close()


def places_of_drafts(config: Config, store: Store | None) -> Iterator[Path]:
    """Folders in which a crash may have left drafts of files; in the middle of a turn those of all the workspace."""
    yield from (config.home / name for name in ("", "undo", "plugins", "skills"))
    yield from (config.home / "plugins").glob("*/")
    if store and store.rows("SELECT 1 FROM turns WHERE ended IS NULL LIMIT 1"):
        yield from (Path(folder) for folder, _, _ in os.walk(config.workspace_path))
    else:
        root = config.workspace_path
        yield from (root, root / "memory", *(root / "media").glob("*/"))


# --- folders that tools may open --------------------------------------------------------------------------------------


def check_folders(config: Config) -> None:
    """Raises ConfigError for a folder that is the program's own, or the system's. One around the home is none: what is
    in the home is not opened there either."""
    home, workspace = config.home, config.workspace_path
    if _real(workspace) == _real(home):
        raise ConfigError(f"workspace.path: {workspace} has the program's keys: give another folder, or one in it.")
    if _is_in(workspace, home) and _real(workspace).relative_to(_real(home)).parts[0] in _OWN:
        raise ConfigError(f"workspace.path: {workspace} belongs to the program: give another folder.")
    _check_kind("workspace.path", str(workspace), workspace)
    for key, given, paths in zip(config.files._fields, config.files, config.files.paths(), strict=True):
        for one, path in zip(given, paths, strict=True):
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


_SYSTEM = ("/proc", "/sys")
_OWN = frozenset({"plugins", "logs", "undo", "models"})


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _is_in(path: Path, folder: Path) -> bool:
    return _real(path).is_relative_to(_real(folder))
