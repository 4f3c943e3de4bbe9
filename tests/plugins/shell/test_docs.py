"""The example of docs/processes.md works as it is shown."""

import asyncio
import re
from datetime import timedelta
from pathlib import Path

from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.program import REPOSITORY, HandClock, running

PAGE = (REPOSITORY / "docs" / "processes.md").read_text()


async def test_the_example_works_as_it_is_shown(tmp_path: Path) -> None:
    (said,) = re.findall(r"^```\n(Run .*)\n```$", PAGE, re.MULTILINE)
    (told,) = re.findall(r"^````\n(.*?)\n````$", PAGE, re.DOTALL | re.MULTILINE)
    command = re.findall("`(.*)`", said)[0]
    gated = f"mkfifo gate; sleep() {{ read go < gate; }}; {command}"  # so that the test says when five seconds are over
    model = ScriptedProvider(call("exec", {"command": gated, "background": True}), "It runs.", "Built.")
    clock = HandClock()
    async with running(tmp_path, model, clock=clock, wakes=True) as program:
        assert await program.ask(said) == "It runs."
        clock.now += timedelta(seconds=5)
        while not (program.workspace / "gate").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.01)
        (program.workspace / "gate").write_text("go\n")
        ended = await program.answer()
        assert ended.partition(") has")[2] == told.partition(") has")[2]
        assert await program.answer() == "Built."
        assert (await program.ask("/processes")).startswith("1 exit status 0: ")
