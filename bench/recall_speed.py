"""CPU time and memory of recall over ten years of daily notes: python bench/recall_speed.py [FOLDER to keep]."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from datetime import UTC, date, datetime, timedelta
from itertools import accumulate
from pathlib import Path

DAYS, LINES, WORDS = 3_650, 28, 40_000


def main(root: Path) -> None:
    words = vocabulary()
    if not (root / "memory").exists():
        write_notes(root, words)
    before = memory_megabytes()
    begun = time.process_time()
    from nanoclaw.core.workspace import Workspace
    from nanoclaw.plugins.memory.index import Index
    from nanoclaw.plugins.memory.recall import recall

    now = datetime(2026, 1, 1, 12, tzinfo=UTC)
    index_file = root / "index.db"
    kind = "from a saved index" if index_file.exists() else "building the index"
    index = Index(Workspace(root), index_file)

    def ask(query: str) -> float:
        begun = time.process_time()
        recall(index, query, (), now, 1_500, 280)
        return (time.process_time() - begun) * 1_000

    ask("Where did I put it?")
    print(f"cold start {kind}: {time.process_time() - begun:.2f} s CPU, index {index_file.stat().st_size / 1e6:.0f} MB")
    rnd = random.Random(5)
    queries = [
        "What did I "
        + " ".join(words[min(WORDS - 1, int(rnd.paretovariate(0.35)) * 3)] for _ in range(2 + n % 5))
        + "?"
        for n in range(200)
    ]
    ask(queries[0])
    times = sorted(map(ask, queries))
    print(f"warm: median {times[100]:.1f} ms, 90 % {times[180]:.1f} ms, most {times[-1]:.1f} ms CPU")
    note = root / "memory" / "2025-12-28.md"
    old = note.read_text()
    for what, text in (
        ("a line added", old + "- 23:00 the quagga came\n"),
        ("a line in the middle", old.replace("- 1", "- 09:59 the okapi left\n- 1", 1)),
        ("as before", old),
    ):
        note.write_text(text)
        time.sleep(0.1)  # so that the file's time is told apart from the next one's
        changed, again = ask("quagga okapi"), ask("quagga okapi")
        print(f"{what}: {changed - again:.1f} ms CPU more")
    print(f"memory: {memory_megabytes() - before:.0f} MB more")


def vocabulary() -> list[str]:
    rnd = random.Random(1)
    return [
        "".join(rnd.choice("bcdfgklmnprstvz") + rnd.choice("aeiou") for _ in range(rnd.randint(2, 4)))
        + rnd.choice(("", "n", "s", "r", "t"))
        for _ in range(WORDS)
    ]


def write_notes(root: Path, words: list[str]) -> None:
    """Lines of words as frequent as in any language: the n-th one 1/n as often as the first."""
    rnd = random.Random(2)
    weights = list(accumulate(1 / (n + 10) for n in range(WORDS)))
    (root / "memory").mkdir(parents=True)
    for number in range(DAYS):
        day = date(2016, 1, 1) + timedelta(number)
        lines = [f"# {day}", ""]
        for line in range(LINES):
            text = " ".join(rnd.choices(words, cum_weights=weights, k=rnd.randint(15, 32)))
            lines.append(f"- {8 + line // 2:02d}:{line % 2 * 30:02d} {text.capitalize()}.")
        (root / "memory" / f"{day}.md").write_text("\n".join(lines) + "\n")


def memory_megabytes() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
