"""A child process leaves nothing behind, whatever it tries."""

import asyncio
import os
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nanoclaw import spawn
from nanoclaw.spawn import FLOOD_BYTES, KEPT_BYTES, Bounds, Exit, Process
from tests.examples import examples
from tests.virtual_time import skip

COMMANDS = examples(__file__, "spawn.jsonl")

LIMIT_SECONDS = 1000
ENVIRONMENT = {"PATH": os.environ["PATH"]}
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


def run(script: str, folder: Path) -> Exit:
    return asyncio.run(sh(script, folder))


async def sh(script: str, folder: Path) -> Exit:
    command = ("/bin/sh", "-c", script)
    return await Process(command, folder=folder, environment=ENVIRONMENT).run(LIMIT_SECONDS)


async def to_its_limit(script: str, folder: Path, condition: Callable[[], bool]) -> Exit:
    """The time limit is over when this holds."""
    running = asyncio.create_task(sh(script, folder))
    await until(lambda: condition() or running.done())
    skip(LIMIT_SECONDS)
    return await running


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    stat = Path(f"/proc/{pid}/stat")  # a process that init has not yet collected is gone as well
    return stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] == "Z"


def pids(folder: Path) -> list[int]:
    return [int(path.read_text()) for path in folder.glob("pid*") if path.read_text().strip()]


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  (another process makes it true)
        await asyncio.sleep(0.005)


def test_output_of_both_kinds_and_the_status_come_back(tmp_path: Path) -> None:
    assert run("echo out; echo err >&2; exit 3", tmp_path) == Exit("exited", 3, b"out\nerr\n", b"", 0, 0)


def test_it_runs_in_the_folder_with_nothing_but_the_given_environment(tmp_path: Path) -> None:
    ended = run("pwd; env | cut -d= -f1 | grep -vE '^(PWD|OLDPWD|SHLVL|_)$' | sort", tmp_path)
    assert ended.head.decode().split() == [str(tmp_path.resolve()), "NANOCLAW_RUN", "PATH"]


@linux_only
def test_descriptors_are_three_and_input_is_empty(tmp_path: Path) -> None:
    leaked = os.open(tmp_path, os.O_RDONLY)
    os.dup2(leaked, 77, inheritable=True)
    try:
        ended = run("cat; exec ls /proc/self/fd", tmp_path)
    finally:
        os.close(leaked)
        os.close(77)
    assert ended.head.split() == [b"0", b"1", b"2", b"3"]  # the last is the folder that ls itself reads


def test_at_the_time_limit_the_output_so_far_comes_back(tmp_path: Path) -> None:
    script = "echo begun; echo $$ > pid; sleep 600; echo never"
    ended = asyncio.run(to_its_limit(script, tmp_path, lambda: len(pids(tmp_path)) == 1))
    assert (ended.why, ended.head) == ("timeout", b"begun\n")


@linux_only
@pytest.mark.parametrize("script", COMMANDS["nothing is left of a command that tries to stay"])
def test_nothing_is_left_of_a_command_that_tries_to_stay(tmp_path: Path, script: str) -> None:
    begun = 8 if "pid$i" in script else 1
    ended = asyncio.run(to_its_limit(script, tmp_path, lambda: len(pids(tmp_path)) == begun))
    assert ended.why == "timeout" or ended.left_behind
    assert len(pids(tmp_path)) == begun
    assert all(is_gone(pid) for pid in pids(tmp_path))


def test_a_background_process_with_the_output_open_does_not_hold_the_answer(tmp_path: Path) -> None:
    ended = run("echo done; sleep 600 &", tmp_path)
    assert (ended.why, ended.status, ended.head, ended.left_behind) == ("exited", 0, b"done\n", 1)


