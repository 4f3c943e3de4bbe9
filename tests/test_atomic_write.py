"""Writing that leaves every file whole, whatever happens in between."""

import errno
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nanoclaw.atomic_write import REWRITTEN_BYTES, NotSaved, append_in, drafted, remove_drafts, write_atomically


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
    with pytest.raises(NotSaved, match=r"'a.md' was not saved: the disk is full.*unchanged. Free some space"):
        write_atomically(path, "new")
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.md"]


def test_a_really_full_disk_leaves_the_old_file_and_no_draft(full_disk: Path) -> None:
    with pytest.raises(NotSaved, match="the disk is full"):
        write_atomically(full_disk / "kept.md", "y" * 30_000)
    assert (full_disk / "kept.md").read_text() == "old\n"
    with pytest.raises(NotSaved, match="the disk is full"):
        append(full_disk / "kept.md", "y" * 30_000)
    assert (full_disk / "kept.md").read_text() == "old\n"
    with pytest.raises(NotSaved, match="the disk is full"):
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
        with pytest.raises(NotSaved):
            append(tmp_path / name, "x")
    assert (tmp_path / "one").read_text() == "1"


def test_two_bytes_of_a_character_are_not_shifted_by_a_torn_one(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_bytes(b"\xff\xfea\0b")
    append(path, "x\n")
    assert path.read_bytes().startswith(b"\xff\xfea\0b")
    assert path.read_bytes().decode("utf-16").splitlines()[-1] == "x"


def test_a_large_file_grows_in_place(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("x" * REWRITTEN_BYTES + "y\n")
    inode = path.stat().st_ino
    append(path, "more\n")
    assert path.stat().st_ino == inode
    assert path.read_text().endswith("xy\nmore\n")


def test_the_owner_is_kept(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can give files away")
    path = tmp_path / "a.md"
    path.write_text("old")
    os.chown(path, 1234, 1235)
    path.chmod(0o600)
    write_atomically(path, "new")
    append(path, "line\n")
    assert (path.stat().st_uid, path.stat().st_gid, stat.S_IMODE(path.stat().st_mode)) == (1234, 1235, 0o600)


def test_a_file_protected_against_writing_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.md"
    path.write_text("old")
    monkeypatch.setattr(os, "access", lambda *_, **__: False)  # root may write everywhere
    with pytest.raises(NotSaved, match="write-protected"):
        write_atomically(path, "new")
    assert path.read_text() == "old"


def test_a_folder_that_the_disk_does_not_confirm_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync = os.fsync

    def fail(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(NotSaved, match=r"was saved, but a power cut may bring back .* the disk reports an error"):
        write_atomically(tmp_path / "a.md", "new")
    assert (tmp_path / "a.md").read_text() == "new"


def test_a_library_writes_to_a_draft_that_takes_the_files_place_when_it_is_done(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_text("old")
    with pytest.raises(ValueError, match="no"), drafted(path) as draft:
        draft.write_text("half")
        raise ValueError("no")
    assert path.read_text() == "old"
    with drafted(path) as draft:
        draft.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert names(tmp_path) == ["a.bin"]


CUT = """
import os, signal, sys
from pathlib import Path
from nanoclaw.atomic_write import append_in, write_atomically

what, at, path = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
calls = 0

def counted(call):
    def run(*arguments, **named):
        global calls
        calls += 1
        if calls == at:
            if call is write:  # a kill in the middle of a write
                write(arguments[0], bytes(arguments[1])[:7])
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **named)
    return run

write = os.write
for name in ("open", "fchmod", "write", "fsync", "replace", "unlink", "close"):
    setattr(os, name, counted(getattr(os, name)))
if what == "append":
    append_in(os.open(path.parent, os.O_RDONLY), path.name, "- 10:00 a line that is new\\n")
else:
    write_atomically(path, "all of it is new\\n")
print("done")
"""


@pytest.mark.parametrize("what", ["append", "write"])
def test_a_kill_at_any_call_leaves_the_old_file_or_the_new_one_and_a_draft_that_is_cleaned_up(
    tmp_path: Path, what: str
) -> None:
    old = "- 09:00 an old line\n"
    new = old + "- 10:00 a line that is new\n" if what == "append" else "all of it is new\n"
    path, seen = tmp_path / "note.md", set()
    for at in range(1, 30):
        path.write_text(old)
        ended = subprocess.run([sys.executable, "-c", CUT, what, str(at), str(path)], capture_output=True, text=True)
        assert path.read_text() in (old, new)
        seen.add((ended.returncode, path.read_text() == new, len(names(tmp_path)) > 1))
        remove_drafts([tmp_path])
        assert names(tmp_path) == ["note.md"]
        if ended.stdout == "done\n":
            break
    killed = -signal.SIGKILL
    assert seen == {(killed, False, False), (killed, False, True), (killed, True, False), (0, True, False)}


def test_the_draft_of_a_process_that_runs_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / f".draft-{os.getppid()}-0123456789ab").write_text("being written")
    (tmp_path / ".draft-of mine").write_text("a person's")
    (tmp_path / ".draft-99999999-0123456789ab").write_text("left over")
    (tmp_path / f".draft-{os.getpid()}-0123456789ab").mkdir()
    remove_drafts([tmp_path, tmp_path / "not there"])
    assert names(tmp_path) == sorted([".draft-of mine", f".draft-{os.getppid()}-0123456789ab"])


ADD = """
import os, sys
from nanoclaw.atomic_write import append_in
folder = os.open(sys.argv[1], os.O_RDONLY)
for number in range(20):
    append_in(folder, "note.md", f"{sys.argv[2]} {number}\\n")
"""


def test_two_processes_that_add_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    adding = [subprocess.Popen([sys.executable, "-c", ADD, str(tmp_path), name]) for name in ("one", "two")]
    assert [process.wait(30) for process in adding] == [0, 0]
    lines = (tmp_path / "note.md").read_text().splitlines()
    assert sorted(lines) == sorted(f"{name} {number}" for name in ("one", "two") for number in range(20))
