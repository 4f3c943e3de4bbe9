"""Commands that are known to change nothing."""

from __future__ import annotations

import pytest

from nanoclaw.plugins.card.looks import only_looks


@pytest.mark.parametrize(
    "command", ["ls -l *.txt | wc -l", "sort -k2 a | uniq -c", "tree -L 2", "rg -n fee .", "file a"]
)
def test_what_only_shows_changes_nothing(command: str) -> None:
    assert only_looks(command)


@pytest.mark.parametrize(
    "command",
    [
        *("sort -uo notes.md a", "sort --outp=notes.md a", "sort --compress-program=rm a", "uniq a notes.md"),
        *("tree -o notes.md", "tree -ao notes.md", "rg --pre rm fee .", "file -C -m notes"),
    ],
)
def test_an_option_that_writes_or_runs_something_may_change_all(command: str) -> None:
    assert not only_looks(command)
