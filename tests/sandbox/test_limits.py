"""Processes, threads and disk of one command are bounded, also where it runs as an administrator."""

import asyncio
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from nanoclaw.sandbox.sandbox import USUAL, Encloser
from nanoclaw.sandbox.view import Grants
from nanoclaw.spawn import Bounds, Exit, Process
from tests.sandbox.enclosed import end_marked, own_seconds, sleeping, strengths

at_each_level = pytest.mark.parametrize("level", [one for one in strengths() if one not in ("none", "files")])


def run(root: Path, level: str, command: str, processes: int = 256, relay: str = "") -> Exit:
    workspace = root / "home" / "workspace"
    workspace.mkdir(parents=True, exist_ok=True)
    grants = Grants(workspace, (workspace.parent,), root / "home", os.environ["PATH"])
    encloser, said = Encloser(grants, strengths()[level]), ("/bin/bash", "-c", command)
    made = encloser.enclose(said, {"PATH": grants.path}, USUAL._replace(processes=processes), relay)
    bounds = Bounds(processes, 100_000_000_000, 500_000_000)

    async def scenario() -> Exit:
        given = {"environment": made.environment, "bounds": bounds, "keeper": made.keeper}
        return await Process(made.arguments, folder=workspace, **given).run(60)  # type: ignore[arg-type]

    return asyncio.run(scenario())


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
def test_a_command_of_too_many_processes_is_ended_and_leaves_none(tmp_path: Path, level: str, kind: str) -> None:
    mark = f"bomb{os.getpid()}{kind.split()[0]}"
    code = f"import os, signal, time\n{BOMBS[kind]}\ntime.sleep(60) # {mark}"
    ended = run(tmp_path, level, python(code), 20)
    # the kernel counts for others than root, at level full: there is just no further one
    if os.geteuid() == 0 or level != "full":
        assert ended.why == "processes", ended
    assert end_marked(mark) == []


@at_each_level
def test_nothing_is_left_of_a_command_when_the_program_is_killed(tmp_path: Path, level: str) -> None:
    seconds, begun = own_seconds(), tmp_path / "home" / "workspace" / "begun"
    stay = f"env -i setsid sleep {seconds} & sleep {seconds} & (env -i sleep {seconds} &) ; touch begun; sleep 600"
    running = "import sys; from tests.sandbox.test_limits import *; run(Path(sys.argv[1]), *sys.argv[2:], 20)"
    program = subprocess.Popen((sys.executable, "-c", running, str(tmp_path), level, stay))
    while not begun.exists() or len(sleeping(seconds)) < 3:
        assert program.poll() is None
    program.kill()
    program.wait()
    while sleeping(seconds):
        pass  # the time limit of tests


@at_each_level
def test_threads_are_bounded_too(tmp_path: Path, level: str) -> None:
    if os.geteuid() and level == "full":
        pytest.skip("the kernel's own limit holds there, and ends nothing")
    code = "import threading, time\nfor n in range(500): threading.Thread(target=time.sleep, args=(60,)).start()"
    ended = run(tmp_path, level, f"{python(code)} 2>/dev/null & sleep 60", 20)
    assert ended.why == "processes", ended


@at_each_level
@pytest.mark.parametrize("has_relay", [False, True])
def test_as_many_processes_as_are_allowed_may_run(tmp_path: Path, level: str, has_relay: bool) -> None:
    with TemporaryDirectory(dir="/tmp") as short, socket.socket(socket.AF_UNIX) as proxy:
        proxy.bind(path := f"{short}/proxy")
        command = "sleep 0.7 & sleep 0.7 & sleep 0.7 & wait"
        ended = run(tmp_path, level, command, 4, path if has_relay else "")
    assert (ended.why, ended.status) == ("exited", 0), ended


@at_each_level
def test_a_command_gives_way_to_the_program(tmp_path: Path, level: str) -> None:
    ended = run(tmp_path, level, "nice")
    assert int(ended.head) >= min(19, os.getpriority(os.PRIO_PROCESS, 0) + 10)


@at_each_level
def test_a_workspace_may_lie_in_the_other_folder_for_temporary_files(level: str) -> None:
    with TemporaryDirectory(dir="/var/tmp") as folder:
        ended = run(Path(folder), level, "pwd && touch here")
        assert (ended.status, ended.head.decode().strip()) == (0, f"{folder}/home/workspace"), ended
        assert Path(folder, "home", "workspace", "here").exists()


@at_each_level
def test_processes_and_threads_that_end_are_no_longer_counted(tmp_path: Path, level: str) -> None:
    code = "import threading\nfor n in range(200): t = threading.Thread(target=id, args=(1,)); t.start(); t.join()"
    command = f"for n in {{1..100}}; do /bin/true; done; {python(code)}; seq 60 | xargs -P 8 -n 1 echo | wc -l"
    ended = run(tmp_path, level, command, 20)
    assert (ended.why, ended.status, ended.head) == ("exited", 0, b"60\n")


@at_each_level
def test_a_shell_that_hears_of_its_children_begins_others_meanwhile(tmp_path: Path, level: str) -> None:
    script = "for one in 1 2 3 4 5 6 7 8 9; do (true) & (true) & x=$(true | true); done; wait\n" * 10
    ended = run(tmp_path, level, f"sh -c {shlex.quote(script)}")
    assert (ended.why, ended.status, ended.head) == ("exited", 0, b"")


@at_each_level
def test_a_command_is_ended_before_the_disk_is_full_and_its_files_stay(small_disk: Path, level: str) -> None:
    ended = run(small_disk, level, "head -c 60M /dev/zero > much; sleep 60")
    assert ended.why == "disk", ended
    assert (small_disk / "home" / "workspace" / "much").stat().st_size >= 40_000_000


@at_each_level
def test_a_disk_that_was_nearly_full_before_may_be_written(small_disk: Path, level: str) -> None:
    (small_disk / "old").write_bytes(bytes(80_000_000))
    ended = run(small_disk, level, "head -c 5M /dev/zero > f; sleep 0.3; rm f; head -c 5M /dev/zero > f")
    assert (ended.why, ended.status) == ("exited", 0), ended
