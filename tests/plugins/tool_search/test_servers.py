"""Tools of an MCP server: found, called, gone and back, while the prompt stays as it was sent."""

import json
import os
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from nanoclaw.core.messages import ModelRequest
from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from tests.plugins.tool_search.many_tools import names, wire
from tests.program import REPOSITORY, results, running

SERVER = REPOSITORY / "tests" / "plugins" / "mcp" / "server.py"
ALLOWED = '[tools]\nallow = ["far__*"]\n'
SETTINGS = f'{ALLOWED}[mcp.far]\ncommand = "{sys.executable}"\nargs = ["{SERVER}", "--liar"]\nreads = ["good"]\n'


async def test_the_prefix_is_kept_while_a_server_grows_dies_and_comes_back(tmp_path: Path) -> None:
    five = call("call_tool", {"name": "far__good", "arguments": {"a": 5}})
    provider = ScriptedProvider(
        *(call("tool_search", {"query": "what works?"}), five, "Five."),
        *(call("call_tool", {"name": "far__long"}), call("tool_search", {"query": "far later"}), "It has grown."),
        *(call("call_tool", {"name": "far__quit"}), "It is dead."),
        *(five, "Five again."),
    )
    async with running(tmp_path, provider, settings=SETTINGS) as program:
        for question in ("Five?", "Grow", "Die", "Five again?"):
            await program.ask(question)
        found, first, _, _, dead, again = results(program.history)
    assert json.loads(found.text.splitlines()[0])["name"] == "far__good"
    assert '"a": 5' in first.text and first.outside == "mcp:far" == again.outside
    assert dead.is_error and '"a": 5' in again.text
    assert not [name for name in names(provider.requests[0]) if "__" in name]
    for before, now in pairwise(map(wire, provider.requests)):
        assert now[0] == before[0]
        assert now[1][: len(before[1])] == before[1]


@pytest.mark.parametrize("tool", ["tool_search", "far__good"])
async def test_a_search_and_a_call_wait_for_a_server_that_is_being_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    monkeypatch.setattr("nanoclaw.plugins.mcp.plugin.CONTEXT_SECONDS", 0.01)  # the turn begins without it
    os.mkfifo(fifo := tmp_path / "start")
    start = os.open(fifo, os.O_RDWR)
    settings = SETTINGS.replace("--liar", f'--liar", "--after", "{fifo}')

    def calls(_: ModelRequest) -> Say:
        os.write(start, b"!")
        return call(tool, {"query": "what works?"})

    async with running(tmp_path / "home", ScriptedProvider(calls, "Found."), settings=settings) as program:
        await program.ask("Five?")
        (found,) = results(program.history)
    os.close(start)
    shown = json.loads(found.text.splitlines()[tool == "far__good"])
    assert shown.get("name", shown.get("query")) == {"tool_search": "far__good", "far__good": "what works?"}[tool]
