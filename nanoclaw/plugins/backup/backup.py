"""One archive of the home and the workspace, checked by restoring it, and the way back from it."""

from __future__ import annotations

import json
import os
import sqlite3
import tarfile
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from nanoclaw.atomic_write import draft_folder, drafted, is_draft, reason, remove_drafts, sync_folder, write_atomically
from nanoclaw.core.errors import StoreError
from nanoclaw.plugins.backup.archive import PLAN, SECRETS, ArchiveWriter, is_part, unpack
from nanoclaw.start.opening import own

_OTHER_KINDS = frozenset({".zip", ".7z", ".rar", ".tar", ".bz2", ".xz", ".zst"})

WorkspaceOf = Callable[[Path], Path]
"""Finds the workspace by the config.toml in a folder. Raises ConfigError."""


class Made(NamedTuple):
    """`size` is that of the files, not of the archive. `left_out` names what it does not have, each with the reason."""

    files: int
    size: int
    left_out: tuple[str, ...]


class Restored(NamedTuple):
    """`aside` are the places where what was there before lies."""

    files: int
    workspace: Path
    aside: tuple[Path, ...]


def backup(
    home: Path, workspace: Path, file: Path, *, with_secrets: bool = False, derived: Collection[Path] = ()
) -> Made:
    """Write one archive of both and read it back. Works beside a running nanoclaw, and changes nothing. `derived` can
    be made again and is left out.

    Raises StoreError, and leaves no file, if it exists already, when something cannot be read and written, and when
    what comes out of it is not what went in.
    """
    file = file.absolute()
    if file.suffix.lower() in _OTHER_KINDS:
        raise StoreError(
            f"a backup is a .tar.gz, not a {file.suffix}: give a name such as {file.stem}.tar.gz. No backup was made."
        )
    if not file.parent.is_dir():
        raise StoreError(f"no backup was made: there is no folder {file.parent}.")
    remove_drafts([file.parent])
    if os.path.lexists(file):
        name = f"nanoclaw-{datetime.now().astimezone():%Y-%m-%d}.tar.gz"
        raise StoreError(f"{file} exists and is left as it is: give a new name, such as {name}")
    skip = frozenset(Path(os.path.realpath(path)) for path in derived)
    try:
        with draft_folder(file.parent) as scratch, drafted(file) as draft:
            with tarfile.open(draft, "w:gz", compresslevel=6, encoding="utf-8", errors="surrogateescape") as archive:
                made = ArchiveWriter(archive, scratch, skip)
                made.add_home(home, workspace, with_secrets=with_secrets)
                made.add_workspace(workspace, home)
                made.add_manifest()
            if unpack(draft, (scratch / "restored").joinpath, file) != made.files:
                raise StoreError("what was read back is not what was written: check the disk. No backup was made.")
    except sqlite3.Error as error:
        failed = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if failed in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):  # of what is written
            raise StoreError(f"no backup was made in {file}: the disk is full, or failing ({error}).") from error
        raise StoreError(
            f"no backup was made: {home / 'state.db'}: {error}. The next chat saves what it can."
        ) from error
    except OSError as error:
        raise StoreError(f"no backup was made in {file}: {_where(error, file)}{reason(error)}.") from error
    return Made(made.files, made.size, tuple(made.left_out))


def restore(file: Path, home: Path, workspace_of: WorkspaceOf) -> Restored:
    """Put an archive's home and workspace in place of what is there, which is kept aside; nothing is mixed.

    Raises StoreBusy while a nanoclaw uses the home, and StoreError for an archive that is damaged, newer or not ours;
    then nothing was changed.
    """
    if file.exists() and not file.is_file():
        raise StoreError(f"{file} is not a file, so it is not a backup. Nothing was changed.")
    stamp = f"before-restore-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _owned(home), ExitStack() as drafts:
            remove_drafts([home])
            new_home = drafts.enter_context(draft_folder(home)) / "home"
            new_home.mkdir(mode=0o700)
            place = _Place(home, new_home, workspace_of, drafts)
            files = unpack(file, place.of)
            moves = _moves(home, new_home, place, stamp)
            os.sync()
            _swap(home, moves)
    except OSError as error:
        raise StoreError(
            f"{file} was not restored: {_where(error, file)}{reason(error)}. Nothing was changed."
        ) from error
    aside = [Path(target) for _, target in moves if stamp in target]
    places = {home / stamp if home / stamp in path.parents else path for path in aside}
    return Restored(files, place.workspace, tuple(sorted(places)))


