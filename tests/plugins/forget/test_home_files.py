"""Files that words are taken out of: by their real paths, and never through a link that was put in their place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nanoclaw.outputs.outputs import FOLDER
from nanoclaw.plugins.forget import home_files
from nanoclaw.plugins.forget.words import words_of

LINE = "The parrot is called Zebulon."
WORDS = words_of([f"- 2026-01-10: {LINE}"])


class Core:
    """The core, as far as files are concerned."""

    plugins = ()

    def __init__(self, root: Path) -> None:
        self.home, self.config, self.workspace_path = root / "home", self, root / "workspace"
        (self.workspace_path / FOLDER).mkdir(parents=True)
        self.home.mkdir()


def test_words_leave_an_output_and_come_back(tmp_path: Path) -> None:
    core = Core(tmp_path)
    output = core.workspace_path / FOLDER / "exec-1.txt"
    output.write_text(f"so\n{LINE}\n")
    changed = home_files.scrub_kept(core, WORDS, tmp_path / "undo")
    assert LINE not in output.read_text() and list(changed) == [os.path.realpath(output)]
    home_files.restore(changed, core.workspace_path)
    assert output.read_text() == f"so\n{LINE}\n"


@pytest.mark.parametrize("place", ["file", "folder"])
def test_what_a_link_leads_to_is_left_alone(tmp_path: Path, place: str) -> None:
    core = Core(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "exec-1.txt").write_text(LINE)
    folder = core.workspace_path / FOLDER
    if place == "file":
        (folder / "exec-1.txt").symlink_to(outside / "exec-1.txt")
    else:
        folder.rmdir()
        folder.symlink_to(outside)
    assert home_files.scrub_kept(core, WORDS, tmp_path / "undo") == {}
    assert (outside / "exec-1.txt").read_text() == LINE


def test_a_pipe_in_the_workspace_holds_nobody_up(tmp_path: Path) -> None:
    core = Core(tmp_path)
    os.mkfifo(core.workspace_path / "pipe")
    (core.workspace_path / "notes.md").write_text(LINE)
    assert list(home_files.holding(core.home, core.workspace_path, WORDS, tmp_path / "undo")) == ["notes.md"]
