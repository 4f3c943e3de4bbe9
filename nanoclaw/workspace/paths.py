"""The person's folder: the names of its places, and writing that leaves every file whole."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from nanoclaw.errors import WorkspaceError


@dataclass(frozen=True, slots=True)
class Workspace:
    """What the assistant remembers and works on. All of it is the person's and may change at any time."""

    root: Path

    @property
    def memory_file(self) -> Path:
        return self.root / "MEMORY.md"

    @property
    def notes(self) -> Path:
        return self.root / "memory"

    @property
    def skills(self) -> Path:
        return self.root / "skills"

    @property
    def media(self) -> Path:
        return self.root / "media"

    def note_path(self, day: date) -> Path:
        return self.notes / f"{day.isoformat()}.md"

    def check_writable(self) -> None:
        """Raises WorkspaceError unless files can be made here; makes the folder when it is missing."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            probe = self.root / _draft_name()
            os.close(os.open(probe, _NEW_FILE, 0o600))
            probe.unlink()
        except OSError as error:
            advice = "Give another folder, or make this one writable."
            raise WorkspaceError(
                f"the workspace {str(self.root)!r} cannot be used: {reason(error)}. {advice}"
            ) from None


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replace the file's whole content, or raise WorkspaceError and leave it as it was. A link's target is replaced."""
    target = Path(os.path.realpath(path))
    try:
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _not_saved(path.name, error) from None
    try:
        replace_in(folder, target.name, content)
    finally:
        os.close(folder)


def replace_in(folder: int, name: str, content: str | bytes) -> None:
    """The same for a file in an opened folder, so that nobody can move the folder away underneath."""
    draft = _draft_name()
    try:
        mode = _mode(folder, name)
        descriptor = os.open(draft, _NEW_FILE, 0o666 if mode is None else mode, dir_fd=folder)
        try:
            try:
                if mode is not None:
                    os.fchmod(descriptor, mode)
                _write_all(descriptor, _bytes(content))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(draft, dir_fd=folder)
            raise
    except OSError as error:
        raise _not_saved(name, error) from None
    _sync_folder(folder)


def append_in(folder: int, name: str, text: str) -> bool:
    """Add text at the end of a file in an opened folder, on a new line, in the file's own encoding and line ends.

    Says whether the file is new. Raises WorkspaceError and takes back what was written when it cannot be completed.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        try:
            descriptor = os.open(name, flags, dir_fd=folder)
            created = False
        except FileNotFoundError:
            descriptor = os.open(name, flags | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=folder)
            created = True
        try:
            _append(descriptor, name, text)
        except OSError:
            if created:
                os.unlink(name, dir_fd=folder)
            raise
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _not_saved(name, error) from None
    if created:
        _sync_folder(folder)
    return created


def reason(error: OSError) -> str:
    """What the system said, in words for a person."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full"
    return (error.strerror or str(error)).lower()


_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def _append(descriptor: int, name: str, text: str) -> None:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        kind = "has a second name elsewhere (a hard link)" if stat.S_ISREG(found.st_mode) else "is not a plain file"
        raise WorkspaceError(f"{name!r} {kind}, so nothing was written to it. Make a copy and write to that.")
    size = found.st_size
    try:
        _write_all(descriptor, _continuation(descriptor, size, text))
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def _continuation(descriptor: int, size: int, text: str) -> bytes:
    encoding = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(os.pread(descriptor, 2, 0), "utf-8")
    tail = os.pread(descriptor, 4096, max(0, (size - 4096) // 2 * 2)).decode(encoding, "replace")
    if tail.strip("\ufeff") and not tail.endswith(("\n", "\r")):
        text = "\n" + text
    if "\r\n" in tail:
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    return text.encode(encoding)


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


def _mode(folder: int, name: str) -> int | None:
    try:
        return stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return None


def _draft_name() -> str:
    return f".draft-{os.urandom(6).hex()}"


def _sync_folder(folder: int) -> None:
    try:
        os.fsync(folder)
    except OSError:  # some network file systems cannot; the file itself is already safe
        return


def _not_saved(name: str, error: OSError) -> WorkspaceError:
    advice = " Free some space and try again." if reason(error) == "the disk is full" else ""
    return WorkspaceError(f"{name!r} was not saved: {reason(error)}. What was there before is unchanged.{advice}")
