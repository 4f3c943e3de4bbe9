"""Blocks around text of others: nothing in the text passes for their marks, and nothing else changes."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanoclaw.outside_text import block, inside, own_words, without_template_tokens
from tests.examples import examples

PARTS = examples(__file__, "outside_text.jsonl")

MARKS = st.sampled_from(PARTS["marks"])
TEXTS = st.lists(st.one_of(MARKS, st.text(max_size=8)), max_size=12).map("".join)


@given(TEXTS, st.text(max_size=20))
def test_a_text_ends_only_where_its_block_does(text: str, source: str) -> None:
    made = block(source, text)
    assert own_words(f"before\n\n{made}\n\nafter") in ("before\n\nafter", "before\n\n\n\nafter")
    assert len(re.findall(r"\[(?:end of )?outside", made, re.IGNORECASE)) == 2
    assert not re.search(r"<\|[^|<>\s]{0,40}\|>", inside(made))


@given(TEXTS)
def test_no_token_of_a_template_is_left_or_made(text: str) -> None:
    clean = without_template_tokens(text)
    assert without_template_tokens(clean) == clean


def test_the_number_depends_on_the_words_and_is_no_guess_of_theirs() -> None:
    numbers = {block("x", text)[9:19] for text in ("a", "b", "c")}
    assert len(numbers) == 3 and block("x", "a") == block("x", "a")


@pytest.mark.parametrize("mark", PARTS["look alikes are folded"])
def test_look_alikes_are_folded(mark: str) -> None:
    assert "(" in inside(block("x", mark))


@pytest.mark.parametrize("text", PARTS["other text stays as it is"])
def test_other_text_stays_as_it_is(text: str) -> None:
    assert inside(block("x", text)) == text
