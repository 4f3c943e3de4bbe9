"""The workspace's places, and writing that leaves every file whole."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from nanoclaw.errors import WorkspaceError
from nanoclaw.workspace.paths import Workspace, append_in, write_atomically


def append(path: Path, text: str) -> bool:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        return append_in(folder, path.name, text)
    finally:
        os.close(folder)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A real disk of 64 kB, filled to the last page but one; skipped where mounting is not allowed."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("no right to mount a small disk here")
    try:
        (disk / "kept.md").write_text("old\n")
        (disk / "filler").write_bytes(b"x" * 56_000)
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


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


def test_content_is_replaced_and_the_mode_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("old")
    path.chmod(0o640)
    write_atomically(path, "né")
    write_atomically(tmp_path / "b.bin", b"\0\1")
    assert path.read_bytes() == "né".encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert names(tmp_path) == ["a.md", "b.bin"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.md").write_text("old")
    (tmp_path / "link.md").symlink_to("real.md")
    write_atomically(tmp_path / "link.md", "new")
    assert (tmp_path / "link.md").is_symlink()
    assert (tmp_path / "real.md").read_text() == "new"


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_failure_at_any_step_leaves_the_old_file_and_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "a.md"
    path.write_text("old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, fail)  # the one way to fail at this very step on every machine
    with pytest.raises(WorkspaceError, match=r"'a.md' was not saved: the disk is full.*unchanged. Free some space"):
        write_atomically(path, "new")
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.md"]


def test_a_really_full_disk_leaves_the_old_file_and_no_draft(full_disk: Path) -> None:
    with pytest.raises(WorkspaceError, match="the disk is full"):
        write_atomically(full_disk / "kept.md", "y" * 30_000)
    assert (full_disk / "kept.md").read_text() == "old\n"
    with pytest.raises(WorkspaceError, match="the disk is full"):
        append(full_disk / "kept.md", "y" * 30_000)
    assert (full_disk / "kept.md").read_text() == "old\n"
    with pytest.raises(WorkspaceError, match="the disk is full"):
        append(full_disk / "new.md", "y" * 30_000)
    assert names(full_disk) == ["filler", "kept.md"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b"x\n"),
        (b"a\n", b"a\nx\n"),
        (b"a", b"a\nx\n"),
        (b"a\r\nb", b"a\r\nb\r\nx\r\n"),
        (b"\xff\xfea\0\n\0", b"\xff\xfea\0\n\0x\0\n\0"),
        (b"\xef\xbb\xbf", b"\xef\xbb\xbfx\n"),
        (b"bad \xe9\xff bytes\0", b"bad \xe9\xff bytes\0\nx\n"),
    ],
)
def test_appending_starts_a_line_and_keeps_every_byte_before(tmp_path: Path, before: bytes, after: bytes) -> None:
    path = tmp_path / "a.md"
    path.write_bytes(before)
    assert append(path, "x\n") is False
    assert path.read_bytes() == after


def test_appending_makes_a_missing_file(tmp_path: Path) -> None:
    assert append(tmp_path / "a.md", "x\n") is True
    assert (tmp_path / "a.md").read_text() == "x\n"


def test_appending_to_a_hard_link_a_link_or_a_pipe_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("1")
    (tmp_path / "two").hardlink_to(tmp_path / "one")
    (tmp_path / "link").symlink_to("one")
    os.mkfifo(tmp_path / "pipe")
    for name in ("two", "link", "pipe"):
        with pytest.raises(WorkspaceError):
            append(tmp_path / name, "x")
    assert (tmp_path / "one").read_text() == "1"
