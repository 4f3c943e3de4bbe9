"""The Telegram channel keeps the contract of chat apps."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from tests.channels.contract import Contract, Shown
from tests.live.telegram_chats import Message, Person
from tests.live.telegram_server import TelegramServer


class OnTelegram:
    name, secret = "telegram", "7352041968:AAF3kQm0zv9Wn2XyR8sLbT1uJcEoPdGhIaX"
    keeps = edits = buttons = True

    def __init__(self, server: TelegramServer) -> None:
        self.server, self.people, self.ids = server, dict[str, Person](), count(2001)
        self.settings, self.broken = (
            f'[channels.telegram]\ntoken = "{token}"\napi_base = "{server.api_base}"'
            for token in (server.token, self.secret)
        )
        self.last: Message | None = None

    async def ready(self) -> None:
        await self.server.until(lambda: self.server.asked("getUpdates"))

    def person(self, who: str) -> Person:
        if who not in self.people:
            self.people[who] = self.server.person(next(self.ids), who)
        return self.people[who]

    def id_of(self, who: str) -> str:
        return str(self.person(who).id)

    async def write(self, who: str, text: str, *, answers: str = "", file: tuple[str, bytes] | None = None) -> str:
        person = self.person(who)
        answered = person.chat.messages[int(answers)] if answers else None
        if file:
            self.last = self.server.document(person, file[1], file[0], "text/plain", text)
        else:
            self.last = self.server.say(person, text, reply_to=answered)
        return str(self.last.id)

    async def edit(self, who: str, id: str, text: str) -> None:
        self.server.edit(self.person(who).chat.messages[int(id)], text)

    async def press(self, who: str, shown: Shown, label: str) -> None:
        self.server.press(self.person(who).chat.messages[int(shown.id)], label, self.person(who))

    def shown(self, who: str) -> list[Shown]:
        return [
            Shown(
                str(one.id),
                one.text,
                (one.file.content,) if one.file else (),
                tuple(str(button["text"]) for button in one.buttons),
            )
            for one in self.server.sent(self.person(who))
        ]

    async def changed(self) -> None:
        await self.server.changed.wait()

    async def repeat(self) -> None:
        assert self.last
        self.server.raw({"message": self.last.fields})

    async def garble(self) -> None:
        broken: list[Any] = [
            {},
            {"message": None},
            {"message": {"chat": {}}},
            {"callback_query": {"id": 5}},
            {"new": 1},
        ]
        for update in broken:
            self.server.raw(update)

    async def leave(self) -> None:
        await self.server.leave()

    async def come_back(self) -> None:
        await self.server.come_back()


@asynccontextmanager
async def serving() -> AsyncIterator[OnTelegram]:
    async with TelegramServer() as server:
        yield OnTelegram(server)


class TestTelegram(Contract):
    service = staticmethod(serving)
