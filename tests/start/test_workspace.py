"""The workspace as a place to write in."""

from pathlib import Path

import pytest

from nanoclaw.core.errors import WorkspaceError
from nanoclaw.start.home import check_writable


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_missing_workspace_is_made_and_stays_empty(tmp_path: Path) -> None:
    check_writable(tmp_path / "a/b")
    assert names(tmp_path / "a/b") == []


def test_a_workspace_that_cannot_be_written_is_refused_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkspaceError, match=r"cannot be used: .*Give another folder"):
        check_writable(tmp_path / "file/inside")