@linux_only
@pytest.mark.parametrize("wait", ["sleep 600", "trap '' TERM; while :; do sleep 600; done"])
async def test_cancelling_ends_the_whole_family(tmp_path: Path, wait: str) -> None:
    task = asyncio.create_task(sh(f"setsid sh -c 'echo $$ > pid1; sleep 600' & echo $$ > pid2; {wait}", tmp_path))
    await until(lambda: len(pids(tmp_path)) == 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert all(is_gone(pid) for pid in pids(tmp_path))


@linux_only
async def test_cancelling_twice_ends_it_at_once(tmp_path: Path) -> None:
    task = asyncio.create_task(sh("trap '' TERM; echo $$ > pid; while :; do sleep 600; done", tmp_path))
    await until(lambda: len(pids(tmp_path)) == 1)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert all(is_gone(pid) for pid in pids(tmp_path))


def test_endless_output_is_stopped_and_memory_stays_flat(tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        ended = run("echo first; yes; echo never", tmp_path)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert ended.why == "flood"
    assert ended.head.startswith(b"first\ny\n")
    assert len(ended.head) == KEPT_BYTES
    assert len(ended.tail) <= 2 * KEPT_BYTES
    assert ended.dropped > FLOOD_BYTES / 2
    assert most < 20_000_000


def test_first_and_last_output_are_kept(tmp_path: Path) -> None:
    ended = run("echo first; head -c 1000000 /dev/zero; echo last", tmp_path)
    assert ended.head.startswith(b"first\n")
    assert ended.tail.endswith(b"last\n")
    assert len(ended.head) + ended.dropped + len(ended.tail) == 1_000_011


def test_many_run_side_by_side(tmp_path: Path) -> None:
    async def scenario() -> list[Exit]:
        return await asyncio.gather(*(sh(f"echo {n}", tmp_path) for n in range(20)))

    assert [ended.head for ended in asyncio.run(scenario())] == [b"%d\n" % n for n in range(20)]


async def test_what_cannot_be_started_raises(tmp_path: Path) -> None:
    for command, folder in (("/no/such", tmp_path), ("/bin/true", tmp_path / "missing")):
        with pytest.raises(OSError):
            await Process((command,), folder=folder, environment={}).run()


DESCRIPTORS = """
import asyncio, contextlib, os, sys
from pathlib import Path
from nanoclaw.spawn import Process
async def sh(script, seconds=20, folder="."):
    command = ("/bin/sh", "-c", script)
    with contextlib.suppress(OSError):
        await Process(command, folder=Path(folder), environment={"PATH": os.defpath}).run(seconds)
async def main():
    await sh("true")  # starts the guard, which stays
    before = sorted(os.listdir("/dev/fd"))
    for _ in range(3):
        cancelled = asyncio.create_task(sh("sleep 600"))
        await asyncio.gather(*(sh(f"echo {n}") for n in range(20)), sh("sleep 600", 0.1), sh("true", folder="missing"))
        cancelled.cancel()
        await asyncio.wait([cancelled])
    after = sorted(os.listdir("/dev/fd"))
    print([(one, os.path.exists(f"/dev/fd/{one}") and os.readlink(f"/dev/fd/{one}")) for one in after], before == after)
asyncio.run(main())
"""


def test_no_descriptor_is_left_after_an_end_a_time_limit_a_cancellation_and_a_failed_start(tmp_path: Path) -> None:
    """In a process of its own: here, threads of other tests open and close what they like."""
    done = subprocess.run([sys.executable, "-c", DESCRIPTORS], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.rstrip().endswith("True"), done.stdout + done.stderr


ORPHAN = """
import asyncio, os, sys
from pathlib import Path
from nanoclaw.spawn import Process
async def main():
    script = "setsid sleep 600 & echo $$ > pid; kill -KILL " + str(os.getpid()) + "; sleep 600"
    command = ["/bin/sh", "-c", script]
    await Process(command, folder=Path(sys.argv[1]), environment=dict(os.environ)).run(60)
asyncio.run(main())
"""


# --- limits ----------------------------------------------------------------------------------------------------------

BOMB = "bomb() { [ $1 -gt 0 ] && { bomb $(($1 - 1)) & bomb $(($1 - 1)) & }; sleep 60; }; "
"""Doubles with each step, as a fork bomb does; of itself it comes to an end."""


def bounded(script: str, folder: Path, bounds: Bounds) -> Exit:
    async def scenario() -> Exit:
        command = ("/bin/sh", "-c", script)
        return await Process(command, folder=folder, environment=ENVIRONMENT, bounds=bounds).run(60)

    return asyncio.run(scenario())


def family(folder: Path) -> list[str]:
    """Living processes that run in a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if path.joinpath("cwd").readlink() == folder.resolve():
                found.append(path.name)
        except OSError:
            continue
    return found


@linux_only
def test_a_fork_bomb_is_ended_at_the_limit_of_processes(tmp_path: Path) -> None:
    ended = bounded(f"{BOMB} bomb 9; sleep 60", tmp_path, Bounds(20, 1 << 33, 1 << 30))
    assert ended.why == "processes"
    assert ended.left_behind >= 20
    assert family(tmp_path) == []


@linux_only
def test_a_fork_bomb_whose_first_process_is_gone_is_ended_as_well(tmp_path: Path) -> None:
    """What forks faster than it can be looked at is only ended by a signal to all of its group."""
    ended = bounded(f"{BOMB} bomb 8 & exit 0", tmp_path, Bounds(10_000, 1 << 33, 1 << 30))
    assert (ended.why, ended.status) == ("exited", 0)
    assert ended.left_behind
    assert family(tmp_path) == []


@linux_only
def test_what_takes_too_much_memory_is_ended(tmp_path: Path) -> None:
    hog = f"{sys.executable} -c 'import time; kept = bytearray([1]) * 120_000_000; time.sleep(60)'"
    two = f"{hog} & {hog} & wait"
    assert bounded(two, tmp_path, Bounds(20, 200_000_000, 1 << 30)).why == "memory"
    assert family(tmp_path) == []


@linux_only
def test_memory_that_is_no_process_own_is_bounded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawn, "_MOST_SHARED", 50_000_000)
    # more than what others may give back meanwhile
    code = (
        "import os, time; f = os.memfd_create(str()); [os.write(f, bytes(1 << 20)) for _ in range(300)]; time.sleep(60)"
    )
    assert bounded(f"{sys.executable} -c '{code}'", tmp_path, Bounds(20, 60_000_000, 1 << 30)).why == "memory"


@linux_only
def test_memory_that_processes_share_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dear = spawn._memory

    def counted(found: Any) -> int:
        if len(found) >= 8:  # they go on until they have been counted together
            (tmp_path / "counted").touch()
        return dear(found)

    monkeypatch.setattr(spawn, "_memory", counted)
    fork = "import os, time; kept = bytearray([1]) * 60_000_000; [os.fork() for _ in range(3)]"
    script = f"{fork}\nwhile not os.path.exists('counted'): time.sleep(0.01)"
    ended = bounded(f'{sys.executable} -c "{script}"', tmp_path, Bounds(20, 200_000_000, 1 << 30))
    assert (ended.why, ended.status) == ("exited", 0)
    assert (tmp_path / "counted").exists()


def test_a_file_that_grows_too_large_ends_what_writes_it(tmp_path: Path) -> None:
    ended = bounded("yes > much; echo $?; exec yes > more", tmp_path, Bounds(20, 1 << 33, 1 << 20))
    assert (ended.why, ended.status) == ("exited", -signal.SIGXFSZ)
    assert ended.head.endswith(b"153\n")
    assert (tmp_path / "much").stat().st_size == 1 << 20


# --- one that runs on ------------------------------------------------------------------------------------------------


async def test_an_interactive_one_reads_what_it_is_given_until_that_ends(tmp_path: Path) -> None:
    heard = list[bytes]()
    command = ("/bin/sh", "-c", "read name; echo hello $name; cat")
    process = Process(command, folder=tmp_path, environment=ENVIRONMENT, heard=heard.append, is_interactive=True)
    running = asyncio.create_task(process.run())
    process.write(b"Ada\n")
    await until(lambda: b"hello Ada\n" in heard)
    process.write(b"more")
    process.end_input()
    assert await running == Exit("exited", 0, b"hello Ada\nmore", b"", 0, 0)
    with pytest.raises(OSError):
        process.write(b"late")


async def test_one_that_is_stopped_says_so(tmp_path: Path) -> None:
    process = Process(("/bin/sleep", "600"), folder=tmp_path, environment=ENVIRONMENT, is_interactive=True)
    running = asyncio.create_task(process.run())
    process.stop()
    ended = await running
    assert (ended.why, ended.status) == ("stopped", -signal.SIGTERM)


@pytest.mark.parametrize("escape", ["", pytest.param("setsid ", marks=linux_only)])
def test_what_runs_is_ended_when_the_program_is_killed(tmp_path: Path, escape: str) -> None:
    """Without another start of it."""
    orphan = ORPHAN.replace("setsid sleep 600", f"{escape}sleep 600")
    killed = subprocess.run([sys.executable, "-c", orphan, str(tmp_path)], cwd=Path(__file__).parents[2])
    assert killed.returncode == -signal.SIGKILL
    asyncio.run(until(lambda: not family(tmp_path)))
