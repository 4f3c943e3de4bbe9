"""Files and folders: who may read and change them, whether they are what they should be, and how much room there is."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nanoclaw.atomic_write import reason, try_writing
from nanoclaw.core.errors import WorkspaceError
from nanoclaw.core.plugin import Finding
from nanoclaw.core.store.db import FULL_BYTES
from nanoclaw.start import home, secrets_file
from nanoclaw.start.config import Config

SHOWN = 5
"""Most files that one line names."""

LITTLE_BYTES, FEW_BYTES = 1_000_000_000, 100_000_000
"""Free bytes below which a disk gets a note, and below which something must be done."""

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OWN = ("state.db", "state.db-wal", "state.db-shm", "state.lock")
"""Files that the program must be able to write."""


# --- who may read and change them ------------------------------------------------------------------------------------


def exposed(config: Config) -> Iterator[Finding]:
    """Files of the home that other users of this machine can read or change."""

    async def close_home() -> str:
        config.home.chmod(config.home.stat().st_mode & ~_OTHERS)
        return f"{config.home} is closed to others"

    async def close_keys() -> str:
        closed = [path for path in (config.home / secrets_file.NAME, config.file) if _is_open(path)]
        for path in closed:
            path.chmod(path.stat().st_mode & ~_OTHERS)
        return f"closed to others: {', '.join(map(str, closed))}"

    if keys := list(secrets_file.readable_by_others(config.home, config.keys.written)):
        yield Finding(False, " ".join(keys), "permissions", close_keys, "bad")
    if not config.home.exists():
        return
    if not _is_open(config.home):
        yield Finding(True, f"{config.home} is closed to other users of this machine", "permissions")
        return
    opened = list(_opened(config))
    what = f"read {_some(opened)}" if opened else f"look into {config.home}"
    text = f"other users of this machine can {what}: run chmod go-rwx {config.home}"
    if set(opened) <= {config.file.name}:  # keys in it have the line above
        yield Finding(True, text, "permissions", close_home, "warning")
    else:
        yield Finding(False, text, "permissions", close_home, "bad")


def exposed_workspace(config: Config) -> Iterator[Finding]:
    """A workspace outside of the home that other users of this machine can read or change."""
    folder = config.workspace_path
    if folder.is_relative_to(config.home) or not folder.is_dir():
        return
    mode = folder.stat().st_mode
    if not all(one.stat().st_mode & stat.S_IXOTH for one in folder.parents):  # nobody else comes so far
        return
    if mode & stat.S_IWOTH:
        text = f"other users of this machine can change {folder}, which the assistant reads: run chmod o-w {folder}"
        yield Finding(False, text, "permissions", risk="bad")
    elif mode & stat.S_IROTH:
        text = f"other users of this machine can read {folder}, your notes too: chmod o-rwx {folder} closes it"
        yield Finding(True, text, "permissions", risk="warning")


def locked(config: Config) -> Iterator[Finding]:
    """Folders and files of the home that the program cannot use because of their mode or owner."""
    shut, foreign = list[Path](), list[Path]()
    for path, found in _inside(config):
        if stat.S_ISLNK(found.st_mode):
            continue
        if found.st_uid != os.geteuid() and os.geteuid():
            foreign.append(path)
        elif _is_shut(config, path, found):
            shut.append(path)

    async def unlock() -> str:
        """The paths of the home, each folder before its content, which can be seen only then."""
        mended = list[Path]()
        for path, found in _inside(config):
            if _is_shut(config, path, found):
                path.chmod(stat.S_IMODE(found.st_mode | _wanted(config, path, found.st_mode)))
                mended.append(path)
        return f"you may use them again: {_some(mended)}"

    if shut:
        verb, what = ("are", "them") if len(shut) > 1 else ("is", "it")
        text = f"{_some(shut)} {verb} closed to you, so nanoclaw cannot use {what}: run chmod -R u+rwX {config.home}"
        yield Finding(False, text, "permissions", unlock)
    if foreign:
        text = f"{_some(foreign)} belong to another user (was nanoclaw run with sudo?): run "
        yield Finding(False, f"{text}sudo chown -R {os.geteuid()} {config.home}", "permissions")
    if not os.geteuid() and config.home.exists() and (uid := config.home.stat().st_uid):
        text = f"you are root, and {config.home} is of user {uid}, who cannot use the files that you create there"
        yield Finding(True, text, "permissions", risk="note")


def is_closed(config: Config) -> bool:
    """True if the home exists but nothing in it can be seen."""
    return config.home.is_dir() and not os.access(config.home, os.R_OK | os.X_OK)


def _inside(config: Config) -> Iterator[tuple[Path, os.stat_result]]:
    """The home and what is in it, except the workspace."""
    with suppress(OSError):
        yield config.home, config.home.lstat()
    for folder, folders, files in os.walk(config.home):
        here = Path(folder)
        folders[:] = [one for one in sorted(folders) if here / one != config.workspace_path]
        for name in (*folders, *sorted(files)):
            with suppress(OSError):  # it is gone
                yield here / name, (here / name).lstat()


def _wanted(config: Config, path: Path, mode: int) -> int:
    """The rights that the owner needs."""
    if stat.S_ISDIR(mode):
        return stat.S_IRWXU
    if path.parent == config.home and path.name in _OWN:
        return stat.S_IRUSR | stat.S_IWUSR
    return stat.S_IRUSR if stat.S_ISREG(mode) else 0


def _is_shut(config: Config, path: Path, found: os.stat_result) -> bool:
    wanted = _wanted(config, path, found.st_mode)
    return not stat.S_ISLNK(found.st_mode) and found.st_mode & wanted != wanted


def _opened(config: Config) -> Iterator[str]:
    """Paths below the home that others can read or change, without the workspace, which may be shared."""
    for folder, folders, files in os.walk(config.home):
        here = Path(folder)
        folders[:] = [one for one in sorted(folders) if here / one != config.workspace_path and _is_open(here / one)]
        yield from (str((here / one).relative_to(config.home)) for one in sorted(files) if _is_open(here / one))


def _is_open(path: Path) -> bool:
    with suppress(OSError):  # it is gone
        mode = path.lstat().st_mode
        return not stat.S_ISLNK(mode) and bool(mode & _OTHERS)
    return False


def _some(names: list[str] | list[Path]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(map(str, names[:SHOWN])) + more


# --- the folders -----------------------------------------------------------------------------------------------------


def folders(config: Config) -> Iterator[Finding]:
    """Checks that home and workspace exist and have room for a new file."""

    async def make() -> str:
        made = home.make_home(config)
        return f"made {config.workspace_path}, with {', '.join(made)}" if made else f"made {config.workspace_path}"

    folder = config.workspace_path
    if not os.path.lexists(folder):
        if not (config.home / "state.db").exists():
            yield Finding(True, f"{folder} is not there yet: the first start makes it", "workspace", make)
        elif folder.parent.is_dir():
            where = "If it is on a disk that is not connected now, connect it; otherwise the next start makes a new one"
            yield Finding(False, f"{folder} is gone, and your notes with it. {where}.", "workspace", make)
        else:
            where = "connect the disk that it is on, or correct [workspace] path in config.toml"
            yield Finding(False, f"{folder} is gone, and so is {folder.parent}: {where}.", "workspace")
        return
    try:
        try_writing(folder)
    except OSError as error:
        advice = "Give another folder ([workspace] path), or make this one writable."
        raise WorkspaceError(f"the workspace {str(folder)!r} cannot be used: {reason(error)}. {advice}") from None
    yield Finding(True, str(folder), "workspace")


# --- the disk --------------------------------------------------------------------------------------------------------


def room(config: Config) -> Iterator[Finding]:
    """Free space for the home and for the workspace, a line for each disk."""
    disks = dict[int, tuple[Path, Path]]()
    for folder in (config.home, config.workspace_path):
        there = next(one for one in (folder, *folder.parents) if one.exists())
        disks.setdefault(there.stat().st_dev, (folder, there))
    for folder, there in disks.values():
        free, found = shutil.disk_usage(there).free, os.statvfs(there)
        said = f"{_size(free)} are free for {folder}"
        if free < FULL_BYTES:
            text = f"the disk of {folder} is full: nothing more can be saved. Free some space."
            yield Finding(False, text, "disk")
        elif found.f_files and not found.f_favail:
            text = f"the disk of {folder} cannot hold more files, though it has space: delete files that you don't need"
            yield Finding(False, text, "disk")
        elif free < max(FEW_BYTES, 2 * _bytes_of(config.home / "state.db")):
            yield Finding(False, f"only {said}: free some space.", "disk")
        elif free < LITTLE_BYTES:
            yield Finding(True, f"{said}, which is little.", "disk", risk="note")
        else:
            yield Finding(True, said, "disk")


def _bytes_of(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


def _size(count: int) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.1f} MB"
