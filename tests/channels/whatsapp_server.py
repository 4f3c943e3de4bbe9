"""WhatsApp on this machine, made from the Cloud API's documentation: its requests, and webhooks that it repeats until
they are taken."""

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import httpx
import pytest
from aiohttp import web

from nanoclaw.channels.whatsapp import api

TOKEN, SECRET, NUMBER = "EAAG-token", "app-secret-0123456789", "106540352242922"
AGAIN_SECONDS = 0.05
KINDS = {
    "text": {"body", "preview_url"},
    "reaction": {"message_id", "emoji"},
    "document": {"id", "caption", "filename"},
}


class WhatsappServer:
    """`sent` is what the number sent; `errors` are answers (status, error) to the next requests. `page` is the address
    to which it delivers, `refused` the last status with which that was not taken."""

    def __init__(self, page: str) -> None:
        self.page = page
        self.sent: list[dict[str, Any]] = []
        self.signs: list[dict[str, Any]] = []
        self.errors: list[tuple[int, dict[str, Any]]] = []
        self.files: dict[str, bytes] = {}
        self.people: dict[str, str] = {}
        self.numbers, self.port = count(1), 0
        self.last, self.refused = b"", 0
        self._waiting: list[Any] = []
        self._has_news = asyncio.Event()
        self._changed = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self._telling: asyncio.Task[None] | None = None

    def person(self, name: str) -> str:
        self.people.setdefault(name, f"4915{len(self.people):08d}")
        return self.people[name]

    def write(self, who: str, kind: str, part: dict[str, Any], **more: Any) -> str:
        """Somebody sends a message of a kind; its id."""
        id = f"wamid.{next(self.numbers)}"
        message = {"from": self.person(who), "id": id, "timestamp": "1772794800", "type": kind, kind: part, **more}
        self.tell({"contacts": [{"profile": {"name": who}, "wa_id": self.person(who)}], "messages": [message]})
        return id

    def tell(self, value: Any) -> None:
        about = {"messaging_product": "whatsapp", "metadata": {"phone_number_id": NUMBER}}
        change = {"field": "messages", "value": {**about, **value} if isinstance(value, dict) else value}
        self.deliver({"object": "whatsapp_business_account", "entry": [{"id": "1", "changes": [change]}]})

    def deliver(self, delivery: Any) -> None:
        """Tell it soon; many changes that wait come as one delivery."""
        self.last = json.dumps(delivery).encode()
        if _is_whole(delivery) and self._waiting and _is_whole(self._waiting[-1]):
            self._waiting[-1]["entry"] += delivery["entry"]
        else:
            self._waiting.append(delivery)
        self._has_news.set()

    def repeat(self) -> None:
        self.deliver(json.loads(self.last))

    def signed(self, body: bytes) -> dict[str, str]:
        return {"x-hub-signature-256": f"sha256={hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()}"}

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
        application.router.add_route("*", "/v22.0/{path:.*}", self._answer)
        application.router.add_get("/file/{id}", self._give)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self.port or self._runner.addresses[0][1]
        self._telling = asyncio.create_task(self._tell_all())

    async def leave(self) -> None:
        if self._runner and self._telling:
            self._telling.cancel()
            await self._runner.cleanup()
            self._runner = None

    async def _tell_all(self) -> None:
        """Deliver in order, each again until it is taken."""
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            while True:
                await self._has_news.wait()
                if not self._waiting:
                    self._has_news.clear()
                    continue
                body = json.dumps(self._waiting.pop(0)).encode()
                while True:
                    try:
                        answer = await client.post(self.page, content=body, headers=self.signed(body))
                        if answer.status_code == 200:
                            break
                        self.refused = answer.status_code
                        self.notify()
                    except httpx.HTTPError:
                        pass
                    await asyncio.sleep(AGAIN_SECONDS)

    async def _give(self, request: web.Request) -> web.Response:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return web.Response(status=401)
        return web.Response(body=self.files[request.match_info["id"]])

    async def _answer(self, request: web.Request) -> web.Response:
        try:
            if request.headers.get("authorization") != f"Bearer {TOKEN}":
                return _refusal(401, {"message": "Invalid OAuth access token.", "type": "OAuthException", "code": 190})
            if self.errors:
                return _refusal(*self.errors.pop(0))
            return web.json_response(await self._said(request))
        except (KeyError, ValueError) as error:
            return _refusal(400, {"message": f"(#100) {error}", "type": "OAuthException", "code": 100})
        finally:
            self.notify()

    async def _said(self, request: web.Request) -> dict[str, Any]:
        """The answer to a request. Raises KeyError and ValueError for what the documentation does not know."""
        match request.method, request.match_info["path"].split("/"):
            case "GET", [id] if id == NUMBER:
                return {"display_phone_number": "+49 151 0", "id": NUMBER}
            case "GET", [id]:
                return {"url": f"{self.url}/file/{id}", "file_size": len(self.files[id]), "id": id}
            case "POST", [id, "media"] if id == NUMBER:
                form, name = await request.post(), f"M{next(self.numbers)}"
                file = form["file"]
                assert isinstance(file, web.FileField) and form["messaging_product"] == "whatsapp"
                self.files[name] = file.file.read()
                return {"id": name}
            case "POST", [id, "messages"] if id == NUMBER:
                return self._taken(await request.json())
        raise ValueError("unknown path")

    def _taken(self, said: dict[str, Any]) -> dict[str, Any]:
        if said["messaging_product"] != "whatsapp":
            raise ValueError("messaging_product")
        if said.get("status") == "read":
            self.signs.append(said)
            return {"success": True}
        kind = said["type"]
        if (wrong := said[kind].keys() - KINDS[kind]) or len(said.get("text", {}).get("body", "x")) > 4_096:
            raise ValueError(f"unknown or too long: {wrong}")
        id = f"wamid.{next(self.numbers)}"
        (self.signs if kind == "reaction" else self.sent).append({**said, "wamid": id})
        return {"messaging_product": "whatsapp", "contacts": [{"wa_id": said["to"]}], "messages": [{"id": id}]}


def _is_whole(delivery: Any) -> bool:
    return isinstance(delivery, dict) and isinstance(delivery.get("entry"), list)


def _refusal(status: int, error: dict[str, Any]) -> web.Response:
    return web.json_response({"error": error}, status=status)


@asynccontextmanager
async def serving(page: str) -> AsyncIterator[WhatsappServer]:
    server = WhatsappServer(page)
    await server.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(api, "BASE", f"{server.url}/v22.0")
            yield server
    finally:
        await server.leave()
