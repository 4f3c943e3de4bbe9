"""Reads a file of settings: a plain one, of a size that somebody may have written."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from nanoclaw.core.errors import ConfigError

_MOST_BYTES = 10_000_000


def read(path: Path) -> bytes | None:
    """All of the file, None if there is none. Raises ConfigError: for a link to nothing too, since settings were meant
    to be there."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # the reader of a pipe waits for nobody
    except FileNotFoundError:
        if path.is_symlink():
            raise ConfigError(f"{path} is a link to {path.readlink()}, and nothing is there.") from None
        return None
    except NotADirectoryError:
        raise ConfigError(
            f"{path.parent} is not a folder, so it cannot be the home: set NANOCLAW_HOME to another path."
        ) from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            kind = "Is a directory" if stat.S_ISDIR(found.st_mode) else "it is not a plain file"
            raise ConfigError(f"{path} cannot be read: {kind}.")
        if found.st_size > _MOST_BYTES:
            raise ConfigError(f"{path} cannot be read: it has {found.st_size / 1e6:.0f} MB, of at most 10.")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    finally:
        os.close(descriptor)
