"""Writing that leaves every file whole: a draft beside it, synced, put in its place, and the folder synced. Logs, the
terminal's history and what can be made again are exempt: a lost line does no harm there."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

REWRITTEN_BYTES = 256_000
"""A file up to this size grows through a draft, so that a crash never leaves half a line. A larger one, a log for
example, grows in place by one write: a power cut may cost the end of what was added, never what was there before."""


WRITTEN = deque[tuple[int, int, int]](maxlen=1_000)  # number, time and size of files that this program wrote last


class NotSaved(OSError):
    """A file could not be written; the text is a sentence for a person, and says what happened to the file."""


def write_atomically(path: Path, content: str | bytes, mode: int = 0o666) -> None:
    """Replace the file's whole content, or raise NotSaved and leave it as it was. A link's target is replaced.

    `mode` is that of a new file; one that exists keeps its mode and owner.
    """
    target = Path(os.path.realpath(path))
    try:
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _not_saved(path.name, error) from None
    try:
        replace_in(folder, target.name, content, mode)
    finally:
        os.close(folder)


def replace_in(folder: int, name: str, content: str | bytes, mode: int = 0o666) -> None:
    """The same for a file in an opened folder, so that nobody can move the folder away underneath."""
    draft = _draft_name()
    try:
        found = _found(folder, name)
        descriptor = os.open(draft, _NEW_FILE, mode, dir_fd=folder)
        try:
            try:
                if found:
                    _keep_owner_and_mode(descriptor, found)
                _write_all(descriptor, content.encode() if isinstance(content, str) else content)
                os.fsync(descriptor)
                made = os.fstat(descriptor)
                WRITTEN.append((made.st_ino, made.st_mtime_ns, made.st_size))
            finally:
                os.close(descriptor)
            os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(draft, dir_fd=folder)
            raise
    except OSError as error:
        raise _not_saved(name, error) from None
    _sync_folder(folder, name)


@contextmanager
def drafted(path: Path) -> Iterator[Path]:
    """A path beside the file for a library to write to; when the block ends, what is there takes the file's place.

    When the block fails the file stays as it was. Raises OSError.
    """
    draft = path.with_name(_draft_name())
    try:
        os.close(os.open(draft, _NEW_FILE, 0o600))
        yield draft
        put_in_place(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def put_in_place(draft: Path, path: Path) -> None:
    """A finished draft becomes the file. Raises OSError, also if the disk did not confirm it."""
    with draft.open("rb") as file:
        os.fsync(file.fileno())
    draft.replace(path)
    sync_folder(path.parent)


def append_in(folder: int, name: str, text: str) -> bool:
    """Add text at the end of a file in an opened folder, on a new line, in the file's own encoding and line ends.

    Says whether the file is new. Raises NotSaved, and leaves the file as it was, if it cannot be completed. Two
    processes that add to files of one folder wait for each other.
    """
    try:
        with suppress(OSError):  # a network drive may not know locks
            fcntl.flock(folder, fcntl.LOCK_EX)
        try:
            try:
                descriptor = os.open(name, os.O_RDWR | os.O_APPEND | _PLAIN, dir_fd=folder)
            except FileNotFoundError:
                replace_in(folder, name, text)
                return True
            try:
                _append(folder, descriptor, name, text)
            finally:
                os.close(descriptor)
            return False
        finally:
            with suppress(OSError):
                fcntl.flock(folder, fcntl.LOCK_UN)
    except OSError as error:
        raise _not_saved(name, error) from None


@contextmanager
def draft_folder(parent: Path) -> Iterator[Path]:
    """An empty folder that only its owner can read, gone with all that is left in it when the block ends."""
    folder = parent / _draft_name()
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_drafts(folders: Iterable[Path]) -> None:
    """Delete what a crash left of unfinished drafts in these folders. Drafts of processes that run are left alone."""
    for path in left_over_drafts(folders):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink(missing_ok=True)


def left_over_drafts(folders: Iterable[Path]) -> list[Path]:
    """Unfinished drafts in these folders of processes that are gone."""
    found = list[Path]()
    for folder in folders:
        with suppress(OSError):
            found += [Path(entry.path) for entry in os.scandir(folder) if _is_left_over(entry.name)]
    return found


def try_writing(folder: Path) -> None:
    """Raises OSError unless files can be made in this folder."""
    probe = folder / _draft_name()
    os.close(os.open(probe, _NEW_FILE, 0o600))
    probe.unlink()


def is_draft(name: str) -> bool:
    """True when a file's name is that of an unfinished draft."""
    return _DRAFT.fullmatch(name) is not None


