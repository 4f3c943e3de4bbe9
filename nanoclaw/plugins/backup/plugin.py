"""Backup as a plugin: /backup in a chat, and backups by themselves into a folder of the person's choice.

`nanoclaw backup` and `nanoclaw restore` need no running program.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from nanoclaw.clock import pause
from nanoclaw.core.errors import ConfigError, NanoclawError, StoreError
from nanoclaw.core.plugin import Command, Finding, Host, NamedTuple, Plugin, Said

if TYPE_CHECKING:
    from nanoclaw.plugins.backup.backup import Made


_EVERY = timedelta(days=1)
_KEPT = 7
_LOOK_SECONDS = 600.0
"""Between two looks whether one is due: the machine may have slept, and a disk may have been put in."""


class BackupSettings(NamedTuple):
    """Backups made by themselves while nanoclaw runs; the newest seven are kept."""

    folder: str = ""  # a folder elsewhere, such as "/mnt/disk/backups", for one a day; empty: none is made

    def check(self) -> None:
        if self.folder and not Path(self.folder).expanduser().is_absolute():
            raise ConfigError(f"backup.folder must be a whole path, not {self.folder!r}.")


class Backup(Plugin):
    name = "backup"
    settings = BackupSettings

    def __init__(self, host: Host, settings: BackupSettings) -> None:
        self._host, self._settings = host, settings
        self._folder = Path(settings.folder).expanduser() if settings.folder else None
        if self._folder and any(self._folder.is_relative_to(one) for one in (host.program_home, host.workspace)):
            raise ConfigError(f"backup.folder {self._folder} lies in what is saved: choose a folder elsewhere.")
        self._trouble = ""

    def commands(self) -> Iterable[Command]:
        help = "save everything in one archive: /backup /path/to/nanoclaw.tar.gz"
        return [Command("backup", help, self._backup, private=True)]

    async def _backup(self, said: Said) -> str:
        return await self._save(_whole_path(said.argument))

    async def _save(self, file: Path) -> str:
        from nanoclaw.plugins.backup.backup import backup

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

    async def run(self) -> None:
        while self._folder:
            try:
                await self._save_if_due(self._folder)
                self._trouble = ""
            except (NanoclawError, OSError) as error:
                if str(error) != self._trouble:
                    self._trouble = str(error)
                    self._host.log.warning("no backup: {}", error)
            await pause(_LOOK_SECONDS)

    async def _save_if_due(self, folder: Path) -> None:
        """Make one unless the newest is new enough, and delete the oldest. Raises StoreError, OSError."""
        now, kept = self._host.now(), _kept(folder)
        if kept and kept[-1][0] > now.replace(tzinfo=None) - _EVERY:
            return
        await self._save(folder / f"nanoclaw-{now:%Y-%m-%d-%H%M}.tar.gz")
        for _, old in _kept(folder)[:-_KEPT]:
            old.unlink()

    async def check(self, deep: bool) -> Iterable[Finding]:
        if not self._folder:
            return ()
        kept = _kept(self._folder)
        text = f"the newest in {self._folder} is of {kept[-1][0]:%Y-%m-%d %H:%M}" if kept else f"none in {self._folder}"
        return [Finding(not self._trouble, f"{text}. {self._trouble}".rstrip(". "), "backup")]


def _kept(folder: Path) -> list[tuple[datetime, Path]]:
    """The backups that were made by themselves, the oldest first, each with its time in the person's zone."""
    found = []
    for path in folder.glob("nanoclaw-*.tar.gz"):
        if re.fullmatch(r"nanoclaw-\d{4}-\d\d-\d\d-\d{4}\.tar\.gz", path.name):
            found.append((datetime.strptime(path.name[9:24], "%Y-%m-%d-%H%M"), path))  # noqa: DTZ007
    return sorted(found)


def _whole_path(name: str) -> Path:
    file = Path(name).expanduser()
    if not file.is_absolute():
        raise StoreError("say where to: /backup and the whole path of a new file, such as ~/nanoclaw.tar.gz")
    return file


def summary(made: Made, file: Path, elsewhere: Iterable[str] = ()) -> list[str]:
    """Tell what an archive has, and what it doesn't."""
    left_out = [f"Left out: {name}" for name in (*made.left_out, *elsewhere)]
    return [f"{made.files:,} files ({made.size / 1e6:,.1f} MB) are in {file}, checked by restoring it.", *left_out]
