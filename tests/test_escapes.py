"""No control byte from outside reaches a terminal besides newline and tab."""

import pytest

from nanoclaw.escapes import plain, visible


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a\tb\n", "a\tb\n"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;YWJj\x07", ""),
        ("\x9b31mred", "red"),
        ("\x1bPdata\x1b\\after", "after"),
        ("a\x00\x07\x08\x7f\x85b", "ab"),
        ("line\r\nnext\r", "line\nnext"),
        ("\x1b", ""),
        ("half \ud800", "half \ufffd"),
        ("naïve 漢字 🎈 עברית", "naïve 漢字 🎈 עברית"),
    ],
)
def test_sequences_and_controls_are_taken_out(text: str, cleaned: str) -> None:
    assert plain(text) == cleaned


def test_a_file_shows_its_controls_as_pictures() -> None:
    assert visible("a\x1b[31m\x00\x7f\x9b\ud800\tb\n") == "a␛[31m␀␡\ufffd\ufffd\tb\n"


def test_no_control_survives_any_character() -> None:
    for clean in (plain, visible):
        result = clean("".join(map(chr, range(0x2500))) + "\x1b" * 5000)
        assert not [c for c in result if c not in "\n\t" and (ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0)]
