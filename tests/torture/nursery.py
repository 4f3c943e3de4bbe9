"""A warm process that is forked for each life: `python -m tests.torture.nursery` reads a job a line and answers each.

It runs with the shim loaded. A fresh interpreter for each of a thousand lives would spend its time on imports.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from tests.program import REPOSITORY
from tests.torture import commands, day, shim
from tests.torture.check import violations
from tests.torture.sabotage import SABOTAGES
from tests.torture.shim import How


@dataclass(frozen=True, slots=True)
class Job:
    """One life in the folder `place`, which holds home, ledger and what the shim wrote down.

    `kind` is "day" for the first one, "again" for one that starts on what was left, and "check" for two of these and a
    look at everything. After `kill_after` calls it is killed at whatever it does then.
    """

    place: str
    kind: str
    at: int = 0
    how: How = "-"
    data: bool = False
    kill_after: int = 0
    sabotage: str = ""
    story: str = ""
    """The name of one of the commands in the place of the day."""


@dataclass(frozen=True, slots=True)
class Ended:
    """End of a life: the signal that killed it or 0, its exit status, what it wrote to stderr, and what is wrong."""

    signal: int
    status: int
    stderr: str
    violations: tuple[str, ...] = ()


class Nursery:
    """The process, from outside."""

    def __init__(self, library: Path, folder: Path) -> None:
        """`folder` is for what the process itself needs."""
        environment = {**os.environ, "LD_PRELOAD": str(library), "TMPDIR": str(folder), "PYTHONHASHSEED": "0"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.torture.nursery"],
            cwd=REPOSITORY,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    def run(self, job: Job) -> Ended:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(asdict(job)) + "\n")
        self._process.stdin.flush()
        fields = self._answer()
        return Ended(fields["signal"], fields["status"], fields["stderr"], tuple(fields["violations"]))

    def _answer(self) -> Any:
        assert self._process.stdout
        answer = self._process.stdout.readline()
        assert answer, f"the nursery ended with status {self._process.wait()}"
        return json.loads(answer)

    def __enter__(self) -> Nursery:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def serve(jobs: IO[str], answers: IO[str]) -> None:
    answers.write('"ready"\n')
    answers.flush()
    for line in jobs:
        answers.write(json.dumps(asdict(_raise(Job(**json.loads(line))))) + "\n")
        answers.flush()


def _raise(job: Job) -> Ended:
    """Fork a life and wait for its end."""
    place = Path(job.place)
    child = os.fork()
    if not child:
        os._exit(_live(job, place))
    _, status = os.waitpid(child, 0)
    _wait_for_lock(place / "home" / "state.lock")
    verdict = place / "verdict"
    found = tuple(json.loads(verdict.read_text())) if job.kind == "check" and verdict.exists() else ()
    killed, code = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, os.waitstatus_to_exitcode(status)
    return Ended(killed, 0 if killed else code, (place / "stderr").read_text(errors="replace"), found)


def _wait_for_lock(path: Path) -> None:
    """A command that the dead process was just starting holds what it held until it runs."""
    if path.exists():
        with path.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)


def _live(job: Job, place: Path) -> int:
    """The exit status: 1 for an end that was told in a sentence, 70 for a traceback."""
    home, ledger = place / "home", place / "ledger"
    stderr = os.open(place / "stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(stderr, 2)
    try:
        if job.sabotage:
            SABOTAGES[job.sabotage]()
        if job.kind == "day":
            commands.prepare(home, job.story) if job.story else day.prepare(home)
        if job.kind == "check":
            statuses = [_lived(job, home, ledger, again=True) for _ in range(2)]
            (place / "verdict").write_text(json.dumps(_violations(job, home, ledger, statuses)))
            return 0
        shim.arm(home, place / "log", job.at, job.how, data=job.data)
        if job.kill_after:
            threading.Thread(target=_die_after, args=(job.kill_after,), daemon=True).start()
        return _lived(job, home, ledger, again=job.kind == "again")
    except BaseException:
        traceback.print_exc()
        return 70
    finally:
        sys.stderr.flush()


def _die_after(calls: int) -> None:
    """Beside the work, so that it ends between two calls or in the middle of one."""
    while shim.count() < calls:
        time.sleep(0.0005)
    os.kill(os.getpid(), signal.SIGKILL)


def _lived(job: Job, home: Path, ledger: Path, *, again: bool) -> int:
    return commands.run(home, ledger, job.story) if job.story else day.run(home, ledger, again=again)


def _violations(job: Job, home: Path, ledger: Path, statuses: list[int]) -> list[str]:
    return commands.violations(home, ledger, job.story, statuses) if job.story else violations(home, ledger, statuses)


def _warm() -> None:
    """Live a day here, so that all is imported when the first life is forked."""
    place = Path(tempfile.mkdtemp())
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            day.prepare(place / "home")
            day.run(place / "home", place / "ledger", again=False)
            for _ in range(2):
                day.run(place / "home", place / "ledger", again=True)
            violations(place / "home", place / "ledger", [0, 0])
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a life prints is not an answer
    _warm()
    serve(sys.stdin, answers)
