"""Answers that say nothing. Of "unseen", put away before the rule was written, 31 of 32 were silent at first."""

import pytest

from nanoclaw.plugins.heartbeat.beats import news
from tests.examples import examples

ANSWERS = examples(__file__, "answers.jsonl")


@pytest.mark.parametrize("half", ANSWERS)
def test_what_says_nothing_is_silent_and_all_else_is_told(half: str) -> None:
    assert [text for kind, text in ANSWERS[half] if kind == "news" and news(text) != text] == []
    assert len([text for kind, text in ANSWERS[half] if kind == "quiet" and news(text)]) <= 1
