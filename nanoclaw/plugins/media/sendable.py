"""Files that may be sent to a chat: plain ones of the workspace, and nothing that the program keeps for itself."""

from __future__ import annotations

import os

from nanoclaw.beneath.paths import PathError, PathRefused, open_for_reading, resolve
from nanoclaw.beneath.reach import Reach
from nanoclaw.core.errors import Refused, ToolError


class Sendable:
    def __init__(self, reach: Reach, most_bytes: int) -> None:
        self._reach, self._most = reach._replace(read=(), write=()), most_bytes

    def __call__(self, path: str) -> str:
        """The real path of a file that may be sent, asked for by its path in the workspace. Raises ToolError."""
        if os.path.isabs(path) or path.startswith("~") or "://" in path or ".." in path.split("/"):  # noqa: PTH117
            raise Refused(f"{path[:200]!r} cannot be sent: give the path of a file in the workspace, like ./photo.png.")
        try:
            real = resolve(self._reach, path, for_writing=False)
            with open_for_reading(self._reach, path) as file:
                size = os.fstat(file.fileno()).st_size
        except PathRefused as error:
            raise Refused(str(error)) from None
        except PathError as error:
            raise ToolError(str(error)) from None
        if not size:
            raise ToolError(f"{path[:200]!r} is empty (0 bytes), so it cannot be sent.")
        if size > self._most:
            raise ToolError(
                f"{path[:200]!r} has {size / 1e6:,.1f} MB, more than the {self._most / 1e6:,.0f} MB that can be sent."
            )
        return str(real)
