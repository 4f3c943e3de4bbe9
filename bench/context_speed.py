"""CPU time and memory of building a fresh turn's messages, ten years of notes, 50 skills: python bench/context_speed.py

Each figure comes from a process of its own; the folder with the notes may be given, to keep it.
"""

from __future__ import annotations

import json
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
    from nanoclaw.providers.scripted import ScriptedProvider
    from nanoclaw.start.build import build
    from nanoclaw.start.config import load

    before, begun = memory_megabytes(), time.process_time()
    home = root.with_name(f"{root.name}-home")
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(f"[workspace]\npath = {json.dumps(str(root))}\n")
    plugins = ["skills", "files"] if what == "warm without notes" else ["memory", "skills", "files"]
    config = load({"NANOCLAW_HOME": str(home), "TZ": "UTC"})
    app = build(config, provider=ScriptedProvider(), plugins=plugins, clock=lambda: NOW)

    def fresh(question: str) -> float:
        started = time.process_time()
        app.builder.begin(question)
        return (time.process_time() - started) * 1_000

    fresh("Where did I put the kagede?")
    if what in ("first", "cold"):
        print(f"{what}: {time.process_time() - begun:.2f} s CPU, {memory_megabytes() - before:.0f} MB more")
        return
    words = vocabulary()
    fresh(f"What about {words[10]}?")
    times = sorted(fresh(f"What did I do with {words[50 + n]} and {words[900 + 7 * n]}?") for n in range(100))
    print(f"{what}: median {times[50]:.1f} ms, 90 % {times[90]:.1f} ms CPU, {memory_megabytes() - before:.0f} MB more")
    if what == "warm":
        note, more = root / "memory" / "2025-12-28.md", list[float]()
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
