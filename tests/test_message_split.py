"""A long text in pieces: each fits, nothing is lost, and it is cut where it hurts least."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from wcwidth import iter_graphemes

from nanoclaw.message_split import Units, cut, pieces, size
from tests.examples import examples

PARTS = examples(__file__, "message_split.jsonl")

UNITS: tuple[Units, ...] = ("characters", "utf-16", "bytes")
FAMILY, FLAG, THUMB = "👨‍👩‍👧‍👦", "🇩🇪", "👍🏽"

SIGNS = ("你好。", FAMILY, FLAG, THUMB, "e\u0301", "한", "\u1112\u1161\u11ab", "क्षि", "\ud83d", "\x00", "x" * 40)
WORDS = st.sampled_from([*PARTS["words"], *SIGNS])
TEXTS = st.lists(WORDS | st.text(max_size=5), max_size=60).map("".join)


def assert_cut_well(text: str, limit: int, units: Units) -> list[str]:
    """Whatever the text: nothing is lost or added but lines of fences, and each piece fits."""
    made = list(cut(text, limit, units))
    assert "".join(piece.body for piece in made) == text
    for piece in made:
        assert piece.body
        assert size(piece.text, units) <= limit or len(piece.body) == 1, (limit, units, piece)
        if piece.opening:
            assert re.fullmatch(r"[ \t>]*(`{3,}|~{3,}).*\n[ \t>]*", piece.opening), piece
        if piece.closing:
            assert re.fullmatch(r"\n?[ \t>]*(`{3,}|~{3,})", piece.closing), piece
    return [piece.text for piece in made]


@given(TEXTS, st.integers(1, 200), st.sampled_from(UNITS))
@example("```py\n" + "x = 1\n" * 40 + "```\n", 50, "utf-16")
@example("> ```py\n" + "> x = 1\n" * 40 + "> ```\n", 60, "characters")
@example("\n" * 500, 30, "bytes")
@example(FAMILY * 20, 1, "utf-16")
def test_every_piece_fits_and_together_they_are_the_text(text: str, limit: int, units: Units) -> None:
    assert assert_cut_well(text, limit, units) == pieces(text, limit, units)


@given(TEXTS, st.sampled_from(UNITS))
def test_a_text_that_fits_stays_as_it_is(text: str, units: Units) -> None:
    assert pieces(text, max(1, size(text, units)), units) == ([text] if text else [])
    assert pieces(text, 0, units) == ([text] if text else [])


@given(st.lists(st.sampled_from([FAMILY, FLAG, THUMB, "e\u0301\u0323", "\u1112\u1161\u11ab", "क्षि", "각", "a", "✊"])))
def test_no_sign_that_a_person_sees_as_one_is_cut_in_two(signs: list[str]) -> None:
    text = "".join(signs)
    limit = 30  # more bytes than any of them but the family has
    whole = {0}
    for sign in iter_graphemes(text):
        whole.add(max(whole) + len(sign))
    at = 0
    for piece in cut(text, limit, "bytes"):
        at += len(piece.body)
        assert at in whole, (text, piece)


@given(st.lists(st.text("abc ", min_size=1, max_size=60).filter(str.strip), min_size=1), st.integers(61, 200))
def test_paragraphs_that_fit_stay_whole(paragraphs: list[str], limit: int) -> None:
    text = "\n\n".join(paragraphs)
    made = assert_cut_well(text, limit, "characters")
    if all(len(piece.strip("\n")) > limit // 4 for piece in made[:-1]):
        assert [one for piece in made for one in piece.strip("\n").split("\n\n")] == paragraphs


def fences(text: str) -> list[tuple[str, str]]:
    """Every fence of code as (info, content)."""
    parser = MarkdownIt("commonmark")
    return [(token.info.strip(), token.content) for token in parser.parse(text) if token.type == "fence"]


@pytest.mark.parametrize(("before", "opening", "line", "closing"), PARTS["code is whole in each piece"])
def test_code_is_whole_in_each_piece(before: str, opening: str, line: str, closing: str) -> None:
    text = f"Look:\n\n{before}{opening}\n{line * 60}{closing}\n\nThat was it.\n"
    ((info, content),) = fences(text)
    made = assert_cut_well(text, 150, "characters")
    assert len(made) >= 3
    found = [fence for piece in made for fence in fences(piece)]
    assert {one for one, _ in found} == {info}
    assert "".join(code for _, code in found) == content
    assert made[-1].endswith("That was it.\n")


def test_a_long_line_of_code_is_cut_within_the_fence() -> None:
    text = "```\n" + "x" * 1000 + "\n```"
    made = assert_cut_well(text, 100, "characters")
    assert all(piece.startswith("```\n") and piece.endswith("\n```") for piece in made)


def test_a_fence_that_fits_is_not_begun_at_the_end_of_a_piece() -> None:
    code = "```py\n" + "x = 1\n" * 20 + "```\n"
    assert pieces("word " * 20 + "\n" + code + "word " * 20, 150) == ["word " * 20 + "\n", code, "word " * 20]


@pytest.mark.parametrize("whole", PARTS["code and links within a line stay whole where they can"])
def test_code_and_links_within_a_line_stay_whole_where_they_can(whole: str) -> None:
    for shift in range(40):
        made = assert_cut_well("word " * 8 + "x" * shift + " " + whole + " word" * 20, 60, "characters")
        assert sum(whole in piece for piece in made) == 1, (shift, made)


def test_a_line_is_cut_at_sentences_or_words() -> None:
    assert pieces("One two three. Four five six. Seven eight.", 34) == [
        "One two three. Four five six. ",
        "Seven eight.",
    ]
    assert pieces("one two three four five", 10) == ["one two ", "three four", " five"]
    assert pieces("你好世界。再见世界。", 7) == ["你好世界。", "再见世界。"]


def test_20_000_characters_of_an_answer_go_out_in_full_pieces() -> None:
    paragraph = "The **quick** brown fox jumps over `the lazy dog`, see [the page](https://example.org/fox). " * 5
    text = (f"## Chapter\n\n{paragraph}\n\n- one\n- two\n\n```py\nprint(1)\n```\n\n" * 50)[:20_000]
    made = assert_cut_well(text, 4096, "utf-16")
    assert 5 <= len(made) <= 6
    assert all(piece.count("```") % 2 == 0 for piece in made)


@pytest.mark.parametrize("sign", [FAMILY, FLAG, THUMB, "😀", "e\u0301"])
@pytest.mark.parametrize("units", UNITS)
def test_only_emoji(sign: str, units: Units) -> None:
    for piece in assert_cut_well(sign * 4000, 4096, units):
        assert piece == sign * (len(piece) // len(sign))


def test_right_to_left_text_is_cut_between_words() -> None:
    text = "שלום עולם, זה משפט ארוך. " * 400
    made = assert_cut_well(text, 4096, "bytes")
    assert all(piece.endswith(" ") for piece in made)


def test_a_line_of_9_000_characters_and_one_of_9_000_signs_without_a_space() -> None:
    assert [len(piece) for piece in assert_cut_well("word " * 1800, 4096, "characters")] == [4095, 4095, 810]
    assert [len(piece) for piece in assert_cut_well("x" * 9000, 4096, "characters")] == [4096, 4096, 808]


def test_only_newlines() -> None:
    assert assert_cut_well("\n" * 9000, 4096, "utf-16") == ["\n" * 4096, "\n" * 4096, "\n" * 808]


@pytest.mark.parametrize(
    ("text", "limit", "units", "made"),
    [
        ("abc", 1, "characters", ["a", "b", "c"]),
        ("a😀b", 1, "utf-16", ["a", "😀", "b"]),
        ("aüb", 1, "bytes", ["a", "ü", "b"]),
        ("```\nx\n```", 3, "characters", ["```", "\nx\n", "```"]),
        (FLAG + FLAG, 5, "utf-16", [FLAG, FLAG]),
    ],
)
def test_limits_down_to_one(text: str, limit: int, units: Units, made: list[str]) -> None:
    assert pieces(text, limit, units) == made


@pytest.mark.parametrize(
    "part",
    [
        *("word ", "x", "\n", "ab\n", FAMILY, "`", "` ", "[", "[a](", "*a", "_a ", "> ```\n", "```\nx\n", "~~~\n"),
        "\u0301",
        *("- ", "**a", "a. ", "<http://", "\r\n", "\t", "![a](b(c", "한", "- ```\n"),
    ],
)
def test_a_long_text_of_anything_takes_time_in_proportion(part: str) -> None:
    """Trying from each place anew would take hours."""
    assert_cut_well((part * (200_000 // len(part)))[:200_000], 4096, "utf-16")
