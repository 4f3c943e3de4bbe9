"""One archive of the home and the workspace, checked by restoring it, and the way back from it."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import sqlite3
import stat
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from nanoclaw.atomic_write import (
    draft_folder,
    drafted,
    is_draft,
    reason,
    remove_drafts,
    sync_folder,
    write_atomically,
)
from nanoclaw.core.errors import StoreError
from nanoclaw.core.store.copies import copy_database, is_whole
from nanoclaw.core.store.db import own
from nanoclaw.core.store.format import format_in_header, newest_format

FORMAT = 1
"""Of the archive: files and links below home/ and workspace/, and manifest.json as the last of all."""

MANIFEST = "manifest.json"
LARGEST_MANIFEST = 256_000_000
SECRETS = "secrets.env"
PLAN = "restoring.json"
"""In the home: the moves of a restore under way, so that one that was cut short is completed at the next start."""

_OTHER_KINDS = frozenset({".zip", ".7z", ".rar", ".tar", ".bz2", ".xz", ".zst"})
_PIECE = 1 << 20
_IN_MEMORY = 8 << 20
_NOT_KEPT = frozenset({"copies", "logs", "models", "history", "state.lock", "gateway.sock", "schedule.tick", PLAN})
_NOT_KEPT_BEGINNINGS = ("index.db", "state.db-", "state.db.", "before-restore-", "forgotten.")
"""Names in the home of what is made anew, belongs to this machine or a process, is a copy already or is to be gone."""

WorkspaceOf = Callable[[Path], Path]
"""Where the workspace lies by the config.toml in a folder. Raises ConfigError."""


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


@dataclass(slots=True)
class _Contents:
    """What an archive holds: size and SHA-256 of each file, the target of each link, and the folders."""

    files: dict[str, tuple[int, str]] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def backup(home: Path, workspace: Path, file: Path, *, with_secrets: bool = False) -> Made:
    """Write one archive of both and read it back. Works beside a running nanoclaw, and changes nothing.

    Raises StoreError, and leaves no file, when it exists already, when something cannot be read or written, and when
    what comes out of it is not what went in.
    """
    file = file.absolute()
    if file.suffix.lower() in _OTHER_KINDS:
        raise StoreError(
            f"a backup is a .tar.gz, not a {file.suffix}: give a name such as {file.stem}.tar.gz. No backup was made."
        )
    if not file.parent.is_dir():
        raise StoreError(f"no backup was made: there is no folder {file.parent}.")
    if os.path.lexists(file):
        raise StoreError(f"{file} exists and is left as it is: give a new name, such as nanoclaw-{_today()}.tar.gz")
    try:
        remove_drafts([file.parent])
        with draft_folder(file.parent) as scratch, drafted(file) as draft:
            with draft.open("wb") as out:
                contents = _write(out, home, workspace, scratch, with_secrets)
            unpacked = scratch / "restored"
            found = _unpack(draft, lambda top: unpacked / top, name=file)
            if (found.files, found.links, found.folders) != (contents.files, contents.links, contents.folders):
                raise StoreError("what was read back is not what was written: check the disk. No backup was made.")
    except sqlite3.Error as error:
        raise StoreError(
            f"no backup was made: {home / 'state.db'}: {error}. The next chat saves what it can."
        ) from error
    except OSError as error:
        raise StoreError(f"no backup was made in {file}: {_where(error, file)}{reason(error)}.") from error
    return Made(len(contents.files), sum(size for size, _ in contents.files.values()), tuple(contents.left_out))


def restore(file: Path, home: Path, workspace_of: WorkspaceOf) -> Restored:
    """Put an archive's home and workspace in place of what is there, which is kept aside; nothing is mixed.

    Raises StoreBusy while a nanoclaw uses the home, and StoreError for an archive that is damaged, newer or not ours;
    then nothing was changed.
    """
    if file.exists() and not file.is_file():
        raise StoreError(f"{file} is no file, so no backup. Nothing was changed.")
    stamp = f"before-restore-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _owned(home), ExitStack() as drafts:
            remove_drafts([home])
            new_home = drafts.enter_context(draft_folder(home)) / "home"
            new_home.mkdir(mode=0o700)
            place = _Place(home, new_home, workspace_of, drafts)
            contents = _unpack(file, place.of)
            moves = _moves(home, new_home, place.workspace, place.new_workspace, stamp, SECRETS in _tops(contents))
            os.sync()
            _swap(home, moves)
    except OSError as error:
        raise StoreError(
            f"{file} was not restored: {_where(error, file)}{reason(error)}. Nothing was changed."
        ) from error
    aside = [Path(target) for _, target in moves if stamp in target]
    places = {home / stamp if home / stamp in path.parents else path for path in aside}
    return Restored(len(contents.files), place.workspace, tuple(sorted(places)))


def finish_restore(home: Path) -> None:
    """Complete a restore that was cut short. Raises StoreBusy while it is under way, and StoreError when it cannot."""
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


# --- writing ---------------------------------------------------------------------------------------------------------


def _write(out: BinaryIO, home: Path, workspace: Path, scratch: Path, with_secrets: bool) -> _Contents:
    contents = _Contents()
    with (
        gzip.GzipFile(fileobj=out, mode="wb", filename="", compresslevel=6) as packed,
        tarfile.open(fileobj=packed, mode="w|", encoding="utf-8", errors="surrogateescape") as archive,
    ):
        for name, path in _home_files(home, workspace, contents, with_secrets):
            if name == "home/state.db":
                with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
                    copy_database(db, scratch / "state.db")
                path = scratch / "state.db"
            _add(archive, name, path, contents, scratch)
        root = Path(os.path.realpath(workspace))
        if root.is_dir():
            _add(archive, "workspace", root, contents, scratch)
            for name, path in _below(root, "workspace", lambda path: path == Path(os.path.realpath(home))):
                _add(archive, name, path, contents, scratch, root)
        listed = {"format": FORMAT, "made": datetime.now().astimezone().isoformat(), "state": newest_format()}
        body = json.dumps({**listed, "files": contents.files, "links": contents.links}).encode()
        member = tarfile.TarInfo(MANIFEST)
        member.size = len(body)
        archive.addfile(member, io.BytesIO(body))
    return contents


def _home_files(home: Path, workspace: Path, contents: _Contents, with_secrets: bool) -> Iterator[tuple[str, Path]]:
    """config.toml first: it says where the workspace lies."""
    names = [path.name for path in home.iterdir()] if home.is_dir() else []
    for name in sorted(names, key=lambda name: (name != "config.toml", name)):
        path = home / name
        if name == SECRETS and not with_secrets:
            contents.left_out.append(f"{SECRETS} (--with-secrets takes it along)")
        elif _is_part(name) and os.path.realpath(path) != os.path.realpath(workspace):
            yield f"home/{name}", Path(os.path.realpath(path)) if path.is_file() else path
            if path.is_dir() and not path.is_symlink():
                yield from _below(path, f"home/{name}", lambda path: False)


def _is_part(name: str) -> bool:
    """Whether something in the home belongs into an archive, and is replaced by one."""
    return name not in _NOT_KEPT and not name.startswith(_NOT_KEPT_BEGINNINGS) and not is_draft(name)


def _below(folder: Path, name: str, without: Callable[[Path], bool]) -> Iterator[tuple[str, Path]]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except FileNotFoundError:  # gone since its name was read
        return
    for entry in entries:
        path = Path(entry.path)
        if is_draft(entry.name) or without(path):
            continue
        yield f"{name}/{entry.name}", path
        if entry.is_dir(follow_symlinks=False):
            yield from _below(path, f"{name}/{entry.name}", without)


def _add(
    archive: tarfile.TarFile, name: str, path: Path, contents: _Contents, scratch: Path, root: Path | None = None
) -> None:
    """One thing. What vanished meanwhile is left out; what is no file, folder or link inside is named as left out."""
    _forget_members(archive)
    member = tarfile.TarInfo(name)
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    member.mode, member.mtime = stat.S_IMODE(found.st_mode) & 0o777, found.st_mtime
    if stat.S_ISDIR(found.st_mode):
        member.type = tarfile.DIRTYPE
        archive.addfile(member)
        contents.folders.append(name)
    elif stat.S_ISLNK(found.st_mode) and root is not None and (target := _inner_target(path, root)):
        member.type, member.linkname = tarfile.SYMTYPE, target
        archive.addfile(member)
        contents.links[name] = target
    elif stat.S_ISREG(found.st_mode):
        with suppress(FileNotFoundError):
            _add_file(archive, member, path, contents, scratch)
    else:
        contents.left_out.append(f"{name} ({_kind(found.st_mode)})")


def _add_file(
    archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path, contents: _Contents, scratch: Path
) -> None:
    """As it is now: a file that grows while it is read goes in as far as it was read."""
    digest = hashlib.sha256()
    with (
        tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=str(scratch)) as copy,
        os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file,
    ):
        while piece := file.read(_PIECE):
            digest.update(piece)
            copy.write(piece)
        member.size = copy.tell()
        copy.seek(0)
        archive.addfile(member, copy)
    contents.files[member.name] = member.size, digest.hexdigest()


def _inner_target(link: Path, root: Path) -> str:
    """Where a link leads, as it stays right when the folder is moved; "" when it leads out of the folder."""
    real = Path(os.path.realpath(link))
    if not real.is_relative_to(root):
        return ""
    target = link.readlink()
    return os.path.relpath(real, link.parent) if target.is_absolute() else str(target)


def _forget_members(archive: Any) -> None:
    """Or tarfile would hold the names of all, in an attribute that its types do not tell of."""
    archive.members.clear()


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a link that leads out of it"
    if stat.S_ISFIFO(mode):
        return "a named pipe"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


# --- reading ---------------------------------------------------------------------------------------------------------


def _unpack(file: Path, folder_of: Callable[[str], Path], name: Path | None = None) -> _Contents:
    """Unpack into new folders, and check all of it against its list. Raises StoreError for anything that is not so.

    `name` is what a person calls a file that is a draft.
    """
    contents, name = _Contents(), name or file
    try:
        with (
            file.open("rb") as raw,
            gzip.GzipFile(fileobj=raw) as packed,
            tarfile.open(fileobj=packed, mode="r|", encoding="utf-8", errors="surrogateescape") as archive,
        ):
            manifest: Any = None
            top = "home"
            for member in archive:
                _forget_members(archive)
                if manifest is not None:
                    raise _NotOurs("something follows its list of contents")
                if member.name == MANIFEST and member.isreg():
                    manifest = _manifest(archive, member)
                else:
                    if top == "workspace" != member.name.partition("/")[0]:  # config.toml says where that one lies
                        raise _NotOurs("its files are not in the order of a backup")
                    top = member.name.partition("/")[0]
                    _take(archive, member, folder_of, contents)
            while packed.read(_PIECE):  # to its check sum
                pass
        _compare(manifest, contents)
        _make_links(contents, folder_of)
        if "home/state.db" in contents.files:
            _check_state(folder_of("home") / "state.db")
    except _NotOurs as error:
        raise StoreError(f"{name} is refused: {error}. Nothing was changed.") from None
    except (
        tarfile.TarError,
        EOFError,
        zlib.error,
        gzip.BadGzipFile,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
    ) as error:
        raise StoreError(f"{name} is damaged or no backup ({error}). Nothing was changed.") from None
    return contents


class _NotOurs(Exception):
    """What is wrong with an archive."""


def _manifest(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Any:
    if member.size > LARGEST_MANIFEST:
        raise _NotOurs("its list of contents is too long")
    body = json.loads(b"".join(_pieces(archive, member)))
    if body["format"] > FORMAT or body["state"] > newest_format():
        raise _NotOurs("it was written by a newer nanoclaw: update nanoclaw")
    return body


def _take(
    archive: tarfile.TarFile, member: tarfile.TarInfo, folder_of: Callable[[str], Path], contents: _Contents
) -> None:
    name = member.name
    top, *rest = name.split("/")
    known = top in ("home", "workspace") and (bool(rest) or top == "workspace")
    if not known or any(part in ("", ".", "..") or "\0" in part for part in rest):
        raise _NotOurs(f"{name[:200]!r} is no place of a backup")
    if top == "home" and not (_is_part(rest[0])):
        raise _NotOurs(f"{name[:200]!r} does not belong into a backup")
    if name in contents.files or name in contents.links:
        raise _NotOurs(f"{name[:200]!r} is in it twice")
    path = Path(folder_of(top), *rest)
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o700 | member.mode & 0o777)
        contents.folders.append(name)
    elif member.issym() and top == "workspace":
        contents.links[name] = member.linkname
    elif member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and getattr(member, "sparse", None) is None:
        path.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        with path.open("xb") as out:
            for piece in _pieces(archive, member):
                digest.update(piece)
                out.write(piece)
        path.chmod(member.mode & (0o700 if top == "home" else 0o777))
        with suppress(OverflowError):
            os.utime(path, (member.mtime, member.mtime))
        contents.files[name] = member.size, digest.hexdigest()
    else:
        raise _NotOurs(f"{name[:200]!r} is neither a file nor a folder")


def _pieces(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[bytes]:
    stream = archive.extractfile(member)
    assert stream is not None, "it is a regular file"
    while piece := stream.read(_PIECE):
        yield piece


def _compare(manifest: Any, contents: _Contents) -> None:
    if manifest is None:
        raise _NotOurs("it ends before its list of contents, or was made by another program")
    listed = {name: (size, digest) for name, (size, digest) in manifest["files"].items()}
    if listed != contents.files or manifest["links"] != contents.links:
        every = listed.keys() | contents.files.keys() | manifest["links"].keys() | contents.links.keys()
        wrong = sorted(
            name
            for name in every
            if listed.get(name) != contents.files.get(name) or manifest["links"].get(name) != contents.links.get(name)
        )
        raise _NotOurs(f"{wrong[0][:200]!r} in it is not what its list says")


def _make_links(contents: _Contents, folder_of: Callable[[str], Path]) -> None:
    """Last of all, so that nothing is written through one."""
    root = folder_of("workspace") if contents.links else Path()
    paths = [Path(root, *name.split("/")[1:]) for name in contents.links]
    for path, target in zip(paths, contents.links.values(), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
    for path in paths:
        if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root)):
            raise _NotOurs(f"the link {path.name!r} leads out of the workspace")


def _check_state(path: Path) -> None:
    if format_in_header(path) > newest_format():
        raise _NotOurs("its state.db was written by a newer nanoclaw: update nanoclaw")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            whole = is_whole(db)
    except sqlite3.Error as error:
        raise _NotOurs(f"its state.db cannot be read ({error})") from None
    if not whole:
        raise _NotOurs("its state.db is damaged")


# --- putting in place ------------------------------------------------------------------------------------------------


class _Place:
    """Where an archive's parts are unpacked: beside where they will be, on the same disk."""

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
        """Where the restored config.toml says."""
        if self._workspace is None:
            found = Path(os.path.realpath(self._workspace_of(self._new_home)))
            if Path(os.path.realpath(self._home)).is_relative_to(found):
                raise StoreError(
                    f"the workspace {found} of this backup would hold the home itself; choose another home."
                )
            self._workspace = found
        return self._workspace


def _moves(
    home: Path, new_home: Path, workspace: Path, new_workspace: Path | None, stamp: str, secrets: bool
) -> list[tuple[str, str]]:
    """First what is there goes aside, the workspace before all; then what is new comes in."""
    aside = home / stamp
    inside = workspace.parent == Path(os.path.realpath(home))
    moves = []
    if workspace.exists():
        moves.append(
            (workspace, aside / workspace.name if inside else workspace.with_name(f"{workspace.name}.{stamp}"))
        )
    for path in sorted(home.iterdir()):
        follows = path.name.startswith(("index.db", "state.db-")) or _is_part(path.name)
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


def _tops(contents: _Contents) -> set[str]:
    return {name.split("/")[1] for name in contents.files if name.startswith("home/")}


def _where(error: OSError, besides: Path | None = None) -> str:
    """The place that an error names, unless it is known, or a draft that no person has heard of."""
    place = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else None
    return "" if place in (None, besides) or any(map(is_draft, place.parts)) else f"{place}: "


def _today() -> str:
    return f"{datetime.now().astimezone():%Y-%m-%d}"
