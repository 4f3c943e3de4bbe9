"""The example of docs/mcp.md works as it is shown, from files and settings to the model's request."""

import re
import shlex
import sys
import tomllib
from pathlib import Path

from nanoclaw.commands.arguments import parsed
from nanoclaw.providers.scripted import ScriptedProvider, call
from nanoclaw.start.build import checked
from tests.program import REPOSITORY, config_of, results, running

PAGE = (REPOSITORY / "docs" / "mcp.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


async def test_the_whole_example_works(tmp_path: Path) -> None:
    (code,), (_, settings) = blocks("python"), blocks("toml")
    model = ScriptedProvider(
        call("shopping__add", {"item": "eggs"}),
        call("mcp_resources", {"server": "shopping", "uri": "list://all"}),
        "They are on it.",
        "Omelettes.",
    )
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "shopping.py").write_text(code)
    settings = settings.replace('"python3"', f'"{sys.executable}"')
    async with running(tmp_path, model, settings=settings) as here:
        await here.public("mcp").connections()["shopping"].ready()  # on a busy machine longer than a context waits
        asked = await here.ask("Put eggs on my list")
        assert asked.startswith("Run `add` of the MCP server shopping?\n") and asked.split("\n")[0] in PAGE
        await here.say("yes")
        assert "They are on it." in {await here.answer() for _ in range(2)}
        added, read = results(here.history)
        assert "2 things to buy" in added.text
        assert "milk\neggs" in read.text
        assert await here.ask("/shopping:dinner four") == "Omelettes."
        assert "Plan a dinner for four" in model.requests[-1].history[-1].text


def test_its_settings_and_commands_are_understood(tmp_path: Path) -> None:
    checked(config_of(tmp_path, blocks("toml")[0]))
    assert tomllib.loads(blocks("toml")[0])["mcp"].keys() == {"files", "github"}
    for line in blocks("sh")[0].splitlines():
        words = shlex.split(line, comments=True)
        assert parsed(words[1:]).command == f"mcp {words[2]}".removesuffix(" list")
