"""A store damaged at random, cut or changed: `python -m tests.torture.damage [TIMES]`. It always starts, keeps the
damaged file as it is, and has as many messages as the newest copy."""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nanoclaw.core.store.copies import daily_copies, keep_daily_copy
from tests.core.store.test_db import filled
from tests.core.store.test_recovery import DAY, damaged_home, kept, messages, used, warnings

TIMES = 200


def damage(whole: bytes, chance: random.Random) -> bytes:
    """Cut at any byte, or 1 to 300 bytes changed: anywhere, among the first lists, or in the header."""
    if chance.random() < 0.3:
        return whole[: chance.randrange(len(whole))]
    damaged = bytearray(whole)
    reach = chance.choice((100, 50_000, len(whole), len(whole)))
    for _ in range(chance.randint(1, 300 if reach > 100 else 10)):
        damaged[chance.randrange(reach)] = chance.randrange(256)
    return bytes(damaged)


def broken(place: Path, given: Stores, seed: int) -> Iterator[str]:
    """One line for each promise that does not hold."""
    damaged = damage(given.whole, random.Random(seed))
    path = damaged_home(place, damaged, given.copy)
    try:
        with warnings() as said:
            used(path)
    except Exception as error:
        if "newer nanoclaw" not in str(error):  # all is whole but for its number
            yield f"it does not start: {error!r}"
        elif path.read_bytes() != damaged:
            yield "what says that it is newer was changed"
        return
    if any(aside.read_bytes() != damaged for aside in kept(path)):
        yield "the damaged file was changed"
    if len(kept(path)) != len([line for line in said if "was damaged" in line]):
        yield f"the person was told {said}"
    if messages(path) < given.copied:
        yield f"{messages(path)} messages go on, the copy had {given.copied}"


class Stores(NamedTuple):
    """A store, and the copy of it that was made when it had half of its messages."""

    whole: bytes
    copy: bytes
    copied: int


def stores(folder: Path) -> Stores:
    for kind, steps in (("copied", 100), ("whole", 200)):
        (folder / kind).mkdir()
        filled(folder / kind / "state.db", steps)
    keep_daily_copy(folder / "copied" / "state.db", DAY)
    (copy,) = daily_copies(folder / "copied" / "state.db")
    return Stores((folder / "whole" / "state.db").read_bytes(), copy.read_bytes(), messages(copy))


def main(times: int) -> int:
    found = 0
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        given = stores(Path(name))
        for seed in range(times):
            for line in broken(Path(name) / str(seed), given, seed):
                found += 1
                print(f"damage {seed}: {line}")
            shutil.rmtree(Path(name) / str(seed))
    print(f"{times} damaged stores, {found} broken promises")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else TIMES))
