"""Lives that end early: each is a process that is forked from one that has lived a day, with the shim loaded."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.forked import Forked, Server
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
    violations: tuple[str, ...]


def server(library: Path, folder: Path) -> Server:
    """What forks them; `folder` is for what it itself needs."""
    return Server(f"{__name__}:warm", LD_PRELOAD=str(library), TMPDIR=str(folder), PYTHONHASHSEED="0")


def run(server: Server, job: Job) -> Ended:
    place, null, arguments = Path(job.place), subprocess.DEVNULL, [json.dumps(asdict(job))]
    variables = {**os.environ, **server.variables}
    with (place / "stderr").open("w") as stderr:
        life = Forked[str](
            f"{__name__}:live", arguments, env=variables, server=server, pace=1, stdin=null, stdout=null, stderr=stderr
        )
        status = life.wait()
    _wait_for_lock(place / "home" / "state.lock")
    verdict, said = place / "verdict", (place / "stderr").read_text(errors="replace")
    found = tuple(json.loads(verdict.read_text())) if job.kind == "check" and verdict.exists() else ()
    return Ended(max(0, -status), max(0, status), said, found)


def _wait_for_lock(path: Path) -> None:
    """A command that the dead process was just starting holds what it held until it runs."""
    if path.exists():
        with path.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)


def live() -> None:
    """Ends with the status 1 for an end that was told in a sentence, 70 for a traceback."""
    job = Job(**json.loads(sys.argv[1]))
    try:
        status = _live(job, Path(job.place))
    except BaseException:
        traceback.print_exc()
        status = 70
    sys.stderr.flush()
    os._exit(status)  # nothing is to be done after it


def _live(job: Job, place: Path) -> int:
    home, ledger = place / "home", place / "ledger"
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


def _die_after(calls: int) -> None:
    """Beside the work, so that it ends between two calls or in the middle of one."""
    while shim.count() < calls:
        time.sleep(0.0005)
    os.kill(os.getpid(), signal.SIGKILL)


def _lived(job: Job, home: Path, ledger: Path, *, again: bool) -> int:
    return commands.run(home, ledger, job.story) if job.story else day.run(home, ledger, again=again)


def _violations(job: Job, home: Path, ledger: Path, statuses: list[int]) -> list[str]:
    return commands.violations(home, ledger, job.story, statuses) if job.story else violations(home, ledger, statuses)


def warm() -> None:
    """Live a day here, so that all is imported when the first life is forked."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        home, ledger = Path(folder, "home"), Path(folder, "ledger")
        day.prepare(home)
        for again in (False, True, True):
            day.run(home, ledger, again=again)
        violations(home, ledger, [0, 0])
