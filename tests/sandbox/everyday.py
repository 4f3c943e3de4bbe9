"""Runs commands that people want run, in the sandbox and without one, and compares what came of them."""

import asyncio
import os
import subprocess
from pathlib import Path

from nanoclaw.sandbox.sandbox import Encloser
from nanoclaw.sandbox.view import Grants
from tests.sandbox.enclosed import lines, run, strengths

FILES = {
    "notes/todo.md": "# To do\n\n- milk\n- bread\n",
    "notes/done.md": "# Done\n\n- bread\n",
    "table.csv": "name,count\nants,3\nbees,12\ncats,7\n",
    "script.py": "import sys\nprint(len(open(sys.argv[1]).readlines()))\n",
    "tests_app.py": "import unittest\n\n\nclass T(unittest.TestCase):\n    def test(self) -> None:\n        pass\n",
    "hello.c": '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n',
    "run.sh": "#!/bin/sh\necho ran\n",
    "build_it/Makefile": "all: x.txt\n\t@cat x.txt\n\nx.txt:\n\t@echo made > x.txt\n",
    "app/readme.txt": "read me\n",
}


def workspace(root: Path) -> Path:
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git = ("git", "-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    for arguments in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "first")):
        subprocess.run((*git, *arguments), cwd=root / "app", check=True, capture_output=True)
    (root / "app" / "readme.txt").write_text("read me\ntwice\n")
    return root


def compared(root: Path, level: str, name: str = "everyday.txt") -> dict[str, tuple[object, object]]:
    """Commands of a file that went otherwise in the sandbox, each with both ends."""
    home = root / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = Ann\n\temail = ann@example.org\n")
    found: dict[str, tuple[object, object]] = {}

    async def both() -> None:
        for number, line in enumerate(lines(name)):
            ends = []
            for kind in ("plain", "kept"):
                place = workspace(root / f"{kind}{number}" / "workspace")
                grants = Grants(place, (place.parent,), home, os.environ["PATH"])
                encloser = Encloser(grants, strengths()[level]) if kind == "kept" else None
                ended = await run(encloser, grants, line, seconds=60)
                output = ended.head.replace(str(place).encode(), b"").decode()
                ends.append((ended.why, ended.status, output))
            if ends[0] != ends[1]:
                found[line] = (ends[0], ends[1])

    asyncio.run(both())
    return found


if __name__ == "__main__":  # python -m tests.sandbox.everyday LEVEL [FILE]
    import sys
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for line, (plain, kept) in compared(Path(folder), *sys.argv[1:]).items():
            print(f"{line}\n  {plain}\n  {kept}")
