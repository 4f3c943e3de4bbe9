"""signal-cli's daemon on this machine, made from its manual, signal-cli-jsonrpc(5): JSON-RPC, and events it keeps."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from aiohttp import web

ACCOUNT, ACI = "+4915100000000", "00000000-0000-4000-8000-000000000000"
KNOWN = {
    "listAccounts": set[str](),
    "send": {
        "account", "recipient", "groupId", "message", "attachments", "textStyle", "quoteTimestamp", "quoteAuthor",
    },
    "sendTyping": {"account", "recipient", "groupId", "stop"},
    "sendReaction": {"account", "recipient", "groupId", "emoji", "targetAuthor", "targetTimestamp"},
    "getAttachment": {"account", "recipient", "groupId", "id"},
}  # fmt: skip
KEPT = 1_000


class SignalServer:
    """`sent` is what the account sent, `asked` all requests; `errors` are the answers to a method, in order."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.errors: dict[str, list[dict[str, Any]]] = {}
        self.files: dict[str, bytes] = {}
        self.people: dict[str, str] = {}
        self.stamps, self.listeners = count(1_772_794_800_000), 0
        self._events: list[tuple[str, dict[str, Any]]] = []
        self._changed = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self.port = 0

    def person(self, name: str) -> str:
        number = sorted({*self.people, name}).index(name) if name in self.people else len(self.people)
        self.people.setdefault(name, f"00000000-0000-4000-8000-{number + 1:012x}")
        return self.people[name]

    def write(self, who: str, text: str, *, files: tuple[str, ...] = (), **more: Any) -> int:
        """Somebody writes; the timestamp of it. `more` is added to the data of the message."""
        stamp = next(self.stamps)
        data = {"timestamp": stamp, "message": text, "expiresInSeconds": 0, "viewOnce": False, **more}
        if files:
            data["attachments"] = [
                {"id": id, "filename": id, "contentType": "text/plain", "size": len(self.files[id])} for id in files
            ]
        self.tell(who, dataMessage=data)
        return stamp

    def edit(self, who: str, target: int, text: str) -> int:
        stamp = next(self.stamps)
        data = {"timestamp": stamp, "message": text, "expiresInSeconds": 0}
        self.tell(who, editMessage={"targetSentTimestamp": target, "dataMessage": data})
        return stamp

    def tell(self, who: str, **message: Any) -> None:
        source = {"source": self.person(who), "sourceNumber": None, "sourceUuid": self.person(who), "sourceName": who}
        self.event({"envelope": {**source, "sourceDevice": 1, "timestamp": 1, **message}, "account": ACCOUNT})

    def event(self, event: Any) -> None:
        self._events = [*self._events, (f"e{len(self._events)}", event)][-KEPT:]
        self.notify()

    def repeat(self) -> None:
        self.event(self._events[-1][1])

    def notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self) -> None:
        await self._changed.wait()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        application = web.Application(client_max_size=200_000_000)
        application.router.add_post("/api/v1/rpc", self._answer)
        application.router.add_get("/api/v1/events", self._listen)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self.port or self._runner.addresses[0][1]

    async def leave(self) -> None:
        if self._runner:
            await self._runner.cleanup()
            self._runner = None

    async def _listen(self, request: web.Request) -> web.StreamResponse:
        after, ids = request.headers.get("last-event-id"), [id for id, _ in self._events]
        at = len(ids) if after is None else ids.index(after) + 1 if after in ids else 0
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        self.listeners += 1
        try:
            while True:
                self.notify()
                for id, event in self._events[at:]:
                    await response.write(f"event:receive\nid:{id}\ndata:{json.dumps(event)}\n\n".encode())
                at = len(self._events)
                await response.write(b":\n")
                await self._changed.wait()
        finally:
            self.listeners -= 1

    async def _answer(self, request: web.Request) -> web.Response:
        asked = await request.json()
        method, given = asked["method"], asked.get("params", {})
        self.asked.append((method, given))
        try:
            if self.errors.get(method):
                return web.json_response({"jsonrpc": "2.0", "error": self.errors[method].pop(0), "id": asked["id"]})
            if wrong := given.keys() - KNOWN[method]:
                raise ValueError(f"Unrecognized field {wrong}")
            if method != "listAccounts" and given["account"] not in (ACCOUNT, ACI):
                raise ValueError("Specified account does not exist")
            return web.json_response({"jsonrpc": "2.0", "result": self._result(method, given), "id": asked["id"]})
        except (KeyError, ValueError) as error:
            fault = {"code": -32602, "message": str(error), "data": None}
            return web.json_response({"jsonrpc": "2.0", "error": fault, "id": asked["id"]})
        finally:
            self.notify()

    def _result(self, method: str, given: dict[str, Any]) -> Any:
        if method == "listAccounts":
            return [{"number": "+4915199999999", "aci": None}, {"number": ACCOUNT, "aci": ACI}]
        if method == "getAttachment":
            return {"data": base64.b64encode(self.files[given["id"]]).decode()}
        if method != "send":
            return {}
        if len(given.get("message", "").encode()) > 2_000:
            raise ValueError("that would be a file")
        stamp = next(self.stamps)
        files = [base64.b64decode(one.partition(";base64,")[2]) for one in given.get("attachments", [])]
        self.sent.append({**given, "timestamp": stamp, "files": files})
        to = given.get("recipient", ["group"])[0]
        return {"timestamp": stamp, "results": [{"recipientAddress": {"uuid": to}, "type": "SUCCESS"}]}


@asynccontextmanager
async def serving() -> AsyncIterator[SignalServer]:
    server = SignalServer()
    await server.start()
    try:
        yield server
    finally:
        await server.leave()
