"""The Discord channel keeps the contract, and what is Discord's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.channels.contract import Contract, Shown
from tests.channels.discord_server import TOKEN, DiscordServer
from tests.channels.discord_server import serving as server


class OnDiscord:
    """People on a server of the test's own."""

    name, secret = "discord", "wrong.to.ken"
    keeps = edits = buttons = True

    def __init__(self, server: DiscordServer) -> None:
        self.server, self.people = server, dict[str, Any]()
        self.last: Any = None
        self.settings = self._table(TOKEN)
        self.broken = self._table(self.secret)

    def _table(self, token: str) -> str:
        return f'[channels.discord]\ntoken = "{token}"\napi_base = "{self.server.base}"'

    def person(self, who: str) -> Any:
        if who not in self.people:
            self.people[who] = self.server.person(who)
        return self.people[who]

    async def ready(self) -> None:
        await self.server.until(lambda: any(one.socket for one in self.server.sessions.values()))

    def id_of(self, who: str) -> str:
        return str(self.person(who).id)

    async def write(self, who: str, text: str, *, answers: str = "", file: tuple[str, bytes] | None = None) -> str:
        channel = self.server.private(self.person(who))
        files = self.server.backend.store_attachments(channel, [file]) if file else None
        reference = {"message_id": answers} if answers else None
        self.last = self.server.write(self.person(who), text, attachments=files, reference=reference)
        return str(self.last.id)

    async def edit(self, who: str, id: str, text: str) -> None:
        self.server.backend.edit_message(self.server.private(self.person(who)), int(id), {"content": text})

    async def press(self, who: str, shown: Shown, label: str) -> None:
        message = self.server.backend.get_message(self.server.private(self.person(who)), int(shown.id))
        self.server.press(self.person(who), message, label)

    def shown(self, who: str) -> list[Shown]:
        return [self._shown(one) for one in self.server.messages(self.server.private(self.person(who)))]

    def _shown(self, message: Any) -> Shown:
        buttons = tuple(one["label"] for row in message.components for one in row["components"])
        files = tuple(self.server.backend.cdn.get(one["url"]) or b"" for one in message.attachments)
        return Shown(str(message.id), message.content, files, buttons)

    async def changed(self) -> None:
        await self.server.until_changed()

    async def repeat(self) -> None:
        self.server.repeat()

    async def garble(self) -> None:
        for data in (None, 7, {"author": 5}, {"author": {"id": "x"}, "content": ["a"]}, {"type": 3, "data": []}):
            for kind in ("MESSAGE_CREATE", "MESSAGE_UPDATE", "INTERACTION_CREATE", "OF_NEXT_YEAR"):
                self.server.raw(kind, data)

    async def leave(self) -> None:
        await self.server.leave()

    async def come_back(self) -> None:
        await self.server.start()


@asynccontextmanager
async def serving() -> AsyncIterator[OnDiscord]:
    async with server() as there:
        yield OnDiscord(there)


class TestDiscord(Contract):
    service = staticmethod(serving)