def sync_folder(folder: Path) -> None:
    """Make sure that the names in a folder are on disk. Raises OSError, also if it is not certain."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _sync_folder(descriptor, folder.name)
    finally:
        os.close(descriptor)


def reason(error: OSError) -> str:
    """Say in words for a person what went wrong."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full"
    if error.errno == errno.EIO:
        return "the disk reports an error"
    if isinstance(error, NotSaved):
        return str(error)
    return (error.strerror or str(error)).lower()


_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DRAFT = re.compile(r"\.draft-(\d+)-[0-9a-f]{12}(?:-wal|-shm|-journal)?")


def _draft_name() -> str:
    """With the writer's process id, so that what it left unfinished can be told from what is being written."""
    return f".draft-{os.getpid()}-{os.urandom(6).hex()}"


def _is_left_over(name: str) -> bool:
    match = _DRAFT.fullmatch(name)
    if match is None:
        return False
    try:
        os.kill(int(match[1]), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        return False
    return int(match[1]) == os.getpid()  # by an earlier process of this id: this one writes nothing at the moment


def _found(folder: int, name: str) -> os.stat_result | None:
    """The file's status, None for a new one. Raises PermissionError for one that is protected against writing."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISREG(found.st_mode) and not os.access(name, os.W_OK, dir_fd=folder):
        raise PermissionError(errno.EACCES, "it is write-protected")
    return found


def _keep_owner_and_mode(descriptor: int, found: os.stat_result) -> None:
    if (found.st_uid, found.st_gid) != (os.geteuid(), os.getegid()):
        with suppress(PermissionError):  # only the system's owner can give files away
            os.fchown(descriptor, found.st_uid, found.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(found.st_mode))


def _append(folder: int, descriptor: int, name: str, text: str) -> None:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        kind = "has a second name elsewhere (a hard link)" if stat.S_ISREG(found.st_mode) else "is not a plain file"
        raise NotSaved(f"{name!r} {kind}, so nothing was written to it. Make a copy and write to that.")
    size = found.st_size
    if size <= REWRITTEN_BYTES:
        before = os.pread(descriptor, size, 0)
        replace_in(folder, name, before + _continuation(descriptor, size, text))
        return
    try:
        _write_all(descriptor, _continuation(descriptor, size, text))
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def _continuation(descriptor: int, size: int, text: str) -> bytes:
    encoding = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(os.pread(descriptor, 2, 0), "utf-8")
    tail = os.pread(descriptor, 4096, max(0, (size - 4096) // 2 * 2)).decode(encoding, "replace")
    start = "" if not tail.strip("\ufeff") or tail.endswith("\n") else "\n"
    if "\r\n" in tail:
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
        start = start and ("\n" if tail.endswith("\r") else "\r\n")  # the end of a line may be cut in two
    torn = b"\0" if encoding != "utf-8" and size % 2 else b""  # half a character, or all that follows would be shifted
    return torn + (start + text).encode(encoding)


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _sync_folder(folder: int, name: str) -> None:
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES):
            return  # some network file systems cannot; the file itself is already safe
        raise NotSaved(
            f"{name!r} was saved, but a power cut may bring back what was there before: {reason(error)}."
        ) from None


def _not_saved(name: str, error: OSError) -> NotSaved:
    if isinstance(error, NotSaved):
        return error
    advice = " Free some space and try again." if reason(error) == "the disk is full" else ""
    return NotSaved(f"{name!r} was not saved: {reason(error)}. What was there before is unchanged.{advice}")
