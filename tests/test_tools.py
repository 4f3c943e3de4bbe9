"""All tools together: what they cost in each request, and what they promise about themselves."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nanoclaw.core.app import App
from nanoclaw.core.plugin import PERSON, Tool
from nanoclaw.core.provider import chat_tools
from nanoclaw.start.build import build
from tests.program import config_of

NOT_FOR_SMALL_MODELS = ("tool_search", "call_tool", "exit_plan_mode", "todo")
"""Tools without an example are the first that a small model does without."""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    made = build(config_of(tmp_path))
    yield made
    made.store.close()


@pytest.fixture
def tools(app: App) -> list[Tool]:
    """Those that the owner's model has."""
    return app.chain.tools(PERSON)


def test_all_tools_of_a_prompt_stay_within_their_price(app: App) -> None:
    sent = app.chain.prompt_tools(PERSON)
    assert len(json.dumps(chat_tools(sent), separators=(",", ":"))) <= 7_500


def test_every_example_is_a_call_that_its_tool_would_accept(tools: list[Tool]) -> None:
    for each in tools:
        assert each.spec.examples or each.name in NOT_FOR_SMALL_MODELS, each.name
        for example in each.spec.examples:
            properties = each.spec.parameters["properties"]
            assert set(each.spec.parameters.get("required", ())) <= set(example.arguments) <= set(properties)


def test_only_tools_that_change_nothing_may_run_side_by_side(tools: list[Tool]) -> None:
    reading = {each.spec.name for each in tools if each.reach == "none"}
    files, notes = {"read_file", "list_dir", "find_files", "search_files"}, {"memory_search"}
    web, more = (
        {"web_fetch", "web_search", "browse"},
        {"tool_search", "call_tool", "todo", "question", "exit_plan_mode"},
    )
    assert reading | {"browse"} == files | notes | web | more  # browse is only there with its extra
