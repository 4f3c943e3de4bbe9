"""Changes of modes, owners and times, where neither Landlock nor a mount keeps a command from
them: the kernel asks here for each (seccomp's user notification). What is in a folder that the command may write is
changed for it, with no more rights than it has; anything else is refused.

The answer is never "go on": names and descriptors could be others by then. A file is opened once, judged by its place,
and changed by that descriptor.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct

from nanoclaw.sandbox.kernel import ON_ARM, call

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` would be a third of the start
    from collections.abc import Callable, Collection
    from typing import Literal

    Named = Literal["path", "link", "descriptor", "at"]
    What = Literal["mode", "owner", "times"]

CALLS: dict[tuple[int, int], tuple[Named, What, int]] = {
    (90, -1): ("path", "mode", -1), (91, 52): ("descriptor", "mode", -1), (268, 53): ("at", "mode", -1),
    (452, 452): ("at", "mode", 3), (92, -1): ("path", "owner", -1), (94, -1): ("link", "owner", -1),
    (93, 55): ("descriptor", "owner", -1), (260, 54): ("at", "owner", 4), (280, 88): ("at", "times", 3),
}  # fmt: skip
"""Numbers (on x86_64, on ARM), how the file is named, what is changed, and which argument has flags: chmod, fchmod,
fchmodat, fchmodat2, chown, lchown, fchown, fchownat, utimensat."""

REFUSED = ((132, 235, 261, 188, 189, 190, 197, 198, 199), (5, 6, 7, 14, 15, 16))
"""On x86_64, on ARM: older ways to change times, which libraries don't use, and extended attributes."""

_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
_NOTIFIED, _ANSWER = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
_AT_CWD, _NOFOLLOW, _EMPTY_PATH = -100, 0x100, 0x1000
_CAPSET, _FCHOWNAT, _UTIMENSAT = (126, 91), (260, 54), (280, 88)
_LONGEST = 4096
_CAPABILITY_VERSION = 0x20080522


def serve(listener: int, folders: Collection[str]) -> None:
    """Answer until nobody is left who asks. `folders` are those to be written. Raises OSError before it has begun."""
    server = _Server(listener, folders)
    server.drop_capabilities()
    while server.answer_one():
        pass


class _Server:
    def __init__(self, listener: int, folders: Collection[str]) -> None:
        self._listener = listener
        self._calls = {numbers[ON_ARM]: how for numbers, how in CALLS.items() if numbers[ON_ARM] >= 0}
        self._tops: list[str] = []
        for one in folders:
            try:
                opened = os.open(one, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue  # it isn't there
            self._tops.append(os.readlink(f"/proc/self/fd/{opened}"))
            os.close(opened)

    def drop_capabilities(self) -> None:
        """Of this thread; raises OSError."""
        call(_CAPSET[ON_ARM], struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(24))

    def answer_one(self) -> bool:
        asked = bytearray(_NOTIFIED.size)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, asked)
        except FileNotFoundError:  # it was ended meanwhile
            return True
        except OSError:
            return False
        number, pid, _, asked_for, _, _, *arguments = _NOTIFIED.unpack(asked)
        try:
            self._carry_out(number, pid, asked_for, arguments)
            code = 0
        except OSError as error:
            code = error.errno or errno.EPERM
        except Exception:  # whatever it was: refused
            code = errno.EPERM
        try:
            fcntl.ioctl(self._listener, _SEND, _ANSWER.pack(number, 0, -code, 0))
        except OSError as error:
            return error.errno == errno.ENOENT
        return True

    def _carry_out(self, number: int, pid: int, asked_for: int, arguments: list[int]) -> None:
        named, what, flags_at = self._calls[asked_for]
        memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            file = self._opened(pid, memory, named, arguments, arguments[flags_at] if flags_at >= 0 else 0)
            try:
                rest = arguments[2:] if named == "at" else arguments[1:]
                change = self._change(memory, what, rest)
                fcntl.ioctl(self._listener, _IS_VALID, struct.pack("=Q", number))  # the memory was that of who asked
                self._check_place(file)
                change(file)
            finally:
                os.close(file)
        finally:
            os.close(memory)

    def _opened(self, pid: int, memory: int, named: Named, arguments: list[int], flags: int) -> int:
        """A descriptor of the file that is meant, to which nothing but a look was done."""
        opening = os.O_PATH | os.O_CLOEXEC
        if named == "descriptor":
            return os.open(f"/proc/{pid}/fd/{_signed(arguments[0])}", opening)
        base = _signed(arguments[0]) if named == "at" else _AT_CWD
        pointer = arguments[1] if named == "at" else arguments[0]
        path = _text(memory, pointer) if pointer else b""
        place = f"/proc/{pid}/cwd" if base == _AT_CWD else f"/proc/{pid}/fd/{base}"
        if not path:
            if pointer and not flags & _EMPTY_PATH:
                raise OSError(errno.ENOENT, "no path")
            return os.open(place, opening)
        own = path.removeprefix(b"/proc/self/fd/")  # libraries do so, where the kernel is older than they are
        if own != path and own.isdigit():
            return os.open(f"/proc/{pid}/fd/{int(own)}", opening)
        if named == "link" or flags & _NOFOLLOW:
            opening |= os.O_NOFOLLOW
        if path[:1] == b"/":
            return os.open(path, opening)
        at = os.open(place, opening & ~os.O_NOFOLLOW)
        try:
            return os.open(path, opening, dir_fd=at)
        finally:
            os.close(at)

    def _check_place(self, file: int) -> None:
        place = os.readlink(f"/proc/self/fd/{file}")
        if not any(place == one or place.startswith(f"{one}/") for one in self._tops):
            raise PermissionError(errno.EPERM, "it lies elsewhere")

    def _change(self, memory: int, what: What, rest: list[int]) -> Callable[[int], object]:
        """The change, with all that is read of it."""
        if what == "mode":
            return lambda file: os.chmod(_followed(file), rest[0] & 0o1777)
        if what == "owner":
            owner, group = (one & 0xFFFFFFFF for one in rest[:2])
            return lambda file: call(_FCHOWNAT[ON_ARM], file, b"", owner, group, _EMPTY_PATH)
        times = _read(memory, rest[0], 32).ljust(32, b"\0") if rest[0] else None  # None: now
        return lambda file: call(_UTIMENSAT[ON_ARM], file, b"", times, _EMPTY_PATH)


def _followed(file: int) -> str:
    """A path that leads to an opened file; not for links, of which nothing is changed but owner and times."""
    if stat.S_ISLNK(os.fstat(file).st_mode):
        raise OSError(errno.EOPNOTSUPP, "a link")
    return f"/proc/self/fd/{file}"


def _text(memory: int, pointer: int) -> bytes:
    text, end, _ = _read(memory, pointer, _LONGEST).partition(b"\0")
    if not end:
        raise OSError(errno.ENAMETOOLONG, "too long")
    return text


def _read(memory: int, pointer: int, size: int) -> bytes:
    try:
        return os.pread(memory, size, pointer)
    except OSError:
        raise OSError(errno.EFAULT, "nothing there") from None


def _signed(argument: int) -> int:
    """A descriptor, of which an argument's lower half counts."""
    return int.from_bytes((argument & 0xFFFFFFFF).to_bytes(4, "little"), "little", signed=True)
