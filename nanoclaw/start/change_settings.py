"""The one writer of config.toml: comments stay, what comes out is checked before it counts, the file before is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from nanoclaw.atomic_write import write_atomically
from nanoclaw.core.errors import ConfigError
from nanoclaw.start import secrets_file
from nanoclaw.start.config import Config, load, table_of


def change(check: Callable[[Config], object], config: Config, changes: Mapping[str, Any]) -> Path | None:
    """Set dotted keys, such as {"model.name": "openai/gpt-5"}; None takes one out, and a table that is empty then.
    Returns the copy of the file as it was, None without one or without a change. Raises ConfigError, with nothing
    changed, if `check` does."""
    import tomlkit

    file, draft, copy = config.file, config.home / ".config.toml.new", config.home / "config.toml.bak"
    before = secrets_file.read_whole(file)
    if before:
        table_of(file, before)  # says what is wrong with it
    document = tomlkit.parse((before or b"").decode("utf-8-sig"))
    for key, value in changes.items():
        _set(document, key.split("."), value)
    after = tomlkit.dumps(document).encode()
    if after == (before or b""):
        return None
    try:
        config.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(draft, after, 0o600)
        try:
            check(load({**config.environment, "NANOCLAW_HOME": str(config.home)}, draft.name))
        except ConfigError as error:
            raise ConfigError(f"{str(error).replace(str(draft), str(file))} Nothing was changed.") from None
        finally:
            draft.unlink()
        if before is not None:
            write_atomically(copy, before, 0o600)
        write_atomically(file, after, 0o600)
    except OSError as error:
        raise ConfigError(f"{file} was not changed: {error}") from None
    return copy if before is not None else None


def _set(table: MutableMapping[str, Any], path: list[str], value: Any) -> None:
    """Set a value in a table and the tables in it, which are made or, when empty, taken out."""
    import tomlkit

    name, *rest = path
    if rest:
        if not isinstance(table.get(name), MutableMapping):
            if value is None:
                return
            table[name] = tomlkit.table(is_super_table=len(rest) > 1)
        _set(table[name], rest, value)
        if value is None and not table[name]:
            del table[name]
    elif value is None:
        table.pop(name, None)
    elif table.get(name) != value:
        table[name] = value
