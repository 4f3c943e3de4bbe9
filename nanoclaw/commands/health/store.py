"""The store: intact or damaged, and its repair."""

from __future__ import annotations

from collections.abc import Iterator

from nanoclaw.core.plugin import Finding
from nanoclaw.sqlite_salvage.copies import daily_copies, is_whole
from nanoclaw.start.config import Config
from nanoclaw.start.home import refuse_pipes, stored
from nanoclaw.start.opening import is_undamaged, own


def store(config: Config, pid: int | None) -> Iterator[Finding]:
    """Findings about the store. Raises StoreError if it cannot be read, or is of a newer program."""
    path = config.home / "state.db"
    if not path.exists():
        yield Finding(True, "none yet: the first conversation makes it", "store")
        return
    refuse_pipes(config)
    if pid:  # who writes the journal meanwhile
        with stored(config) as opened:
            assert opened
            whole = is_whole(opened.db)
    else:
        whole = path.stat().st_size > 0 and is_undamaged(path)
    copies = daily_copies(path)
    count = f"{len(copies)} daily cop{'ies' if len(copies) != 1 else 'y'}"
    kept = f"{count}, the newest of {copies[0].stem.partition('-')[2]}" if copies else "no daily copy yet"
    if whole:
        with stored(config):  # a format that can be read
            yield Finding(True, f"{path}; {kept}", "store")
    elif pid:
        text = f"{path} is damaged. End process {pid}, and run nanoclaw doctor --fix."
        yield Finding(False, f"{text} The next start does the same.", "store")
    else:
        over = f", over the copy of {copies[0].stem.partition('-')[2]}" if copies else ""
        text = f"{path} is damaged. The next start keeps it aside, and continues with what can be read{over}."
        yield Finding(False, text, "store", lambda: _rescue(config))


async def _rescue(config: Config) -> str:
    """Keep the damaged store aside, and replace it by what can be read over the newest copy, as the next start does."""
    from nanoclaw.start.build import classes
    from nanoclaw.start.recovery import recover

    path, plugins = config.home / "state.db", classes(config)
    with own(path):
        if path.stat().st_size and is_undamaged(path):
            return f"{path} is intact: another process has repaired it"
        return recover(path, plugins)
