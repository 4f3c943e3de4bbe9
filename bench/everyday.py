"""Everyday commands in the whole program: each works, or asks when the model asks for more, or else it fails.

Usage: python -m bench.everyday [FILE]. A command asks if its result says how to ask for more, and the same with
`beyond` brings a question. Prints what fails, what takes over ten seconds, and the shares.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.program import results, running
from tests.sandbox.everyday import workspace

FILE = Path(__file__).with_name("everyday.txt")


def prepare(person: Path, work: Path) -> None:
    for name in ("Documents/letter.txt", "Documents/old.txt", "Desktop/x"):
        (person / name).parent.mkdir(parents=True, exist_ok=True)
        (person / name).write_text("Dear Bob\n")
    (person / ".gitconfig").write_text("[user]\n\tname = Ann\n\temail = ann@example.org\n")
    app = workspace(work) / "app"
    for arguments in (("checkout", "-q", "--", "."), ("config", "user.name", "Ann"), ("config", "user.email", "a@b.c")):
        subprocess.run(("git", *arguments), cwd=app, check=True)
    with (app / "readme.txt").open("a") as file:
        file.write("thrice\n")


async def outcome(root: Path, command: str) -> tuple[str, str]:
    """Works, asks or fails; and the question, or what the model was told."""
    person = root / "person"
    prepare(person, root / "home" / "workspace")
    beyond = call("exec", {"command": command, "beyond": "it needs more"})
    model = ScriptedProvider(call("exec", {"command": command}), "Hm.", beyond, "Hm.")
    environment = {"HOME": str(person), "PATH": "/usr/local/bin:/usr/bin:/bin"}
    async with running(root / "home", model, environment=environment, seconds=120) as program:
        await program.ask("Go")
        result = results(program.history)[0]
        if not result.is_error:
            return "works", ""
        if "`beyond` asks" not in result.text:
            return "fails", result.text
        await program.say("Try again")
        asked = await program.answer()
        return ("asks", asked.splitlines()[0]) if "`it needs more`" in asked else ("fails", asked)


async def measure(commands: list[str]) -> None:
    counts = Counter[str]()
    for number, command in enumerate(commands):
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            kind, told = await outcome(Path(folder) / str(number), command)
            seconds = time.monotonic() - began
        counts[kind] += 1
        if kind != "works" or seconds > 10:
            print(f"{kind}, {seconds:.1f} s: {command}\n    {told[-400:]}", flush=True)
    well = counts["works"] + counts["asks"]
    print(f"{len(commands)} commands: {dict(counts)}; {100 * well / len(commands):.1f} % work or ask")


if __name__ == "__main__":
    lines = Path(sys.argv[1] if sys.argv[1:] else FILE).read_text().splitlines()
    asyncio.run(measure([line for line in lines if line and not line.startswith("#")]))
