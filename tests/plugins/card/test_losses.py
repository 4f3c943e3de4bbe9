"""Reading shell text: what deletes many files or cuts one short is asked about, what is done every day is not."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from nanoclaw.plugins.card.losses import loss_of

HERE = Path(__file__).parent
LINES = {half: json.loads((HERE / f"commands_{half}.json").read_text()) for half in ("seen", "unseen")}
"""Lines with labels that were written before the reader; the second half was not looked at while it was made."""


def tree(root: Path) -> Path:
    sizes = {
        **{f"photos/p{n}.jpg": 500 for n in range(12)},
        **{f"photos/2020/q{n}.jpg": 500 for n in range(8)},
        **{f"notes/{name}.md": 300 for name in "abcdef"},
        **{f"src/{name}.py": 400 for name in ("main", "util", "app", "lib", "io")},
        **{f"src/__pycache__/{n}.pyc": 100 for n in range(4)},
        **{f"node_modules/left-pad/{n}.js": 100 for n in range(6)},
        **{f"build/{n}.o": 100 for n in range(6)},
        **{f"dist/{n}.js": 100 for n in range(4)},
        **{f"sales/target/{n}.csv": 100 for n in range(5)},
        **{f".venv/lib/{n}.py": 100 for n in range(5)},
        **{f"old/2019/{n}.txt": 100 for n in range(5)},
        **{f"old/2020/{n}.txt": 100 for n in range(2)},
        **{f"logs/{n}.log": 100 for n in range(7)},
        **{f"{name}.txt": 400 for name in ("one", "two", "three", "four", "five")},
        **{f"my pictures/{n}.png": 100 for n in range(5)},
        **{f"backup/{name}.md": 300 for name in "abcdefghijk"},
        **{f"{name}.tmp": 10 for name in "xyz"},
        "report.md": 6_000,
        "draft.md": 5_900,
        "tiny.txt": 40,
        "big.csv": 20_000,
        "empty.txt": 0,
        "package.json": 2,
        ".git/HEAD": 20,
    }
    for name, length in sizes.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x" * length)
    (root / "list.txt").write_text("one.txt\ntwo.txt\nthree.txt\nfour.txt\nfive.txt\n")
    return root


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tree(tmp_path_factory.mktemp("workspace"))


@pytest.mark.parametrize("half", LINES)
def test_lines_are_read_as_their_label_says(root: Path, half: str) -> None:
    wrong = []
    for one in LINES[half]:
        loss = loss_of(one["command"], root, time.time())
        if (loss.must_ask or loss.files > 3) != one["asks"]:
            wrong.append((one, loss))
    alarms = [one for one, _ in wrong if not one["asks"]]
    assert not alarms
    assert len(wrong) <= len(LINES[half]) // 10, wrong
