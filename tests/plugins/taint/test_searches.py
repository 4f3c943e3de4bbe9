"""A search in the same turn asks where its words carry something of the conversation, and no other one does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nanoclaw.plugins.taint.searches import carries, own_parts
from tests.program import NOON

SENTENCES = json.loads(Path(__file__).with_name("second_searches.json").read_text())
PRIVATE = (
    "The Nightingale project has a budget of fifty thousand euros, its code is 4711, the deadline is near. "
    "The doctor says that Ada is pregnant. I live in Oleander street."
)


@pytest.mark.parametrize("half", [0, 1], ids=["seen", "put away"])
def test_second_searches_of_a_usual_day_are_free(half: int) -> None:
    usual = SENTENCES["usual"][half::2]
    asked = [query for own, page, query in usual if carries(query, [own, page], [PRIVATE], NOON)]
    assert len(asked) <= 0.1 * len(usual), asked


@pytest.mark.parametrize("query", SENTENCES["leaks"])
def test_words_of_the_talk_and_numbers_that_nobody_gave_are_not(query: str) -> None:
    assert carries(query, ["What does it say of Frob?", "Frob 2.4 is shown at a hotel in Lyon"], [PRIVATE], NOON)


def test_of_the_system_message_the_owners_own_parts_count() -> None:
    system = (
        "# Who you are\nnanoclaw\n\n---\n\n# Instructions\nOleander\n\n---\n\n# Skills\nmail\n\n---\n\n# Memory\nAda"
    )
    own = own_parts(system)
    assert "Oleander" in own and "Ada" in own and "nanoclaw" not in own and "mail" not in own
