"""MCP servers: what it costs to connect to one beside the SDK's bare client, and an idle gateway with three of them."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent))
from gateway import Row, gateway, uss_mb, wake_ups
from measure import NANOCLAW, PYTHON, cpu_of, environment, run
from model_server import ModelServer

HERE = Path(__file__).parent
SERVER = HERE.parent / "tests" / "plugins" / "mcp" / "server.py"
ROUNDS = 7

OURS = """
import asyncio, sys, time
from pathlib import Path
from nanoclaw.start.build import build
from nanoclaw.start.config import load

async def main():
    app = build(load({"NANOCLAW_HOME": sys.argv[1], "PATH": "/usr/bin:/bin"}), provider=())
    began = time.process_time()
    one = app.public("mcp").connections()["s"]
    await one.ready()
    print(time.process_time() - began, len(one.listing.tools))
    await app.aclose()

asyncio.run(main())
"""

BARE = """
import asyncio, sys, time

async def main():
    began = time.process_time()
    from mcp import Client, StdioServerParameters
    async with Client(StdioServerParameters(command=sys.executable, args=[sys.argv[1]])) as client:
        tools = (await client.list_tools()).tools
        print(time.process_time() - began, len(tools))

asyncio.run(main())
"""


def table(name: str) -> str:
    return f"[mcp.{name}]\ncommand = {json.dumps(PYTHON)}\nargs = {json.dumps([str(SERVER)])}\n"


def connecting(folder: Path) -> Iterator[Row]:
    home, env = folder / "connect", environment(folder)
    home.mkdir()
    (home / "config.toml").write_text(table("s"))
    ours, bare = list[float](), list[float]()
    for _ in range(ROUNDS):
        ours.append(float(run([PYTHON, "-c", OURS, str(home)], env).output.split()[0]))
        bare.append(float(run([PYTHON, "-c", BARE, str(SERVER)], env).output.split()[0]))
    ratio = median(mine / theirs for mine, theirs in zip(ours, bare, strict=True))
    yield (
        f"connecting to a server and listing its tools, imports included, CPU of the client, median of {ROUNDS}",
        "≤ 1.2 × the SDK's bare client",
        f"{ratio:.2f} ×: {median(ours) * 1000:.0f} ms",
        f"`mcp.Client` {median(bare) * 1000:.0f} ms",
    )


def idle(folder: Path, seconds: float) -> Iterator[Row]:
    import time

    measured = list[float]()
    share = woken = 0.0
    for name, servers in (("none", 0), ("three", 3)):
        env = environment(folder / name)
        with ModelServer() as server:
            run([NANOCLAW, "init", "--model", "openai/gpt-5", "--api-base", server.url], env)
            config = Path(env["NANOCLAW_HOME"]) / "config.toml"
            config.write_text(config.read_text() + "".join(table(f"s{number}") for number in range(servers)))
            with gateway(env) as process:
                run([NANOCLAW, "-m", "hi"], env)
                assert len(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()) == servers
                time.sleep(5)
                began, cpu, wakes = time.monotonic(), cpu_of(process.pid), wake_ups(process.pid)
                time.sleep(seconds)
                took = time.monotonic() - began
                share, woken = 100 * (cpu_of(process.pid) - cpu) / took, (wake_ups(process.pid) - wakes) / took
                measured.append(uss_mb(process.pid))
    yield (
        f"idle gateway with 3 connected MCP servers, over {seconds:.0f} s, without the servers' own",
        "≤ 60 MB",
        f"{measured[1]:.1f} MB of its own (USS), {share:.3f} % CPU, {woken:.2f} wake-ups/s",
        f"without servers {measured[0]:.1f} MB",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="how long the gateway is watched while idle")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder:
        for name in ("none", "three"):
            (Path(folder) / name).mkdir()
        print("| figure | goal | measured | for comparison |\n|---|---|---|---|")
        for row in (*connecting(Path(folder)), *idle(Path(folder), seconds)):
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
