"""Changes of config.toml by commands: everything else in it stays as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nanoclaw.atomic_write import NotSaved, write_atomically
from nanoclaw.core.errors import ConfigError
from nanoclaw.start.config import Config


def document(config: Config) -> Any:
    """The whole file, with its comments."""
    import tomlkit

    return tomlkit.parse(config.file.read_text(encoding="utf-8-sig") if config.file.exists() else "")


def write(config: Config, changed: Any) -> None:
    """Raises ConfigError."""
    import tomlkit

    _written(config.file, tomlkit.dumps(changed))


def backed_up(config: Config) -> Path:
    """Copy the file as it is to config.toml.bak. Raises ConfigError."""
    copy = config.file.with_name(f"{config.file.name}.bak")
    _written(copy, config.file.read_text(encoding="utf-8"))
    return copy


def _written(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(path, text, mode=0o600)
    except NotSaved as error:
        raise ConfigError(str(error)) from None
