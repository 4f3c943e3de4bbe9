"""The command `nanoclaw` as a child process, with a home of its own and a model server on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.agent.house import REPOSITORY

KEY = "sk-canary-7f3a9c21d84e"


@dataclass
class Home:
    """`environment` is all a child gets besides the path of the home."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def workspace(self) -> Path:
        return self.root / "workspace"

    def configure(self, api_base: str, *, more: str = "", key: bool = True) -> None:
        self.root.mkdir(exist_ok=True)
        (self.root / "config.toml").write_text(f'[model]\nname = "openai/scripted"\napi_base = "{api_base}"\n{more}')
        if key:
            self.environment["OPENAI_API_KEY"] = KEY

    def variables(self) -> Mapping[str, str]:
        # only what a program needs to start, so that no key or proxy of the developer's gets in
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        return {**kept, "NANOCLAW_HOME": str(self.root), "HOME": str(self.root.parent), **self.environment}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "nanoclaw", *arguments]

    def run(self, *arguments: str, stdin: str | bytes | None = None, check: int | None = 0) -> Ended:
        """Run to the end; `check` is the exit status it must have."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            self.command(*arguments),
            input=data if data is not None else b"",
            capture_output=True,
            env=self.variables(),
            cwd=REPOSITORY,
            timeout=30,
        )
        ended = Ended(done.returncode, done.stdout.decode(), done.stderr.decode())
        if check is not None:
            assert ended.status == check, ended
        assert "Traceback" not in ended.err + ended.out, ended
        return ended

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.variables(),
            cwd=REPOSITORY,
        )


@dataclass(frozen=True)
class Ended:
    status: int
    out: str
    err: str
