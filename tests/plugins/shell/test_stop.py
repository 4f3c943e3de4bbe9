"""A stop ends the process of a command, not only the wait for it."""

import asyncio
from pathlib import Path

from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.program import assert_legal, results, running


async def test_a_stop_ends_a_running_command_at_once(tmp_path: Path) -> None:
    step = call("exec", {"command": "mkfifo gate; echo > begun; cat gate", "timeout_seconds": 600})
    async with running(tmp_path, ScriptedProvider(step), plugins=["shell"]) as program:
        await program.say("sleep")
        while not (program.workspace / "begun").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.01)
        assert await program.ask("/stop") == "Stopped."
        assert_legal(program.history)
        assert [result.is_error for result in results(program.history)] == [True]