def finish_restore(home: Path) -> None:
    """Complete a restore that was cut short. Raises StoreBusy while it is under way, and StoreError if it cannot."""
    if not (home / PLAN).exists():
        return
    with _owned(home):
        try:
            moves = [(str(source), str(target)) for source, target in json.loads((home / PLAN).read_text())]
            for source, target in moves:
                _move(source, target)
            (home / PLAN).unlink()
            sync_folder(home)
        except (OSError, ValueError) as error:
            raise StoreError(
                f"a restore was cut short and cannot be completed: {error}. {home / PLAN} says what was "
                "to be moved where."
            ) from error


# --- putting in place ------------------------------------------------------------------------------------------------


class _Place:
    """Folders in which an archive is unpacked: beside where its parts will be, on the same disk."""

    def __init__(self, home: Path, new_home: Path, workspace_of: WorkspaceOf, drafts: ExitStack) -> None:
        self._home, self._new_home, self._workspace_of, self._drafts = home, new_home, workspace_of, drafts
        self._workspace: Path | None = None
        self.new_workspace: Path | None = None

    def of(self, top: str) -> Path:
        if top == "home":
            return self._new_home
        if self.new_workspace is None:
            parent = self.workspace.parent
            parent.mkdir(parents=True, exist_ok=True)
            self.new_workspace = self._drafts.enter_context(draft_folder(parent)) / "workspace"
            self.new_workspace.mkdir()
        return self.new_workspace

    @property
    def workspace(self) -> Path:
        """The folder that the restored config.toml names."""
        if self._workspace is None:
            found = Path(os.path.realpath(self._workspace_of(self._new_home)))
            if Path(os.path.realpath(self._home)).is_relative_to(found):
                raise StoreError(
                    f"the workspace {found} of this backup would contain the home itself; choose another home."
                )
            self._workspace = found
        return self._workspace


def _moves(home: Path, new_home: Path, place: _Place, stamp: str) -> list[tuple[str, str]]:
    """First what is there goes aside, the workspace before all; then what is new comes in."""
    aside, workspace, new_workspace = home / stamp, place.workspace, place.new_workspace
    secrets = (new_home / SECRETS).exists()
    inside = workspace.parent == Path(os.path.realpath(home))
    moves = []
    if workspace.exists():
        moves.append(
            (workspace, aside / workspace.name if inside else workspace.with_name(f"{workspace.name}.{stamp}"))
        )
    for path in sorted(home.iterdir()):
        follows = path.name.startswith(("index.db", "state.db-")) or is_part(path.name)
        if follows and os.path.realpath(path) != str(workspace) and (secrets or path.name != SECRETS):
            moves.append((path, aside / path.name))
    moves += [(path, home / path.name) for path in sorted(new_home.iterdir())]
    if new_workspace:
        moves.append((new_workspace, workspace))
    places = [str(target) for _, target in moves]
    if len(set(places)) < len(places):
        raise StoreError("the workspace of this backup would lie where another of its files does. Nothing was changed.")
    return [(str(source), str(target)) for source, target in moves]


def _swap(home: Path, moves: list[tuple[str, str]]) -> None:
    """All moves or none; one that is killed is completed at the next start."""
    write_atomically(home / PLAN, json.dumps(moves), mode=0o600)
    done = []
    try:
        for source, target in moves:
            _move(source, target)
            done.append((source, target))
        for folder in {Path(target).parent for _, target in moves}:
            sync_folder(folder)
    except OSError:
        for source, target in reversed(done):
            os.rename(target, source)  # noqa: PTH104
        for folder in {Path(target).parent for _, target in done}:
            with suppress(OSError):  # the one for what is kept aside, empty again
                folder.rmdir()
        raise
    finally:
        (home / PLAN).unlink(missing_ok=True)
        sync_folder(home)


def _move(source: str, target: str) -> None:
    """Unless it was done already."""
    if os.path.lexists(source) and not os.path.lexists(target):
        Path(target).parent.mkdir(exist_ok=True, mode=0o700)
        os.rename(source, target)  # noqa: PTH104


@contextmanager
def _owned(home: Path) -> Iterator[None]:
    lock = own(home / "state.db")
    try:
        yield
    finally:
        lock.close()


def _where(error: OSError, besides: Path | None = None) -> str:
    """The place that an error names, unless it is known, or a draft that no person has heard of."""
    place = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else None
    return "" if place in (None, besides) or any(map(is_draft, place.parts)) else f"{place}: "
