"""Passages of a file, each with its place in it: a heading of Markdown, a line of a text, a page of a PDF."""

from __future__ import annotations

import re
from collections.abc import Iterator

LONGEST, LINE = 1_500, 2_000
"""Characters of a passage, but for a single line that has more; and of a line that are kept."""

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t#]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


def of_text(text: str, *, is_markdown: bool) -> Iterator[tuple[str, str]]:
    """Place and text of each passage: "#Heading" below a heading of Markdown, with ":LINE" where it goes on, else
    ":LINE" with the number of its first line."""
    heading, lines, first, fence = "", list[str](), 1, ""
    is_begun = False  # something of this heading was given before

    def passage() -> Iterator[tuple[str, str]]:
        nonlocal is_begun
        if said := "\n".join(lines).strip():
            where = f"#{heading}" if heading else ""
            yield where + (f":{first}" if is_begun or not heading else ""), said
            is_begun = True

    for number, line in enumerate(text.splitlines(), 1):
        found = _HEADING.match(line) if is_markdown and not fence else None
        if is_markdown and (marks := _FENCE.match(line)):
            if not fence:
                fence = marks[1]
            elif marks[1].startswith(fence) and not line.strip(" `~"):
                fence = ""
        size = sum(map(len, lines)) + len(lines)
        if found or (not line.strip() and size > LONGEST // 2) or size + len(line) > LONGEST:
            yield from passage()
            lines, first = [], number
        if found:
            heading, is_begun = " ".join(found[2].split())[:100], False
        lines.append(line[:LINE])
    yield from passage()


def of_pages(pages: list[str]) -> Iterator[tuple[str, str]]:
    """The same of a PDF: " p. 3", each page in passages."""
    for number, page in enumerate(pages, 1):
        for _, text in of_text(page, is_markdown=False):
            yield f" p. {number}", text
