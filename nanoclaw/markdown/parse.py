"""The one Markdown parser: CommonMark with tables and strikethrough, without HTML."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

SCHEMES = ("http://", "https://", "mailto:", "matrix:")
"""Links to anything else are shown as they are written."""

_NESTING = 60
_DEEPEST = _NESTING - 4  # what is nested deeper is lost by the parser


class TooDeep(ValueError):
    """The source is nested deeper than the parser reads: show it as it is."""


def normalized(text: str) -> str:
    """Text with \\n between lines and U+FFFD for halves of characters, which cannot be sent."""
    return text.encode("utf-8", "replace").decode().replace("\r\n", "\n").replace("\r", "\n")


def make_parser(source: str = "", *, all_links: bool = False) -> MarkdownIt:
    """A parser for this text. A line break is kept; a text that begins with an indented line is the rest of a list, not
    code. It is shared."""
    return _parser(bool(re.match(r"(?:[ \t]*\n)*(?: {4}|\t)", source)), all_links)


@cache
def _parser(is_rest: bool, all_links: bool) -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "breaks": True, "maxNesting": _NESTING})
    parser.enable(["strikethrough", "table"]).disable("reference")
    parser.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})
    if is_rest:
        parser.disable("code")
    if not all_links:
        parser.validateLink = _is_allowed  # type: ignore[method-assign]
    parser.parse("*")  # its rules are put in order once, before threads share it
    return parser


def tokens(parser: MarkdownIt, source: str, deepest: int = _DEEPEST) -> list[Any]:
    """Raises TooDeep, and whatever a fault of the parser raises."""
    found = parser.parse(source)
    inner = (child.level for token in found for child in token.children or ())
    if max((*(token.level for token in found), *inner), default=0) > min(deepest, _DEEPEST):
        raise TooDeep
    return found


def language(info: str) -> str:
    """The first word of a fence's info, if it looks like the name of a language."""
    word = info.strip().split(maxsplit=1)[0] if info.strip() else ""
    return word if re.fullmatch(r"[\w+#.-]{1,32}", word) else ""


def _table(state: Any, start: int, end: int, silent: bool) -> bool:
    """The parser's own rule, and cells of a row that the table has no column for continue in its last one."""
    from markdown_it.rules_block import table
    from markdown_it.rules_block.table import escapedSplit, getLine

    first = len(state.tokens)
    if not table(state, start, end, silent):
        return False
    cells: dict[int, list[Any]] = {}
    for token in state.tokens[first:]:
        if token.type == "inline":
            cells.setdefault(token.map[0], []).append(token)
    for line, row in cells.items():
        said = [cell.strip() for cell in escapedSplit(getLine(state, line).strip())]
        surplus = said[len(row) + (said[0] == "") :]
        row[-1].content = " ".join([row[-1].content, *surplus]).strip()
    return True


def _is_allowed(url: str) -> bool:
    return url.strip().lower().startswith(SCHEMES)
