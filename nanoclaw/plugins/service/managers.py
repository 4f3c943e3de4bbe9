"""systemd and launchd, each as far as one service of the person's account needs it; nothing here needs root."""

from __future__ import annotations

import os
import plistlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from nanoclaw.core.errors import NanoclawError

UNIT = """\
# Written by `nanoclaw service install`; `nanoclaw service remove` takes it away.
[Unit]
Description=nanoclaw, a personal assistant

[Service]
ExecStart={command}
{environment}
Restart=on-failure
RestartSec=5
# the exit status for wrong settings: starting again would not help
RestartPreventExitStatus=2
KillMode=mixed
TimeoutStopSec=15

[Install]
WantedBy=default.target
"""


class Systemd:
    """The services of the person, by `systemctl --user`."""

    name, log = "systemd", "journalctl --user -u nanoclaw -n 50"

    def __init__(self, folder: Path) -> None:
        """`folder` is the person's own."""
        settings = Path(os.environ.get("XDG_CONFIG_HOME") or folder / ".config")
        self.file = settings / "systemd" / "user" / "nanoclaw.service"

    def text(self, command: Sequence[str], environment: Mapping[str, str]) -> str:
        lines = [f"Environment={_quoted(f'{name}={value}')}" for name, value in environment.items()]
        program, *words = command  # variables stand for their values in all words but the first
        words = [_quoted(program), *(_quoted(one.replace("$", "$$")) for one in words)]
        return UNIT.format(command=" ".join(words), environment="\n".join(lines))

    def lacking(self) -> str:
        """The reason why no service can be run here, '' if one can."""
        status, said = _run("systemctl", "--user", "show-environment")
        return said if status else ""

    def state(self) -> tuple[int, str]:
        """The process, 0 while there is none, and words about it."""
        _, said = _run("systemctl", "--user", "show", "nanoclaw", "-p", "MainPID,ActiveState,SubState,UnitFileState")
        facts = dict(line.partition("=")[::2] for line in said.splitlines())
        words = f"{facts.get('ActiveState', 'unknown')}, {facts.get('SubState')}, {facts.get('UnitFileState')}"
        return int(facts.get("MainPID") or 0), words

    def load(self) -> str:
        """Take up the file for the next login on, and return a line about that."""
        _done("systemctl", "--user", "enable", "nanoclaw")  # reads the files anew
        _done("systemctl", "--user", "daemon-reload")
        _, said = _run("loginctl", "show-user", str(os.getuid()), "--property=Linger")
        return (
            "" if said == "Linger=yes" else "So that it also runs while you are not logged in: loginctl enable-linger"
        )

    def start(self) -> None:
        """Begin, or begin again; the gateway itself waits until this process has left the home."""
        _done("systemctl", "--user", "restart", "--no-block", "nanoclaw")

    def stop(self) -> None:
        """End it and forget it; its file is gone by now."""
        for words in (("disable", "nanoclaw"), ("daemon-reload",), ("stop", "--no-block", "nanoclaw")):
            _run("systemctl", "--user", *words)


class Launchd:
    """The agents of the person, by `launchctl`, which reads their folder at each login."""

    name, log = "launchd", "logs/ in the home"

    def __init__(self, folder: Path) -> None:
        self.file = folder / "Library" / "LaunchAgents" / "nanoclaw.plist"
        self._domain = f"gui/{os.getuid()}"

    def text(self, command: Sequence[str], environment: Mapping[str, str]) -> str:
        what = {"Label": "nanoclaw", "ProgramArguments": list(command), "EnvironmentVariables": dict(environment)}
        how = {"RunAtLoad": True, "KeepAlive": {"SuccessfulExit": False}, "ThrottleInterval": 10, "ExitTimeOut": 15}
        return plistlib.dumps({**what, **how}).decode()

    def lacking(self) -> str:
        status, said = _run("launchctl", "print", self._domain)
        return said if status else ""

    def state(self) -> tuple[int, str]:
        status, said = _run("launchctl", "print", f"{self._domain}/nanoclaw")
        facts = dict(line.strip().partition(" = ")[::2] for line in said.splitlines())
        return int(facts.get("pid") or 0), "not loaded" if status else facts.get("state", "loaded")

    def load(self) -> str:
        return ""

    def start(self) -> None:
        self.stop()
        _done("launchctl", "bootstrap", self._domain, str(self.file))

    def stop(self) -> None:
        _run("launchctl", "bootout", f"{self._domain}/nanoclaw")


Manager = Systemd | Launchd


def manager() -> Manager:
    """That of this system."""
    return (Launchd if sys.platform == "darwin" else Systemd)(Path("~").expanduser())


def _quoted(text: str) -> str:
    """A word as systemd reads it: specifiers and quotes stand for themselves."""
    for sign, written in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%"), ("\n", "\\n"), ("\t", "\\t")):
        text = text.replace(sign, written)
    return f'"{text}"'


def _run(*words: str) -> tuple[int, str]:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=30.0, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return 127, f"{words[0]}: {getattr(error, 'strerror', None) or 'no answer in 30 s'}"
    return done.returncode, (done.stdout if not done.returncode else done.stderr or done.stdout).strip()


def _done(*words: str) -> None:
    status, said = _run(*words)
    if status:
        raise NanoclawError(f"{' '.join(words)} failed: {said}")
