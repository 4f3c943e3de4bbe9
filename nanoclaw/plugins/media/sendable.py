"""Files that may be sent to a chat: plain ones of the workspace, and nothing that the program keeps for itself."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from nanoclaw.beneath.paths import PathError, open_for_reading, resolve
from nanoclaw.core.errors import Refused, ToolError

OWN = (
    "config.toml",
    "secrets.env",
    "state.db",
    "state.db-wal",
    "state.db-shm",
    "state.lock",
    "index.db",
    "index.db-talk",
)
"""Files of the home folder that nobody is to be sent, under whatever name they are found."""
_OWN_FOLDERS = frozenset({"logs", "undo", "models", "plugins"})


class Sendable:
    def __init__(self, root: Path, home: Path, most_bytes: int, chat_apps: Iterable[str] = ()) -> None:
        """`root` is the workspace's, `home` the program's own folder, which may lie around, in or beside it; each of
        the `chat_apps` has a folder of its name there, with keys and logins."""
        self._root, self._home, self._most = root, home, most_bytes
        self._own_folders = _OWN_FOLDERS | set(chat_apps)

    def __call__(self, path: str) -> str:
        """The real path of a file that may be sent, asked for by its path in the workspace. Raises ToolError."""
        if os.path.isabs(path) or path.startswith("~") or "://" in path or ".." in path.split("/"):  # noqa: PTH117
            raise Refused(f"{path[:200]!r} cannot be sent: give the path of a file in the workspace, like ./photo.png.")
        try:
            real = resolve(self._root, path, for_writing=False)
            with open_for_reading(self._root, path) as file:
                found = os.fstat(file.fileno())
        except PathError as error:
            raise ToolError(str(error)) from None
        if self._is_own(real, found):
            raise Refused(f"{path[:200]!r} is the program's own file and is not sent.")
        if not found.st_size:
            raise ToolError(f"{path[:200]!r} is empty (0 bytes), so it cannot be sent.")
        if found.st_size > self._most:
            size, most = found.st_size / 1e6, self._most / 1e6
            raise ToolError(f"{path[:200]!r} has {size:,.1f} MB, more than the {most:,.0f} MB that can be sent.")
        return str(real)

    def _is_own(self, real: Path, found: os.stat_result) -> bool:
        """Also a second name of such a file (a hard link), and all of the home where it lies in the workspace."""
        home, root = Path(os.path.realpath(self._home)), Path(os.path.realpath(self._root))
        for name in OWN:
            try:
                if os.path.samestat(found, (home / name).stat()):
                    return True
            except OSError:
                continue
        if not real.is_relative_to(home) or (root != home and root.is_relative_to(home)):
            return False
        first = real.relative_to(home).parts[0]
        return (
            root != home or first in self._own_folders or first.startswith(("state.", "index.", "config.", "secrets."))
        )
