"""Markdown as platforms show it: nothing is lost, nothing is unsafe, nothing is longer than its source."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nanoclaw.markdown.html import to_html
from nanoclaw.markdown.parse import SCHEMES
from nanoclaw.markdown.text import to_plain, to_telegram
from nanoclaw.message_split import pieces, size

_PARTS = (
    *("word ", "\n", "\n\n", "# ", "- ", "  - ", "1. ", "> ", "```py\n", "```\n", "~~~\n", "    ", "---\n", "\t"),
    *("**", "*", "_", "~~", "`", "``", "[", "](http://x.y/z)", "](javascript:alert(1))", "![", "](./a.png)", "\\"),
    *("| a | b |\n|---|---|\n| 1 | 2 |\n", "<b>", "</script>", "&amp;", "&#27;", "&nGt;", "<http://x.y>", "||"),
    *("😀", "👨‍👩‍👧", "e\u0301", "שלום", "你好", "\ud83d", "\x00", "\r\n", "[a]: http://x.y\n", "mailto:a@b.c"),
)
PARTS = st.sampled_from(_PARTS)
TEXTS = st.lists(PARTS | st.text(max_size=5), max_size=40).map("".join)

WORD = "eins|zwei|drei"
EMPHASIS = {"bold", "italic", "strikethrough"}


def covered(text: str, entity: dict[str, Any]) -> str:
    """The text of an entity; fails where it cuts a character in two."""
    units = text.encode("utf-16-le")
    return units[2 * entity["offset"] : 2 * (entity["offset"] + entity["length"])].decode("utf-16-le")


def assert_legal(text: str, entities: list[dict[str, Any]]) -> None:
    spans = [(one["offset"], one["offset"] + one["length"], one["type"]) for one in entities]
    assert len({repr(one) for one in entities}) == len(entities)
    for one in entities:
        shown = covered(text, one)
        assert shown.strip()
        assert shown == (shown.rstrip() if one["type"] == "pre" else shown.strip())
        assert one["type"] != "text_link" or one["url"].lower().startswith(SCHEMES)
    for first, last, kind in spans:
        for start, end, other in spans:
            if (start, end, other) == (first, last, kind) or end <= first or last <= start:
                continue
            if "blockquote" in (kind, other):
                assert kind != other
                outer = (first, last) if kind == "blockquote" else (start, end)
                inner = (start, end) if kind == "blockquote" else (first, last)
                assert outer[0] <= inner[0] and inner[1] <= outer[1]
                continue
            assert kind in EMPHASIS or other in EMPHASIS, (kind, other)
            assert not {kind, other} & {"code", "pre"}, (kind, other)
            assert kind != other
            assert (start <= first and last <= end) or (first <= start and end <= last)


class Tags(HTMLParser):
    """Fails for a tag or attribute that Matrix does not allow, and for tags that are not closed in order."""

    ALLOWED = frozenset(
        [
            *("h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "p", "a", "ul", "ol", "li", "strong", "em", "s"),
            *("code", "hr", "br", "pre", "table", "thead", "tbody", "tr", "th", "td"),
        ]
    )

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in self.ALLOWED, tag
        for name, value in attrs:
            assert (tag, name) in {("a", "href"), ("ol", "start"), ("code", "class")}, (tag, name)
            assert name != "href" or (value or "").lower().startswith(SCHEMES), value
            assert name != "class" or (value or "").startswith("language-")
        if tag not in ("br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("br", "hr"):
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)


def safe(text: str) -> Tags:
    read = Tags()
    read.feed(to_html(text))
    read.close()
    assert read.open == []
    return read


@given(TEXTS)
@example("```\n```")
@example("- - - - a")
@example("> \n**")
@example("[word <http://x.y>](http://x.y/z)")
@example("[<http://x.y>](http://x.y/z)")
@example(">" * 300 + " deep")
@example("> > a\n- b\n\n  > c")
@example("**[a `b` c](http://x.y)**")
def test_any_text_is_rendered_and_never_longer_than_it_was(text: str) -> None:
    shown, entities = to_telegram(text)
    assert_legal(shown, entities)
    source = text.encode("utf-8", "replace").decode()
    assert size(shown, "utf-16") <= size(source, "utf-16")
    assert len(to_plain(text)) <= len(source)
    safe(text)


@given(st.lists(st.sampled_from(["eins ", "zwei\n", "drei\n\n", *_PARTS]), max_size=40).map("".join))
def test_every_word_is_kept(text: str) -> None:
    told = [word for line in text.splitlines() if not re.search("[`~]{3}", line) for word in re.findall(WORD, line)]
    for shown in (to_telegram(text)[0], to_plain(text), safe(text).words):
        assert len(re.findall(WORD, shown)) >= len(told), shown


def test_telegram_shows_what_the_model_wrote() -> None:
    text = """# Plan **A**

