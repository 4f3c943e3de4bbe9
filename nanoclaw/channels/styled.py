"""Markdown in the marks that several chat apps show: *bold*, _italic_, ~struck~, `code`, fences, `> ` quotations."""

from __future__ import annotations

from itertools import accumulate

from nanoclaw.markdown.text import to_telegram

_MARKS = {"bold": "*", "italic": "_", "strikethrough": "~", "code": "`"}


def styled(markdown: str) -> str:
    """The text with those marks; the address of a link stands behind its words."""
    text, entities = to_telegram(markdown)
    units = text.encode("utf-16-le")
    marks: list[tuple[int, bool, int, str]] = []  # where, whether it begins something, which goes first, and the mark
    for number, one in enumerate(entities):
        start, end = one["offset"], one["offset"] + one["length"]
        inner = units[2 * start : 2 * end].decode("utf-16-le")
        before = after = _MARKS.get(one["type"], "")
        if one["type"] == "pre":
            before, after = "```\n", "\n```"
        elif one["type"] == "text_link" and one["url"].removeprefix("mailto:") != inner:
            after = f" ({one['url']})"
        elif one["type"] == "blockquote":
            lines = accumulate((len(line.encode("utf-16-le")) // 2 for line in inner.splitlines(True)), initial=start)
            marks += [(line, True, -1, "> ") for line in lines if line < end]
        marks += [(start, True, number, before), (end, False, -number, after)]
    shown, at = "", 0
    for where, _, _, mark in sorted(marks):
        shown += units[2 * at : 2 * where].decode("utf-16-le") + mark
        at = where
    return shown + units[2 * at :].decode("utf-16-le")
