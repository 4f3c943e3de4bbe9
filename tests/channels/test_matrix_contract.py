"""The Matrix channel keeps the contract of chat apps, in rooms without encryption."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import ANY

from aiohttp import web

from tests.channels.contract import ANNA, Contract, Shown, scene
from tests.channels.homeserver import BOT, Homeserver, event, member, serve


class Rooms(Homeserver):
    """A homeserver that keeps what was said, one room for each person."""

    def __init__(self) -> None:
        super().__init__()
        self.said: dict[str, list[tuple[str, dict[str, Any]]]] = {}
        self.sent: dict[str, str] = {}  # by transaction
        self.numbers = count(100)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/upload") and "media" in request.path:
            name = f"file{next(self.numbers)}"
            self.files[name] = await request.read()
            return web.json_response({"content_uri": f"mxc://localhost/{name}"})
        return await super().answer(request)

    async def _said(self, path: str) -> dict[str, Any]:
        if path.endswith("/login") and self.asked[-1][3]["password"] != "right":
            return {"errcode": "M_FORBIDDEN", "error": "Invalid username or password"}
        if "/send/m.room.message/" in path:
            room, transaction = path.split("/rooms/")[1].split("/")[0], path.rsplit("/", 1)[-1]
            if transaction not in self.sent:
                self.sent[transaction] = f"$bot{next(self.numbers)}"
                self.said.setdefault(room, []).append((self.sent[transaction], self.asked[-1][3]))
            return {"event_id": self.sent[transaction]}
        if "/redact/" in path:
            room, gone = path.split("/rooms/")[1].split("/redact/")
            self.said[room] = [one for one in self.said[room] if one[0] != gone.split("/")[0]]
        return await super()._said(path)


class OnMatrix:
    name, secret = "matrix", "wrong-password"
    keeps = edits = True
    buttons = False

    def __init__(self, server: Rooms, runner: web.AppRunner) -> None:
        self.server, self.runner, self.numbers = server, runner, count(2)
        self.people = dict[str, str]()
        self.last: Any = None
        self.settings, self.broken = (
            f'[channels.matrix]\nhomeserver = "{server.url}"\nuser = "{BOT}"\npassword = "{password}"'
            for password in ("right", self.secret)
        )
        self.first: dict[str, Any] = {"rooms": {"join": {}}}

    async def ready(self) -> None:
        """The first sync tells of the rooms, and only what comes after it counts."""
        await self.server.until("/sync")
        await self.server.tell(self.first)
        await self.server.until("/sync", len(self.server.paths("/sync")) + 1)

    def id_of(self, who: str) -> str:
        self.people[who] = f"@{who.lower().replace(' ', '')}:localhost"
        return self.people[who]

    def room(self, who: str) -> str:
        return self.id_of(who).replace("@", "!")

    async def _tell(self, who: str, *events: dict[str, Any]) -> None:
        people = [member(1, BOT), member(2, self.id_of(who), displayname=who)]
        timeline = {"events": list(events), "limited": False, "prev_batch": "p1"}
        await self.server.tell(
            {"rooms": {"join": {self.room(who): {"state": {"events": people}, "timeline": timeline}}}}
        )

    async def write(self, who: str, text: str, *, answers: str = "", file: tuple[str, bytes] | None = None) -> str:
        content: dict[str, Any] = {"msgtype": "m.text", "body": text}
        if answers:
            content["m.relates_to"] = {"m.in_reply_to": {"event_id": answers}}
        if file:
            self.server.files["in"] = file[1]
            content |= {"msgtype": "m.file", "filename": file[0], "url": "mxc://localhost/in"}
        said = event(next(self.numbers), content, sender=self.id_of(who))
        self.last = (who, said)
        await self._tell(who, said)
        return str(said["event_id"])

    async def edit(self, who: str, id: str, text: str) -> None:
        new = {"msgtype": "m.text", "body": text}
        content = {**new, "m.new_content": new, "m.relates_to": {"rel_type": "m.replace", "event_id": id}}
        await self._tell(who, event(next(self.numbers), content, sender=self.id_of(who)))

    async def press(self, who: str, shown: Shown, label: str) -> None:
        raise NotImplementedError

    def shown(self, who: str) -> list[Shown]:
        found = dict[str, Shown]()
        for id, content in self.server.said.get(self.room(who), []):
            relation = content.get("m.relates_to", {})
            is_edit = relation.get("rel_type") == "m.replace"
            words, target = (content["m.new_content"], relation["event_id"]) if is_edit else (content, id)
            data = self.server.files.get(str(words.get("url")).rpartition("/")[2])
            found[target] = Shown(target, words["body"], (data,) if data else ())
        return list(found.values())

    async def changed(self) -> None:
        async with self.server.changed:
            await self.server.changed.wait()

    async def repeat(self) -> None:
        await self._tell(*self.last)

    async def garble(self) -> None:
        broken: list[Any] = [None, 7, [], {"msgtype": 5, "body": ["a"]}, {"msgtype": "m.file", "url": "ftp:"}]
        for content in broken:
            await self._tell("Anna", event(next(self.numbers), content, sender=self.id_of("Anna")))

    async def leave(self) -> None:
        await self.runner.cleanup()

    async def come_back(self) -> None:
        for who in [*self.people]:  # the first sync tells of the rooms
            await self._tell(who)
        self.runner = await serve(self.server, int(self.server.url.rpartition(":")[2]))


@asynccontextmanager
async def serving() -> AsyncIterator[OnMatrix]:
    server = Rooms()
    there = OnMatrix(server, await serve(server))
    try:
        yield there
    finally:
        await there.runner.cleanup()


class TestMatrix(Contract):
    service = staticmethod(serving)

    async def test_a_voice_note_goes_out_as_one(self, tmp_path: Path) -> None:
        async with serving() as there, scene(there, tmp_path) as here:
            note = here.program.workspace / "answer.ogg"
            note.write_bytes(b"OggS")
            here.send("", files=(str(note),))
            await here.until(lambda: there.shown(ANNA)[-1:] == [Shown(ANY, "answer.ogg", (b"OggS",))], "a file")
            _, content = there.server.said[there.room(ANNA)][-1]
            assert (content["msgtype"], content["org.matrix.msc3245.voice"]) == ("m.audio", {})
