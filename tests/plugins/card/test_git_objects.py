"""A repository's own files, which a command may have replaced."""

from __future__ import annotations

import os
from pathlib import Path

from nanoclaw.plugins.card.git_objects import has_blob, has_moved


def test_pipes_and_links_in_a_repository_are_not_waited_for(tmp_path: Path) -> None:
    git = tmp_path / ".git"
    (git / "logs").mkdir(parents=True)
    (git / "objects" / "pack").mkdir(parents=True)
    os.mkfifo(git / "logs" / "HEAD")
    os.mkfifo(git / "objects" / "pack" / "a.idx")
    assert not has_moved(git, 0)
    assert not has_blob(git, b"x")
