"""The workspace's places."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from nanoclaw.core.errors import WorkspaceError
from nanoclaw.core.workspace import Workspace


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_places_have_names(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    assert workspace.memory_file == tmp_path / "MEMORY.md"
    assert workspace.note_path(date(2026, 5, 3)) == tmp_path / "memory/2026-05-03.md"


def test_a_missing_workspace_is_made_and_stays_empty(tmp_path: Path) -> None:
    Workspace(tmp_path / "a/b").check_writable()
    assert names(tmp_path / "a/b") == []


def test_a_workspace_that_cannot_be_written_is_refused_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkspaceError, match=r"cannot be used: .*Give another folder"):
        Workspace(tmp_path / "file/inside").check_writable()
