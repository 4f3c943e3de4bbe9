"""HEARTBEAT.md as a person writes it: which lines are items, how often they come up, what they watch."""

from datetime import timedelta

import pytest

from nanoclaw.plugins.heartbeat.checklist import MOST_ITEMS, Item, Kind, Watch, parse
from nanoclaw.start.home import shipped
from tests.examples import examples

LINES = examples(__file__, "checklist.jsonl")


@pytest.mark.parametrize("text", LINES["is no open item"])
def test_what_is_no_open_item_is_none(text: str) -> None:
    assert parse(text) == []


def test_the_file_that_a_new_workspace_gets_has_no_item_and_costs_nothing() -> None:
    assert parse((shipped("workspace_template") / "HEARTBEAT.md").read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("line", ["- [ ] a b", "- a b", "* a  b", "+ a b", "• a b", "1. a b", "2) a b", "\t- [ ] a b"])
def test_every_kind_of_list_line_is_an_item(line: str) -> None:
    assert parse(f"# Heartbeat\n\n{line}\n\nThe end.\n") == [Item("a b")]


def test_indented_lines_belong_to_the_item_above_and_other_items_stand_for_themselves() -> None:
    text = "- [ ] Look at the mail\n  from Anna only\n  - and at hers to me\n- [x] old\n  words of the old\n\nEnd."
    assert [item.text for item in parse(text)] == ["Look at the mail from Anna only", "and at hers to me"]


@pytest.mark.parametrize(("text", "every"), LINES["says how often"])
def test_a_mark_says_how_often(text: str, every: int | None) -> None:
    assert [item.every for item in parse(f"- [ ] {text}")] == [every and timedelta(seconds=every)]


@pytest.mark.parametrize(("text", "watches"), LINES["says what it watches"])
def test_a_line_says_what_it_watches(text: str, watches: list[tuple[Kind, str]]) -> None:
    assert [item.watches for item in parse(f"- [ ] {text}")] == [tuple(Watch(*each) for each in watches)]


def test_an_item_that_is_ticked_or_not_is_the_same_item_and_an_edited_one_another() -> None:
    (plain,), (boxed,), (edited,) = (parse(text) for text in ("- Look", "* [ ]  Look", "- Look!"))
    assert plain.key == boxed.key != edited.key
    assert len(parse("- Look\n- Look")) == 1


def test_an_endless_list_is_cut() -> None:
    assert len(parse("\n".join(f"- [ ] item {number}" for number in range(10_000)))) == MOST_ITEMS
