"""The Matrix channel's files: its login, its signing keys, and how far it has read."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nanoclaw.atomic_write import NotSaved, write_atomically
from nanoclaw.channels.matrix.signing import Seeds
from nanoclaw.core.errors import ChannelError, WorkspaceError

MOST_WAITING = 100
"""Messages that cannot be decrypted whose keys are still waited for."""


@dataclass(frozen=True, slots=True)
class Account:
    """A login. `token` is '' when the server no longer takes it; `device` is then used again where that is allowed."""

    user: str
    device: str = ""
    token: str = field(default="", repr=False)
    seeds: Seeds = field(default_factory=Seeds.new)


@dataclass(frozen=True, slots=True)
class SyncProgress:
    """Position up to which messages are stored, '' for none; who invited the assistant to which rooms, also to
    those that it entered while the owner's code was awaited, and messages (room, event): those whose keys have not
    come, and answers that are still growing, the newest of which may be known by its transaction only."""

    since: str = ""
    invitations: tuple[tuple[str, str], ...] = ()
    entered: tuple[tuple[str, str], ...] = ()
    undecrypted: tuple[tuple[str, str], ...] = ()
    growing: tuple[tuple[str, str], ...] = ()


class Folder:
    """Files that only their owner can read. Reading raises ChannelError for a damaged file, writing WorkspaceError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._account, self._progress = path / "account.json", path / "sync.json"

    def make(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.path.chmod(0o700)
        except OSError as error:
            raise WorkspaceError(f"cannot make {self.path}: {error.strerror}. Check its permissions.") from error

    def has_login(self, user: str) -> bool:
        return bool(self.account(user).token)

    def account(self, user: str) -> Account:
        """The login of this user, a new one without a token when there is none."""
        found = self._read(self._account)
        if found.get("user") != user:
            return Account(user)
        try:
            seeds = Seeds(*(base64.b64decode(found["seeds"][name]) for name in Seeds.__slots__))
            return Account(user, str(found["device"]), str(found["token"]), seeds)
        except (KeyError, TypeError, ValueError):
            raise _damaged(self._account) from None

    def keep_account(self, account: Account) -> None:
        seeds = account.seeds.as_text()
        self._write(
            self._account, {"user": account.user, "device": account.device, "token": account.token, "seeds": seeds}
        )

    def forget_others(self, device: str) -> None:
        """Delete the encryption keys of earlier logins: nothing can be done with them any more."""
        for path in self.path.glob("*.db*"):
            if f"_{device}.db" not in path.name:
                path.unlink(missing_ok=True)

    def progress(self, user: str) -> SyncProgress:
        found = self._read(self._progress)
        if found.get("user") != user:
            return SyncProgress()
        try:
            given = (found.get(name, []) for name in SyncProgress.__slots__[1:])
            pairs = [tuple((str(room), str(other)) for room, other in each) for each in given]
            return SyncProgress(str(found.get("since", "")), *pairs)
        except (TypeError, ValueError):
            raise _damaged(self._progress) from None

    def keep_progress(self, user: str, progress: SyncProgress) -> None:
        self._write(self._progress, {"user": user, **asdict(progress)})

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ChannelError(f"{path} cannot be read: {error.strerror}.") from error
        except ValueError:
            raise _damaged(path) from None
        if not isinstance(found, dict):
            raise _damaged(path)
        return found

    def _write(self, path: Path, content: dict[str, Any]) -> None:
        try:
            write_atomically(path, json.dumps(content, indent=1), 0o600)
        except NotSaved as error:
            raise WorkspaceError(str(error)) from None


def _damaged(path: Path) -> ChannelError:
    return ChannelError(f"{path} is damaged. Delete it; the assistant then starts over there.", retry_after=60)
