"""A workspace with all that commands of everyday and careless ones are about, and what is lost by one."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

from nanoclaw.plugins.card.losses import WATCHED, Judge, Lost, is_remade
from nanoclaw.snapshots.copies import FileCopies
from nanoclaw.snapshots.listing import FileLister

_MAKEFILE = """\
clean:
\trm -f *.o prog
distclean: clean
\trm -f *.py *.c
"""

_GIT = r"""
git init -q -b main . && git config user.email a@b.c && git config user.name me
mkdir docs && for n in 0 1 2 3 4 5 6; do seq $n 3 900 > docs/d$n.md; done
printf 'data/\n' > .gitignore && git add -A && git commit -qm first
git checkout -q -b feature && git rm -q docs/d2.md docs/d3.md docs/d4.md docs/d5.md docs/d6.md
seq 9 > docs/d1.md && git commit -qam fewer && git checkout -q main
git repack -adq && seq 9 > docs/new && git add -A && git commit -qm second
"""


def made(root: Path) -> Path:
    """Make the workspace; each file says something else."""
    random_ = random.Random(3)

    def text(length: int) -> bytes:
        words = "".join(f"word{n % 9} {random_.randrange(10**6)}\n" for n in range(length // 8))
        return words.encode()[: length - 1] + b"\n"

    files: dict[str, bytes] = {
        **{f"photos/p{n}.jpg": text(500) for n in range(12)},
        **{f"photos/2020/q{n}.jpg": text(500) for n in range(8)},
        **{f"notes/{name}.md": text(300) for name in "abcdef"},
        **{f"src/{name}.py": text(400) for name in ("main", "util", "app", "lib", "io")},
        **{f"src/{name}.o": b"\x7fELF" + text(400) for name in ("main", "util", "app", "lib", "io")},
        **{f"src/__pycache__/{n}.pyc": text(100) for n in range(5)},
        **{f"node_modules/left-pad/{n}.js": text(100) for n in range(6)},
        **{f"build/{n}.js": text(300) for n in range(6)},
        **{f".venv/lib/{n}.py": text(100) for n in range(5)},
        **{f"logs/{n}.log": text(3000) for n in range(7)},
        **{f"tmp/{n}": text(100) for n in range(7)},
        **{f"{name}.txt": text(400) for name in ("one", "two", "three", "four", "five")},
        "src/prog": b"\x7fELF" + text(4000),
        "src/Makefile": _MAKEFILE.encode(),
        "report.md": text(6000),
        "draft.md": text(5900),
        "tiny.txt": b"tiny\n",
        "big.csv": text(20_000),
        "dos.txt": text(2000).replace(b"\n", b"\r\n"),
        "data.json": b'{"a": [%s 1]}' % (b"1, " * 300),
        "package.json": b"{}",
        "package-lock.json": text(4000),
        "clean.sh": b"cd photos && rm -f *.jpg\n",
        "wipe.py": b"import pathlib\nfor one in pathlib.Path('notes').glob('*.md'):\n    one.unlink()\n",
    }
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    for command in (
        "mkdir -p x/unpacked && cd x && for n in 1 2 3 4 5 6; do seq $n 90 > unpacked/$n; done"
        " && touch -d 2020-01-01 unpacked/* && tar cf ../archive.tar unpacked && cd .. && rm -r x",
        "mkdir y && cd y && echo small > report.md && tar cf ../small.tar report.md && cd .. && rm -r y",
        f"mkdir repo && cd repo && {_GIT.strip()}",
        "cd repo && mkdir data && for n in 1 2 3 4 5 6; do seq $n 90 > data/$n.csv; done && seq 2000 >> docs/d0.md",
    ):
        subprocess.run(["bash", "-ec", command], cwd=root, check=True, env=_ENVIRONMENT)
    return root


_ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}


def lost_by(command: str, template: Path, folder: Path) -> list[Lost]:
    """Run a command in a copy of the workspace, and judge it as the card does."""
    root, outside = folder / "workspace", folder / "outside"
    shutil.copytree(template, root, symlinks=True)
    outside.mkdir()
    copies = FileCopies(folder / "copies", most_bytes=200_000_000, largest_bytes=10_000_000)
    before = FileLister(is_remade, WATCHED).scan([root])
    copies.update(before, 5.0)
    environment = _ENVIRONMENT | {"OUTSIDE": str(outside)}
    subprocess.run(["bash", "-c", command], cwd=root, env=environment, capture_output=True, check=False)
    lost = Judge(before, FileLister(is_remade, WATCHED).scan([root]), copies, set()).losses().lost
    shutil.rmtree(folder)
    return lost
