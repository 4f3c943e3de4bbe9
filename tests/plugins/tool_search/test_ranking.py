"""The right tool is found first, in words that its author does not use: two sets of tools and requests."""

import json
from pathlib import Path

import pytest

from nanoclaw.plugins.tool_search.ranking import Candidate, ranked, terms

HERE = Path(__file__).parent

Requests = list[tuple[str, str, str]]
"""Query, what the person said, the tool that is meant."""


def ours() -> tuple[list[Candidate], Requests]:
    """Tools of daily life and requests, written before the ranking was tuned."""
    tools, requests = list[Candidate](), Requests()
    for kind, *fields in (line.split("\t") for line in (HERE / "own.tsv").read_text("utf-8").splitlines()):
        if kind == "tool":
            parameters = {"properties": {name: {"type": "string"} for name in fields[2].split(",")}}
            tools.append(Candidate(fields[0], fields[1], parameters))
        else:
            requests.append((fields[1], fields[0], fields[2]))
    return tools, requests


def of_others() -> tuple[list[Candidate], Requests]:
    """300 tools of 26 servers with 50 requests by somebody who has not seen the ranking; the ranking was made with
    half of them seen."""
    tools, requests = list[Candidate](), Requests()
    for line in (HERE / "others.jsonl").read_text("utf-8").splitlines():
        one = json.loads(line)
        if "request" in one:
            requests.append((one["query"], one["request"], one["tool"]))
        else:
            tools.append(Candidate(one["name"], one["description"], one["parameters"]))
    return tools, requests


def places(tools: list[Candidate], requests: Requests) -> list[int]:
    """Of each request the place of the tool that is meant; 1 is the first."""
    found = ([tools[at].name for at in ranked(query, tools, said)] for query, said, _ in requests)
    return [
        names.index(tool) + 1 if tool in names else 999 for names, (_, _, tool) in zip(found, requests, strict=True)
    ]


@pytest.mark.parametrize("sets", [ours, of_others])
def test_nine_of_ten_are_first_and_nearly_all_among_five(sets: object) -> None:
    tools, requests = sets()  # type: ignore[operator]
    found = places(tools, requests)
    assert len(requests) >= 40
    assert sum(place == 1 for place in found) / len(found) >= 0.9
    assert sum(place <= 5 for place in found) / len(found) >= 0.97


def test_names_are_split_and_words_stemmed() -> None:
    assert terms("listPullRequests") == terms("list_pull_request") == terms("list-pull-requests")
    assert terms("getHTMLPage") == terms("get html pages")


def test_words_of_parameters_count_also_within_others() -> None:
    inner = {"type": "object", "properties": {"zip_code": {"type": "string", "enum": ["velvet"]}}}
    one = Candidate("a", "b", {"type": "object", "properties": {"places": {"type": "array", "items": inner}}})
    other = Candidate("c", "d", {})
    assert [ranked(word, [other, one]) for word in ("zip", "velvet", "places", "d")] == [[1], [1], [1], [0]]


def test_a_name_goes_before_all_and_what_fits_nothing_is_not_found() -> None:
    tools = [Candidate("b__list_list", "list list list", {}), Candidate("a__list", "Of something.", {})]
    assert ranked("a__list", tools) == [1, 0]
    assert ranked("xylophone", tools) == ranked("", tools) == ranked("list", []) == []


def test_two_tools_are_told_apart_and_so_is_one_alone() -> None:
    cat, dog = Candidate("feed_cat", "Feed the cat.", {}), Candidate("feed_dog", "Feed the dog.", {})
    assert ranked("feed the dog", [cat, dog]) == [1, 0]
    assert ranked("feed", [cat]) == [0]


def test_schemas_that_are_odd_are_read_as_far_as_they_go() -> None:
    odd = {"properties": {"a": True, "b": {"enum": [1, None], "description": 5}, "c": {"items": []}}, "items": "x"}
    assert ranked("thing", [Candidate("thing", "", odd), Candidate("other", "", {"properties": None})]) == [0]


def test_other_scripts_are_words_too() -> None:
    tools = [Candidate("wetter", "Wettervorhersage für Städte", {}), Candidate("tianqi", "查询城市的天气预报", {})]
    assert ranked("天气", tools) == [1]
    assert ranked("Städte", tools) == [0]
