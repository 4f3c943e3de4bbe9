"""The gateway as a service: units that their own checkers accept, and the command, with a systemd that only notes what
it is told and with a real one."""

import os
import plistlib
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nanoclaw.plugins.service.managers import Launchd, Systemd
from tests.journeys.command import Home, Running

SYSTEMD = Path("/lib/systemd/systemd")
NOTES = """#!/bin/sh
echo "$*" >> "$HOME/told"
case "$*" in *show\\ nanoclaw*) echo MainPID=0; echo ActiveState=failed ;; esac
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home", {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"})
    home.configure("http://127.0.0.1:9/v1", key=False)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "systemctl").write_text(NOTES)
    (tmp_path / "bin" / "systemctl").chmod(0o755)
    return home


def unit_of(home: Home) -> Path:
    return home.root.parent / ".config" / "systemd" / "user" / "nanoclaw.service"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd here")
def test_systemd_accepts_the_unit_also_with_signs_of_its_own_in_paths(tmp_path: Path) -> None:
    program, unit = tmp_path / "a b $c %h" / "nanoclaw", tmp_path / "nanoclaw.service"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    environment = {"NANOCLAW_HOME": str(program.parent), "PATH": "/bin\\"}
    unit.write_text(Systemd(tmp_path).text([str(program), "gateway"], environment))
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    command = ["systemd-analyze", "--user", "verify", str(unit)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_property_list_says_what_to_run_and_to_start_it_again_after_a_crash() -> None:
    table = plistlib.loads(Launchd(Path()).text(["/a b/nanoclaw", "gateway"], {"NANOCLAW_HOME": "/x<&>"}).encode())
    assert table["ProgramArguments"] == ["/a b/nanoclaw", "gateway"]
    assert table["EnvironmentVariables"] == {"NANOCLAW_HOME": "/x<&>"}
    assert (table["KeepAlive"], table["RunAtLoad"]) == ({"SuccessfulExit": False}, True)


@pytest.mark.skipif(sys.platform != "linux", reason="for systemd")
def test_install_status_and_remove_without_root(home: Home) -> None:
    home.environment["OPENAI_API_KEY"] = "sk-of-the-shell"
    unit, told = unit_of(home), home.root.parent / "told"
    assert home.run("service").out == "No service is installed: nanoclaw service install does that.\n"
    said = home.run("service", "install").out
    assert f"{unit}. It starts now." in said
    assert "keeps OPENAI_API_KEY for it" in said
    assert "sk-of-the-shell" not in unit.read_text()
    assert f'"NANOCLAW_HOME={home.root}"' in unit.read_text()
    assert re.search(r'^ExecStart="/.*" "gateway"$', unit.read_text(), re.MULTILINE)
    for words in ("daemon-reload", "enable nanoclaw", "restart --no-block nanoclaw"):
        assert f"--user {words}\n" in told.read_text()
    assert "not running (failed" in home.run("service", "status").out
    assert "Your home stays" in home.run("service", "remove").out
    assert "--user stop" in told.read_text()
    assert not unit.exists()
    assert "no service is installed" in home.run("service", "remove", check=1).err
    assert "service install" in home.run("service", "start", check=1).err


@pytest.mark.skipif(sys.platform != "linux", reason="for systemd")
def test_what_is_there_for_another_home_stays(home: Home) -> None:
    unit_of(home).parent.mkdir(parents=True)
    unit_of(home).write_text("[Service]\nExecStart=/usr/bin/nanoclaw gateway\n")
    assert "move it away first" in home.run("service", "install", check=1).err
    assert unit_of(home).read_text().startswith("[Service]\nExecStart=/usr/bin")


@pytest.mark.skipif(sys.platform != "linux", reason="for systemd")
def test_beside_a_gateway_that_runs_by_hand_it_starts_later(home: Home) -> None:
    gateway = Running(home, "gateway")
    try:
        gateway.expect("Ctrl-C ends it")
        assert "A gateway runs by hand" in home.run("service", "install").out
        assert "restart" not in (home.root.parent / "told").read_text()
        assert gateway.process.poll() is None
    finally:
        gateway.close()


@pytest.mark.skipif(sys.platform != "linux", reason="for systemd")
def test_without_a_manager_one_sentence_says_so_and_what_to_run(home: Home) -> None:
    (home.root.parent / "bin" / "systemctl").write_text("#!/bin/sh\necho Failed to connect to bus >&2\nexit 1\n")
    said = home.run("service", "install", check=1).err
    assert "as systemd doesn't answer (Failed to connect to bus). Run instead:\n  nohup /" in said
    assert not unit_of(home).exists()
    told = "No service is installed: systemd doesn't answer here (Failed to connect to bus).\n"
    assert home.run("service", "status").out == home.run("service").out == told


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Home]:
    """A systemd of the person's, in a namespace where /run says that there is one."""
    run, home = tmp_path / "run", Home(tmp_path / "home")
    run.mkdir(mode=0o700)
    home.environment = {"XDG_RUNTIME_DIR": str(run), "PATH": os.environ["PATH"]}
    home.configure("http://127.0.0.1:9/v1", key=False)
    script = f"mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system && exec {SYSTEMD} --user"
    with (tmp_path / "log").open("w") as log:
        environment = {**home.variables(), "SYSTEMD_LOG_TARGET": "console"}
        process = subprocess.Popen(["unshare", "-m", "sh", "-c", script], env=environment, stdout=log, stderr=log)
        try:
            while not (run / "systemd" / "private").exists():
                if process.poll() is not None:
                    pytest.skip(f"no systemd runs here: {(tmp_path / 'log').read_text()}")
            yield home
        finally:
            process.send_signal(signal.SIGRTMIN + 24)  # systemd(1): exit at once
            process.wait(30)


def pid_of(home: Home) -> int:
    """The process of the service, 0 while there is none."""
    command = ["systemctl", "--user", "show", "nanoclaw", "-p", "MainPID", "--value"]
    return int(subprocess.run(command, env=dict(home.variables()), capture_output=True, check=True, text=True).stdout)


@pytest.mark.live
def test_a_real_systemd_starts_it_again_after_a_crash_and_it_can_remove_itself(real: Home) -> None:
    real.run("service", "install")
    while "gateway, for" not in real.run("status").out:
        pass
    first = pid_of(real)
    os.kill(first, signal.SIGKILL)
    while pid_of(real) in (0, first) or "gateway, for" not in real.run("status").out:
        pass
    second = pid_of(real)
    assert "It starts anew now." in real.run("service", "install").out
    while pid_of(real) in (0, second) or "gateway, for" not in real.run("status").out:
        pass
    assert f"process {pid_of(real)} (active" in real.run("service", "status").out
    assert "Your home stays" in real.run("service", "remove").out
    while pid_of(real):
        pass
    assert "Running        no" in real.run("status").out
