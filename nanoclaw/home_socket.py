"""The socket in a home by which others talk with the program that uses it. Standard library only."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # typing would be a tenth of the start
if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "gateway.sock"
LONGEST = 16_000_000
"""Bytes of a frame, at most."""

_LONGEST_PATH = 103  # what the kernels take: 107 bytes on Linux, 103 on macOS


def in_reach(folder: str, use: Callable[[str], None]) -> None:
    """`use` a spelling of the path in a home that is short enough for the kernel."""
    path = os.path.join(folder, NAME)
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        use(path)
        return
    here = os.open(".", os.O_RDONLY)
    try:
        os.chdir(folder)
        use(NAME)
    finally:
        os.fchdir(here)
        os.close(here)