Do *this*, ~~not that~~ and **all of `it`**, see [the 😀 page](https://x.y/z) ![a map](https://x.y/m.png).

> said **she**

- one
  - two
3. three
"""
    shown, entities = to_telegram(text)
    assert shown == (
        "Plan A\n\nDo this, not that and all of it, see the 😀 page a map.\n\nsaid she\n\n• one\n  • two\n3. three"
    )
    assert [(one["type"], covered(shown, one), one.get("url", "")) for one in entities] == [
        ("bold", "Plan A", ""),
        ("italic", "this", ""),
        ("strikethrough", "not that", ""),
        ("bold", "all of", ""),
        ("code", "it", ""),
        ("text_link", "the 😀 page", "https://x.y/z"),
        ("text_link", "a map", "https://x.y/m.png"),
        ("blockquote", "said she", ""),
        ("bold", "she", ""),
    ]


def test_code_keeps_its_language_and_its_indentation() -> None:
    shown, entities = to_telegram("Run:\n```python title=x\n  if a:\n      b()\n\n```\nDone.")
    assert shown == "Run:\n  if a:\n      b()\nDone."
    assert entities == [{"type": "pre", "offset": 5, "length": 17, "language": "python"}]


def test_cells_that_a_table_has_no_column_for_go_on_in_its_last_one() -> None:
    text = "| a | b |\n|---|---|\n| 1 | 2 | **three** | 4 \\| 5 |\n| 1 |"
    assert to_telegram(text)[0] == "a | b\n--+--------------\n1 | 2 three 4 | 5\n1 |"
    assert "<td>2 <strong>three</strong> 4 | 5</td>" in to_html("\n".join(f"> {line}" for line in text.split("\n")))


def test_a_table_is_aligned_where_there_is_room_and_else_as_it_was_written() -> None:
    roomy = "|  name   |  age  |\n|---------|-------|\n| Ann | 7 |\n| 你好   |  12    |"
    shown, entities = to_telegram(roomy)
    assert shown == "name | age\n-----+----\nAnn  | 7\n你好 | 12"
    assert [one["type"] for one in entities] == ["pre"]
    tight = "|a|b|\n|-|-|\n|a long cell|2|\n|3|4|\n|5|6|"
    assert to_telegram(tight) == (tight, [{"type": "pre", "offset": 0, "length": len(tight)}])


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "./notes.md", "tg://x"]
)
def test_a_link_to_elsewhere_is_shown_as_it_is_written(url: str) -> None:
    text = f"see [this]({url})"
    assert to_telegram(text) == (text, [])
    assert "<a" not in to_html(text)
    assert to_plain(text) == text


def test_html_in_a_text_is_text() -> None:
    text = '<img src=x onerror="alert(1)"> a < b & c <!-- no -->'
    assert to_telegram(text) == (text, [])
    assert to_plain(text) == text
    assert safe(text).words.strip() == text


def test_plain_text_says_where_links_go() -> None:
    text = "## News\n**Read** [it](https://x.y) or <https://x.y/z> or [me@x.y](mailto:me@x.y):\n> - `a`\n> - b\n"
    assert to_plain(text) == "News\nRead it (https://x.y) or https://x.y/z or me@x.y:\n> • a\n> • b"


def test_html_for_matrix_and_mail() -> None:
    text = 'a\nb ![pic](https://x.y/"p.png)\n\n3. c\n\n```py x\nd < e\n```\n'
    assert to_html(text) == (
        '<p>a<br />\nb <a href="https://x.y/%22p.png">pic</a></p>\n<ol start="3">\n<li>c</li>\n</ol>\n'
        '<pre><code class="language-py">d &lt; e\n</code></pre>'
    )


def test_what_was_cut_out_of_a_list_is_no_code() -> None:
    text = "- a\n  - b\n\n    ```sh\n" + "    ls\n" * 40 + "    ```\n\n    more **words**\n"
    for piece in pieces(text, 120)[1:]:
        shown, entities = to_telegram(piece)
        assert "```" not in shown
        assert [one["type"] for one in entities] in (["pre"], ["pre", "bold"], ["bold"])


def test_what_is_nested_too_deep_is_shown_as_it_is() -> None:
    text = ">" * 5000 + " x"
    assert to_telegram(text) == (text, [])
    assert to_plain(text) == text
    assert safe(text).words == text


def test_a_text_without_anything_to_show_is_shown_as_it_is() -> None:
    assert to_telegram("```\n```") == ("```\n```", [])
    assert to_telegram("") == ("", [])
    assert (to_plain(""), to_html("")) == ("", "")
