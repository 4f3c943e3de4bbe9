"""CPU that redaction costs for one megabyte of a tool's result: each kind of text beside one that has nothing to do.

Run `python bench/redaction.py`; a line each: known values alone, and with the patterns of secrets.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

from nanoclaw.redaction import Redactor, without_patterns

ROOT = Path(__file__).parents[1]
MEGABYTE, ROUNDS = 1_000_000, 5
SECRETS = [f"sk-bench-{number:02}-Aq9Zx7Kp4Lm2Qr8Tv" for number in range(8)]


def texts() -> dict[str, str]:
    chance = random.Random(7)
    code = "\n".join(path.read_text() for path in sorted((ROOT / "nanoclaw").rglob("*.py")))
    prose = "\n".join(path.read_text() for path in sorted(ROOT.glob("docs/*.md")))
    log = "".join(
        f"2026-03-0{number % 9} 12:00:{number % 60:02} INFO http://10.0.0.{number % 255}/api/{number:x} status=200 ok\n"
        for number in range(MEGABYTE // 60)
    )
    data = ",".join(
        f'{{"id": {number}, "name": "n{number:06x}", "value": {chance.random()}}}' for number in range(20_000)
    )
    hexes = "".join(f"{chance.getrandbits(128):032x}\n" for _ in range(MEGABYTE // 33))
    return {"prose": prose, "code": code, "log": log, "json": data, "hex": hexes}


def cpu(work: Callable[[str], str], text: str) -> float:
    work(text)
    found = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work(text)
        found.append(time.process_time() - began)
    return min(found) * 1000


def main() -> None:
    redact = Redactor(SECRETS)
    print(f"{'1 MB of':8}{'known values':>16}{'and patterns':>16}   CPU ms, {len(SECRETS)} keys")
    for name, whole in texts().items():
        text = (whole * (MEGABYTE // len(whole) + 1))[:MEGABYTE]
        print(f"{name:8}{cpu(redact, text):16.1f}{cpu(lambda text: without_patterns(redact(text)), text):16.1f}")


if __name__ == "__main__":
    main()
