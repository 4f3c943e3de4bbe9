"""The library that stands between a process and the disk: how to build it, arm it and read what it wrote down."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

How = Literal["-", "before", "after", "half", "short", "enospc", "full", "eio"]
"""Fate of the chosen call: nothing; killed before it, after it, after half of a write; half of a write is made
and said so; the disk is full, or full from then on; the device fails."""

KILLS: tuple[How, ...] = ("before", "after", "half")


@dataclass(frozen=True, slots=True)
class Call:
    """One call as the log has it. `kind` is create, write, truncate, allocate, sync, rename, link, unlink, mkdir or
    rmdir; `data` is what was written, where the log was to keep it."""

    number: int
    kind: str
    how: str
    inode: int
    at: int
    size: int
    result: int
    path: str
    other: str
    data: bytes

    def __str__(self) -> str:
        return f"{self.number} {self.kind} {self.path}" + (f" -> {self.other}" if self.other else "")


def obstacle() -> str:
    """Why the library cannot be built here, or ""."""
    if not sys.platform.startswith("linux"):
        return "the shim is loaded with LD_PRELOAD and speaks Linux's system calls"
    return "" if shutil.which("cc") else "there is no C compiler (cc): the shim that disturbs system calls needs one"


def build(folder: Path) -> Path:
    library = folder / "shim.so"
    source = Path(__file__).with_name("shim.c")
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread"]
    subprocess.run(["cc", *flags, "-o", str(library), str(source)], check=True)
    return library


def arm(root: Path, log: Path, at: int, how: How, *, data: bool = False) -> None:
    """From now on calls under `root` count, from 1, and number `at` is disturbed. Needs the library to be loaded."""
    folder = os.path.realpath(root)
    ctypes.CDLL(None).torture_arm(os.fsencode(folder), os.fsencode(log), ctypes.c_long(at), how.encode(), int(data))


def count() -> int:
    """Number of calls so far, 0 without the library."""
    try:
        return int(ctypes.CDLL(None).torture_count())
    except AttributeError:
        return 0


def read_log(path: Path) -> list[Call]:
    content = path.read_bytes() if path.exists() else b""
    calls, start = [], 0
    while start < len(content):
        end = content.index(b"\n", start) + 1
        number, kind, how, *numbers, place, other = content[start : end - 1].decode().split("\t")
        inode, at, size, result, length = map(int, numbers)
        start = end + length
        calls.append(Call(int(number), kind, how, inode, at, size, result, place, other, content[end:start]))
    return calls
