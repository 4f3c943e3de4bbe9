"""Files that words are taken out of: by their real paths, and never through a link that was put in their place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.core.plugin import Plugin
from nanoclaw.outputs import FOLDER
from nanoclaw.plugins.forget import home_files
from nanoclaw.plugins.forget.words import words_of

LINE = "The parrot is called Zebulon."
WORDS = words_of([f"- 2026-01-10: {LINE}"])


class FileHost:
    """The host, as far as files are concerned."""

    def __init__(self, root: Path) -> None:
        self.program_home, self.workspace, self.plugins = root / "home", root / "workspace", tuple[Plugin, ...]
        (self.workspace / FOLDER).mkdir(parents=True)
        self.program_home.mkdir()


def test_words_leave_an_output(tmp_path: Path) -> None:
    host: Any = FileHost(tmp_path)
    output = host.workspace / FOLDER / "exec-1.txt"
    output.write_text(f"so\n{LINE}\n")
    assert home_files.scrub_kept(host, WORDS) == 1
    assert LINE not in output.read_text()


@pytest.mark.parametrize("place", ["file", "folder"])
def test_what_a_link_leads_to_is_left_alone(tmp_path: Path, place: str) -> None:
    host: Any = FileHost(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "exec-1.txt").write_text(LINE)
    folder = host.workspace / FOLDER
    if place == "file":
        (folder / "exec-1.txt").symlink_to(outside / "exec-1.txt")
    else:
        folder.rmdir()
        folder.symlink_to(outside)
    assert home_files.scrub_kept(host, WORDS) == 0
    assert (outside / "exec-1.txt").read_text() == LINE


def test_a_pipe_in_the_workspace_holds_nobody_up(tmp_path: Path) -> None:
    host: Any = FileHost(tmp_path)
    os.mkfifo(host.workspace / "pipe")
    (host.workspace / "notes.md").write_text(LINE)
    assert list(home_files.holding(host.program_home, host.workspace, WORDS)) == ["notes.md"]
