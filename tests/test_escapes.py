"""No control byte from outside reaches a terminal besides newline and tab."""

import pytest

from nanoclaw.escapes import BLANKS, plain, revealed, visible
from tests.examples import examples

TEXTS = examples(__file__, "escapes.jsonl")


@pytest.mark.parametrize(("text", "cleaned"), TEXTS["sequences and controls are taken out"])
def test_sequences_and_controls_are_taken_out(text: str, cleaned: str) -> None:
    assert plain(text) == cleaned


def test_a_file_shows_its_controls_as_pictures() -> None:
    assert visible("a\x1b[31m\x00\x7f\x9b\ud800\tb\n") == "a␛[31m␀␡\ufffd\ufffd\tb\n"


def test_no_control_survives_any_character() -> None:
    for clean in (plain, visible):
        result = clean("".join(map(chr, range(0x2500))) + "\x1b" * 5000)
        assert not [c for c in result if c not in "\n\t" and (ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0)]


def test_blanks_are_all_that_is_taken_out_or_named_and_nothing_that_is_seen() -> None:
    every = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    unseen = [one for one in every if one.isspace() or not plain(one) or revealed(f"a{one}b").startswith("a⟨U+")]
    assert [hex(ord(one)) for one in unseen if one not in BLANKS] == []
    assert [hex(ord(one)) for one in BLANKS if one.isprintable() and one not in unseen] == []
    assert all(text.strip(BLANKS) for text in ("❤️", "\u0301", "한", "⠁", "1️⃣", "👨‍👩‍👧", "ก็", "᠎ᠠ"))
