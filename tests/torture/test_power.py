"""The model of a disk that loses its power, on logs of a few calls."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.torture.power import Disk, Loss
from tests.torture.shim import Call


def call(
    kind: str, path: str, *, inode: int = 1, data: bytes = b"", at: int = 0, size: int = 0, other: str = ""
) -> Call:
    return Call(1, kind, "-", inode, at, size, 0, f"/home{path}", other and f"/home{other}", data)


def left(folder: Path, loss: Loss, *calls: Call) -> dict[str, bytes]:
    """Contents of a disk that had "old" in the file a, after the calls and a failure."""
    disk = Disk(Path("/home"), {"a": b"old"})
    for each in calls:
        disk.do(each)
    disk.leave(folder / "left", loss, Random(1))
    files = (path for path in (folder / "left").rglob("*") if path.is_file())
    return {str(path.relative_to(folder / "left")): path.read_bytes() for path in files}


REPLACED = (
    call("create", "/draft", inode=2),
    call("write", "/draft", inode=2, data=b"new"),
    call("sync", "/draft", inode=2),
    call("rename", "/draft", inode=2, other="/a"),
    call("sync", "", inode=9),
)


@pytest.mark.parametrize("loss", ["data", "names", "some"])
def test_a_file_that_was_replaced_with_both_syncs_is_new(tmp_path: Path, loss: Loss) -> None:
    assert left(tmp_path, loss, *REPLACED) == {"a": b"new"}


def test_without_the_sync_of_the_file_its_name_may_lead_to_nothing(tmp_path: Path) -> None:
    assert left(tmp_path, "data", *REPLACED[:2], *REPLACED[3:]) == {"a": b""}


def test_without_the_sync_of_the_folder_the_old_file_may_be_back(tmp_path: Path) -> None:
    assert left(tmp_path, "names", *REPLACED[:4]) == {"a": b"old"}


def test_what_was_written_in_place_is_lost_until_it_is_synced(tmp_path: Path) -> None:
    written = (call("write", "/a", data=b"er and older", at=3), call("truncate", "/a", size=6))
    assert left(tmp_path / "1", "data", *written) == {"a": b"old"}
    assert left(tmp_path / "2", "data", *written, call("sync", "/a")) == {"a": b"older "}
    assert left(tmp_path / "3", "names", *written) == {"a": b"older "}


def test_a_folder_that_is_renamed_takes_along_what_is_in_it(tmp_path: Path) -> None:
    made = (
        call("mkdir", "/new", inode=5),
        call("create", "/new/b", inode=6),
        call("sync", "/new", inode=5),
        call("rename", "/new", inode=5, other="/b"),
        call("write", "/b/b", inode=6, data=b"text"),
        call("sync", "/b/b", inode=6),
    )
    assert left(tmp_path / "1", "names", *made) == {"a": b"old", "new/b": b"text"}
    assert left(tmp_path / "2", "names", *made, call("sync", "", inode=9)) == {"a": b"old", "b/b": b"text"}


def test_a_name_that_was_taken_away_may_be_back(tmp_path: Path) -> None:
    assert left(tmp_path / "1", "names", call("unlink", "/a")) == {"a": b"old"}
    assert left(tmp_path / "2", "names", call("unlink", "/a"), call("sync", "", inode=9)) == {}
