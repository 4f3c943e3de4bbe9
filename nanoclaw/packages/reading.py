"""A folder as a whole, from the disk or an archive, held in memory: nothing is written while it is read."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, NamedTuple

from nanoclaw.atomic_write import draft_folder

MOST_FILES = 1_000
MOST_BYTES = 20_000_000
LONGEST_NAME = 200

LEFT_OUT = frozenset({".git", "__pycache__", "__MACOSX", ".DS_Store"})
"""Folders and files that are no part of a package."""

_ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar", ".jar", ".whl")
_SCRIPTS = (".sh", ".bash", ".zsh", ".py", ".js", ".mjs", ".ts", ".rb", ".pl", ".ps1", ".bat", ".cmd", ".php", ".lua")
_PIECE = 64 * 1024
_FRESH_NANOSECONDS = 2_000_000_000


class PackageError(Exception):
    """A package that cannot be read, or is refused; the text is a sentence for a person."""


class Kind(NamedTuple):
    """A sort of package: `noun` in sentences, `main` finds the file that makes it one among all names, "" for none, and
    `wanted` says that in words."""

    noun: str
    main: Callable[[Collection[str]], str]
    wanted: str


class File(NamedTuple):
    data: bytes
    can_run: bool = False  # by its mode

    @property
    def text(self) -> str | None:
        """Its text; None for what is not text."""
        try:
            return None if b"\0" in self.data else self.data.decode()
        except UnicodeDecodeError:
            return None


class Package(NamedTuple):
    """All files of a folder by their paths in it."""

    files: Mapping[str, File]

    @property
    def hashes(self) -> dict[str, str]:
        return {path: hashlib.sha256(file.data).hexdigest() for path, file in self.files.items()}

    @property
    def sha256(self) -> str:
        """Hash of the whole: paths, contents, and which files can be run."""
        whole = hashlib.sha256()
        for path, digest in sorted(self.hashes.items()):
            whole.update(f"{digest} {int(self.files[path].can_run)} {path}\n".encode("utf-8", "surrogateescape"))
        return whole.hexdigest()

    def is_script(self, path: str) -> bool:
        file = self.files[path]
        return file.can_run or path.lower().endswith(_SCRIPTS) or file.data.startswith(b"#!")


def read(path: Path, kind: Kind) -> Package:
    """A package from a local folder, .zip, .tar or .tar.gz, or from the only folder in the archive.
    Raises PackageError for what could lead out of it, is not a complete one of its kind, or is too large."""
    import tarfile
    import zipfile
    import zlib

    of_archives = (zipfile.BadZipFile, zlib.error, tarfile.TarError, EOFError, RuntimeError, ValueError)
    try:
        if path.is_dir():
            found = read_folder(str(path), kind.noun)
        elif zipfile.is_zipfile(path):
            found = _read_zip(path, kind.noun)
        elif path.is_file():
            found = _read_tar(path, kind.noun)
        else:
            raise PackageError(f"{path} is neither a folder nor an archive: give {kind.wanted}")
    except OSError as error:
        raise PackageError(f"{path} cannot be read: {error.strerror or error}") from error
    except of_archives as error:
        raise PackageError(f"{path} is not a complete .zip, .tar or .tar.gz: {error}") from error
    found = _without_top(found, kind)
    if not kind.main(found.files.keys()):
        raise PackageError(f"{path} is not a {kind.noun}, nor is its only folder: give {kind.wanted}")
    for name in found.files:
        if name.lower().endswith(_ARCHIVES):
            raise PackageError(f"{name!r} in {path} is an archive, which cannot be shown: unpack it, or remove it")
    return found


def read_file(path: Path) -> File:
    """One plain file, also where a link leads to it. Raises PackageError and OSError."""
    with _opened(os.path.realpath(path), path.name) as (file, _):
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise PackageError(f"{path.name!r} has more than {MOST_BYTES // 1_000_000} MB")
    return File(data)


class _Collected:
    """The files of a package, while they are read: within limits, with names that stay beneath its folder."""

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._files: dict[str, File] = {}
        self._entries = self._bytes = 0

    @property
    def package(self) -> Package:
        return Package(dict(sorted(self._files.items())))

    def entry(self, name: str) -> str | None:
        """Count an entry; its name, None for what is left out."""
        self._entries += 1
        if self._entries > MOST_FILES:
            raise PackageError(f"it has more than {MOST_FILES:,} files and folders, too many for a {self._noun}")
        parts = name.rstrip("/").split("/")
        while parts and parts[0] == ".":
            parts = parts[1:]
        if name.startswith("/") or ".." in parts or "\\" in name or (parts and parts[0].endswith(":")):
            raise PackageError(f"{name!r} leads out of its folder")
        if not "/".join(parts).isprintable() or len(name) > LONGEST_NAME or "" in parts:
            raise PackageError(f"{name[:LONGEST_NAME]!r} is not a file name for a {self._noun}")
        return None if not parts or LEFT_OUT & set(parts) else "/".join(parts)

    def add(self, name: str, file: IO[bytes], *, can_run: bool) -> None:
        data = bytearray()
        while piece := file.read(_PIECE):
            data += piece
            self._bytes += len(piece)
            if self._bytes > MOST_BYTES:
                raise PackageError(f"it has more than {MOST_BYTES // 1_000_000} MB, too much for a {self._noun}")
        if name.casefold() in map(str.casefold, self._files):
            raise PackageError(f"{name!r} is in it twice")
        self._files[name] = File(bytes(data), can_run)


def read_folder(folder: str, noun: str = "package") -> Package:
    """All files of a folder. Raises PackageError for a link or a device, for too much, and OSError."""
    found = _Collected(noun)
    for path, entry in _walk(folder):
        name = found.entry(path)
        if name is None or entry.is_dir(follow_symlinks=False):
            continue
        if entry.is_symlink():
            raise PackageError(f"{name!r} is a link: replace it with a copy of its target")
        with _opened(entry.path, name) as (file, mode):
            found.add(name, file, can_run=bool(mode & 0o111))
    return found.package


@contextmanager
def _opened(path: str, name: str) -> Iterator[tuple[IO[bytes], int]]:
    """A plain file, without waiting for a pipe's other end; and its mode."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123  (a descriptor)
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise PackageError(f"{name!r} is not a plain file")
        yield file, mode


