"""Whoever takes out a plugin's folder and its line has removed the capability, and everything else works."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nanoclaw.core import build
from nanoclaw.core.profiles import PROFILES
from tests.program import REPOSITORY, config_of
from tests.removal import WAYS, all_ways


async def test_all_ways_can_be_gone_with_all_plugins(tmp_path: Path) -> None:
    assert len(await all_ways(tmp_path, frozenset())) == len(WAYS)


@pytest.mark.parametrize("name", build.BUILT_IN)
async def test_without_a_plugin_its_tools_and_commands_are_gone(tmp_path: Path, name: str) -> None:
    app = build.build(config_of(tmp_path / "whole"), provider=())
    own = next(one for one in app.plugins if one.name == name)
    tools, commands = {tool.name for tool in own.tools()}, {command.name for command in own.commands()}
    await app.aclose()
    app = build.build(config_of(tmp_path / "without"), provider=(), without=[name])
    try:
        assert name not in {one.name for one in app.plugins}
        assert not tools & {tool.name for tool in app.chain.tools()}
        assert not commands & set(app.commands.of(PROFILES["person"]))
    finally:
        await app.aclose()


@pytest.fixture(scope="module")
def journeys() -> Iterator[subprocess.Popen[str]]:
    """A process that goes through the journeys with other source trees."""
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-m", "tests.removal"]
    with subprocess.Popen(command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


@pytest.mark.parametrize("name", build.BUILT_IN)
def test_without_its_folder_and_its_line_everything_else_works(
    tmp_path: Path, journeys: subprocess.Popen[str], name: str
) -> None:
    source = tmp_path / "source"
    ignore = shutil.ignore_patterns("shipped")
    shutil.copytree(REPOSITORY / "nanoclaw", source / "nanoclaw", ignore=ignore)
    for shared in ("skills", "workspace_template"):
        (source / shared).symlink_to(REPOSITORY / shared)
    shutil.rmtree(source / "nanoclaw" / "plugins" / name)
    table = source / "nanoclaw" / "core" / "build.py"
    kept = [line for line in table.read_text().splitlines(keepends=True) if f'"{name}": "nanoclaw.plugins' not in line]
    table.write_text("".join(kept))
    assert journeys.stdin and journeys.stdout
    print(name, source, file=journeys.stdin, flush=True)
    said = json.loads(journeys.stdout.readline())
    assert "Traceback" not in said, said
    assert set(said.split()) == {one for one, way in WAYS.items() if name not in way.uses}
