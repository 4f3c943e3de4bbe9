"""A program that tests fork is a process like any other."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.forked import Forked

HERE = "tests.test_forked"


def tell() -> None:
    """What a process sees of itself. Runs in what is forked."""
    handlers = {one.name: str(signal.getsignal(one)) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)}
    seen = {
        "arguments": sys.argv[1:],
        "environment": dict(os.environ),
        "folder": str(Path.cwd()),
        "descriptors": sorted(int(one.name) for one in Path("/dev/fd").iterdir() if one.exists()),
        "handlers": handlers,
        "leads": os.getsid(0) == os.getpid(),
        "random": random.random(),
        "zone": time.tzname[0],
        "terminals": [stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)],
    }
    print(json.dumps(seen))


def echo() -> int:
    for line in sys.stdin:
        print(line.strip().upper(), flush=True)
    print("the end", file=sys.stderr)
    return 3


def told(folder: Path, *arguments: str, **options: Any) -> dict[str, Any]:
    process: Forked[str] = Forked(
        f"{HERE}:tell", arguments, env={"TZ": "Asia/Tokyo", "A": "b"}, cwd=folder, stdout=-1, text=True, **options
    )
    out, _ = process.communicate(timeout=100)
    assert process.returncode == 0
    seen: dict[str, Any] = json.loads(out)
    return seen


def test_it_has_what_it_was_given_and_nothing_of_the_process_that_was_forked(tmp_path: Path) -> None:
    fresh = subprocess.run(
        [sys.executable, "-c", f"from {HERE} import tell; tell()", "one", "caf\udce9"],
        env={"TZ": "Asia/Tokyo", "A": "b", "PYTHONPATH": str(Path(__file__).parents[1])},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=-1,
        check=True,
    )
    forked = told(tmp_path, "one", "caf\udce9", stdin=subprocess.DEVNULL)
    wanted = json.loads(fresh.stdout)
    wanted["environment"].pop("PYTHONPATH")
    for one in (wanted, forked):
        one["environment"].pop("LC_CTYPE", None)  # an interpreter may set it for itself
        one["terminals"].pop()  # stderr is that of the tests
    assert forked.pop("random") not in (wanted.pop("random"), told(tmp_path)["random"])
    assert forked == wanted


def test_several_live_at_once_and_each_end_is_known(tmp_path: Path) -> None:
    pipes: dict[str, Any] = {"stdin": -1, "stdout": -1, "stderr": -1, "text": True}
    first, second, third = (Forked[str](f"{HERE}:echo", (), env={}, **pipes) for _ in range(3))
    second.send_signal(signal.SIGTERM)
    os.kill(third.pid, signal.SIGKILL)
    assert (second.wait(), third.wait()) == (-signal.SIGTERM, -signal.SIGKILL)
    assert first.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        first.wait(0.01)
    assert first.communicate("one\ntwo\n", timeout=100) == ("ONE\nTWO\n", "the end\n")
    assert first.returncode == 3
    for one in (second, third):
        one.communicate()


def test_it_may_lead_the_session_of_a_terminal(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    try:
        seen = told(tmp_path, stdin=theirs, terminal=True)
        assert (seen["leads"], seen["terminals"][0]) == (True, True)
        with Forked[bytes](f"{HERE}:echo", (), env={}, stdin=theirs, stdout=-1, stderr=-1, terminal=True) as process:
            assert process.stdout
            os.write(ours, b"ready\n")
            assert process.stdout.readline() == b"READY\n"
            os.write(ours, b"\x03")
            assert process.wait() == -signal.SIGINT
    finally:
        os.close(ours)
        os.close(theirs)
