"""The page docs/helpers.md says what is."""

import asyncio
import re
from datetime import timedelta
from pathlib import Path

from tests.plugins.delegate.talk import Cast, delegate, states
from tests.program import REPOSITORY, HandClock, results, running

PAGE = (REPOSITORY / "docs" / "helpers.md").read_text()


async def test_the_example_works_as_it_is_shown(tmp_path: Path) -> None:
    (said,) = re.findall(r"^```\n(Sum up .*)\n```$", PAGE, re.MULTILINE)
    ((head, report),) = re.findall(r"^```\n(Helper 1 .*)\n\n(.*)\n```$", PAGE, re.MULTILINE)
    tasks = [f"Sum up the files in {folder}" for folder in ("docs", "tests")]
    cast = Cast({"": [delegate(*tasks), "Both are summed up."], tasks[0]: [report], tasks[1]: ["Many tests."]})
    clock = HandClock()
    cast.gate.clear()
    async with running(tmp_path, cast, clock=clock) as program:
        await program.say(said)
        while len(states(program)) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert "running for 0 s" in await program.ask("/helpers")
        clock.now += timedelta(seconds=34)
        cast.gate.set()
        assert await program.answer() == "Both are summed up."
        assert results(program.history)[0].text == f"{head}\n\n{report}"
        assert (await program.ask("/helpers 2")).endswith("Many tests.")
