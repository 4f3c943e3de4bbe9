"""Slack on this machine, made from its documentation: the Web API, and socket mode, which no emulator has."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from aiohttp import WSMsgType, web

from nanoclaw.channels.slack import api
from tests.channels.contract import SECONDS

TOKEN, APP_TOKEN, BOT = "xoxb-1-2-abc", "xapp-1-A-2-def", "U0BOT"
KNOWN = {
    "auth.test": set[str](),
    "apps.connections.open": set[str](),
    "users.info": {"user"},
    "chat.postMessage": {"channel", "text", "blocks", "thread_ts", "unfurl_links", "unfurl_media"},
    "chat.update": {"channel", "ts", "text", "blocks"},
    "chat.delete": {"channel", "ts"},
    "reactions.add": {"channel", "timestamp", "name"},
    "files.getUploadURLExternal": {"filename", "length"},
    "files.completeUploadExternal": {"files", "channel_id", "thread_ts", "initial_comment"},
    "conversations.history": {"channel", "oldest", "limit"},
    "conversations.replies": {"channel", "ts", "limit"},
}


@dataclass
class SlackMessage:
    channel: str
    ts: str
    user: str
    text: str
    thread_ts: str = ""
    blocks: list[dict[str, Any]] = field(default_factory=list)
    files: list[dict[str, Any]] = field(default_factory=list)

    def fields(self) -> dict[str, Any]:
        thread = {"thread_ts": self.thread_ts} if self.thread_ts else {}
        files = {"files": self.files, "subtype": "file_share"} if self.files else {}
        bot = {"bot_id": "B0BOT"} if self.user == BOT else {}
        return {"type": "message", "user": self.user, "text": self.text, "ts": self.ts, **thread, **files, **bot}

    @property
    def shown(self) -> str:
        return "\n".join(one["text"] for one in self.blocks if one["type"] == "markdown") or self.text

    @property
    def buttons(self) -> list[dict[str, Any]]:
        return [button for one in self.blocks if one["type"] == "actions" for button in one["elements"]]


class SlackServer:
    """`asked` are the requests of the app. `refusals` are answers (status, body, headers) to a method, in order. What
    the app does not acknowledge comes again with its next connection."""

    def __init__(self) -> None:
        self.people: dict[str, str] = {}
        self.messages: list[SlackMessage] = []
        self.files: dict[str, bytes] = {}
        self.reactions: list[tuple[str, str]] = []
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.refusals: dict[str, list[tuple[int, dict[str, Any], dict[str, str]]]] = {}
        self.open: dict[str, dict[str, Any]] = {}  # envelopes that were not acknowledged
        self.socket: web.WebSocketResponse | None = None
        self.port = 0
        self.stamps = (f"17{number:08d}.000100" for number in count(1))
        self.changed = asyncio.Event()
        self._numbers = count(1)
        self._runner: web.AppRunner | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # --- the person --------------------------------------------------------------------------------------------------

    def person(self, name: str) -> str:
        id = f"U{name.upper().replace(' ', '')}"
        self.people[id] = name
        return id

    def write(self, user: str, text: str, channel: str = "", **more: Any) -> SlackMessage:
        """Somebody writes, in private or in a channel."""
        message = SlackMessage(channel or private(user), next(self.stamps), user, text, **more)
        self.messages.append(message)
        self.tell(message.fields(), message.channel)
        return message

    def edit(self, message: SlackMessage, text: str) -> None:
        before, message.text = message.fields(), text
        now = {**message.fields(), "edited": {"user": message.user, "ts": next(self.stamps)}}
        event = {"type": "message", "subtype": "message_changed", "message": now, "previous_message": before}
        self.tell(event, message.channel)

    def press(self, user: str, message: SlackMessage, label: str) -> None:
        button = next(one for one in message.buttons if one["text"]["text"] == label)
        payload = {
            "type": "block_actions",
            "user": {"id": user, "username": self.people[user]},
            "channel": {"id": message.channel},
            "message": {**message.fields(), "blocks": message.blocks},
            "actions": [{"value": button["value"], "action_id": button["action_id"], "action_ts": next(self.stamps)}],
        }
        self.envelope("interactive", payload)

    def upload(self, name: str, content: bytes) -> dict[str, Any]:
        id = f"F{next(self._numbers)}"
        self.files[id] = content
        url = f"{self.url}/download/{id}"
        return {"id": id, "name": name, "mimetype": "text/plain", "size": len(content), "url_private_download": url}

    def shown_in(self, channel: str) -> list[SlackMessage]:
        """What the bot has said in a channel, as it stands."""
        return [one for one in self.messages if one.channel == channel and one.user == BOT]

    def tell(self, event: dict[str, Any], channel: str) -> None:
        kind = "im" if channel.startswith("D") else "channel"
        whole = {**event, "channel": channel, "channel_type": kind}
        self.envelope("events_api", {"type": "event_callback", "event": whole})

    def envelope(self, kind: str, payload: Any) -> None:
        envelope = {"envelope_id": f"e{next(self._numbers)}", "type": kind, "payload": payload}
        self.open[envelope["envelope_id"]] = envelope
        self._start(self._send(envelope))

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(SECONDS):
            while not condition():
                await self.changed.wait()

    # --- the connection ----------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        app = web.Application(client_max_size=2**26)
        app.router.add_get("/socket", self._serve)
        app.router.add_post("/api/{method}", self._answer)
        app.router.add_post("/upload/{id}", self._take)
        app.router.add_get("/download/{id}", self._give)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]

    async def leave(self) -> None:
        socket, self.socket = self.socket, None
        if socket:
            await socket.close(code=1001)
        if self._runner:
            await self._runner.cleanup()
            self._runner = None

    async def disconnect(self) -> None:
        """Slack wants another connection, as it does every few hours."""
        assert self.socket
        await self.socket.send_json({"type": "disconnect", "reason": "refresh_requested"})

    async def _serve(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"type": "hello", "num_connections": 1})
        for envelope in [*self.open.values()]:
            await socket.send_json(envelope)
        self.socket = socket
        self.notify()
        async for message in socket:
            if message.type == WSMsgType.TEXT:
                self.open.pop(json.loads(message.data)["envelope_id"], None)
                self.notify()
        if self.socket is socket:
            self.socket = None
        return socket

    async def _send(self, envelope: Any) -> None:
        with suppress(ConnectionError):
            if self.socket:
                await self.socket.send_json(envelope)

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def notify(self) -> None:
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    # --- the API -----------------------------------------------------------------------------------------------------

    async def _take(self, request: web.Request) -> web.Response:
        self.files[request.match_info["id"]] = await request.read()
        return web.Response(text="OK")

    async def _give(self, request: web.Request) -> web.Response:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return web.Response(status=403)
        return web.Response(body=self.files[request.match_info["id"]])

    async def _answer(self, request: web.Request) -> web.Response:
        method, form = request.match_info["method"], await request.post()
        given = {name: _value(str(value)) for name, value in form.items()}
        self.asked.append((method, given))
        try:
            if self.refusals.get(method):
                status, body, headers = self.refusals[method].pop(0)
                return web.json_response(body, status=status, headers=headers)
            token = APP_TOKEN if method == "apps.connections.open" else TOKEN
            if request.headers.get("authorization") != f"Bearer {token}":
                return web.json_response({"ok": False, "error": "invalid_auth"})
            if wrong := given.keys() - KNOWN[method]:
                return web.json_response({"ok": False, "error": f"invalid_arg_name {wrong}"})
            return web.json_response({"ok": True, **self._said(method, given)})
        except KeyError as error:
            return web.json_response({"ok": False, "error": f"{error.args[0]}"})
        finally:
            self.notify()

    def _said(self, method: str, given: dict[str, Any]) -> dict[str, Any]:
        """The answer of a method. Raises KeyError with Slack's word for what is wrong."""
        match method:
            case "auth.test":
                return {"user": "nano", "user_id": BOT, "bot_id": "B0BOT"}
            case "apps.connections.open":
                return {"url": f"ws://127.0.0.1:{self.port}/socket"}
            case "users.info":
                return {"user": {"id": given["user"], "profile": {"display_name": self.people[given["user"]]}}}
            case "chat.postMessage":
                said = SlackMessage(given["channel"], next(self.stamps), BOT, given["text"], given.get("thread_ts", ""))
                said.blocks = _checked(given["blocks"])
                self.messages.append(said)
                return {"ts": said.ts, "channel": said.channel}
            case "chat.update":
                said = self._find(given)
                said.text, said.blocks = given["text"], _checked(given["blocks"])
                return {"ts": said.ts}
            case "chat.delete":
                self.messages.remove(self._find(given))
            case "reactions.add":
                self.reactions.append((given["timestamp"], given["name"]))
            case "files.getUploadURLExternal":
                id = f"F{next(self._numbers)}"
                return {"upload_url": f"{self.url}/upload/{id}", "file_id": id}
            case "files.completeUploadExternal":
                comment, thread = given.get("initial_comment", ""), given.get("thread_ts", "")
                self.messages.append(
                    SlackMessage(given["channel_id"], next(self.stamps), BOT, comment, thread, files=given["files"])
                )
            case "conversations.history":
                found = [one for one in self.messages if one.channel == given["channel"] and not one.thread_ts]
                return {"messages": [one.fields() for one in found if one.ts > given["oldest"]][::-1]}
            case "conversations.replies":
                return {"messages": [self._find(given).fields()]}
        return {}

    def _find(self, given: dict[str, Any]) -> SlackMessage:
        found = [one for one in self.messages if (one.channel, one.ts) == (given["channel"], given["ts"])]
        if not found:
            raise KeyError("message_not_found")
        return found[0]


def private(user: str) -> str:
    return f"D{user.removeprefix('U')}"


def _value(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, list | dict) else text


def _checked(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    words = sum(len(one["text"]) for one in blocks if one["type"] == "markdown")
    elements = [button for one in blocks if one["type"] == "actions" for button in one["elements"]]
    is_wrong = any(len(one["value"]) > 2000 or len(one["text"]["text"]) > 75 for one in elements)
    if words > 12_000 or is_wrong or len(elements) > 25 or len({one["action_id"] for one in elements}) < len(elements):
        raise KeyError("invalid_blocks")
    return blocks


@asynccontextmanager
async def serving() -> AsyncIterator[SlackServer]:
    server = SlackServer()
    await server.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(api, "BASE", f"{server.url}/api")
            yield server
    finally:
        await server.leave()
