"""All tools together: what they cost in each request, and what they promise about themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nanoclaw.core.build import build
from nanoclaw.core.profiles import PROFILES
from nanoclaw.core.provider import chat_tools
from nanoclaw.core.tool import Tool
from tests.program import config_of


@pytest.fixture
def tools(tmp_path: Path) -> Iterator[list[Tool]]:
    """Those that the owner's model has."""
    app = build(config_of(tmp_path))
    yield app.chain.tools(PROFILES["person"])
    app.store.close()


def test_all_tools_together_stay_within_their_price(tools: list[Tool]) -> None:
    assert len(json.dumps(chat_tools(tuple(tool.spec for tool in tools)), separators=(",", ":"))) <= 6_000


def test_every_example_is_a_call_that_its_tool_would_accept(tools: list[Tool]) -> None:
    for each in tools:
        assert each.spec.examples, each.spec.name
        for example in each.spec.examples:
            properties = each.spec.parameters["properties"]
            assert set(each.spec.parameters["required"]) <= set(example.arguments) <= set(properties)


def test_only_tools_that_change_nothing_may_run_side_by_side(tools: list[Tool]) -> None:
    reading = {each.spec.name for each in tools if each.reach == "none"}
    assert reading == {"read_file", "list_dir", "find_files", "search_files", "memory_search", "memory_get"}
