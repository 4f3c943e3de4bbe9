"""The example of docs/tools.md works as it is shown."""

import json
import re
from pathlib import Path

from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.plugins.tool_search.many_tools import names
from tests.program import REPOSITORY, results, running
from tests.test_plugins import put

PAGE = (REPOSITORY / "docs" / "tools.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


async def test_the_whole_example_works(tmp_path: Path) -> None:
    (code,), (budget, enabled), (calls,) = blocks("python"), blocks("toml"), blocks("json")
    put(tmp_path, "converters", code)
    steps = [call(one["name"], one["arguments"]) for one in map(json.loads, calls.splitlines())]
    provider = ScriptedProvider(*steps, "42.2 kilometres.")
    async with running(tmp_path, provider, settings=budget + enabled) as program:
        assert len(program.app.chain.tools()) > 182
        assert await program.ask("How many kilometres is a marathon of 26.2 miles?") == "42.2 kilometres."
        found, converted = (result.text for result in results(program.history))
        assert json.loads(found.splitlines()[0])["name"] == "mile_to_kilometre"
        assert converted == "42.1648 kilometre"
    assert "mile_to_kilometre" not in names(provider.requests[0])
    assert len(names(provider.requests[0])) < 25
