"""A gateway that serves the page on a free port, with a scripted model, and a browser without a screen."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from nanoclaw.core.app import App
from nanoclaw.core.plugin import Plugin
from nanoclaw.plugins.page.channel import PageChannel
from nanoclaw.providers.scripted import ScriptedProvider, Step
from nanoclaw.start.build import BUILT_IN, build
from tests.program import AtOnce, HandClock, config_of, new_id, new_store_laid

ON = "[page]\nport = 0\n"


class Served:
    """The program, and how to reach its page."""

    def __init__(self, app: App, model: ScriptedProvider) -> None:
        self.app, self.model = app, model
        page = app.public("page")
        assert isinstance(page, PageChannel)
        self.page = page

    @property
    def url(self) -> str:
        return self.page.url.rstrip("/")

    def client(self, **headers: str) -> httpx.AsyncClient:
        """Waits longer than the usual 5 s, for a busy machine."""
        return httpx.AsyncClient(base_url=self.url, headers=headers, verify=False, timeout=60)

    @asynccontextmanager
    async def browser(self, *, signed_in: bool = True) -> AsyncIterator[Browser]:
        async with self.client(origin=self.url) as client:
            browser = Browser(client)
            if signed_in:
                assert (await browser.sign_in(self.page.links()[0])).status_code == 200
            yield browser


class Browser:
    """What a browser does, by its requests."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def sign_in(self, link: str) -> httpx.Response:
        return await self.client.post("/api/login", json={"code": link.partition("#")[2]})

    async def get(self, path: str, **query: str) -> Any:
        answer = await self.client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def talk(self, key: str, **query: str) -> dict[str, Any]:
        found = await self.get("/api/talk", c=key, **query)
        assert isinstance(found, dict)
        return found

    async def say(self, key: str, text: str, **more: Any) -> str:
        said = {"c": key, "id": new_id(), "text": text, **more}
        answer = await self.client.post("/api/say", json=said)
        assert answer.status_code == 200, answer.text
        return str(said["id"])

    @asynccontextmanager
    async def stream(self, last: str = "") -> AsyncIterator[Events]:
        async with self.client.stream("GET", "/api/stream", params={"last": last}, timeout=20) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            events = Events(answer)
            if not last:
                await events.until("afresh")
            yield events

    async def hears(self, key: str, text: str) -> list[dict[str, Any]]:
        """Say something: the events of all browsers until a turn has ended."""
        async with self.stream() as events:
            await self.say(key, text)
            await events.until("ended")
        return events.seen


class Events:
    """What comes on a stream; `last` is the id of the newest, `seen` all that came."""

    def __init__(self, answer: httpx.Response) -> None:
        self._lines = answer.aiter_lines()
        self.last, self.seen = "", list[dict[str, Any]]()

    async def next(self) -> dict[str, Any]:
        kind = ""
        async for line in self._lines:
            name, _, value = line.partition(": ")
            if name == "id":
                self.last = value
            elif name == "event":
                kind = value
            elif name == "data":
                event: dict[str, Any] = {"t": kind} if kind else json.loads(value)
                self.seen.append(event)
                return event
        raise AssertionError("the stream has ended")

    async def until(self, what: str) -> dict[str, Any]:
        """The next event of a kind."""
        while (event := await self.next())["t"] != what:
            pass
        return event


@asynccontextmanager
async def serving(
    root: Path, *steps: Step, settings: str = ON, clock: HandClock | None = None, extra: Sequence[type[Plugin]] = ()
) -> AsyncIterator[Served]:
    """A gateway at work, with `extra` plugins; the same folder may be opened again."""
    config = config_of(root, settings)
    model = ScriptedProvider(*steps)
    plugins: list[str | type[Plugin]] | None = [*BUILT_IN, *extra] if extra else None
    with new_store_laid(root):
        app = build(config, provider=model, channels=None, clock=clock or HandClock(), plugins=plugins)
    app.store.committer = AtOnce()
    app.keep_copy = lambda path, today: ""
    running = asyncio.create_task(app.run())
    try:
        served = Served(app, model)
        async with asyncio.timeout(60):
            await served.page.listening.wait()
            yield served
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await app.aclose()
