"""Every simple spelling of a command is seen; words that only look like one are not."""

import pytest

from nanoclaw.shell_words import commands_in
from tests.examples import examples

PUSH = ("git", "push")
LINES = examples(__file__, "shell_words.jsonl")
"""Each spelling of `git push` as a command, and words that only look like one."""


def test_a_command_is_found() -> None:
    assert [line for line in LINES["command"] if PUSH not in [words[:2] for words in commands_in(line)]] == []


@pytest.mark.parametrize("line", LINES["words"])
def test_words_that_no_command_is_made_of_are_none(line: str) -> None:
    assert PUSH not in [words[:2] for words in commands_in(line)]


@pytest.mark.parametrize("line", LINES["a broken line is read to its end"])
def test_a_broken_line_is_read_to_its_end(line: str) -> None:
    list(commands_in(line))


def test_shells_within_shells_end_somewhere() -> None:
    assert len(list(commands_in("$(" * 5000))) < 5000
    assert len(list(commands_in("sudo " * 5000 + "ls"))) < 50
    assert PUSH in commands_in("a|" * 50_000 + "'git' push")
    assert PUSH in commands_in("$(" * 3000 + "git push" + ")" * 3000)
