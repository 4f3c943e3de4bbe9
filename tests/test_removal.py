"""Whoever takes out a plugin's folder and its line has removed the capability, and everything else works."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from nanoclaw.start import build
from tests.forked import Forked, Server
from tests.removal import WAYS, sample


@pytest.fixture(scope="module")
def gone_without(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], list[str]]]:
    """The journeys that a process could go without a plugin."""
    variables = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path_factory.mktemp("homes"))}
    with closing(Server("tests.removal:warm")) as server:

        def go(name: str) -> list[str]:
            process = Forked[str](
                "tests.removal:answer", [name], env=variables, server=server, text=True, stdout=-1, stderr=-1
            )
            said, wrong = process.communicate()
            assert process.returncode == 0, wrong
            return said.split()

        yield go


def test_all_ways_can_be_gone_with_all_plugins(gone_without: Callable[[str], list[str]]) -> None:
    assert gone_without("") == list(WAYS)


@pytest.mark.parametrize("name", build.BUILT_IN)
def test_without_its_folder_and_its_line_its_tools_and_commands_are_gone_and_other_ways_work(
    gone_without: Callable[[str], list[str]], name: str
) -> None:
    assert gone_without(name) == sample(name)


def test_samples_have_each_way_without_some_plugin() -> None:
    assert {way for name in build.BUILT_IN for way in sample(name)} == WAYS.keys()
