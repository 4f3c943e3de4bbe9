"""The gateway: what it costs idle with 500 jobs, a warm turn in it, and `nanoclaw -m hi` attached to it."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent))
from measure import NANOCLAW, PYTHON, cpu_of, environment, instructions, run
from model_server import ModelServer

JOBS = 500
TURNS = 50
HIGHEST = 5

Row = tuple[str, str, str, str]
"""Figure, goal, measured, for comparison."""


@contextmanager
def gateway(env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([NANOCLAW, "gateway"], env=env, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        assert "serves" in process.stdout.readline()
        yield process
    finally:
        process.terminate()
        process.wait(10)


def fill(home: Path) -> None:
    """500 jobs of all sorts; none is due while it is measured."""
    from nanoclaw.core.messages import Address
    from nanoclaw.core.store.db import Transactions
    from nanoclaw.plugins.schedule.jobs import Job, insert
    from nanoclaw.start.opening import open_store

    def now() -> datetime:
        return datetime.now(UTC)

    store = open_store(home / "state.db")
    rules = (("at", ""), ("every", "86400"), ("cron", "30 7 * * 1-5"))
    with Transactions(store, now).open() as tx:
        for number in range(JOBS):
            schedule, rule = rules[number % 3]
            due = now() + timedelta(hours=6, minutes=number)
            kind = "task" if number % 5 == 0 else "reminder"
            when = ("later", schedule, rule or due.isoformat(), "UTC", now())
            insert(tx, Job(kind, f"job {number}", *when, Address("terminal", "main"), "owner", due))
    store.close()


def uss_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean", "Private_Dirty"))) / 1024


def wake_ups(pid: int) -> int:
    """How often its threads have gone to sleep so far, and so were woken."""
    texts = (path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/status"))
    return sum(int(line.split()[1]) for text in texts for line in text.splitlines() if line.startswith("voluntary"))


def peak_mb(command: list[str], env: dict[str, str]) -> float:
    """By way of a small process: a child's peak begins with the memory of the one that it was forked from."""
    code = (
        "import os, sys; pid = os.fork() or os.execv(sys.argv[1], sys.argv[1:]); sys.stdout.flush();"
        " print('', os.wait4(pid, 0)[2].ru_maxrss)"
    )
    return int(run([PYTHON, "-I", "-S", "-c", code, *command], env).output.split()[-1]) / 1024


def attached(env: dict[str, str]) -> Iterator[Row]:
    ask = [NANOCLAW, "-m", "hi"]
    peak = max(peak_mb(ask, env) for _ in range(HIGHEST))
    cpu = median(run(ask, env).cpu for _ in range(4 * HIGHEST))
    counted = instructions(ask, env)
    yield (
        "`nanoclaw -m hi` attached to a gateway: instructions",
        "≤ 170 M",
        f"{counted:,.0f} M; {cpu * 1000:.0f} ms CPU" if counted else f"no valgrind; {cpu * 1000:.0f} ms CPU",
        "",
    )
    yield "`nanoclaw -m hi` attached to a gateway: peak memory", "≤ 20 MB", f"{peak:.1f} MB", ""


def warm_turn(env: dict[str, str], pid: int) -> Iterator[Row]:
    used = []
    for _ in range(TURNS):
        before = cpu_of(pid)
        run([NANOCLAW, "-m", "hi", "--session", "warm"], env)
        used.append((cpu_of(pid) - before) * 1000)
    first, last = median(used[:10]), median(used[-10:])
    yield (
        f"a warm turn in the gateway, median of {TURNS}",
        "≤ 25 ms CPU",
        f"{median(used):.1f} ms; first ten {first:.1f}, last ten {last:.1f}",
        "nanobot 161 ms, Hermes 341 ms, OpenClaw 1,280 ms",
    )


def idle(pid: int, seconds: float, what: str) -> Iterator[Row]:
    time.sleep(5)
    began, cpu, woken = time.monotonic(), cpu_of(pid), wake_ups(pid)
    time.sleep(seconds)
    took = time.monotonic() - began
    share, woken = 100 * (cpu_of(pid) - cpu) / took, wake_ups(pid) - woken
    goal = "< 0.05 % CPU, ≤ 2 wake-ups/s, ≤ 40 MB"
    measured = f"{share:.3f} % CPU, {woken / took:.2f} wake-ups/s, {uss_mb(pid):.1f} MB of its own (USS)"
    peers = "nanobot 0.3.5 0.45 %, 81 MB; Hermes 79 MB; OpenClaw 1 %, 730 MB"
    yield f"idle gateway with {JOBS} jobs, {what}, over {seconds:.0f} s", goal, measured, peers


def rows(folder: Path, seconds: float) -> Iterator[Row]:
    env = environment(folder)
    with ModelServer() as server:
        run([NANOCLAW, "init", "--model", "openai/gpt-5", "--api-base", server.url], env)
        fill(Path(env["NANOCLAW_HOME"]))
        with gateway(env) as process:
            yield from idle(process.pid, seconds, "just started")
            run([NANOCLAW, "-m", "hi"], env)
            yield from attached(env)
            yield from warm_turn(env, process.pid)
            yield from idle(process.pid, seconds, f"after {TURNS} turns")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long it is watched while idle")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as folder:
        print("| figure | goal | measured | for comparison |\n|---|---|---|---|")
        for row in rows(Path(folder), parser.parse_args().seconds):
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
