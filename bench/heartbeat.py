"""What a day of heartbeats costs when nothing changes: 48 beats of the whole program, a model on loopback that counts.

Usage: heartbeat.py [BEATS]. Prints a line for each checklist: requests to the model, CPU seconds of the process and of
the commands it ran, bytes written to the store.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

from model_server import ModelServer

from nanoclaw.start.build import build
from nanoclaw.start.config import load

QUIET = [("report", {"notify": False})]
FILES = "".join(f"- [ ] Tell me of news: watch notes/file_{number}.md\n" for number in range(10))
CHECKLISTS = {
    "no file": None,
    "as it is shipped": "",
    "ten files of 20 kB, two lines not due, one ticked": f"# Mine\n{FILES}- [ ] Look\n- every 1d look\n- [x] old\n",
    "the same and a command": f"{FILES}- [ ] Look\n- every 1d look\n- [ ] watch $ ls -l\n",
}


def main() -> None:
    beats = int(sys.argv[1]) if len(sys.argv) > 1 else 48
    print(f"{'checklist':<52} requests   CPU s  of commands  bytes")
    with ModelServer() as server:
        for name, text in CHECKLISTS.items():
            with tempfile.TemporaryDirectory() as folder:
                requests, own, children, written = asyncio.run(measure(Path(folder), server, text, beats))
                print(f"{name:<52} {requests:>8}  {own:>6.3f}  {children:>11.3f}  {written:>5}")


async def measure(root: Path, server: ModelServer, text: str | None, beats: int) -> tuple[int, float, float, int]:
    """Requests, CPU seconds, those of commands, and bytes written, of so many beats after the first one."""
    settings = '[heartbeat]\nactive = "00:00-24:00"\n'
    (root / "config.toml").write_text(f'[model]\nname = "openai/bench"\napi_base = "{server.url}"\n{settings}')
    config = load({"NANOCLAW_HOME": str(root), "OPENAI_API_KEY": "bench-key-1", "PATH": os.environ["PATH"]})
    app = build(config, channels=None, model="openai/bench")
    try:
        prepare(config.workspace_path, text)
        heart = app.public("heartbeat")
        server.script(QUIET, QUIET)
        await heart.to_the_end(app.router.resume)
        server.script()
        before, own, children = written(root), time.process_time(), spent_by_children()
        for _ in range(beats):
            await heart.to_the_end(app.router.resume)
        own, children = time.process_time() - own, spent_by_children() - children
        return len(server.bodies), own, children, written(root) - before
    finally:
        await app.aclose()


def prepare(workspace: Path, text: str | None) -> None:
    (workspace / "notes").mkdir()
    for number in range(10):
        (workspace / "notes" / f"file_{number}.md").write_text("- Water the plants.\n" * 1_000)
    if text is None:
        (workspace / "HEARTBEAT.md").unlink()
    elif text:
        (workspace / "HEARTBEAT.md").write_text(text)


def written(root: Path) -> int:
    return sum(path.stat().st_size for path in root.glob("state.db*"))


def spent_by_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
