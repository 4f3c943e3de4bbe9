"""Changes of modes, owners and times, which Landlock lets be: the kernel asks here for each (seccomp's user
notification). In the folders that a command may write it is made, with no more rights than the command has; anything
else is refused. `launch` loads this when something is asked.

The answer is never "go on": names and descriptors could be others by then. A file is opened once, judged by its place,
and changed by that descriptor.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct

from nanoclaw.sandbox.landlock import ON_ARM, call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

CALLS = {
    (90, -1): "pm", (91, 52): "fm", (268, 53): "dpm", (452, 452): "dpmx", (92, -1): "pog", (93, 55): "fog",
    (94, -1): "log", (260, 54): "dpogx", (280, 88): "dptx",
}  # fmt: skip
"""Numbers (on x86_64, on ARM) and the arguments in order: path; link, a path that isn't followed; descriptor of a
folder; file's descriptor; mode, owner, group, times; x, flags. These are chmod, fchmod, fchmodat, fchmodat2, chown,
fchown, lchown, fchownat, utimensat."""

_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
_NOTIFIED, _ANSWER = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
_AT_CWD, _NOFOLLOW, _EMPTY_PATH = 0xFFFFFF9C, 0x100, 0x1000
_CAPSET, _FCHOWNAT, _UTIMENSAT = (126, 91), (260, 54), (280, 88)
_CAPABILITY_VERSION = 0x20080522


def serve(listener: int, folders: Collection[str]) -> None:
    """Answer for ever, without an administrator's rights. `folders` have no links in their paths. Raises OSError."""
    call(_CAPSET[ON_ARM], struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(24))  # of this thread
    calls = {numbers[ON_ARM]: kinds for numbers, kinds in CALLS.items()}
    while True:
        asked, code = bytearray(_NOTIFIED.size), 0
        try:
            fcntl.ioctl(listener, _RECEIVE, asked)
            number, pid, _, name, _, _, *arguments = _NOTIFIED.unpack(asked)
            try:
                _change(listener, number, pid, dict(zip(calls[name], arguments, strict=False)), folders)
            except OSError as error:
                code = error.errno or errno.EPERM
            except Exception:  # whatever it was: refused
                code = errno.EPERM
            fcntl.ioctl(listener, _SEND, _ANSWER.pack(number, 0, -code, 0))
        except (FileNotFoundError, InterruptedError):
            continue  # who asked was ended meanwhile


def _change(listener: int, number: int, pid: int, given: dict[str, int], folders: Collection[str]) -> None:
    memory = file = -1
    try:
        memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        file = _opened(pid, memory, given)
        times = _read(memory, given["t"], 32).ljust(32, b"\0") if given.get("t") else None  # None: now
        fcntl.ioctl(listener, _IS_VALID, struct.pack("=Q", number))  # the memory was that of who asked
        place = os.readlink(f"/proc/self/fd/{file}")
        if not any(place == one or place.startswith(f"{one}/") for one in folders):
            raise PermissionError(errno.EPERM, "it lies elsewhere")
        if "t" in given:
            call(_UTIMENSAT[ON_ARM], file, b"", times, _EMPTY_PATH)
        elif "o" in given:
            call(_FCHOWNAT[ON_ARM], file, b"", given["o"] & 0xFFFFFFFF, given["g"] & 0xFFFFFFFF, _EMPTY_PATH)
        elif stat.S_ISLNK(kind := os.fstat(file).st_mode):
            raise OSError(errno.EOPNOTSUPP, "a link has no mode")
        elif stat.S_ISDIR(kind) and given["m"] & 0o700 != 0o700:
            raise PermissionError(errno.EPERM, "what is protected in it could not be put back")
        else:
            os.chmod(f"/proc/self/fd/{file}", given["m"] & 0o1777)
    finally:
        for one in {memory, file} - {-1}:
            os.close(one)


def _opened(pid: int, memory: int, given: dict[str, int]) -> int:
    """A descriptor of the file that is meant, to which nothing but a look was done."""
    opening, flags = os.O_PATH | os.O_CLOEXEC, given.get("x", 0)
    base = given.get("f", given.get("d", _AT_CWD)) & 0xFFFFFFFF
    place = f"/proc/{pid}/cwd" if base == _AT_CWD else f"/proc/{pid}/fd/{base}"
    if "f" in given or ("t" in given and not given["p"]):
        return os.open(place, opening)
    path, end, _ = _read(memory, given.get("p", given.get("l", 0)), 4096).partition(b"\0")
    if not end:
        raise OSError(errno.ENAMETOOLONG, "too long")
    if not path:
        if not flags & _EMPTY_PATH:
            raise OSError(errno.ENOENT, "no path")
        return os.open(place, opening)
    own = path.removeprefix(b"/proc/self/fd/")  # libraries do so, where the kernel is older than they are
    if own != path and own.isdigit():
        return os.open(f"/proc/{pid}/fd/{int(own)}", opening)
    at = os.open(place if path[:1] != b"/" else "/", opening)
    try:
        return os.open(path, opening | (os.O_NOFOLLOW if "l" in given or flags & _NOFOLLOW else 0), dir_fd=at)
    finally:
        os.close(at)


def _read(memory: int, pointer: int, size: int) -> bytes:
    try:
        return os.pread(memory, size, pointer)
    except OSError:
        raise OSError(errno.EFAULT, "nothing there") from None
