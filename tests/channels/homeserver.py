"""A homeserver in the test's own process that says what a test wants to hear, also what no good one would say."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

BOT, ROOM, ANNA = "@nano:localhost", "!room:localhost", "@anna:localhost"
TOKEN = "syt_canary_token"


@dataclass
class Homeserver:
    """`refusals` are answers (status, body) for a part of a path, in order; `news` are what syncs bring, and when
    there is none left a sync waits. `asked` are the requests: method, path, query and body."""

    refusals: dict[str, list[tuple[int, dict[str, Any]]]] = field(default_factory=dict)
    news: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[str, str, dict[str, str], Any]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    url: str = ""
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def paths(self, part: str) -> list[str]:
        return [path for _, path, _, _ in self.asked if part in path]

    def bodies(self, part: str) -> list[Any]:
        return [body for _, path, _, body in self.asked if part in path]

    async def tell(self, *news: dict[str, Any]) -> None:
        """Bring news to a sync that waits."""
        self.news += news
        async with self.changed:
            self.changed.notify_all()

    async def until(self, part: str, times: int = 1) -> None:
        """Wait until something has been asked so often."""
        async with asyncio.timeout(100), self.changed:
            await self.changed.wait_for(lambda: len(self.paths(part)) >= times)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json() if request.can_read_body and request.content_type == "application/json" else None
        self.asked.append((request.method, request.path, dict(request.query), body))
        async with self.changed:
            self.changed.notify_all()
        for part, refusals in self.refusals.items():
            if part in request.path and refusals:
                status, said = refusals.pop(0)
                return web.json_response(said, status=status)
        if "/media/download/" in request.path:
            return web.Response(body=self.files[request.path.rsplit("/", 1)[-1]])
        return web.json_response(await self._said(request.path))

    async def _said(self, path: str) -> dict[str, Any]:
        match path.rsplit("/", 1)[-1]:
            case "login":
                return {"user_id": BOT, "device_id": "DEV", "access_token": TOKEN}
            case "sync":
                number = len(self.paths("/sync"))
                async with self.changed:
                    await self.changed.wait_for(lambda: self.news)
                return {"next_batch": f"s{number}", **self.news.pop(0)}
            case "upload" if "keys" in path:
                return {"one_time_key_counts": {"signed_curve25519": 50}}
            case "query":
                return {"device_keys": {BOT: {"DEV": {"user_id": BOT, "device_id": "DEV", "keys": {}}}}, "failures": {}}
        if "/send/m." in path or "/redact/" in path:
            return {"event_id": f"$sent{len(self.paths('/send/m.')) + len(self.paths('/redact/'))}"}
        return {"room_id": ROOM} if "/join" in path else {}


async def serve(server: Homeserver, port: int = 0) -> web.AppRunner:
    """Let it be reached until the runner is cleaned up."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    return runner


@asynccontextmanager
async def homeserver() -> AsyncIterator[Homeserver]:
    server = Homeserver()
    runner = await serve(server)
    try:
        yield server
    finally:
        await runner.cleanup()


def event(
    number: int, content: Any, *, kind: str = "m.room.message", sender: str = ANNA, **more: Any
) -> dict[str, Any]:
    return {
        "type": kind,
        "event_id": f"$e{number}",
        "sender": sender,
        "origin_server_ts": 1_772_798_400_000 + number,
        "content": content,
        **more,
    }


def text(number: int, body: Any, **more: Any) -> dict[str, Any]:
    return event(number, {"msgtype": "m.text", "body": body}, **more)


def member(number: int, user: str, membership: str = "join", **more: Any) -> dict[str, Any]:
    content = {"membership": membership, **more}
    return event(number, content, kind="m.room.member", sender=user, state_key=user)


def room(*events: Any, limited: bool = False, state: tuple[Any, ...] = ()) -> dict[str, Any]:
    """The part of a sync about a room in which the assistant and Anna are."""
    people = (member(1, BOT), member(2, ANNA, displayname="Anna"))
    timeline = {"events": list(events), "limited": limited, "prev_batch": "p1"}
    return {"rooms": {"join": {ROOM: {"state": {"events": [*people, *state]}, "timeline": timeline}}}}


def invitation(number: int, sender: str) -> dict[str, Any]:
    invited = {"type": "m.room.member", "state_key": BOT, "sender": sender, "content": {"membership": "invite"}}
    return {f"!invited{number}:localhost": {"invite_state": {"events": [invited]}}}
