"""Cost of the sandbox: `echo` run by the tool's own library at each level that this machine has, over none.

Usage: sandbox.py [ROUNDS]. The levels take turns in one run; prints the medians of wall time and CPU time a command,
that of all its processes included, and the size of the workspace's repository walk.
"""

from __future__ import annotations

import asyncio
import compileall
import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

import nanoclaw.sandbox
from nanoclaw.sandbox.sandbox import Encloser, Strength, find_strength
from nanoclaw.sandbox.view import Grants
from nanoclaw.spawn import Bounds, Process

BOUNDS = Bounds(256, 4_000_000_000, 500_000_000)
COMMAND = ("/bin/bash", "-c", "echo hi")


def spent() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


async def once(encloser: Encloser | None, grants: Grants) -> tuple[float, float]:
    environment = {"PATH": grants.path}
    wall, cpu = time.perf_counter(), spent()
    if encloser is None:
        process = Process(COMMAND, folder=grants.workspace, environment=environment, bounds=BOUNDS)
    else:
        made = encloser.enclose(COMMAND, environment)
        process = Process(
            made.arguments,
            folder=grants.workspace,
            environment=made.environment,
            bounds=BOUNDS,
            keeper=made.keeper,
        )
    ended = await process.run(20)
    assert ended.head == b"hi\n", ended
    return time.perf_counter() - wall, spent() - cpu


async def measure(folder: Path, rounds: int) -> None:
    workspace = folder / "home" / "workspace"
    workspace.mkdir(parents=True)
    for number in range(60):  # a workspace with some folders, and a repository in one
        (workspace / f"folder{number}" / "inner").mkdir(parents=True)
    (workspace / "folder7" / ".git" / "hooks").mkdir(parents=True)
    grants = Grants(workspace, (folder / "home",), Path.home(), os.environ["PATH"])
    compileall.compile_dir(nanoclaw.sandbox.__path__[0], quiet=1)  # as an installer does
    began = time.perf_counter()
    best = find_strength(grants, anew=True)
    print(f"best level: {best.level}, found in {1000 * (time.perf_counter() - began):.0f} ms")
    kinds: dict[str, Encloser | None] = {"none": None}
    for strength in (best, Strength("files+net")):
        kinds.setdefault(strength.level, Encloser(grants, strength))
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in kinds}
    for encloser in kinds.values():
        await once(encloser, grants)
    for _ in range(rounds):
        for name, encloser in kinds.items():
            taken[name].append(await once(encloser, grants))
    base = [statistics.median(one[kind] for one in taken["none"]) for kind in (0, 1)]
    for name, figures in taken.items():
        wall, cpu = (1000 * statistics.median(one[kind] for one in figures) for kind in (0, 1))
        over = f"; over none {wall - 1000 * base[0]:+.1f} ms, {cpu - 1000 * base[1]:+.1f} ms of CPU" * (name != "none")
        print(f"{name}: {wall:.1f} ms, {cpu:.1f} ms of CPU a command{over}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder), int(sys.argv[1]) if sys.argv[1:] else 40))
