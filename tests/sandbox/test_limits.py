"""Processes, threads and disk of one command are bounded, also where it runs as an administrator."""

import asyncio
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from nanoclaw.sandbox import launch
from nanoclaw.sandbox.limits import Disk, Tasks
from nanoclaw.sandbox.sandbox import Allowance, Encloser
from nanoclaw.sandbox.view import Grants
from nanoclaw.spawn import Bounds, Exit, Keeper, run_process
from tests.sandbox.enclosed import end_marked, own_seconds, sleeping, strengths

at_each_level = pytest.mark.parametrize("level", [one for one in strengths() if one not in ("none", "files")])

LARGE = Bounds(100_000, 100_000_000_000, 500_000_000)
"""No bounds from outside: what holds is the sandbox's."""


def run(root: Path, level: str, command: str, allowance: Allowance, bounds: Bounds = LARGE, relay: str = "") -> Exit:
    workspace = root / "home" / "workspace"
    workspace.mkdir(parents=True, exist_ok=True)
    grants = Grants(workspace, (workspace.parent,), root / "home", os.environ["PATH"])
    encloser, said = Encloser(grants, strengths()[level]), ("/bin/bash", "-c", command)
    made = encloser.enclose(said, {"PATH": grants.path}, allowance, relay)
    keeper = Keeper(made.descriptors, made.report, made.folder, made.put_back)
    arguments, environment = made.arguments, made.environment
    return asyncio.run(
        run_process(
            arguments, folder=workspace, environment=environment, timeout_seconds=60, bounds=bounds, keeper=keeper
        )
    )


def python(code: str) -> str:
    return f"python3 -c {shlex.quote(code)}"


BOMBS = {
    "doubling": "[os.fork() for _ in range(9)]",
    "of sessions": "for _ in range(9):\n    if not os.fork(): os.setsid()",
    "of orphans": "for _ in range(250):\n    pid = os.fork()\n    if pid: os.waitpid(pid, 0)\n"
    "    elif os.fork(): os._exit(0)\n    else: break",
    "never collected": "for _ in range(500):\n    if not os.fork(): os._exit(0)",
    "deaf to signals": "[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; [os.fork() for _ in range(9)]",
}
"""Each ends by itself after 512 processes."""


@at_each_level
@pytest.mark.parametrize("kind", BOMBS)
def test_a_command_that_begins_too_many_processes_is_ended_and_leaves_none(
    tmp_path: Path, level: str, kind: str
) -> None:
    mark = f"bomb{os.getpid()}{kind.split()[0]}"
    code = f"import os, signal, time\n{BOMBS[kind]}\ntime.sleep(60) # {mark}"
    ended = run(tmp_path, level, python(code), Allowance(20), LARGE)
    # the kernel counts for others than root, at level full: there is just no further one
    if os.geteuid() == 0 or level != "full":
        assert ended.why == "processes", ended
    assert end_marked(mark) == []


@at_each_level
def test_nothing_is_left_of_a_command_when_the_program_is_killed(tmp_path: Path, level: str) -> None:
    seconds, begun = own_seconds(), tmp_path / "home" / "workspace" / "begun"
    stay = f"env -i setsid sleep {seconds} & sleep {seconds} & (env -i sleep {seconds} &) ; touch begun; sleep 600"
    running = (
        "import sys; from tests.sandbox.test_limits import *; run(Path(sys.argv[1]), *sys.argv[2:], Allowance(20))"
    )
    program = subprocess.Popen((sys.executable, "-c", running, str(tmp_path), level, stay))
    while not begun.exists() or len(sleeping(seconds)) < 3:
        assert program.poll() is None
    program.kill()
    program.wait()
    while sleeping(seconds):
        pass  # the time limit of tests


@at_each_level
def test_threads_are_bounded_too(tmp_path: Path, level: str) -> None:
    code = "import threading, time\nfor n in range(500): threading.Thread(target=time.sleep, args=(60,)).start()"
    ended = run(tmp_path, level, f"{python(code)} 2>/dev/null & sleep 60", Allowance(20), LARGE)
    if os.geteuid() == 0 or level != "full":
        assert ended.why == "processes", ended


@at_each_level
@pytest.mark.parametrize("has_relay", [False, True])
def test_as_many_processes_as_are_allowed_may_run(tmp_path: Path, level: str, has_relay: bool) -> None:
    bounds = LARGE._replace(processes=4)
    with TemporaryDirectory(dir="/tmp") as short, socket.socket(socket.AF_UNIX) as proxy:
        proxy.bind(path := f"{short}/proxy")
        command = "sleep 0.7 & sleep 0.7 & sleep 0.7 & wait"
        ended = run(tmp_path, level, command, Allowance(4), bounds, path if has_relay else "")
    assert (ended.why, ended.status) == ("exited", 0), ended


@pytest.fixture
def sleepers() -> Iterator[list[int]]:
    """Four processes that go on."""
    begun = [subprocess.Popen(("sleep", "60")) for _ in range(4)]
    yield [one.pid for one in begun]
    for one in begun:
        one.kill()
        one.wait()


