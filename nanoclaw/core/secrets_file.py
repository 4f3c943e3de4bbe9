"""secrets.env: keys that nobody but the owner of the home should read."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from nanoclaw.core.errors import ConfigError

NAME = "secrets.env"


def read(path: Path) -> dict[str, str]:
    """NAME=value lines of a file that nobody but its owner should read."""
    try:
        with path.open(encoding="utf-8") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return {}
    except NotADirectoryError:
        raise ConfigError(
            f"{path.parent} is not a folder, so it cannot be the home: set NANOCLAW_HOME to another path."
        ) from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text. Save it as UTF-8.") from None
    secrets = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.removeprefix("export ").partition("=")
        if not equals or not name.strip().isidentifier():
            raise ConfigError(f"{path}, line {number}: write it as NAME=value.")
        secrets[name.strip()] = value.strip().strip("\"'")
    return secrets


def readable_by_others(home: Path, leaves: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """A sentence for each file with keys that others can read."""
    for path in (home / NAME, home / "config.toml"):
        with suppress(OSError):  # there is none
            is_open = path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
            if is_open and (path.name == NAME or _has_secret(leaves)):
                yield f"{path} holds keys and can be read by others: run chmod 600 {path}"


def _has_secret(leaves: Iterable[tuple[str, Any]]) -> bool:
    """Tell by the names of the keys whether some settings hold a secret."""
    from nanoclaw.redaction import smells_of_secret

    return any(isinstance(value, str) and value and smells_of_secret(key) for key, value in leaves)
