"""Tests in several processes, which are forked once all tests are collected.

Processes that each collect everything, and a scheduler that is asked about every test, as pytest-xdist has them, took a
tenth of the CPU time of all tests. Here the files lie in a pipe from which each process takes the next.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from itertools import groupby
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, cast
from warnings import WarningMessage

import pytest

Files = Sequence[Sequence[pytest.Item]]


def run(session: pytest.Session, number: int) -> None:
    """Run all that was collected in so many processes."""
    assert threading.active_count() == 1, "a lock that another thread holds would never be given back in a fork"
    files = [list(items) for _, items in groupby(session.items, key=lambda item: item.path)]
    queue, filled = os.pipe()
    os.write(filled, b"".join(place.to_bytes(2, "big") for place in range(len(files))))
    os.close(filled)
    folder = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    sys.stdout.flush()
    sys.stderr.flush()
    workers = [_fork(session, files, queue, folder / f"worker-{place}") for place in range(number)]
    try:
        ran = _listen(session, [told for _, told in workers])
    except BaseException:
        for pid, _ in workers:
            os.kill(pid, signal.SIGTERM)
        raise
    finally:
        ends = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid, _ in workers]
        os.close(queue)
    for item in session.items:
        if item.nodeid not in ran:
            why = f"It has no end: the processes that ran tests ended with {ends}."
            failed = pytest.TestReport(item.nodeid, item.location, {}, "failed", why, "call")
            session.config.hook.pytest_runtest_logreport(report=failed)


def _listen(session: pytest.Session, living: list[Connection]) -> set[str]:
    """Say here what all say that run tests, until they have ended. Returns the tests that came to their end."""
    ran = set[str]()
    while living:
        for told in cast(list[Connection], wait(living)):
            try:
                nodeid, said = told.recv()
            except EOFError:
                living.remove(told)
                continue
            for name, given in said:
                hook = getattr(session.config.hook, name)
                hook.call_historic(kwargs=given) if hook.is_historic() else hook(**given)
            ran.add(nodeid)
        if session.shouldfail or session.shouldstop:
            raise session.Failed(session.shouldfail) if session.shouldfail else session.Interrupted(session.shouldstop)
    return ran


def _fork(session: pytest.Session, files: Files, queue: int, folder: Path) -> tuple[int, Connection]:
    ours, theirs = Pipe(duplex=False)
    pid = os.fork()
    if not pid:
        status = 1
        try:
            ours.close()
            _become_a_worker(session.config, folder)
            _work(session, files, queue, theirs)
            status = 0
        except Exception:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(status)
    theirs.close()
    return pid, ours


def _become_a_worker(config: pytest.Config, folder: Path) -> None:
    """Capture, write and keep files apart from the process that was forked."""
    folder.mkdir(mode=0o700)
    config._tmp_path_factory._basetemp = folder  # type: ignore[attr-defined]
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    reporter: Any = config.pluginmanager.getplugin("terminalreporter")
    reporter._tw._file = Path(os.devnull).open("w")  # noqa: SIM115


def _work(session: pytest.Session, files: Files, queue: int, told: Connection) -> None:
    teller = _Teller(told)
    session.config.pluginmanager.register(teller)

    def following() -> Sequence[pytest.Item]:
        place = os.read(queue, 2)
        return files[int.from_bytes(place, "big")] if place else ()

    items = following()
    while items:
        for place, item in enumerate(items, 1):
            if place == len(items):
                items = following()
                place = 0
            after = items[place] if items else None
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            teller.tell(item.nodeid)


class _Teller:
    """Hands on what is reported of a test when it has ended."""

    def __init__(self, told: Connection) -> None:
        self._told = told
        self._said: list[tuple[str, dict[str, Any]]] = []

    def tell(self, nodeid: str) -> None:
        self._told.send((nodeid, self._said))
        self._said.clear()

    def pytest_runtest_logreport(self, report: object) -> None:
        self._said.append(("pytest_runtest_logreport", {"report": report}))

    def pytest_runtest_logfinish(self, nodeid: str, location: object) -> None:
        self._said.append(("pytest_runtest_logfinish", {"nodeid": nodeid, "location": location}))

    def pytest_warning_recorded(
        self, warning_message: WarningMessage, when: str, nodeid: str, location: object
    ) -> None:
        plain = WarningMessage(
            *(getattr(warning_message, name) for name in ("message", "category", "filename", "lineno"))
        )
        given = {"warning_message": plain, "when": when, "nodeid": nodeid, "location": location}
        self._said.append(("pytest_warning_recorded", given))
