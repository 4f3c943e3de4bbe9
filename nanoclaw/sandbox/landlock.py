"""Landlock and seccomp by ctypes: a process confines itself and all that comes from it. Used by `launch.py`, and to ask
what this kernel can do."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_VERSION_FLAG, _PATH_BENEATH = 1, 1
_PDEATHSIG, _SUBREAPER, _NO_NEW_PRIVS, _SECCOMP, _DROP_CAPABILITY = 1, 36, 38, 22, 24
_CAPABILITIES = 64
_FILTER, _KILL = 2, 9

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
_CHANGE_FOLDER = 0x1FF0  # remove folders and files; make folders, files, sockets, FIFOs, links: no devices
_MAKE_CHAR, _MAKE_BLOCK, REFER, TRUNCATE, IOCTL = 1 << 6, 1 << 11, 1 << 13, 1 << 14, 1 << 15
_FILE_ONLY = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL

READ = EXECUTE | READ_FILE | READ_DIR
WRITE = READ | WRITE_FILE | (_CHANGE_FOLDER & ~_MAKE_CHAR & ~_MAKE_BLOCK) | REFER | TRUNCATE
DEVICE = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("access", ctypes.c_uint64), ("parent", ctypes.c_int32)]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def version() -> int:
    """The version of Landlock that this kernel has; 0 for none."""
    try:
        return max(0, int(_c().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG))))
    except (OSError, AttributeError):
        return 0


def keep_orphans() -> None:
    """Become the parent of all orphans among the descendants, and end with the parent."""
    _prctl(_SUBREAPER, 1)
    _prctl(_PDEATHSIG, _KILL)


def confine(rules: Iterable[tuple[str, int]], seccomp: bytes) -> None:
    """Allow this process and its descendants these rights below these paths and nothing else of files, then the filter.
    Raises OSError, with nothing or a part of it done: go no further then."""
    _prctl(_PDEATHSIG, _KILL)
    for one in range(_CAPABILITIES):  # an administrator's; nobody else can, or has any
        _c().prctl(_DROP_CAPABILITY, ctypes.c_ulong(one), 0, 0, 0)
    _prctl(_NO_NEW_PRIVS, 1)
    known = version()
    if known < 2:
        raise OSError("Landlock is too old here")
    handled = WRITE | _MAKE_CHAR | _MAKE_BLOCK | (IOCTL if known >= 5 else 0)
    handled &= ~(TRUNCATE if known < 3 else 0)
    ruleset = _Ruleset(handled, 3 if known >= 4 else 0, 3 if known >= 6 else 0)
    size = 24 if known >= 6 else 16 if known >= 4 else 8
    made = _call(_CREATE_RULESET, ctypes.byref(ruleset), ctypes.c_size_t(size), ctypes.c_uint32(0))
    for path, rights in rules:
        try:
            parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # it isn't there: nothing is allowed
        is_folder = stat.S_ISDIR(os.fstat(parent).st_mode)
        rule = _Beneath(rights & handled & (-1 if is_folder else _FILE_ONLY), parent)
        _call(_ADD_RULE, ctypes.c_int(made), ctypes.c_int(_PATH_BENEATH), ctypes.byref(rule), ctypes.c_uint32(0))
        os.close(parent)
    _call(_RESTRICT_SELF, ctypes.c_int(made), ctypes.c_uint32(0))
    os.close(made)
    if seccomp:
        kept = ctypes.create_string_buffer(seccomp, len(seccomp))
        program = _Program(len(seccomp) // 8, ctypes.cast(kept, ctypes.c_void_p))
        _prctl(_SECCOMP, _FILTER, ctypes.addressof(program))


def _c() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int, more: int = 0) -> None:
    c = _c()
    if c.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(more), ctypes.c_ulong(0), ctypes.c_ulong(0)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _call(number: int, *arguments: object) -> int:
    result = _c().syscall(number, *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(result)