def _walk(folder: str, above: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Everything in a folder but what is left out, by its path in it."""
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        if entry.name in LEFT_OUT:
            continue
        yield f"{above}{entry.name}", entry
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path, f"{above}{entry.name}/")


def sha256_of(folder: Path, noun: str = "package") -> str:
    """Hash of the package in a folder, read again when something in it has changed. Raises PackageError."""
    try:
        stamps = list[tuple[str, int, int, int, int]]()
        for path, entry in _walk(str(folder)):
            status = entry.stat(follow_symlinks=False)
            stamps.append((path, status.st_mode, status.st_ctime_ns, status.st_size, status.st_ino))
            if len(stamps) > MOST_FILES:
                break
        newest = max((changed for _, _, changed, _, _ in stamps), default=0)
        if time.time_ns() - newest < _FRESH_NANOSECONDS:  # another change may have the same stamp
            return read_folder(str(folder), noun).sha256
        return _hashed(str(folder), noun, tuple(stamps))
    except OSError as error:
        raise PackageError(f"it cannot be read: {error.strerror or error}") from error


@lru_cache(maxsize=1_000)
def _hashed(folder: str, noun: str, stamps: tuple[tuple[str, int, int, int, int], ...]) -> str:
    return read_folder(folder, noun).sha256


# --- archives --------------------------------------------------------------------------------------------------------


def _read_zip(path: Path, noun: str) -> Package:
    import zipfile

    found = _Collected(noun)
    if path.stat().st_size > MOST_BYTES:
        raise PackageError(f"{path} has more than {MOST_BYTES // 1_000_000} MB, too much for a {noun}")
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            name, mode = found.entry(entry.filename), entry.external_attr >> 16
            if entry.flag_bits & 1:
                raise PackageError(f"{entry.filename!r} is encrypted: unpack it yourself, and add the folder")
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise PackageError(f"{entry.filename!r} is a link or a device, not a plain file")
            if name is not None and not entry.is_dir():
                with archive.open(entry) as file:
                    found.add(name, file, can_run=bool(mode & 0o111))
    return found.package


class _Bounded:
    """A stream that ends with an error where it has more than an archive of a package may have, headers included."""

    def __init__(self, file: IO[bytes], noun: str) -> None:
        self._file, self._noun, self._left = file, noun, 2 * MOST_BYTES

    def read(self, size: int) -> bytes:
        data = self._file.read(min(size, self._left + 1))
        self._left -= len(data)
        if self._left < 0:
            raise PackageError(f"it has more than {MOST_BYTES // 1_000_000} MB, too much for a {self._noun}")
        return data


def _read_tar(path: Path, noun: str) -> Package:
    import gzip
    import tarfile

    found = _Collected(noun)
    with path.open("rb") as raw:
        is_packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        stream = _Bounded(gzip.GzipFile(fileobj=raw) if is_packed else raw, noun)  # type: ignore[arg-type]
        with tarfile.open(fileobj=stream, mode="r|", bufsize=_PIECE) as archive:  # type: ignore[call-overload]
            for entry in archive:
                name = found.entry(entry.name)
                if entry.isdir():
                    continue
                if not entry.isreg() or entry.issparse():
                    raise PackageError(f"{entry.name!r} is a link or a device, not a plain file")
                if name is not None and (file := archive.extractfile(entry)):
                    found.add(name, file, can_run=bool(entry.mode & 0o111))
    return found.package


def _without_top(found: Package, kind: Kind) -> Package:
    """The package in the only folder of another one that isn't a package itself."""
    tops = {path.partition("/")[0] for path in found.files}
    if kind.main(found.files.keys()) or len(tops) != 1 or not all("/" in path for path in found.files):
        return found
    return Package({path.partition("/")[2]: file for path, file in found.files.items()})


def stem(path: Path) -> str:
    """The name of a package after its file, folder or archive."""
    name = path.resolve().name
    for ending in (".tar.gz", ".tgz", ".tar", ".zip", ".py"):
        name = name.removesuffix(ending)
    return name


# --- putting in place ------------------------------------------------------------------------------------------------


def write(package: Package, folder: Path) -> None:
    """Write a package's files, in place of an older one as a whole. Raises OSError."""
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with draft_folder(folder.parent) as made:
        new, old = made / "new", made / "old"
        for path, file in package.files.items():
            (new / path).parent.mkdir(parents=True, exist_ok=True)
            (new / path).write_bytes(file.data)
            (new / path).chmod(0o755 if file.can_run else 0o644)
        if folder.exists():
            folder.replace(old)
        new.replace(folder)
