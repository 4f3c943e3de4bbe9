"""Things that killed processes have left: sockets, drafts of files, temporary folders. All are harmless, and the next
start removes most of them."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nanoclaw import scratch_folders
from nanoclaw.atomic_write import left_over_drafts, remove_drafts
from nanoclaw.channels.attach import NAME as SOCKET
from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.plugin import Finding
from nanoclaw.core.store.lock import own, owner
from nanoclaw.start.config import Config
from nanoclaw.start.home import places_of_drafts, stored


def left_over(config: Config) -> Iterator[Finding]:
    """A note on each kind that was found. They are removed under the lock of the home, so that none belongs to a
    running process: one that starts meanwhile waits."""
    state = config.home / "state.db"
    if owner(state) is None:
        socket = config.home / SOCKET
        if _is_socket(socket):

            async def remove_socket() -> str:
                with own(state):
                    socket.unlink(missing_ok=True)
                return f"{socket} is removed"

            text = f"{socket} belongs to a process that was killed; nothing listens there"
            yield Finding(True, text, "left over", remove_socket)
        places = list(_places(config))
        if drafts := left_over_drafts(places):

            async def remove_unfinished() -> str:
                with own(state):
                    remove_drafts(places)
                return f"{_count(len(drafts), 'unfinished file')} removed"

            names = ", ".join(str(path.parent) for path in drafts[:3])
            text = f"{_count(len(drafts), 'unfinished file')} of processes that were killed, in {names}"
            yield Finding(True, text, "left over", remove_unfinished)
    if folders := scratch_folders.left_over():

        async def remove_folders() -> str:
            return f"{_count(scratch_folders.remove_left_over(), 'temporary folder')} removed"

        where = Path(folders[0]).parent
        text = f"{_count(len(folders), 'temporary folder')} of processes that were killed, in {where}"
        yield Finding(True, text, "left over", remove_folders)


def _places(config: Config) -> Iterator[Path]:
    with suppress(NanoclawError), stored(config) as store:  # a damaged one has a line of its own
        yield from places_of_drafts(config, store)
        return
    yield from places_of_drafts(config, None)


def _is_socket(path: Path) -> bool:
    with suppress(OSError):
        return stat.S_ISSOCK(path.lstat().st_mode)
    return False


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
