"""Calls of the kernel by number, for what starts with each command: `ctypes` itself would be a third of that."""

from __future__ import annotations

import _ctypes
import os

ON_ARM = os.uname().machine != "x86_64"


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
        raise OSError(code, os.strerror(code))
    return int(result)


class Kept:
    """Bytes at an address, as long as this is kept."""

    def __init__(self, data: bytes) -> None:
        self._bytes = type("_Bytes", (_ctypes.Array,), {"_type_": _Byte, "_length_": len(data)})()
        self._bytes.raw = data
        self.address = _ctypes.addressof(self._bytes)
