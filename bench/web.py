"""What reading a page of 200 kB costs over the bare request for it: CPU of this process; the site is another one.

Usage: web.py [TIMES]. Prints medians in milliseconds: the request by httpx alone, web_fetch in all with trafilatura and
with plain words, and the first web_fetch, which imports its libraries.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

import httpx

from nanoclaw.core.messages import Address
from nanoclaw.core.plugin import PERSON
from nanoclaw.core.tool import ToolContext
from nanoclaw.plugins.web import readable
from nanoclaw.start.build import build
from nanoclaw.start.config import load

BYTES = 200_000


def page() -> str:
    """An article with menu, headings, links, lists and tables: what is text is most of it, which costs most."""
    menu = "".join(f'<li><a href="/menu/{n}">Item {n}</a></li>' for n in range(60))
    parts, size, number = [f"<nav><ul>{menu}</ul></nav><main><article><h1>Notes on a release</h1>"], 0, 0
    while size < BYTES - 5_000:
        number += 1
        words = " ".join(f"word{(number * 7 + at * 13) % 997}" for at in range(100))
        part = f'<h2>Part {number}</h2><p>{words} <a href="/more/{number}">more</a> {words}.</p>'
        part += f"<ul><li>{words[:80]}</li><li>{words[80:160]}</li></ul>"
        if number % 10 == 0:
            part += "<table>" + f"<tr><td>{number}</td><td>{words[:40]}</td></tr>" * 5 + "</table>"
        parts.append(part)
        size += len(part)
    body = "".join(parts)
    return f"<!doctype html><html><head><title>Release</title></head><body>{body}</article></main></body></html>"


async def measure(folder: Path, times: int) -> None:
    (folder / "site").mkdir()
    (folder / "site" / "index.html").write_text(page())
    command = [
        sys.executable,
        "-u",
        "-m",
        "http.server",
        "0",
        "--bind",
        "127.0.0.1",
        "--directory",
        str(folder / "site"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as site:  # noqa: ASYNC220
        assert site.stdout
        port = site.stdout.readline().split(" port ")[1].split()[0]
        (folder / "config.toml").write_text(f'[net]\nallow = ["127.0.0.1:{port}"]\n')
        app = build(load({"NANOCLAW_HOME": str(folder)}), provider=())
        tool = next(one for one in app.chain.tools(PERSON) if one.name == "web_fetch")
        context, url = ToolContext(Address("terminal", "main"), "me", "person"), f"http://127.0.0.1:{port}/"

        async def fetch(number: int) -> None:
            result = await tool.run(context, url=f"{url}?{number}")
            assert "Part 1" in result.text  # type: ignore[union-attr]

        async def request(number: int) -> None:
            async with httpx.AsyncClient(trust_env=False, verify=False) as client:
                assert len((await client.get(f"{url}?{number}")).content) > BYTES * 0.9

        try:
            first = await spent(fetch, -1)
            bare = median([await spent(request, number) for number in range(times)])
            whole = median([await spent(fetch, number) for number in range(times)])
            readable.LARGEST = 0
            plain = median([await spent(fetch, number) for number in range(times, 2 * times)])
        finally:
            site.terminate()
            await app.aclose()
    print(f"page of {len(page()):,} bytes; CPU in ms, median of {times}")
    print(f"request alone (httpx)   {bare:7.1f}")
    print(f"web_fetch, Markdown     {whole:7.1f}  {whole - bare:+.1f} over it")
    print(f"web_fetch, plain words  {plain:7.1f}  {plain - bare:+.1f} over it")
    print(f"the first web_fetch     {first:7.1f}")


async def spent(work: Callable[[int], Awaitable[None]], number: int) -> float:
    before = time.process_time()
    await work(number)
    return (time.process_time() - before) * 1000


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder), int(sys.argv[1]) if len(sys.argv) > 1 else 15))
