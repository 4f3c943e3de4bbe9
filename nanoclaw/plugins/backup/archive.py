"""The archive of a backup: home/, workspace/ and a manifest as the last member, written and read as one stream."""

from __future__ import annotations

import gzip
import io
import json
import os
import sqlite3
import stat
import tarfile
import zlib
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from nanoclaw.atomic_write import is_draft
from nanoclaw.beneath.paths import open_again
from nanoclaw.core.errors import StoreError
from nanoclaw.sqlite_salvage.copies import copy_database, is_whole
from nanoclaw.start.opening import format_in_header, newest_format
from nanoclaw.start.recovery import end_command

if not hasattr(tarfile, "data_filter"):  # Python before 3.11.4, as of Debian 12
    from backports import tarfile  # type: ignore[no-redef]

FORMAT = 2
"""Archives of format 1 are read, too; their manifests hold check sums, which gzip has as well."""

MANIFEST = "manifest.json"
LARGEST_MANIFEST = 256_000_000
SECRETS = "secrets.env"
PLAN = "restoring.json"
"""In the home: the moves of a restore under way."""

_NOT_KEPT = frozenset({"copies", "logs", "models", "history", "state.lock", "gateway.sock", "schedule.tick", PLAN})
_NOT_KEPT_BEGINNINGS = ("index.db", "state.db-", "state.db.", "before-restore-", "forgotten.", "config.toml.broken-")
"""Names in the home of what is made again, belongs to this machine or a process, is a copy already or is to be gone."""


_DEEPEST, _LONGEST_PATH = 100, 3_000
"""Folders in each other, and bytes of a path, that go into an archive: nobody's work is deeper, and a command can make
thousands."""


def is_part(name: str) -> bool:
    """Tells what of the home belongs into an archive, and is replaced by one."""
    return name not in _NOT_KEPT and not name.startswith(_NOT_KEPT_BEGINNINGS) and not is_draft(name)


# --- writing ---------------------------------------------------------------------------------------------------------


class ArchiveWriter:
    """Writes one archive. `files` and `size` count what went in, `left_out` names what did not, and why."""

    def __init__(self, archive: tarfile.TarFile, scratch: Path, skip: frozenset[Path]) -> None:
        """`scratch` is an empty folder, `skip` are real paths that are left out silently."""
        self._archive, self._scratch, self._skip = archive, scratch, skip
        self.files = self.size = 0
        self.left_out: list[str] = []

    def add_home(self, home: Path, workspace: Path, *, with_secrets: bool) -> None:
        """Add what is the home's own; config.toml first, as it says where the workspace lies."""
        home = Path(os.path.realpath(home))
        paths = [*home.iterdir()] if home.is_dir() else []
        for path in sorted(paths, key=lambda path: (path.name != "config.toml", path.name)):
            name = path.name
            if name == SECRETS and not with_secrets:
                self.left_out.append(f"{SECRETS} (--with-secrets includes it)")
            elif name == "state.db":
                with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
                    copy_database(db, self._scratch / name)
                end_command(self._scratch / name, "backup")
                self._add(f"home/{name}", self._scratch / name)
            elif is_part(name) and os.path.realpath(path) != os.path.realpath(workspace):
                self._add_tree(f"home/{name}", Path(os.path.realpath(path)) if path.is_file() else path)

    def add_workspace(self, workspace: Path, home: Path) -> None:
        root = Path(os.path.realpath(workspace))
        self._skip |= {Path(os.path.realpath(home))}
        if root.is_dir():
            self._add_tree("workspace", root, root)

    def add_manifest(self) -> None:
        made = datetime.now().astimezone().isoformat()
        body = json.dumps({"format": FORMAT, "made": made, "state": newest_format()}).encode()
        member = tarfile.TarInfo(MANIFEST)
        member.size = len(body)
        self._archive.addfile(member, io.BytesIO(body))

    def _add_tree(self, name: str, path: Path, root: Path | None = None) -> None:
        """Something and all that is below it; links may lead to what is below `root`."""
        if path in self._skip or is_draft(path.name):
            return
        if name.count("/") > _DEEPEST or len(os.fsencode(path)) > _LONGEST_PATH:
            self.left_out.append(f"{name[:60]}… (nested too deeply)")
            return
        with suppress(FileNotFoundError):  # gone since its name was read
            self._add(name, path, root)
            if path.is_dir() and not path.is_symlink():
                for below in sorted(path.iterdir()):
                    self._add_tree(f"{name}/{below.name}", below, root)

    def _add(self, name: str, path: Path, root: Path | None = None) -> None:
        """One thing. What is not a file, folder or link inside is named as left out."""
        found = path.lstat()
        member = tarfile.TarInfo(name)
        member.mode, member.mtime = stat.S_IMODE(found.st_mode) & 0o777, found.st_mtime
        if stat.S_ISDIR(found.st_mode):
            member.type = tarfile.DIRTYPE
            self._archive.addfile(member)
        elif stat.S_ISLNK(found.st_mode) and root and (target := _inner_target(path, root)):
            member.type, member.linkname = tarfile.SYMTYPE, target
            self._archive.addfile(member)
        elif stat.S_ISREG(found.st_mode):
            with open_again(path) as file:
                member.size = os.fstat(file.fileno()).st_size  # one that grows goes in as far as that
                self._archive.addfile(member, file)
            self.files, self.size = self.files + 1, self.size + member.size
        else:
            self.left_out.append(f"{name} ({_KINDS.get(stat.S_IFMT(found.st_mode), 'a device')})")


