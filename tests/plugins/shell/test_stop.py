"""A stop ends the process of a command, not only the wait for it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from nanoclaw.core.workspace import Workspace
from nanoclaw.plugins.shell.tools import shell_tools
from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.program import assert_legal, bare, results


async def test_a_stop_ends_a_running_command_within_a_second(tmp_path: Path) -> None:
    shell = shell_tools(Workspace(tmp_path / "workspace"), {"PATH": "/usr/bin:/bin"})
    step = call("exec", {"command": "mkfifo gate; echo > begun; cat gate", "timeout_seconds": 60})
    async with bare(tmp_path, ScriptedProvider(step), tools=shell) as program:
        await program.say("sleep")
        while not (program.workspace / "begun").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.01)
        started = time.monotonic()
        assert await program.ask("/stop") == "Stopped."
        assert time.monotonic() - started < 20
        assert_legal(program.history)
        assert [result.is_error for result in results(program.history)] == [True]
