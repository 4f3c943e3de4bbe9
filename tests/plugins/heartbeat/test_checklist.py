"""HEARTBEAT.md as a person writes it: which lines are items, how often they come up, what they watch."""

from datetime import timedelta

import pytest

from nanoclaw.plugins.heartbeat.checklist import MOST_ITEMS, Item, Watch, parse
from nanoclaw.start.home import shipped
from tests.examples import examples

DAY = timedelta(days=1)
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


@pytest.mark.parametrize(
    ("text", "watch"),
    [
        ("watch notes/inbox.md", Watch("file", "notes/inbox.md")),
        ("New letters? watch notes/inbox.md.", Watch("file", "notes/inbox.md")),
        ("watch: notes/inbox.md, and tell me", Watch("file", "notes/inbox.md")),
        ("watch `my notes/in box.md` for letters", Watch("file", "my notes/in box.md")),
        ("watch inbox/", Watch("file", "inbox/")),
        ("Watch https://example.org/a?b=c for prices", Watch("url", "https://example.org/a?b=c")),
        ("watch `http://example.org`", Watch("url", "http://example.org")),
        ("watch $ git status --short", Watch("command", "git status --short")),
        ("watch $ df -h . | tail -1 (every 1d)", Watch("command", "df -h . | tail -1")),
        ("watch `$ git status --short`, commit what is left", Watch("command", "git status --short")),
        (
            "watch notes/a.md, `b c.md`,https://x.example/y and d/; tell me. Not e.md",
            Watch(
                "file",
                "notes/a.md",
                (Watch("file", "b c.md"), Watch("url", "https://x.example/y"), Watch("file", "d/")),
            ),
        ),
        ("watch a.md and $ git status", Watch("file", "a.md", (Watch("command", "git status"),))),
        ("watch the news", None),
        ("Buy a watch", None),
        ("`watch -n 1 date` is not an item's watch", None),
        ("look at notes/inbox.md", None),
    ],
)
def test_a_line_says_what_it_watches(text: str, watch: Watch | None) -> None:
    assert [item.watch for item in parse(f"- [ ] {text}")] == [watch]


def test_words_within_a_command_are_no_mark() -> None:
    assert parse("- watch `$ grep 'every 1d' log.txt`")[0].every is None
    assert parse("- every 1d watch `$ grep 'every 2h' log.txt`")[0].every == DAY


@pytest.mark.parametrize(("text", "unheard"), LINES["has words that are not understood"])
def test_words_about_time_that_are_not_understood_are_named(text: str, unheard: str) -> None:
    assert [item.unheard for item in parse(f"- {text}")] == [unheard]


def test_an_item_that_is_ticked_or_not_is_the_same_item_and_an_edited_one_another() -> None:
    (plain,), (boxed,), (edited,) = (parse(text) for text in ("- Look", "* [ ]  Look", "- Look!"))
    assert plain.key == boxed.key != edited.key
    assert len(parse("- Look\n- Look")) == 1


def test_an_endless_list_is_cut() -> None:
    assert len(parse("\n".join(f"- [ ] item {number}" for number in range(10_000)))) == MOST_ITEMS
