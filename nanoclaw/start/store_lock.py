"""The lock of a home: one process owns its store."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

from nanoclaw.atomic_write import reason
from nanoclaw.core.errors import StoreBusy, StoreError


def owner(path: Path) -> int | None:
    """The pid of the process that owns the store, or None."""
    try:
        with open(os.open(path.with_suffix(".lock"), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)) as lock:  # noqa: PTH123
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(lock.read().strip() or 0)
    except (OSError, ValueError):
        pass
    return None


def own(path: Path) -> IO[str]:
    """An OS lock, held until it is closed or the process ends, however it ends. Raises StoreBusy and StoreError."""
    try:
        descriptor = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(f"cannot write in {path.parent}: {error.strerror}. Check its permissions.") from error
    lock = os.fdopen(descriptor, "r+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = lock.read().strip()
        lock.close()
        raise StoreBusy(
            f"another nanoclaw (process {pid or 'unknown'}) is using {path.parent}. "
            "Talk to it there or end it first; NANOCLAW_HOME chooses another home."
        ) from None
    try:
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
    except OSError as error:
        raise StoreError(f"cannot write in {path.parent}: {reason(error)}. Nothing was changed.") from error
    return lock


def own_if_free(path: Path) -> IO[str] | None:
    try:
        return own(path)
    except StoreBusy:
        return None
