"""Tokens of silence: understood however they are dressed up, and no other word is ever lost."""

from itertools import product

import pytest

from nanoclaw.silence_token import spoken
from tests.examples import examples

TEXTS = examples(__file__, "silence_token.jsonl")


@pytest.mark.parametrize("text", TEXTS["silent"])
def test_a_token_alone_is_silence_however_it_is_dressed_up(text: str) -> None:
    assert spoken(text) == ""


@pytest.mark.parametrize(("text", "left"), TEXTS["speaking"])
def test_other_words_are_never_swallowed(text: str, left: str) -> None:
    assert spoken(text) == left


@pytest.mark.parametrize("text", TEXTS["untouched"])
def test_a_text_that_only_speaks_of_a_token_stays_as_it_is(text: str) -> None:
    assert spoken(text) == text


@pytest.mark.parametrize("words", ["Mum called.", "Rain: 80 %!", "- a\n- b", "x", "Zahl 7", "他来了。"])
def test_every_word_survives_at_either_edge(words: str) -> None:
    tokens, wraps = ("HEARTBEAT_OK", "NO_REPLY", "[SILENT]"), ("{}", "**{}**", '"{}"', "`{}`.", "({})", "\n{}\n")
    for token, wrap, form in product(tokens, wraps, ("{0} {1}", "{1} {0}", "{1}\n\n{0}\n\n{1}")):
        text = form.format(words, wrap.format(token))
        letters = [sign for sign in spoken(text).replace(token, "") if sign.isalnum()]
        assert letters == [sign for sign in words if sign.isalnum()], text
