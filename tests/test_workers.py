"""Tests that run in several processes: what all of them say is said once, and one that never ends fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.program import REPOSITORY

FILES = {
    "fine": "def test_a(tmp_path): print('unheard')\ndef test_b(tmp_path): pass",
    "wrong": "import warnings\ndef test_c():\n    warnings.warn('careful')\n    print('heard')\n    assert 1 == 2",
    "dies": "import os\ndef test_d(): pass\ndef test_e(): os._exit(7)\ndef test_f(): pass",
    "left_out": "import pytest\ndef test_g(): pytest.skip('not here')",
}


def test_all_are_told_of_once_and_those_of_a_process_that_dies_fail(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / f"test_{name}.py").write_text(text)
    own = ["-c", os.devnull, "-p", "tests.conftest", "-p", "no:xdist", "-n", "3"]
    run = [sys.executable, "-m", "pytest", *own, str(tmp_path)]
    done = subprocess.run(run, cwd=REPOSITORY, capture_output=True, text=True)
    assert "[100%]" in done.stdout and "3 failed, 3 passed, 1 skipped, 1 warning" in done.stdout, done
    assert all(words in done.stdout for words in ("assert 1 == 2", "careful", "\nheard")), done.stdout
    assert "unheard" not in done.stdout and done.stdout.count("processes that ran tests ended with") == 2
