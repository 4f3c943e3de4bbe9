"""The menu of commands: shown in the chats that the owner has alone with the assistant, to nobody else."""

from __future__ import annotations

import json
from typing import Any

from nanoclaw.atomic_write import NotSaved, write_atomically
from nanoclaw.channels.telegram.api import Api, Refusal
from nanoclaw.core.channel import ChannelHost, Place
from nanoclaw.log import logger

_COMMANDS, _COMMAND_LENGTH, _DESCRIPTION_LENGTH = 100, 32, 256


class CommandMenu:
    """The chats that have it are kept in a file: one that was unlinked while nobody ran loses it at the next start."""

    def __init__(self, api: Api, host: ChannelHost) -> None:
        self._api, self._access, self._file = api, host.access, host.folder / "menu.json"
        self._menu = [
            {"command": name, "description": help[:_DESCRIPTION_LENGTH] or name}
            for name, help in host.menu.items()
            if len(name) <= _COMMAND_LENGTH and name.replace("_", "a").isalnum() and name.isascii() and name.islower()
        ][:_COMMANDS]
        self._told: frozenset[int] | None = None

    async def publish(self) -> None:
        """Give it to chats that were linked, and take it from those that are not any more. Raises ChannelError."""
        wanted = frozenset(chat for one in self._access.owners_chats() if (chat := _number(Place.of(one).chat)) > 0)
        if wanted == self._told:
            return
        told, is_first = self._told or frozenset(), self._told is None
        before = self._kept() if is_first else told
        if is_first:
            await self._ask("deleteMyCommands")  # everybody's, which was told by an earlier version
        for chat in sorted(before - wanted):
            await self._ask("deleteMyCommands", scope=_of(chat))
        for chat in sorted(wanted - told):
            await self._ask("setMyCommands", commands=self._menu, scope=_of(chat))
        if wanted != before:
            self._keep(wanted)
        self._told = wanted

    async def _ask(self, method: str, **parameters: Any) -> None:
        try:
            await self._api.call(method, **parameters)
        except Refusal as refusal:  # it is only a menu
            logger.warning("the menu of commands cannot be changed in Telegram: {}", refusal)

    def _kept(self) -> frozenset[int]:
        try:
            return frozenset(map(int, json.loads(self._file.read_text(encoding="utf-8"))))
        except (OSError, ValueError, TypeError):
            return frozenset()

    def _keep(self, chats: frozenset[int]) -> None:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(self._file, json.dumps(sorted(chats)), 0o600)
        except (OSError, NotSaved) as error:
            logger.warning("the chats with a menu of commands cannot be saved: {}", error)


def _of(chat: int) -> dict[str, object]:
    return {"type": "chat", "chat_id": chat}


def _number(chat: str) -> int:
    """0 for what is not a number, and for groups a negative one."""
    return int(chat) if chat.removeprefix("-").isdecimal() else 0
