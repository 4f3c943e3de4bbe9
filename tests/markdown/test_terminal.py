import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanoclaw.markdown.terminal import to_terminal
from tests.channels.chatter import ANSWER

SGR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("width", [1, 7, 20, 33, 80, 200])
@pytest.mark.parametrize("colour", [True, False])
def test_no_word_is_lost_at_any_width(width: int, colour: bool) -> None:
    shown = SGR.sub("", to_terminal(ANSWER, width, colour))
    letters = re.sub(r"\W", "", shown)
    for word in re.findall(r"\w+", ANSWER.replace("1.", "").replace("2.", "")):
        if word != "python":  # the language of the code, which is not shown
            assert word in letters or width < 40, word
    assert sorted(set(letters)) == sorted(set(re.sub(r"\W", "", ANSWER)))


def test_without_colour_there_is_no_escape_code() -> None:
    assert "\x1b" not in to_terminal(ANSWER, 80, False)


@pytest.mark.parametrize(
    "text", ["a\x1b[2Jb", "a&#27;[2Jb", "a&#155;b", "`\x1b]0;x\x07`", "[x](http://a/\x1b[2J)", "```\n\x1b[2J"]
)
def test_control_bytes_do_not_pass_in_any_guise(text: str) -> None:
    shown = SGR.sub("", to_terminal(text, 80, True))
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown)


def test_html_is_text_and_a_link_shows_where_it_goes() -> None:
    assert to_terminal("<b>x</b> </kbd> [here](http://real/)", 80, False) == "<b>x</b> </kbd> here (http://real/)"
    assert to_terminal("<div>\nx\n</div>", 80, False) == "<div>\nx\n</div>"
    assert to_terminal("![a pic](http://real/p.png)", 80, False) == "[a pic] (http://real/p.png)"


def test_a_line_break_is_kept() -> None:
    assert to_terminal("/help  what I can do\n/stop  stop", 80, False) == "/help  what I can do\n/stop  stop"


def test_code_copies_clean_and_long_lines_stay_whole() -> None:
    assert to_terminal("```sh\necho " + "x" * 100 + "\n\n  ls\n```", 40, False) == "  echo " + "x" * 100 + "\n\n    ls"


def test_deep_nesting_does_not_raise() -> None:
    text = "".join("  " * depth + f"- w{depth}\n" for depth in range(60))
    for width in (1, 20, 80):
        assert "w59" in to_terminal(text, width, True).replace("\n", "")
    to_terminal("[" * 5000, 80, True)
    to_terminal("> " * 500 + "x", 80, True)


@settings(max_examples=60)
@given(st.text(alphabet="ab \n*_`#|-1.>[]()!<&;~\x1b\t\\", max_size=200), st.integers(1, 90))
def test_any_text_is_rendered(text: str, width: int) -> None:
    assert "\x1b" not in to_terminal(text, width, False)
