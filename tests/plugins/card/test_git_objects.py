"""A repository's own files, which a command may have replaced."""

from __future__ import annotations

import os
from pathlib import Path

from nanoclaw.plugins.card.losses import has_blob


def test_pipes_and_links_in_a_repository_are_not_waited_for(tmp_path: Path) -> None:
    git = tmp_path / ".git"
    (git / "objects" / "pack").mkdir(parents=True)
    os.mkfifo(git / "objects" / "pack" / "a.idx")
    assert not has_blob(str(git), b"x")
