"""The last good copy of config.toml: kept after a successful start, used when the file is broken."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from nanoclaw.atomic_write import write_atomically
from nanoclaw.core.errors import ConfigError
from nanoclaw.start import config as configuration
from nanoclaw.start.config import LAST_GOOD, Config


def load(environ: Mapping[str, str], without: tuple[str, ...] = ()) -> Config:
    """The configuration, or the last good one, whose `problem` says why. Raises ConfigError if neither is valid."""
    from nanoclaw.start.opening import owner

    try:
        config = configuration.load(environ)
        if config.table and owner(config.home / "state.db") is None:  # which has checked the settings of plugins
            from nanoclaw.start.build import checked

            checked(config, without=without)
        return config
    except ConfigError as error:
        return instead(environ, error, without)


def instead(environ: Mapping[str, str], error: ConfigError, without: tuple[str, ...] = ()) -> Config:
    """The last good configuration instead of one that never started. Raises `error` if there is no other."""
    if (found := copy(environ, without)) is None or _is_of(found):
        raise error from None
    said = f"Safe mode: {error} Until that is corrected and nanoclaw restarted, the last good settings apply."
    return found._replace(problem=said)


def _is_of(copy: Config) -> bool:
    """True if a copy is of the file as it is; False where that can't be read, such as a link into a closed folder."""
    with suppress(OSError):
        return copy.file.is_file() and copy.file.read_bytes() == (copy.home / LAST_GOOD).read_bytes()
    return False


def copy(environ: Mapping[str, str], without: tuple[str, ...] = ()) -> Config | None:
    """The last good configuration; None if no copy was kept that a start would accept."""
    from nanoclaw.start.build import checked

    try:
        found = configuration.load(environ, LAST_GOOD)
        checked(found, without=without)
    except ConfigError:
        return None
    return found if (found.home / LAST_GOOD).exists() else None


def keep(config: Config) -> None:
    """Keep a copy of the file as it was read, after a start with it. Raises OSError."""
    if config.problem or config.without or not config.file.exists():
        return
    data, kept = config.file.read_bytes(), config.home / LAST_GOOD
    is_kept = kept.exists() and kept.read_bytes() == data
    if not is_kept and configuration.table_of(config.file, data) == config.keys.table:
        write_atomically(kept, data, 0o600)
