"""The long form: `python -m tests.torture.run` disturbs the day at every call and prints a table of what broke."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import get_args

from tests.torture import day, lives, shim
from tests.torture.shim import KILLS, How
from tests.torture.trials import NO_SPACE, Outcome, Trials


@dataclass(frozen=True, slots=True)
class Kind:
    """One line of the table: `points` are to be shared among processes, `outcomes` of some of them are seen by one."""

    name: str
    points: Callable[[Trials], Sequence[Point]]
    outcomes: Callable[[Trials, Sequence[Point]], Iterable[Outcome]]


Point = int
"""A call, or the number of a kill at random."""


def kinds(seed: int) -> list[Kind]:
    """All kinds, each with all of its points; kills at random have a thousand."""

    def at_each(name: str, how: How, *only: str) -> Kind:
        def outcomes(trials: Trials, points: Sequence[Point]) -> Iterable[Outcome]:
            return (trials.killed(at, how) if how in KILLS else trials.refused(at, how) for at in points)

        return Kind(name, lambda trials: trials.undisturbed.of_kinds(*only), outcomes)

    def at_random(trials: Trials, points: Sequence[Point]) -> Iterable[Outcome]:
        for number in points:
            random = Random(seed * 1_000_000 + number)
            at = random.randint(1, len(trials.undisturbed.calls))
            yield trials.killed(at, random.choice(KILLS), random) if number % 5 else trials.killed_after(at)

    return [
        at_each("killed before each call", "before"),
        at_each("killed in the middle of each write", "half", "write"),
        Kind("killed at random", lambda trials: range(1000), at_random),
        at_each("disk full at one call", "enospc", *NO_SPACE),
        at_each("disk full from one call on", "full", *NO_SPACE),
        at_each("device fails at one call", "eio"),
        at_each("half of one write is taken", "short", "write"),
        Kind(
            "power fails after each call",
            lambda trials: trials.undisturbed.of_kinds(),
            lambda trials, points: trials.unpowered(points, seed=seed),
        ),
    ]


def seen(kind: Kind, many: Sequence[Trials], chosen: Sequence[Point]) -> list[Outcome]:
    """The outcomes of these points of a kind, by several processes side by side."""
    with ThreadPoolExecutor(len(many)) as pool:
        shares = [chosen[number :: len(many)] for number in range(len(many))]
        parts = pool.map(lambda trials, share: list(kind.outcomes(trials, share)), many, shares)
        return [outcome for part in parts for outcome in part]


@contextmanager
def warmed(many: int) -> Iterator[list[Trials]]:
    """So many warm processes, on a disk in memory where there is one."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="torture-", dir=memory if memory.is_dir() else None))
    try:
        library = shim.build(folder)
        with ExitStack() as stack:
            trials = []
            for number in range(many):
                (place := folder / str(number)).mkdir()
                trials.append(Trials(stack.enter_context(closing(lives.server(library, place))), place))
            yield trials
    finally:
        shutil.rmtree(folder)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.run", description=__doc__)
    parser.add_argument("--stride", type=int, default=1, help="only every n-th point (default: every one)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="only the kinds whose name has this in it")
    parser.add_argument(
        "--at", type=int, help="only this one call, disturbed as --how says; what is left goes to --keep"
    )
    parser.add_argument("--how", choices=get_args(How), default="before")
    parser.add_argument("--keep", type=Path, default=Path("torture"), help="a folder (default: ./torture)")
    given = parser.parse_args()
    if reason := shim.obstacle():
        print(f"not run: {reason}.")
        return 2
    if given.at:
        return _one(given.at, given.how, given.keep)
    found: list[Outcome] = []
    with warmed(given.processes) as many:
        print(f"a day of {len(many[0].undisturbed.calls)} calls that change something\n")
        print(f"{'':<36}{'points':>8}{'broken':>8}{'seconds':>9}")
        for kind in kinds(given.seed):
            if given.only in kind.name:
                begun = time.monotonic()
                outcomes = seen(kind, many, kind.points(many[0])[given.seed % given.stride :: given.stride])
                broken = [outcome for outcome in outcomes if outcome.broken]
                seconds = time.monotonic() - begun
                print(f"{kind.name:<36}{len(outcomes):>8,}{len(broken):>8,}{seconds:>9.1f}", flush=True)
                found += broken
    for outcome in found:
        _print(outcome)
    return 1 if found else 0


def _one(at: int, how: How, keep: Path) -> int:
    with warmed(1) as (trials,):
        trials.keep = keep
        outcome = trials.killed(at, how) if how in KILLS else trials.refused(at, how)
    for entry in day.read(keep / "ledger"):
        print(*(entry.get(name, "") for name in ("life", "at", "what", "id", "reply_to", "text")))
    _print(outcome)
    return 1 if outcome.broken else 0


def _print(outcome: Outcome) -> None:
    print(f"\n{outcome.point}", *outcome.broken, sep="\n  ")


if __name__ == "__main__":
    sys.exit(main())
