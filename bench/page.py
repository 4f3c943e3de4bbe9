"""The page: first paint and heap with 10,000 messages, 20 browsers with 20 streaming answers, idle memory.

python bench/page.py [--browsers 20]; wants Chromium and the extras `page` and `browser`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(1, str(Path(__file__).parents[1]))
import httpx
from gateway import gateway, uss_mb
from measure import NANOCLAW, environment, run

MESSAGES, DELTAS, PAUSE = 10_000, 200, 0.05

MODEL = f"""
import asyncio, time
from datetime import UTC, datetime
from nanoclaw.core.events import TextDelta
from nanoclaw.core.messages import AssistantMessage
from nanoclaw.core.plugin import Plugin


class Clock:
    model, supports_vision = "demo/model", False

    async def complete(self, request, on_event):
        text = ""
        for _ in range({DELTAS}):
            await asyncio.sleep({PAUSE})
            text += (piece := f"{{time.monotonic():.4f}} ")
            on_event(TextDelta(piece))
        return AssistantMessage(text, datetime.now(UTC), model=self.model)

    async def aclose(self):
        pass


class Demo(Plugin):
    name = "demo"

    def providers(self):
        return {{"demo": lambda model: Clock()}}
"""
SETTINGS = '[model]\nname = "demo/model"\n[plugins]\nenabled = ["demo"]\nunpinned = "load"\n'


def lay(home: Path, page: bool) -> dict[str, str]:
    """A home with the model, and with a long conversation."""
    from nanoclaw.core.messages import Address, AssistantMessage, Message, UserMessage
    from nanoclaw.core.store.db import Transactions
    from nanoclaw.core.store.sessions import Sessions
    from nanoclaw.start.opening import open_store

    env = environment(home)
    root = Path(env.get("NANOCLAW_HOME") or home / ".nanoclaw")
    (root / "plugins").mkdir(parents=True, exist_ok=True)
    (root / "config.toml").write_text(SETTINGS + "[page]\nport = 0\n" * page)
    (root / "config.toml").chmod(0o600)
    (root / "plugins" / "demo.py").write_text(MODEL)
    now, words = datetime.now(UTC), "Some **words** of an answer, with `code` and a [link](https://example.org). " * 4
    store = open_store(root / "state.db")
    transactions = Transactions(store, lambda: now)
    session = Sessions(transactions).of(Address("page", "long"))
    with transactions.open() as tx:
        for number in range(MESSAGES // 2):
            turn: list[Message] = [UserMessage(f"question {number}", now), AssistantMessage(words, now)]
            session.add_turn(tx, "", turn)
    store.close()
    return env


def link(env: dict[str, str]) -> tuple[str, str]:
    url, _, code = run([NANOCLAW, "web"], env).output.strip().partition("#")
    return url.rstrip("/"), code


async def streams(env: dict[str, str], count: int) -> list[float]:
    """Seconds by which each delta is behind, for the browser whose conversation it is."""
    late, ready, one_by_one = list[float](), asyncio.Barrier(count), asyncio.Lock()
    url = link(env)[0]

    async def browser(number: int) -> None:
        key, last = f"page:bench{number:04}", ""
        async with httpx.AsyncClient(base_url=url, headers={"origin": url}, timeout=60) as client:
            async with one_by_one:  # few codes are open at once
                _, code = await asyncio.to_thread(link, env)
                assert (await client.post("/api/login", json={"code": code})).status_code == 200
            cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
            host = urlsplit(url)
            reader, writer = await asyncio.open_connection(host.hostname, host.port, limit=2**24)
            writer.write(f"GET /api/stream HTTP/1.1\r\nHost: {host.netloc}\r\nCookie: {cookie}\r\n\r\n".encode())
            await ready.wait()
            said = {"c": key, "id": f"bench{number:08}", "text": "Tell me the time"}
            await client.post("/api/say", json=said)
            mark = f'data: {{"c": "{key}", "t": '.encode()
            while line := await reader.readline():
                if not line.startswith(mark):
                    continue
                now, event = time.monotonic(), json.loads(line[6:])
                stamps = str(event.get("tail", "")).removesuffix("</p>").split()
                if event["t"] == "text" and stamps and stamps[-1] != last:
                    last = stamps[-1]
                    late.append(now - float(last.removeprefix("<p>")))
                if event["t"] == "ended":
                    writer.close()
                    return

    await asyncio.gather(*(browser(number) for number in range(count)))
    return late


async def paint(env: dict[str, str]) -> dict[str, float]:
    from playwright.async_api import async_playwright

    from nanoclaw.plugins.browse.chromium import executable

    async with async_playwright() as driver:
        path = executable("", os.environ["PATH"])
        chromium = await driver.chromium.launch(executable_path=path, chromium_sandbox=os.geteuid() != 0)
        page = await chromium.new_page()
        url, code = link(env)
        await page.goto(f"{url}/#{code}")
        await page.locator("textarea").wait_for()
        devtools = await page.context.new_cdp_session(page)

        async def heap() -> float:
            await devtools.send("HeapProfiler.collectGarbage")
            return float((await devtools.send("Runtime.getHeapUsage"))["usedSize"]) / 1e6

        async def first(where: str) -> float:
            begun = time.monotonic()
            await page.goto(f"{url}/?{where}#/talk/page:long")
            await page.locator(".said").last.wait_for()
            return time.monotonic() - begun

        await first("warm")
        found = {"first paint, s": await first("cold"), "heap, MB": await heap()}
        script = "log => { log.scrollTop = 0; return log.querySelectorAll('.said').length }"
        while await page.locator(".log").evaluate(script) < MESSAGES // 2:
            await page.wait_for_timeout(50)
        found["heap with all of it, MB"] = await heap()
        begun = time.monotonic()
        await page.locator(".log").evaluate("log => { log.scrollTop = log.scrollHeight; return log.offsetHeight }")
        found["a jump to its end then, s"] = time.monotonic() - begun
        await chromium.close()
        return found


def main(count: int) -> None:
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for page in (False, True):
            home = Path(folder) / str(page)
            home.mkdir()
            env = lay(home, page)
            with gateway(env) as process:
                time.sleep(5)
                found[f"idle gateway {'with' if page else 'without'} the page, own memory, MB"] = uss_mb(process.pid)
                if page:
                    late = sorted(asyncio.run(streams(env, count)))
                    found["deltas"] = len(late)
                    for part in (50, 99):
                        found[f"{count} browsers: p{part} behind, ms"] = late[len(late) * part // 100] * 1000
                    found |= asyncio.run(paint(env))
    for name, value in found.items():
        print(f"{name}: {value:,.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--browsers", type=int, default=20)
    main(parser.parse_args().browsers)
