"""The example of docs/sandbox.md works as it is shown."""

import re
from pathlib import Path

import pytest

from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.program import REPOSITORY, results, running

PAGE = (REPOSITORY / "docs" / "sandbox.md").read_text()


async def test_the_example_works_as_it_is_shown(tmp_path: Path) -> None:
    said, read = re.findall(r"^```\n((?:Run|cat): .*?)\n```$", PAGE, re.DOTALL | re.MULTILINE)
    model = ScriptedProvider(call("exec", {"command": said.removeprefix("Run: ")}), "Only a.txt is there.")
    async with running(tmp_path, model) as program:
        if "(full)" not in program.public("sandbox").banner():
            pytest.skip("this machine has no full sandbox")
        await program.ask(said)
        assert results(program.history)[0].text.replace(str(Path.home()), "/home/ann") == read
        assert (program.workspace / "a.txt").read_text() == "done\n"