def test_processes_count_that_began_before_anybody_looked(sleepers: list[int]) -> None:
    assert Tasks(3, 100, lambda: sleepers).are_too_many()
    assert Tasks(100, 3, lambda: sleepers).are_too_many()
    assert not Tasks(4, 4, lambda: sleepers).are_too_many()


def test_orphans_that_have_ended_do_not_count(sleepers: list[int]) -> None:
    """Whoever looks is the one to collect them, and may not have come to that."""
    tasks = Tasks(4, 4, lambda: sleepers)
    ended = subprocess.Popen("true")
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    sleepers.append(ended.pid)
    assert not tasks.are_too_many()
    ended.wait()


@at_each_level
def test_a_workspace_may_lie_in_the_other_folder_for_temporary_files(level: str) -> None:
    with TemporaryDirectory(dir="/var/tmp") as folder:
        ended = run(Path(folder), level, "pwd && touch here", Allowance())
        assert (ended.status, ended.head.decode().strip()) == (0, f"{folder}/home/workspace"), ended
        assert Path(folder, "home", "workspace", "here").exists()


@at_each_level
def test_processes_and_threads_that_end_are_no_longer_counted(tmp_path: Path, level: str) -> None:
    code = "import threading\nfor n in range(200): t = threading.Thread(target=id, args=(1,)); t.start(); t.join()"
    command = f"for n in {{1..100}}; do /bin/true; done; {python(code)}; seq 60 | xargs -P 8 -n 1 echo | wc -l"
    ended = run(tmp_path, level, command, Allowance(20), LARGE)
    assert (ended.why, ended.status, ended.head) == ("exited", 0, b"60\n")


@at_each_level
def test_a_shell_that_hears_of_its_children_begins_others_meanwhile(tmp_path: Path, level: str) -> None:
    script = "for one in 1 2 3 4 5 6 7 8 9; do (true) & (true) & x=$(true | true); done; wait\n" * 10
    ended = run(tmp_path, level, f"sh -c {shlex.quote(script)}", Allowance())
    assert (ended.why, ended.status, ended.head) == ("exited", 0, b"")


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder where the kernel knows who writes: in memory, where the other tests are, it doesn't."""
    with TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


WRITERS = {
    "many files": "for n in {1..50}; do head -c 1000000 /dev/zero > f$n; done; sleep 60",
    "by orphans": "for n in {1..50}; do (setsid head -c 1000000 /dev/zero > f$n &); done; sleep 60",
    "not to be looked into": python(
        "import ctypes, time\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n"
        "for n in range(50): open(f'f{n}', 'wb').write(bytes(1_000_000))\ntime.sleep(60)"
    ),
    "without writing": python(
        "import os, time\n"
        "for n in range(50): os.posix_fallocate(os.open(f'f{n}', os.O_CREAT | os.O_WRONLY), 0, 1_000_000)\n"
        "time.sleep(60)"
    ),
    "through memory": python(
        "import mmap, time\nfor n in range(50):\n    f = open(f'f{n}', 'w+b'); f.truncate(1_000_000)\n"
        "    mmap.mmap(f.fileno(), 0)[:] = b'x' * 1_000_000\ntime.sleep(60)"
    ),
}


@at_each_level
@pytest.mark.parametrize("way", WRITERS)
def test_a_command_that_takes_too_much_of_the_disk_is_ended_and_its_files_stay(
    disk: Path, level: str, way: str
) -> None:
    ended = run(disk, level, WRITERS[way], Allowance(disk_bytes=20_000_000))
    assert ended.why == "disk", ended
    written = sum(-(-one.stat().st_size // 4096) * 4096 for one in (disk / "home" / "workspace").iterdir())  # in pages
    is_counted = way != "not to be looked into"  # of what can't be, all that is gone counts, others' writes too
    assert written >= (10_000_000 if is_counted else 1_000_000)  # what others reserve unwritten counts meanwhile


def test_on_a_kernel_that_counts_nobodys_writes_all_that_is_gone_is_the_commands(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacks(path: str, flags: int) -> int:
        raise FileNotFoundError(2, "No such file or directory", path)

    monkeypatch.setattr("posix.open", lacks)
    space = Disk(10_000_000, [str(disk)], launch.own_count(), lambda: ())
    (disk / "a").write_bytes(bytes(40_000_000))
    assert space.is_full()


def test_files_written_again_take_no_more_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is asked for what is free, on which nobody else writes here."""

    def free(folder: str) -> os.statvfs_result:
        blocks = 1_000_000 - sum(one.stat().st_blocks // 8 for one in tmp_path.iterdir())
        return os.statvfs_result((4096, 4096, 1_000_000, blocks, blocks, 10_000, 10_000, 10_000, 0, 255))

    monkeypatch.setattr(os, "statvfs", free)
    space = Disk(15_000_000, [str(tmp_path)], launch.own_count(), lambda: ())
    for _ in range(20):
        (tmp_path / "same").write_bytes(bytes(10_000_000))
        assert not space.is_full()
