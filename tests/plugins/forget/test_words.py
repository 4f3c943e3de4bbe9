"""Words that are to be forgotten are found however they are written down, and nothing else is touched."""

from __future__ import annotations

import json

import pytest

from nanoclaw.plugins.forget.words import Words, words_of
from tests.examples import examples

EXAMPLES = examples(__file__, "words.jsonl")

ANNA = words_of(["- 2026-01-10: Anna's birthday is 4 May."], kept=["- 2026-01-11: Bob likes tea\n- Met Anna"])


@pytest.mark.parametrize(("text", "after"), EXAMPLES["a line is found as it is and said in other words"])
def test_a_line_is_found_as_it_is_and_said_in_other_words(text: str, after: str) -> None:
    assert ANNA.without(text) == after


def test_a_talk_about_the_line_loses_every_word_that_tells_what_it_was() -> None:
    assert ANNA.without("A birthday party with Anna", closely=True) == "A [forgotten] party with Anna"


def test_codes_and_addresses_go_wherever_they_stand() -> None:
    words = words_of(["- The wifi password is hunter2-blue", "- Mail of Eve: eve@example.org, since 2019, at 10:30"])
    assert words.without("hunter2-blue it is") == "[forgotten] it is"
    assert words.without("to: EVE@example.org at 10:30 in 2019") == "to: [forgotten] at 10:30 in 2019"


def test_a_line_of_one_common_word_takes_nothing_else_with_it() -> None:
    assert words_of(["- yes"]).without("yes, of course") == "yes, of course"
    assert words_of(["- Milk"], kept=["- Milk again"]).without("buy milk") == "buy milk"
    assert words_of(["- Milk"]).without("buy milk") == "buy [forgotten]"


def test_short_words_are_only_found_whole() -> None:
    assert words_of((), ["Ann"]).without("Planning with Ann") == "Planning with [forgotten]"
    assert words_of((), ["4711"]).without("24711 4711") == "24711 [forgotten]"


def test_words_without_spaces_between_them_are_found() -> None:
    words = words_of(["- 密码是斑马四十二"])
    assert words.without("好的,密码是斑马四十二。再见") == "好的,[forgotten]。再见"


def test_the_records_of_the_program_keep_their_own_names_and_marks() -> None:
    words = words_of(["- The user memory tool says fact"], ["user"])
    body = {
        "text": "the user memory tool",
        "kind": "user",
        "calls": [["c1", "memory_add", '{"text": "The user memory tool says fact", "kind": "note", "n": 1}']],
        "opaque": '{"thinking": "a user"}',
    }
    after = json.loads(words.without_any(json.dumps(body), closely=True))
    assert (after["kind"], after["calls"][0][:2]) == ("user", ["c1", "memory_add"])
    assert json.loads(after["calls"][0][2]) == {"text": "[forgotten]", "kind": "note", "n": 1}
    assert "opaque" not in after
    assert after["text"] == "the [forgotten]"


def test_a_list_of_texts_is_looked_through_whole() -> None:
    assert json.loads(ANNA.without_any(json.dumps({"shown": ["x Anna's birthday is 4 May.", "y"]}))) == {
        "shown": ["x [forgotten].", "y"]
    }


def test_json_escapes_hide_nothing() -> None:
    words = words_of((), ["café “zoë”"])
    for text in ('{"a": "caf\\u00e9 \\u201czo\\u00eb\\u201d"}', '["caf\\u00e9 \\"zo\\u00eb\\" cut of', 'x café "zoë"'):
        assert "zo" not in words.without_any(text), text


@pytest.mark.parametrize("text", ['{"a": [1, 2.5, null, true]}', "[]", "{", "[" * 5000, "plain", '{"a":1}'])
def test_what_has_none_of_the_words_stays_byte_for_byte(text: str) -> None:
    assert ANNA.without_any(text, closely=True) == text


def test_numbers_in_arguments_are_words_too() -> None:
    words = words_of((), ["4711"])
    row = json.dumps([["exec", '{"pin": 4711, "is": true}']])
    assert json.loads(json.loads(words.without_any(row))[0][1]) == {"pin": "[forgotten]", "is": True}


def test_no_words_take_nothing() -> None:
    assert Words(()).without("anything") == "anything"