_KINDS = {stat.S_IFLNK: "a link that leads out of it", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}


def _inner_target(link: Path, root: Path) -> str:
    """Target of a link as it stays right when the folder is moved; "" when it leads out of the folder."""
    real = Path(os.path.realpath(link))
    if not real.is_relative_to(root):
        return ""
    target = link.readlink()
    return os.path.relpath(real, link.parent) if target.is_absolute() else str(target)


# --- reading ---------------------------------------------------------------------------------------------------------


def unpack(file: Path, folder_of: Callable[[str], Path], name: Path | None = None) -> int:
    """Unpack into new folders, those of "home" and "workspace", and check all of it; returns the number of files.
    `name` is what a person calls a file that is a draft. Raises StoreError for what is damaged, newer or not ours."""
    name = name or file
    try:
        with (
            gzip.open(file) as packed,
            tarfile.open(fileobj=packed, mode="r|", encoding="utf-8", errors="surrogateescape") as archive,
        ):
            reader = _Reader(archive, folder_of)
            for member in archive:
                reader.extract(member)
            while packed.read(1 << 20):  # to its check sum
                pass
            reader.finish()
    except (_NotOurs, tarfile.FilterError) as error:
        raise StoreError(f"{name} is refused: {error}. Nothing was changed.") from None
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError, TypeError, KeyError) as error:
        raise StoreError(f"{name} is damaged or no backup ({error}). Nothing was changed.") from None
    return reader.files


class _NotOurs(Exception):
    """An archive that this program did not write, or writes no more."""


class _Reader:
    """Takes member after member. Links are made last, so that nothing is written through one."""

    def __init__(self, archive: tarfile.TarFile, folder_of: Callable[[str], Path]) -> None:
        self._archive, self._folder_of = archive, folder_of
        self._links: list[tarfile.TarInfo] = []
        self._top = "home"
        self._is_complete = False
        self.files = 0

    def extract(self, member: tarfile.TarInfo) -> None:
        if self._is_complete:
            raise _NotOurs("something follows its list of contents")
        if member.name == MANIFEST and member.isreg():
            self._read_manifest(member)
            return
        shown = repr(member.name[:200])
        top, *rest = member.name.split("/")
        if top not in ("home", "workspace") or any(part in ("", ".", "..") or "\0" in part for part in rest):
            raise _NotOurs(f"{shown} is not a path in a backup")
        if top == "home" and not (rest and is_part(rest[0])):
            raise _NotOurs(f"{shown} does not belong in a backup")
        if self._top == "workspace" != top:  # config.toml says where that one lies
            raise _NotOurs("its files are not in the order of a backup")
        self._top, folder = top, self._folder_of(top)
        if member.isdir():
            path = Path(folder, *rest)
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o700 | member.mode & 0o777)
        elif member.issym() and top == "workspace":
            self._links.append(member.replace(name="/".join(rest), deep=False))
        elif member.isreg() and not member.issparse():
            if Path(folder, *rest).exists():
                raise _NotOurs(f"{shown} is in it twice")
            mode = member.mode & (0o700 if top == "home" else 0o777)
            member = member.replace(name="/".join(rest), mode=mode, deep=False)
            self._archive.extract(member, folder, filter=tarfile.data_filter)
            self.files += 1
        else:
            raise _NotOurs(f"{shown} is neither a file nor a folder")

    def finish(self) -> None:
        """Make the links, and look whether all is there."""
        if not self._is_complete:
            raise _NotOurs("it ends before its list of contents, or was made by another program")
        root = self._folder_of("workspace") if self._links else Path()
        for link in self._links:
            if os.path.lexists(root / link.name):
                raise _NotOurs(f"{link.name[:200]!r} is in it twice")
            self._archive.extract(link, root, filter=tarfile.data_filter)
        for link in self._links:  # each may lead on by another
            if not Path(os.path.realpath(root / link.name)).is_relative_to(os.path.realpath(root)):
                raise _NotOurs(f"the link {link.name!r} leads out of the workspace")
        if (state := self._folder_of("home") / "state.db").exists():
            _check_state(state)

    def _read_manifest(self, member: tarfile.TarInfo) -> None:
        if member.size > LARGEST_MANIFEST:
            raise _NotOurs("its list of contents is too long")
        stream = self._archive.extractfile(member)
        assert stream is not None, "it is a regular file"
        body: dict[str, Any] = json.loads(stream.read())
        if body["format"] > FORMAT or body["state"] > newest_format():
            raise _NotOurs("it was written by a newer nanoclaw: update nanoclaw")
        self._is_complete = True


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
