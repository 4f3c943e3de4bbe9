"""CPU time and memory of recall over ten years of daily notes: python bench/recall_speed.py [FOLDER to keep]."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from datetime import UTC, date, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nanoclaw.plugins.memory.index import Index

DAYS, LINES, WORDS = 3_650, 28, 40_000


def main(root: Path) -> None:
    words = vocabulary()
    if not (root / "memory").exists():
        write_notes(root, words)
    before = memory_megabytes()
    begun = time.process_time()
    from nanoclaw.plugins.memory.index import Index
    from nanoclaw.plugins.memory.recall import recall

    now = datetime(2026, 1, 1, 12, tzinfo=UTC)
    index_file = root / "index.db"
    kind = "from a saved index" if index_file.exists() else "building the index"
    index = Index(root, index_file)

    def ask(query: str) -> float:
        begun = time.process_time()
        recall(index, query, (), now, 1_500)
        return (time.process_time() - begun) * 1_000

    index.refresh()
    while index.unread:
        index.go_on()
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
    vectors(index, queries)
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


def vectors(index: Index, queries: list[str]) -> None:
    """The same with vectors, which are random numbers here: a model takes its own time."""
    from nanoclaw.plugins.memory.recall import recall
    from nanoclaw.plugins.memory.vectors import VectorTable, cohort_texts

    rnd, now = random.Random(7), datetime(2026, 1, 1, 12, tzinfo=UTC)

    def vector(size: int = 384) -> list[float]:
        return [rnd.gauss(0.2, 1) for _ in range(size)]

    megabytes, size = memory_megabytes(), index.path.stat().st_size
    index.vectors = VectorTable(index, "random")
    if not index.vectors.has_begun:
        index.vectors.begin([vector() for _ in cohort_texts()])
    begun, lines = time.process_time(), 0
    while (found := index.vectors.missing(512)) != ([], True):
        index.vectors.add({key: vector() for key, _ in found[0]})
        lines += len(found[0])
    seconds, asked = time.process_time() - begun, [vector() for _ in queries]
    index.connection().execute("PRAGMA wal_checkpoint(TRUNCATE)")
    if lines:
        bytes_ = (index.path.stat().st_size - size) / lines
        print(f"vectors of {lines} lines kept: {seconds:.1f} s CPU, {bytes_:.0f} bytes a line")
    index.vectors = VectorTable(index, "random")
    begun = time.process_time()
    index.vectors.near(asked[0])
    print(f"cold start from saved vectors: {time.process_time() - begun:.2f} s CPU")
    alone, whole = list[float](), list[float]()
    for query, one in zip(queries, asked, strict=True):
        begun = time.process_time()
        index.vectors.near(one)
        alone.append((time.process_time() - begun) * 1_000)
        begun = time.process_time()
        recall(index, query, (), now, 1_500, vector=one)
        whole.append((time.process_time() - begun) * 1_000)
    print(
        f"the nearest lines: median {sorted(alone)[100]:.1f} ms; recall with them: {sorted(whole)[100]:.1f} ms CPU; "
        f"memory {memory_megabytes() - megabytes:.0f} MB more"
    )
    index.vectors = None


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
