"""Cost of looking at a workspace of 5,000 files before and after a command that changes none, beside the bare command.

Usage: snapshots.py [ROUNDS]. Both take turns in one run; prints medians of wall and CPU time, that of the command's
processes included, and once what the first look of all costs, which copies everything.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

from nanoclaw.plugins.card.losses import WATCHED, Judge, is_remade
from nanoclaw.snapshots.copies import FileCopies
from nanoclaw.snapshots.listing import FileLister, FileListing
from nanoclaw.spawn import Bounds, Process

BOUNDS = Bounds(256, 4_000_000_000, 500_000_000)


def spent() -> tuple[float, float]:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return time.perf_counter(), sum(one.ru_utime + one.ru_stime for one in used)


def since(begun: tuple[float, float]) -> tuple[float, float]:
    wall, cpu = spent()
    return 1000 * (wall - begun[0]), 1000 * (cpu - begun[1])


async def command(folder: Path) -> None:
    environment = {"PATH": os.environ["PATH"]}
    arguments = ("/bin/bash", "-c", "echo hi")
    await Process(arguments, folder=folder, environment=environment, bounds=BOUNDS).run(20)


async def measure(folder: Path, rounds: int) -> None:
    workspace = folder / "workspace"
    for number in range(5_000):
        path = workspace / f"folder{number % 50}" / f"inner{number % 7}" / f"file{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"file {number}\n" * 200)
    copies = FileCopies(folder / "copies", most_bytes=200_000_000, largest_bytes=10_000_000)

    lister = FileLister(is_remade, WATCHED)

    def look() -> FileListing:
        listing = lister.scan([workspace])
        copies.update(listing, 10.0)
        return listing

    begun = spent()
    look()
    print("first look, {:.0f} ms, {:.0f} ms of CPU".format(*since(begun)))
    bare, watched = list[tuple[float, float]](), list[tuple[float, float]]()
    for _ in range(rounds):
        begun = spent()
        await command(workspace)
        bare.append(since(begun))
        begun = spent()
        before = await asyncio.to_thread(look)
        await command(workspace)
        after = await asyncio.to_thread(lister.scan, [workspace])
        assert not Judge(before, after, copies, set()).losses().lost
        watched.append(since(begun))
    for name, figures in (("bare", bare), ("watched", watched)):
        print(f"{name}: {statistics.median(x[0] for x in figures):.1f} ms, ", end="")
        print(f"{statistics.median(x[1] for x in figures):.1f} ms of CPU")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder), int(sys.argv[1]) if sys.argv[1:] else 20))
