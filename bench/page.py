"""The page: first paint and heap with 10,000 messages, 20 browsers and 20 tabs of one with 20 streaming answers, a
table of 200 kB, what closed pages leave, a gateway that is killed between two deltas, idle memory.

python bench/page.py [--browsers 20]; wants Chromium and the extras `page` and `browser`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(1, str(Path(__file__).parents[1]))
import httpx
from gateway import gateway, uss_mb
from measure import NANOCLAW, environment, run

MESSAGES, DELTAS, PAUSE, TABLE = 10_000, 200, 0.05, 200_000

MODEL = f"""
import asyncio, time
from datetime import UTC, datetime
from nanoclaw.core.events import TextDelta
from nanoclaw.core.messages import AssistantMessage
from nanoclaw.core.plugin import Plugin


class Clock:
    model, supports_vision = "demo/model", False

    async def complete(self, request, on_event):
        text, is_table = "", "table" in request.history[-1].text
        for _ in range({DELTAS}):
            await asyncio.sleep({PAUSE})
            piece = f"{{time.time():.4f}} "
            if is_table:
                piece = "|a|b|\\n|-|-|\\n" * (not text) + "|some words|and others|\\n" * ({TABLE} // {DELTAS} // 24)
            text += piece
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


def lay(home: Path, port: int | None) -> dict[str, str]:
    """A home with the model, and with a long conversation; with a port, with the page."""
    from nanoclaw.core.messages import Address, AssistantMessage, Message, UserMessage
    from nanoclaw.core.store.db import Transactions
    from nanoclaw.core.store.sessions import Sessions
    from nanoclaw.start.opening import open_store

    env = environment(home)
    root = Path(env.get("NANOCLAW_HOME") or home / ".nanoclaw")
    (root / "plugins").mkdir(parents=True, exist_ok=True)
    (root / "config.toml").write_text(SETTINGS + f"[page]\nport = {port}\n" * bool(port))
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


def free_port() -> int:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return int(own.getsockname()[1])


def link(env: dict[str, str]) -> tuple[str, str]:
    url, _, code = run([NANOCLAW, "web"], env).output.strip().partition("#")
    return url.rstrip("/"), code


async def streams(env: dict[str, str], count: int, *, has_table: bool = False) -> list[float]:
    """Seconds by which each delta is behind, for the browser whose conversation it is; with a table that comes to
    another one meanwhile."""
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
            said = {"c": key, "id": secrets.token_hex(8), "text": "Tell me the time"}
            if has_table and number == 0:
                await client.post("/api/say", json=said | {"c": "page:table", "text": "a table"})
                said["id"] += "b"
            await client.post("/api/say", json=said)
            mark = f'data: {{"c": "{key}", "t": '.encode()
            while line := await reader.readline():
                if not line.startswith(mark):
                    continue
                now, event = time.time(), json.loads(line[6:])
                stamps = str(event.get("more") or event.get("tail", "")).removesuffix("</p>").split()
                if event["t"] == "text" and stamps and stamps[-1] != last:
                    last = stamps[-1]
                    late.append(now - float(last.removeprefix("<p>")))
                if event["t"] == "ended":
                    writer.close()
                    return

    await asyncio.gather(*(browser(number) for number in range(count)))
    return late


@asynccontextmanager
async def browser_at(env: dict[str, str]) -> AsyncIterator[tuple[Any, str]]:
    """A page of a signed-in Chromium, and the address."""
    from playwright.async_api import async_playwright

    from nanoclaw.plugins.browse.plugin import executable

    async with async_playwright() as driver:
        path = executable("", os.environ["PATH"])
        chromium = await driver.chromium.launch(executable_path=path, chromium_sandbox=os.geteuid() != 0)
        page = await (await chromium.new_context()).new_page()
        url, code = link(env)
        await page.goto(f"{url}/#{code}")
        await page.locator("textarea").wait_for()
        yield page, url
        await chromium.close()


WATCHES = """() => {
  window.late = [];
  let last = "";
  new MutationObserver(() => {
    const stamp = [...document.querySelectorAll(".text .words")].at(-1)?.textContent.trim().split(/\\s+/).at(-1);
    if (stamp && stamp !== last && Number(stamp)) late.push(Date.now() / 1000 - Number(stamp));
    last = stamp;
  }).observe(document.querySelector(".log"), { childList: true, subtree: true, characterData: true });
}"""
"""Puts down by how much each delta is behind when it stands in the page, by the clock of a thousandth."""

HIDES = """() => {
  Object.defineProperty(document, "hidden", { get: () => true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
"""A browser without a screen takes every tab for seen; people see one of a window."""


async def tabs(env: dict[str, str], count: int) -> list[float]:
    """Seconds by which each delta is behind in the tab that is seen, of one browser whose tabs share one stream."""
    async with browser_at(env) as (first, url):
        pages = [first, *[await first.context.new_page() for _ in range(count - 1)]]
        for number, page in enumerate(pages):
            await page.goto(f"{url}/?{number}#/talk/page:tab{number:05}")
            await page.locator("textarea").wait_for()
            await page.evaluate(WATCHES)
        for page in pages:
            await page.locator("textarea").fill("Tell me the time")
            await page.keyboard.press("Enter")
            if page is not pages[-1]:
                await page.evaluate(HIDES)
        for page in pages:
            await page.locator('.log[aria-busy="false"] .text footer').last.wait_for(timeout=120_000)
        return [float(one) for one in await pages[-1].evaluate("late")]


async def table(env: dict[str, str]) -> dict[str, float]:
    """Seconds until a table of 200 kB is there as a whole, after it was asked for."""
    async with browser_at(env) as (page, url):
        await page.goto(f"{url}/?table#/talk/page:table")
        whole = page.get_by_role("button", name="Show all of it")
        await whole.wait_for(timeout=120_000)
        begun = time.monotonic()
        await whole.click()
        await (
            page.locator("td").nth(2 * DELTAS * (TABLE // DELTAS // 24) - 2).wait_for(state="attached", timeout=60_000)
        )
        return {"all of a table of 200 kB, s": time.monotonic() - begun}


async def killed(env: dict[str, str], process: subprocess.Popen[bytes]) -> dict[str, float]:
    """Seconds from the start after a kill amid an answer until the page shows the whole answer, each delta once."""
    async with browser_at(env) as (page, url):
        await page.goto(f"{url}/?killed#/talk/page:killed")
        await page.locator("textarea").fill("Tell me the time")
        await page.keyboard.press("Enter")
        await page.locator(".text .words").wait_for()
        process.send_signal(signal.SIGKILL)
        process.wait()
        with gateway(env):
            begun = time.monotonic()
            await page.locator('.log[aria-busy="false"] .text footer').last.wait_for(timeout=120_000)
            texts = await page.locator(".text .words").all_inner_texts()
            stamps = [stamp for text in texts for stamp in text.split() if stamp.replace(".", "").isdecimal()]
            assert len(set(stamps)) == len(stamps) >= DELTAS, len(stamps)
            return {"whole after a kill amid it, s": time.monotonic() - begun}


async def paint(env: dict[str, str]) -> dict[str, float]:
    async with browser_at(env) as (page, url):
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
        return found


def tell(name: str, value: float) -> None:
    print(f"{name}: {value:,.1f}", flush=True)


def tell_late(name: str, late: list[float]) -> None:
    late.sort()
    for part in (50, 99):
        tell(f"{name}: p{part} of {len(late):,} behind, ms", late[len(late) * part // 100] * 1000)


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for page in (False, True):
            home = Path(folder) / str(page)
            home.mkdir()
            env = lay(home, free_port() if page else None)
            with gateway(env) as process:
                time.sleep(5)
                tell(f"idle gateway {'with' if page else 'without'} the page, own memory, MB", uss_mb(process.pid))
                if page:
                    tell_late(f"{count} browsers", asyncio.run(streams(env, count)))
                    used = uss_mb(process.pid)
                    tell_late(f"{count} browsers beside a table", asyncio.run(streams(env, count, has_table=True)))
                    tell_late(f"{count} tabs", asyncio.run(tabs(env, count)))
                    for name, value in {**asyncio.run(table(env)), **asyncio.run(paint(env))}.items():
                        tell(name, value)
                    time.sleep(5)
                    tell("kept of all these once they are closed, MB", (kept := uss_mb(process.pid)) - used)
                    asyncio.run(paint(env))
                    time.sleep(5)
                    tell("more, once 10,000 messages were opened again and closed, MB", uss_mb(process.pid) - kept)
                    for name, value in asyncio.run(killed(env, process)).items():
                        tell(name, value)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--browsers", type=int, default=20)
    main(parser.parse_args().browsers)
