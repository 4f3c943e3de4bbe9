"""Telegram in the gateway: start to first poll, a message in until the model is asked, memory, 1,000 strangers, a flood
of 50 chats, and an outage."""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
from measure import NANOCLAW, cpu_of, environment, run
from model_server import ModelServer

from nanoclaw.start.config import load
from tests.journeys.command import make_owner
from tests.live.telegram_server import TelegramServer

ANNA = 1001
STARTS = 5
TURNS = 50
STRANGERS = 1000
FLOOD_FROM, CHATS, EACH, FLOOD_SECONDS = 2001, 50, 20, 60
AWAY_SECONDS, WAITING = 40, 10
NAMES = re.compile(r"(?:question|away)-[0-9]+")

Row = tuple[str, str, str, str]
"""Figure, goal, measured, for comparison."""


class Bench:
    """A home with one channel, whose owner is linked, and its gateway."""

    def __init__(self, folder: Path, telegram: TelegramServer, model: ModelServer) -> None:
        self.telegram, self.model = telegram, model
        self.env = {**environment(folder), "NANOCLAW_TELEGRAM_TOKEN": telegram.token}
        self.home = Path(self.env["NANOCLAW_HOME"])
        run([NANOCLAW, "init", "--model", "openai/gpt-5", "--api-base", model.url], self.env)
        with (self.home / "config.toml").open("a") as config:
            config.write(f'[channels.telegram]\napi_base = "{telegram.api_base}"\n')
        self._make_owner()
        self.anna = telegram.person(ANNA, "Anna")

    def _make_owner(self) -> None:
        """Anna's accounts: her own, and those of the flood."""
        ids = [str(one) for one in (ANNA, *range(FLOOD_FROM, FLOOD_FROM + CHATS))]
        make_owner(load(self.env), "telegram", *ids)

    async def start(self) -> tuple[subprocess.Popen[bytes], float, float]:
        """The gateway, with the wall and CPU seconds until its first poll was there."""
        polls, began = len(self.telegram.asked("getUpdates")), time.monotonic()
        process = self._launch()
        await self.telegram.until(lambda: len(self.telegram.asked("getUpdates")) > polls, 60)
        return process, time.monotonic() - began, cpu_of(process.pid)

    def _launch(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen([NANOCLAW, "gateway"], env=self.env, stdout=subprocess.DEVNULL)

    async def end(self, process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        await asyncio.to_thread(process.wait, 20)

    async def turn(self, pid: int) -> float:
        """The gateway's own CPU seconds from a message to the request that the model gets."""
        asked: list[float] = []
        self.model.on_request = lambda: asked.append(cpu_of(pid))
        before = cpu_of(pid)
        self.telegram.say(self.anna, "hi")
        await self.telegram.next(self.anna, 30)
        return asked[0] - before


def resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def picture() -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", (64, 48)).save(out, "JPEG")
    return out.getvalue()


async def starts(bench: Bench) -> Row:
    walls, cpus = [], []
    for _ in range(STARTS):
        process, wall, cpu = await bench.start()
        walls.append(wall)
        cpus.append(cpu)
        await bench.end(process)
    measured = f"{median(walls):.2f} s, {median(cpus):.2f} s of them CPU"
    return f"start of the gateway with Telegram to its first poll, median of {STARTS}", "≤ 2 s", measured, ""


async def turns(bench: Bench, pid: int) -> Row:
    first = await bench.turn(pid)
    used = [await bench.turn(pid) for _ in range(TURNS)]
    measured = f"{median(used) * 1000:.1f} ms, the highest {max(used) * 1000:.1f}; the very first {first * 1000:.0f} ms"
    return f"a message in until the model is asked, median of {TURNS}", "≤ 60 ms CPU", measured, ""


async def strangers(bench: Bench, pid: int) -> Row:
    mallory, content = bench.telegram.person(666, "Mallory"), picture()
    asked, log, cpu, sizes = len(bench.model.bodies), len(bench.telegram.log), cpu_of(pid), [resident_mb(pid)]
    for _ in range(2):
        for number in range(STRANGERS):
            bench.telegram.photo(mallory, content, f"message {number}")
        await bench.telegram.until(lambda: not bench.telegram.unconfirmed, 120)
        sizes.append(resident_mb(pid))
    calls, cpu = len(bench.model.bodies) - asked, (cpu_of(pid) - cpu) / 2
    other = {one.method for one in bench.telegram.log[log:]} - {"getUpdates"}
    assert not other, other
    files = sum(path.is_file() for path in (bench.home / "workspace" / "media").rglob("*"))
    memory = "{:.1f} MB before, {:.1f} MB after, {:.1f} MB after 1,000 more".format(*sizes)
    measured = f"{calls} and {files}; {memory}; {cpu:.2f} s CPU"
    return "1,000 messages of a stranger with pictures: model calls and files", "0 and 0, memory flat", measured, ""


class Echo(ModelServer):
    """Answers with the names of all that has no answer yet."""

    def reply(self, body: dict[str, Any]) -> str:
        asked = list[str]()
        for message in body["messages"]:
            asked = [] if message["role"] == "assistant" else asked + NAMES.findall(str(message["content"]))
        return f"Re {' '.join(dict.fromkeys(asked))}."


def answered(telegram: TelegramServer) -> dict[str, list[float]]:
    """When each message was answered: as often as that came."""
    found: dict[str, list[float]] = {}
    for one in telegram.asked("sendMessage"):
        if one.status == 200:
            for name in NAMES.findall(str(one.parameters["text"])):
                found.setdefault(name, []).append(one.at)
    return found


async def flood(folder: Path) -> AsyncIterator[Row]:
    """50 chats write 20 messages each within a minute; then the platform is away while some more are written."""
    with Echo() as model:
        async with TelegramServer() as telegram:
            bench = Bench(folder, telegram, model)
            process, _, _ = await bench.start()
            try:
                yield await _flooded(bench, process.pid)
                yield await _away(bench)
            finally:
                await bench.end(process)


async def _flooded(bench: Bench, pid: int) -> Row:
    telegram, said, cpu = bench.telegram, dict[str, float](), cpu_of(pid)
    people = [telegram.person(FLOOD_FROM + number, f"Anna{number}") for number in range(CHATS)]
    began = time.monotonic()
    for number in range(CHATS * EACH):
        due = began + number * FLOOD_SECONDS / (CHATS * EACH)
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        text = f"question-{number}"
        said[text] = time.monotonic()
        telegram.say(people[number % CHATS], f"{text}?")
    over = time.monotonic()
    with suppress(AssertionError):  # how many were answered is told
        await telegram.until(lambda: len(answered(telegram)) >= len(said), 60)
    late = sorted(at[0] - said[text] for text, at in answered(telegram).items())
    counts = [len(at) for at in answered(telegram).values()]
    once, never = counts.count(1), len(said) - len(counts)
    after, used = max(at[0] for at in answered(telegram).values()) - over, cpu_of(pid) - cpu
    measured = (
        f"{once} of {len(said)} answered once, {never} never; median {median(late):.2f} s, "
        f"p99 {late[int(len(late) * 0.99)]:.2f} s, 0.8 of it for a burst; "
        f"the last {after:.1f} s after the flood; {used / len(said) * 1000:.0f} ms CPU a message"
    )
    return f"{CHATS} chats write {EACH} messages each in {FLOOD_SECONDS} s", "each once, p99 ≤ 2 s", measured, ""


async def _away(bench: Bench) -> Row:
    """Messages are written while the platform is out of reach; then it is back."""
    telegram = bench.telegram
    before = set(answered(telegram))
    await telegram.leave()
    for number in range(WAITING):
        telegram.say(bench.anna, f"away-{number}?")
        await asyncio.sleep(AWAY_SECONDS / WAITING)
    await telegram.come_back()
    back = time.monotonic()
    await telegram.until(lambda: f"away-{WAITING - 1}" in answered(telegram), 120)
    came = {text: at for text, at in answered(telegram).items() if text not in before}
    order = [text for text, _ in sorted(came.items(), key=lambda one: one[1])]
    assert order == [f"away-{number}" for number in range(WAITING)], order
    last = max(at[-1] for at in came.values()) - back
    measured = f"{len(came)} of {WAITING} answered, in order; the last {last:.1f} s after it was back"
    return f"out of reach for {AWAY_SECONDS} s", "all within 5 s, in order", measured, ""


async def rows(folder: Path) -> AsyncIterator[Row]:
    with ModelServer() as model:
        async with TelegramServer() as telegram:
            bench = Bench(folder, telegram, model)
            yield await starts(bench)
            process, _, _ = await bench.start()
            try:
                idle = resident_mb(process.pid)
                yield await turns(bench, process.pid)
                after = f"{idle:.1f} MB after the start, {resident_mb(process.pid):.1f} MB after {TURNS} turns"
                yield "the gateway with Telegram, resident", "≤ 60 MB", after, "SDKs alone: 46 MB and 176 MB"
                yield await strangers(bench, process.pid)
            finally:
                await bench.end(process)


async def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as folder:
        print("| figure | goal | measured | for comparison |\n|---|---|---|---|")
        for part in (rows, flood):
            within = Path(folder) / part.__name__
            within.mkdir()
            async for row in part(within):
                print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
