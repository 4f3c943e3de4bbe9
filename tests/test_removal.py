"""Whoever takes out a plugin's folder and its line has removed the capability, and everything else works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from nanoclaw.core import build
from nanoclaw.core.app import App
from nanoclaw.core.profiles import PROFILES
from tests.program import REPOSITORY, config_of
from tests.removal import WAYS, all_ways, sample


async def test_all_ways_can_be_gone_with_all_plugins(tmp_path: Path) -> None:
    assert len(await all_ways(tmp_path, frozenset())) == len(WAYS)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    app = build.build(config_of(tmp_path_factory.mktemp("whole")), provider=())
    yield app
    app.store.close()


@pytest.mark.parametrize("name", build.BUILT_IN)
async def test_without_a_plugin_its_tools_and_commands_are_gone(tmp_path: Path, whole: App, name: str) -> None:
    own = next(one for one in whole.plugins if one.name == name)
    tools, commands = {tool.name for tool in own.tools()}, {command.name for command in own.commands()}
    app = build.build(config_of(tmp_path), provider=(), without=[name])
    try:
        assert name not in {one.name for one in app.plugins}
        assert not tools & {tool.name for tool in app.chain.tools()}
        assert not commands & set(app.commands.of(PROFILES["person"]))
    finally:
        await app.aclose()


@pytest.fixture(scope="module")
def journeys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    """A process that goes through the journeys without a plugin."""
    variables = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path_factory.mktemp("homes"))}
    command = [sys.executable, "-m", "tests.removal", "serve"]
    with subprocess.Popen(command, cwd=REPOSITORY, env=variables, stdin=-1, stdout=-1, text=True) as process:
        yield process


@pytest.mark.parametrize("name", build.BUILT_IN)
def test_without_its_folder_and_its_line_other_ways_work(journeys: subprocess.Popen[str], name: str) -> None:
    assert journeys.stdin and journeys.stdout
    print(name, file=journeys.stdin, flush=True)
    said = json.loads(journeys.stdout.readline())
    assert "Traceback" not in said, said
    assert said.split() == sample(name)


def test_samples_have_each_way_without_many_plugins() -> None:
    gone = Counter(way for name in build.BUILT_IN for way in sample(name))
    assert gone.keys() == WAYS.keys() and min(gone.values()) >= 3
