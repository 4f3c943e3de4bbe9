"""Folders for a while: those of processes that were killed are removed, and nothing else."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from nanoclaw import scratch_folders

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="makers can't be looked up here")


def test_what_a_killed_program_left_is_removed_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = (
        "import os; from nanoclaw.scratch_folders import make; print(make('exec'), flush=True); os.kill(os.getpid(), 9)"
    )
    made = subprocess.run(
        (sys.executable, "-c", code), env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True
    )
    left = Path(made.stdout.strip())
    (left / "home").mkdir()
    (left / "out").symlink_to(tmp_path / "precious")
    mine = Path(scratch_folders.make("exec"))
    others = ("nanoclaw-live", "nanoclaw-x", "nanoclaw-a-b-c", "nanoclaw-exec-1-x", "precious")
    for name in others:
        (tmp_path / name).mkdir()
    (tmp_path / "precious" / "file").touch()
    (tmp_path / "nanoclaw-exec-4.5-link").symlink_to(tmp_path / "precious")
    (tmp_path / "nanoclaw-exec-4.5-file").touch()
    assert left.parent == tmp_path
    assert scratch_folders.remove_left_over() == 1
    assert not left.exists()
    assert {one.name for one in tmp_path.iterdir()} == {
        *others,
        mine.name,
        "nanoclaw-exec-4.5-link",
        "nanoclaw-exec-4.5-file",
    }
    assert (tmp_path / "precious" / "file").exists()


def test_a_folder_is_removed_that_is_nested_deeper_than_a_process_may_have_descriptors(tmp_path: Path) -> None:
    place = tmp_path / "top"
    place.joinpath(*"d" * 300).mkdir(parents=True)
    code = (
        "import resource, sys; from nanoclaw import scratch_folders;"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)); scratch_folders.remove(sys.argv[1])"
    )
    subprocess.run((sys.executable, "-c", code, str(place)), check=True)
    assert not place.exists()
