"""Our own lists of lines beside FTS5 of SQLite, over the same words: python bench/recall_candidates.py [FOLDER]."""

from __future__ import annotations

import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from recall_speed import vocabulary, write_notes

from nanoclaw.core.workspace import Workspace
from nanoclaw.plugins.memory.chunks import entries
from nanoclaw.plugins.memory.index import Index
from nanoclaw.plugins.memory.notes import memory_files, read_memory_file
from nanoclaw.tokenizer import tokens

CANDIDATES = 100


def main(root: Path) -> None:
    words = vocabulary()
    if not (root / "memory").exists():
        write_notes(root, words)
    for name in ("ours.db", "fts5.db"):
        for file in root.glob(f"{name}*"):
            file.unlink()
    rnd = random.Random(5)
    queries = [
        [words[min(len(words) - 1, int(rnd.paretovariate(0.35)) * 3)] for _ in range(2 + number % 5)]
        for number in range(200)
    ]
    ours(Workspace(root), root / "ours.db", queries)
    fts5(Workspace(root), root / "fts5.db", queries)


def ours(workspace: Workspace, file: Path, queries: list[list[str]]) -> None:
    index = Index(workspace, file)
    build = timed(index.refresh)

    def ask(query: list[str]) -> int:
        return sum(len(index.postings(term)) for word in query for term in tokens(word))

    note = workspace.notes / "2025-12-28.md"
    old = note.read_text()
    note.write_text(old + "- 23:00 the quagga came\n")
    update = timed(index.refresh)
    note.write_text(old)
    report("lists of our own", build, queries, ask, update, file)


def fts5(workspace: Workspace, file: Path, queries: list[list[str]]) -> None:
    """The same words, ready for FTS5 to find; it ranks with its own BM25."""
    db = sqlite3.connect(file)
    db.execute("CREATE VIRTUAL TABLE lines USING fts5(words, file UNINDEXED, row UNINDEXED, tokenize='unicode61')")

    def take_up(name: str) -> None:
        with db:
            db.executemany("INSERT INTO lines VALUES (?, ?, ?)", lines(workspace, name))

    def build() -> None:
        for name in memory_files(workspace):
            take_up(name)

    def ask(query: list[str]) -> int:
        wanted = " OR ".join(f'"{term}"' for word in query for term in tokens(word))
        sql = "SELECT rowid FROM lines WHERE lines MATCH ? ORDER BY rank LIMIT ?"
        return len(db.execute(sql, (wanted, CANDIDATES)).fetchall())

    built = timed(build)
    first = db.execute("SELECT rowid FROM lines WHERE file = 'memory/2025-12-28.md' LIMIT 1").fetchone()[0]

    def update() -> None:
        with db:
            db.execute("DELETE FROM lines WHERE rowid BETWEEN ? AND ?", (first, first + 27))
        take_up("memory/2025-12-28.md")

    report("FTS5", built, queries, ask, timed(update), file)


def lines(workspace: Workspace, name: str) -> Iterator[tuple[str, str, int]]:
    for start, _, _, said in entries(read_memory_file(workspace, name) or ""):
        if said:
            yield " ".join(tokens(said)), name, start


def timed(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def report(
    name: str, build: float, queries: list[list[str]], ask: Callable[[list[str]], int], update: float, file: Path
) -> None:
    times = sorted(timed(lambda query=query: ask(query)) * 1_000 for query in queries)  # type: ignore[misc]
    size = sum(each.stat().st_size for each in file.parent.glob(f"{file.name}*")) / 1e6
    print(
        f"{name}: build {build:.1f} s, candidates of a query {times[100]:.2f} ms (90 % {times[180]:.2f}), "
        f"a changed note {update * 1_000:.1f} ms CPU, {size:.0f} MB"
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
