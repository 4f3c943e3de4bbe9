"""Discord on this machine: simcord's memory of it behind a real HTTP API and a real gateway."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import WSMsgType, web

from nanoclaw.channels.discord import api
from tests.channels.contract import SECONDS

pytest.importorskip("simcord", reason="pip install simcord: it comes with the extra `dev`")
from simcord.backend import Backend, serializers
from simcord.backend.cdn import CDN_BASE
from simcord.backend.errors import BackendError
from simcord.http import client as _client  # noqa: F401  # which registers the routes
from simcord.http import router
from simcord.interactions import base_payload

TOKEN = "MTAxMjM0NTY3ODkwMTIzNDU2.GabcDE.abcdefghijklmnopqrstuvwxyz0123456789ab"
CONTENT = 1 << 15


@dataclass
class Session:
    """What the gateway has said in a session, for who resumes it; `socket` is None while nobody listens."""

    id: str
    intents: int
    said: list[dict[str, Any]] = field(default_factory=list)
    socket: web.WebSocketResponse | None = None


class DiscordServer:
    """`asked` are the requests of the bot. `refusals` are answers (status, body) to requests whose method and path
    begin so, in order. One that `approves_content` lets the bot read what does not name it."""

    def __init__(self, *, approves_content: bool = True) -> None:
        self.backend = Backend()
        self.backend.subscribers.append(self._announce)
        self.bot = self.backend.bot_user
        self.approves_content = approves_content
        self.asked: list[tuple[str, str, Any]] = []
        self.refusals: dict[str, list[tuple[int, dict[str, Any]]]] = {}
        self.sessions: dict[str, Session] = {}
        self.nonces: dict[str, Any] = {}
        self.beat = 41_250
        self.port = 0
        self._changed = asyncio.Condition()
        self._runner: web.AppRunner | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # --- the person --------------------------------------------------------------------------------------------------

    def person(self, name: str) -> Any:
        return self.backend.make_user(name)

    def private(self, person: Any) -> int:
        return int(self.backend.get_dm_channel(person.id).id)

    def write(self, person: Any, text: str, channel: int = 0, **more: Any) -> Any:
        """Somebody writes, in private or in a channel."""
        message = self.backend.create_message(channel or self.private(person), person.id, text, **more)
        self._wake()
        return message

    def press(self, person: Any, message: Any, label: str) -> None:
        """Somebody presses the button with this label."""
        buttons = [one for row in message.components for one in row["components"]]
        data = {"custom_id": next(one["custom_id"] for one in buttons if one["label"] == label), "component_type": 2}
        guild = self.backend.get_channel(message.channel_id).guild_id
        record, payload = base_payload(
            self.backend, type=3, channel_id=message.channel_id, guild_id=guild, user_id=person.id, data=data
        )
        record.source_message_id = message.id
        shown = dict(serializers.message_payload(self.backend, message))
        self.backend.emit("INTERACTION_CREATE", {**payload, "message": shown})

    def messages(self, channel: int) -> list[Any]:
        """What the bot has said in a channel, as it stands."""
        return [one for one in self.backend.messages.get(channel, {}).values() if one.author_id == self.bot.id]

    async def until(self, condition: Any) -> Any:
        async with asyncio.timeout(SECONDS), self._changed:
            return await self._changed.wait_for(condition)

    async def until_changed(self) -> None:
        async with self._changed:
            await self._changed.wait()

    def repeat(self) -> None:
        """The last message of a person comes once more."""
        for session in self.sessions.values():
            bots = str(self.bot.id)
            last = [one for one in session.said if one["t"] == "MESSAGE_CREATE" and one["d"]["author"]["id"] != bots][
                -1
            ]
            self._tell(session, "MESSAGE_CREATE", last["d"])

    def raw(self, name: str, data: Any) -> None:
        """An event of any form."""
        self._announce(name, data)

    # --- the connection ----------------------------------------------------------------------------------------------

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}/api/v10"

    async def start(self) -> None:
        app = web.Application(client_max_size=2**26)
        app.router.add_get("/gateway/", self._gateway)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def leave(self) -> None:
        """Nobody is at its address; what happens meanwhile is kept for who resumes."""
        await self.close(1001)
        if self._runner:
            await self._runner.cleanup()
            self._runner = None

    async def close(self, code: int) -> None:
        """End all connections to the gateway."""
        for session in self.sessions.values():
            socket, session.socket = session.socket, None
            if socket:
                await socket.close(code=code)

    async def forget(self) -> None:
        self.sessions.clear()

    # --- the API -----------------------------------------------------------------------------------------------------

    async def _answer(self, request: web.Request) -> web.Response:
        if request.path.startswith("/attachments/"):
            data = self.backend.cdn.get(CDN_BASE + request.path)
            return web.Response(body=data) if data is not None else web.Response(status=404)
        path = request.path.removeprefix("/api/v10")
        body, files = await _read(request)
        self.asked.append((request.method, path, body))
        try:
            return web.json_response(self._said(request, path, body, files))
        except _Refused as refused:
            return web.json_response(refused.body, status=refused.status)
        except BackendError as error:
            return web.json_response(error.to_json(), status=error.status)
        finally:
            self._wake()

    def _said(self, request: web.Request, path: str, body: Any, files: list[Any]) -> Any:
        for start, refusals in self.refusals.items():
            if f"{request.method} {path}".startswith(start) and refusals:
                raise _Refused(*refusals.pop(0))
        if request.headers.get("authorization") != f"Bot {TOKEN}":
            raise _Refused(401, {"message": "401: Unauthorized", "code": 0})
        if path == "/gateway/bot":
            return {"url": f"ws://127.0.0.1:{self.port}/gateway", "shards": 1}
        nonce = body.get("nonce") if isinstance(body, dict) and body.get("enforce_nonce") else None
        if nonce in self.nonces:
            return self.nonces[nonce]
        params = dict(request.query)
        said = router.dispatch(self.backend, request.method, path, json=body, params=params, files=files)
        if nonce:
            self.nonces[nonce] = self._addressed(said)
        return self._addressed(said)

    def _addressed(self, value: Any) -> Any:
        """A value with the addresses of files as they can be reached."""
        return json.loads(json.dumps(value, default=str).replace(CDN_BASE, f"http://127.0.0.1:{self.port}"))

    # --- the gateway -------------------------------------------------------------------------------------------------

    async def _gateway(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"op": 10, "d": {"heartbeat_interval": self.beat}})
        session: Session | None = None
        async for message in socket:
            if message.type != WSMsgType.TEXT:
                break
            event = json.loads(message.data)
            data = event["d"]
            if event["op"] == 1:
                await socket.send_json({"op": 11})
            elif data["token"] != TOKEN:
                await socket.close(code=4004)
            elif event["op"] == 2 and data["intents"] & CONTENT and not self.approves_content:
                await socket.close(code=4014)
            elif event["op"] == 2:
                session = Session(f"session-{len(self.sessions)}", data["intents"], socket=socket)
                self.sessions[session.id] = session
                self._tell(session, "READY", {"session_id": session.id, "user": {"id": str(self.bot.id)}})
            elif event["op"] == 6 and data["session_id"] in self.sessions:
                session = self.sessions[data["session_id"]]
                for said in session.said[data["seq"] :]:
                    await socket.send_json(said)
                session.socket = socket
                self._tell(session, "RESUMED", {})
            else:
                await socket.send_json({"op": 9, "d": False})
            self._wake()
        if session and session.socket is socket:
            session.socket = None
        return socket

    def _announce(self, name: str, data: Any) -> None:
        """An event to all sessions, with what each may read."""
        for session in self.sessions.values():
            told = self._addressed(data)
            if name.startswith("MESSAGE_") and not session.intents & CONTENT and told.get("guild_id"):
                named = [one["id"] for one in told.get("mentions", ())]
                told = told if str(self.bot.id) in named else {**told, "content": "", "attachments": []}
            self._tell(session, name, told)

    def _tell(self, session: Session, name: str, data: Any) -> None:
        event = {"op": 0, "t": name, "s": len(session.said) + 1, "d": data}
        session.said.append(event)
        if session.socket:
            task = asyncio.get_running_loop().create_task(self._send(session.socket, event))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _send(self, socket: web.WebSocketResponse, event: Any) -> None:
        with suppress(ConnectionError):
            await socket.send_json(event)

    def _wake(self) -> None:
        async def wake() -> None:
            async with self._changed:
                self._changed.notify_all()

        task = asyncio.get_running_loop().create_task(wake())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Refused(Exception):
    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(status)
        self.status, self.body = status, body


async def _read(request: web.Request) -> tuple[Any, list[Any]]:
    if not request.content_type.startswith("multipart/"):
        return (await request.json() if request.can_read_body else None), []
    form, files = await request.post(), []
    for name, part in form.items():
        if name.startswith("files[") and isinstance(part, web.FileField):
            data = io.BytesIO(part.file.read())
            files.append(SimpleNamespace(fp=data, filename=part.filename, description=None))
    return json.loads(str(form["payload_json"])), files


@asynccontextmanager
async def serving(**more: Any) -> AsyncIterator[DiscordServer]:
    server = DiscordServer(**more)
    await server.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(api, "BASE", server.base)
            yield server
    finally:
        await server.leave()
