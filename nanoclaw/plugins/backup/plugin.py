"""Backup as a plugin: /backup in a chat. `nanoclaw backup` and `nanoclaw restore` need no running program."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nanoclaw.core.errors import StoreError
from nanoclaw.core.plugin import Command, Host, Plugin, Said

if TYPE_CHECKING:
    from nanoclaw.plugins.backup.backup import Made


class Backup(Plugin):
    name = "backup"

    def __init__(self, host: Host, settings: Any) -> None:
        self._host = host

    def commands(self) -> Iterable[Command]:
        help = "save everything in one archive: /backup /path/to/nanoclaw.tar.gz"
        return [Command("backup", help, self._backup, private=True)]

    async def _backup(self, said: Said) -> str:
        from nanoclaw.plugins.backup.backup import backup

        file = _whole_path(said.argument)
        home, workspace = self._host.program_home, self._host.workspace
        files = {path: kind for one in self._host.plugins() for path, kind in one.files().items()}
        derived = [path for path, kind in files.items() if kind == "derived"]
        made = await asyncio.to_thread(backup, home, workspace, file, derived=derived)
        elsewhere = [
            f"{path} (it lies elsewhere)"
            for path, kind in files.items()
            if kind == "kept" and not any(path.is_relative_to(folder) for folder in (home, workspace))
        ]
        return "\n".join(summary(made, file, elsewhere))


def _whole_path(name: str) -> Path:
    file = Path(name).expanduser()
    if not file.is_absolute():
        raise StoreError("say where to: /backup and the whole path of a new file, such as ~/nanoclaw.tar.gz")
    return file


def summary(made: Made, file: Path, elsewhere: Iterable[str] = ()) -> list[str]:
    """Tell what an archive has, and what it doesn't."""
    left_out = [f"Left out: {name}" for name in (*made.left_out, *elsewhere)]
    return [f"{made.files:,} files ({made.size / 1e6:,.1f} MB) are in {file}, checked by restoring it.", *left_out]
