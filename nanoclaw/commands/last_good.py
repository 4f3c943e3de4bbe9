"""The last good copy of config.toml: kept after a successful start, used when the file is broken."""

from __future__ import annotations

from collections.abc import Mapping

from nanoclaw.atomic_write import write_atomically
from nanoclaw.core.errors import ConfigError
from nanoclaw.start import config as configuration
from nanoclaw.start.config import LAST_GOOD, Config


def load(environ: Mapping[str, str], without: tuple[str, ...] = ()) -> Config:
    """The configuration, or the last good one, whose `problem` says why. Raises ConfigError if neither is valid."""
    try:
        return _checked(configuration.load(environ), without)
    except ConfigError as error:
        return instead(environ, error, without)


def instead(environ: Mapping[str, str], error: ConfigError, without: tuple[str, ...] = ()) -> Config:
    """The last good configuration instead of one that never started. Raises `error` if there is no other."""
    file = configuration.home_of(environ) / "config.toml"
    try:
        data = (file.with_name(LAST_GOOD)).read_bytes()
        if file.is_file() and file.read_bytes() == data:
            raise error
        copy = _checked(configuration.load(environ, LAST_GOOD), without)
    except (ConfigError, OSError):
        raise error from None
    said = f"Safe mode: {error} Until that is corrected and nanoclaw restarted, the last good settings apply."
    return copy._replace(problem=said)


def keep(config: Config) -> None:
    """Keep a copy of the file as it was read, after a start with it. Raises OSError."""
    if config.problem or config.without or not config.file.exists():
        return
    data, copy = config.file.read_bytes(), config.home / LAST_GOOD
    if configuration.table_of(config.file, data) != config.keys.table or (copy.exists() and copy.read_bytes() == data):
        return
    write_atomically(copy, data, 0o600)


def _checked(config: Config, without: tuple[str, ...]) -> Config:
    """Load settings; a process that owns the home has checked those of plugins."""
    from nanoclaw.start.store_lock import owner

    if config.table and owner(config.home / "state.db") is None:
        from nanoclaw.start.build import checked

        checked(config, without=without)
    return config
