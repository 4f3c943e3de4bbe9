"""Landlock and seccomp: a process confines itself and all that comes from it. Used by `launch.py`, and to ask
what this kernel can do. Each import of it is a part of the price of each command."""

import _ctypes
import posix
import sys
from _stat import S_ISDIR

ON_ARM = posix.uname().machine != "x86_64"


class _Long(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "l"


class _Byte(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "c"


class _Function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = _Long


def call(number: int, *arguments: int | bytes | None) -> int:
    """Its result. Raises OSError, also if the kernel is too old for it."""
    return _result("syscall", number, *arguments)


def prctl(option: int, value: int) -> None:
    """Raises OSError."""
    _result("prctl", option, value, 0, 0, 0)


def _result(name: str, *arguments: int | bytes | None) -> int:
    function = _Function(_ctypes.dlsym(_ctypes.dlopen(None, 0), name))  # type: ignore[arg-type]
    result = function(*(_Long(one) if isinstance(one, int) else one for one in arguments))
    if result < 0:
        code = _ctypes.get_errno()
        raise OSError(code, posix.strerror(code))
    return int(result)


class Kept:
    """Bytes at an address, as long as this is kept."""

    def __init__(self, data: bytes) -> None:
        self._bytes = type("_Bytes", (_ctypes.Array,), {"_type_": _Byte, "_length_": len(data)})()
        self._bytes.raw = data
        self.address = _ctypes.addressof(self._bytes)


TYPE_CHECKING = False
if TYPE_CHECKING:  # it would be a good part of the start
    from collections.abc import Iterable

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_VERSION_FLAG, _PATH_BENEATH = 1, 1
_PDEATHSIG, _SUBREAPER, _NO_NEW_PRIVS, _DROP_CAPABILITY = 1, 36, 38, 24
_CAPABILITIES, _KILL = 64, 9
_SECCOMP, _SET_FILTER, _NEW_LISTENER, _WAIT_KILLABLE = (317, 277), 1, 8, 32
_READABLE = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
_CHANGE_FOLDER = 0x1FF0  # remove folders and files; make folders, files, sockets, FIFOs, links: no devices
_MAKE_CHAR, _MAKE_BLOCK, REFER, TRUNCATE, IOCTL = 1 << 6, 1 << 11, 1 << 13, 1 << 14, 1 << 15
_FILE_ONLY = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL

READ = EXECUTE | READ_FILE | READ_DIR
WRITE = READ | WRITE_FILE | (_CHANGE_FOLDER & ~_MAKE_CHAR & ~_MAKE_BLOCK) | REFER | TRUNCATE
DEVICE = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL


def version() -> int:
    """The version of Landlock that this kernel has; 0 for none."""
    try:
        return call(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    except (OSError, AttributeError):
        return 0


def keep_orphans(parent_gone: int) -> None:
    """Become the parent of all orphans among the descendants, and get this signal when the own one is gone."""
    prctl(_SUBREAPER, 1)
    prctl(_PDEATHSIG, parent_gone)


def listen(seccomp: bytes) -> int:
    """Put a filter on this thread and what comes from it; a descriptor from which `attributes` hears what it asks
    about. Raises OSError."""
    prctl(_NO_NEW_PRIVS, 1)
    kept = Kept(seccomp)
    program = _number(len(seccomp) // 8) + _number(kept.address)
    return call(_SECCOMP[ON_ARM], _SET_FILTER, _NEW_LISTENER | _WAIT_KILLABLE, program)


def wait_for(listener: int) -> None:
    """Until something is asked there."""
    polled = bytes(8)
    while not polled[6] & _READABLE:
        polled = listener.to_bytes(4, sys.byteorder) + _READABLE.to_bytes(2, sys.byteorder) + bytes(2)
        try:
            _result("poll", polled, 1, -1)
        except InterruptedError:
            continue


def confine(rules: "Iterable[tuple[str, int]]") -> None:
    """Allow this process and its descendants these rights below these paths and nothing else of files. Raises OSError,
    with nothing or a part of it done: go no further then."""
    prctl(_PDEATHSIG, _KILL)
    for one in range(_CAPABILITIES):  # an administrator's; nobody else can, or has any
        try:
            prctl(_DROP_CAPABILITY, one)
        except OSError:
            break
    prctl(_NO_NEW_PRIVS, 1)
    known = version()
    if known < 2:
        raise OSError("Landlock is too old here")
    handled = WRITE | _MAKE_CHAR | _MAKE_BLOCK | (IOCTL if known >= 5 else 0)
    handled &= ~(TRUNCATE if known < 3 else 0)
    ruleset = _number(handled) + _number(3) * (known >= 4) + _number(3) * (known >= 6)  # files, net, scopes
    made = call(_CREATE_RULESET, ruleset, len(ruleset), 0)
    for path, rights in rules:
        try:
            parent = posix.open(path, posix.O_PATH | posix.O_CLOEXEC)
        except OSError:
            continue  # it isn't there: nothing is allowed
        is_folder = S_ISDIR(posix.fstat(parent).st_mode)
        rule = _number(rights & handled & (-1 if is_folder else _FILE_ONLY)) + _number(parent)
        call(_ADD_RULE, made, _PATH_BENEATH, rule, 0)
        posix.close(parent)
    call(_RESTRICT_SELF, made, 0)
    posix.close(made)


def _number(value: int) -> bytes:
    return value.to_bytes(8, sys.byteorder)
