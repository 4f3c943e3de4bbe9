"""The first page in the browser, beside playwright alone with the same Chromium: python bench/browser.py

CPU of all processes until the page is read, and the memory they hold then (PSS: what is shared is counted once).
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

PAGE = b"<title>Page</title><h1>Page</h1>" + b"<p>Words with <a href=/x>a link</a> among them.</p>" * 200
RUNS = 5


def tree(parent: int) -> list[int]:
    """A process and those that came from it."""
    above = {}
    for path in Path("/proc").iterdir():
        try:
            if path.name.isdigit():
                above[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found, new = [parent], {parent}
    while new := {pid for pid, one in above.items() if one in new}:
        found += new
    return found


def spent() -> str:
    """CPU seconds and megabytes of this process and its children."""
    ticks, kilobytes = 0, 0
    for pid in tree(os.getpid()):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))  # its own and those of ended children
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        kilobytes += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return f"{ticks / os.sysconf('SC_CLK_TCK')} {kilobytes / 1000}"


async def bare(url: str) -> None:
    from playwright.async_api import async_playwright

    from nanoclaw.plugins.browse.plugin import executable

    async with async_playwright() as driver:
        path = executable("", os.environ["PATH"])
        browser = await driver.chromium.launch(executable_path=path, chromium_sandbox=os.geteuid() != 0)
        page = await (await browser.new_context()).new_page()
        await page.goto(url)
        assert "Words" in await page.inner_text("body")
        print(spent())
        await browser.close()


async def ours(url: str) -> None:
    from nanoclaw.net.proxy import JudgingProxy
    from nanoclaw.plugins.browse.plugin import Chromium
    from nanoclaw.plugins.browse.session import BrowserSession

    proxy = JudgingProxy([url.removeprefix("http://").rstrip("/")])
    chromium = Chromium("", os.environ)
    context = await chromium.context(proxy={"server": await proxy.start()}, service_workers="block")
    assert chromium.folder
    session = BrowserSession(context, proxy, chromium.folder)
    assert "Words" in (await session.open(url)).text
    print(spent())
    await session.aclose()
    await chromium.aclose()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url, found = f"http://127.0.0.1:{server.server_address[1]}/", {"bare": [], "ours": []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(RUNS):
            for name, figures in found.items():
                done = subprocess.run(
                    [sys.executable, __file__, name, url], capture_output=True, text=True, check=True, cwd=folder
                )
                figures.append([float(word) for word in done.stdout.split()])
    for at, unit in enumerate(("s CPU", "MB")):
        mine, theirs = (median(one[at] for one in found[name]) for name in ("ours", "bare"))
        print(f"{mine:.2f} {unit}, playwright alone {theirs:.2f}: {mine / theirs:.2f} ×")


if __name__ == "__main__":
    if sys.argv[1:]:
        asyncio.run({"bare": bare, "ours": ours}[sys.argv[1]](sys.argv[2]))
    else:
        main()
