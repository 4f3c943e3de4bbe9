"""secrets.env: keys that nobody but the owner of the home should read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from nanoclaw.core.errors import ConfigError

_MOST_BYTES = 10_000_000


def read_whole(path: Path) -> bytes | None:
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


NAME = "secrets.env"


def read(path: Path) -> dict[str, str]:
    """NAME=value lines of a file that nobody but its owner should read."""
    return _parsed(path, _lines(path))


def _lines(path: Path) -> list[str]:
    try:
        return (read_whole(path) or b"").decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text. Save it as UTF-8.") from None


def _parsed(path: Path, lines: Iterable[str]) -> dict[str, str]:
    secrets = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.removeprefix("export ").partition("=")
        if not equals or not name.strip().isidentifier() or "\0" in value:  # which no environment takes
            raise ConfigError(f"{path}, line {number}: write it as NAME=value.")
        secrets[name.strip()] = value.strip().strip("\"'")
    return secrets


def write(path: Path, name: str, value: str) -> None:
    """Put a line into the file in place of one with that name, '' takes it out; others stay as they are. Raises
    ConfigError."""
    from nanoclaw.atomic_write import NotSaved, write_atomically

    before = _lines(path)
    _parsed(path, before)  # one that can't be read is not written either
    lines = [line for line in before if line.strip().removeprefix("export ").partition("=")[0].strip() != name]
    try:
        write_atomically(path, "\n".join([*lines, *([f"{name}={value}"] if value else ()), ""]), 0o600)
    except NotSaved as error:
        raise ConfigError(str(error)) from None


def readable_by_others(home: Path, settings: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each file with keys that others can read."""
    for path in (home / NAME, home / "config.toml"):
        with suppress(OSError):  # there is none
            is_open = path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
            if is_open and (path.name == NAME or _has_secret(settings)):
                yield f"{path} holds keys and can be read by others: run chmod 600 {path}"


def _has_secret(settings: Mapping[str, Any]) -> bool:
    """Tell by the names of the keys whether some settings hold a secret; the name of a keyring's entry is none."""
    from nanoclaw.redaction import smells_of_secret
    from nanoclaw.start.key_references import name_in

    given = ((key, value) for key, value in settings.items() if isinstance(value, str) and value)
    return any(smells_of_secret(key) and not name_in(value) for key, value in given)
