"""CPU time and memory of building a fresh turn's messages, ten years of notes, 50 skills: python bench/context_speed.py

Each figure comes from a process of its own; the folder with the notes may be given, to keep it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from recall_speed import memory_megabytes, vocabulary, write_notes

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SKILLS = 50


def main(root: Path) -> None:
    if not (root / "memory").exists():
        write_notes(root, vocabulary())
    for number in range(SKILLS):
        skill = root / "skills" / f"skill-{number:02d}" / "SKILL.md"
        skill.parent.mkdir(parents=True, exist_ok=True)
        about = f"description: Does the {number}th kind of work when somebody asks for it, in so many words as usual."
        skill.write_text(f"---\nname: {skill.parent.name}\n{about}\n---\n\n# How\n\n" + "Do this, then that.\n" * 60)
    for what in ("first", "cold", "warm", "warm without notes"):
        print(subprocess.run([sys.executable, __file__, root, what], check=True, capture_output=True, text=True).stdout)


def measure(root: Path, what: str) -> None:
    from nanoclaw.core.context import ContextBuilder
    from nanoclaw.core.parts import open_image, shipped
    from nanoclaw.core.workspace import Workspace
    from nanoclaw.plugins.memory.search import NoteSearch

    before, begun = memory_megabytes(), time.process_time()
    notes = NoteSearch(Workspace(root), root / "index.db", lambda: NOW)
    builder = ContextBuilder(
        root,
        template=shipped("workspace_template"),
        skill_folders=(root / "skills",),
        tools=frozenset({"read_file", "memory_search"}),
        clock=lambda: NOW,
        zone="UTC",
        open_image=open_image,
        recall=(lambda query, talk, now, budget: []) if what == "warm without notes" else notes.recall,
    )

    def fresh(question: str) -> float:
        started = time.process_time()
        opening = builder.open(question)
        builder.build_messages((), question, opening=opening, notes=opening.notes)
        return (time.process_time() - started) * 1_000

    fresh("Where did I put the kagede?")
    if what in ("first", "cold"):
        print(f"{what}: {time.process_time() - begun:.2f} s CPU, {memory_megabytes() - before:.0f} MB more")
        return
    words = vocabulary()
    fresh(f"What about {words[10]}?")  # from here on the folder is watched
    times = sorted(fresh(f"What did I do with {words[50 + n]} and {words[900 + 7 * n]}?") for n in range(100))
    print(f"{what}: median {times[50]:.1f} ms, 90 % {times[90]:.1f} ms CPU, {memory_megabytes() - before:.0f} MB more")
    if what == "warm":
        note, more = root / "memory" / "2020-05-05.md", list[float]()
        old = note.read_text()
        for n in range(9):
            note.write_text(old if n % 2 else old + "- 23:00 the quagga came\n")
            time.sleep(0.1)  # so that the file's time is told apart from the next one's
            changed, again = fresh("the quagga?"), fresh("the quagga?")
            more.append(changed - again)
        note.write_text(old)
        print(f"a changed note: {sorted(more)[4]:.1f} ms CPU more (median of 9)")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        measure(Path(sys.argv[1]), sys.argv[2])
    elif len(sys.argv) == 2:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
