"""Markdown as lines for a terminal: nothing is lost at any width, and no control byte passes."""

from __future__ import annotations

import io
import re
from typing import ClassVar

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, HorizontalRule, Markdown, MarkdownElement, TableElement
from rich.rule import Rule
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from nanoclaw.escapes import printable
from nanoclaw.markdown.parse import make_parser, tokens

_INDENT = 2  # of code
_CELL = 6  # columns of the screen a table column needs to be readable
_HIGHLIGHTED_CHARACTERS = 20_000
_THEME = Theme({"markdown.code": "bold cyan", "markdown.h1": "bold underline", "markdown.h2": "bold"})


def to_terminal(text: str, width: int, colour: bool) -> str:
    """Lines joined by newlines, without one at the end; SGR codes are in it only with `colour`."""
    text = printable(text).strip("\n")
    try:
        return _draw(_Answer(text, max(width, 4)), width, colour)
    except Exception:  # a parser's or renderer's fault must not cost the person the words
        return text


def _draw(renderable: RenderableType, width: int, colour: bool) -> str:
    console = Console(
        file=io.StringIO(),
        width=max(width, 4),
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        highlight=False,
        emoji=False,
        legacy_windows=False,
        theme=_THEME,
    )
    with console.capture() as capture:
        console.print(_Clean(renderable), crop=False)
    lines = [line.rstrip() for line in capture.get().split("\n")]
    return "\n".join(lines).strip("\n")


class _Clean:
    """Drops control bytes that only a parser brings to light: `&#27;` is an escape."""

    def __init__(self, inner: RenderableType) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._inner, options):
            if not segment.control:
                yield Segment(printable(segment.text), segment.style)


class _Heading(Heading):
    LEVEL_ALIGN: ClassVar = dict.fromkeys(Heading.LEVEL_ALIGN, "left")


class _Code(CodeBlock):
    """Indented and without a background, so that it copies clean; at the top level a long line stays one line."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        text = Text(code)
        if len(code) <= _HIGHLIGHTED_CHARACTERS and console.color_system:
            text = Syntax(
                code, self.lexer_name, theme="ansi_dark", background_color="default", word_wrap=True
            ).highlight(code)
            text.rstrip()
        whole = options.max_width == console.width
        for line in text.split("\n", allow_blank=True):
            pieces = [line] if whole else line.wrap(console, max(1, options.max_width - _INDENT), overflow="fold")
            for piece in pieces:
                yield Segment(" " * _INDENT)
                yield from (segment for segment in piece.render(console, end="\n"))


class _Rule(HorizontalRule):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Rule(style=console.get_style("markdown.hr", default="none"), characters="─")


class _Table(TableElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        heads = [cell.content for cell in self.header.row.cells] if self.header and self.header.row else []
        rows = [[cell.content for cell in row.cells] for row in self.body.rows] if self.body else []
        if len(heads) * _CELL > options.max_width:
            yield from _listed(heads, rows)
            return
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, style="markdown.table.border")
        for head in heads:
            table.add_column(head, header_style="bold", overflow="fold", justify=head.justify or "left")
        for row in rows:
            table.add_row(*row)
        yield table


def _listed(heads: list[Text], rows: list[list[Text]]) -> RenderResult:
    """A table for a narrow screen: each row as lines of `head: cell`."""
    for number, row in enumerate(rows or [[Text()] * len(heads)]):
        if number:
            yield Text("")
        for head, cell in zip(heads, row, strict=False):
            yield Text.assemble((head.plain, "bold"), ": ", cell, overflow="fold")


class _Answer(Markdown):
    """A line break of the model is a line break, HTML is text, and a link shows where it goes."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
        "hr": _Rule,
        "table_open": _Table,
    }

    def __init__(self, markup: str, width: int) -> None:
        super().__init__("", hyperlinks=False)
        # two columns a level; what is deeper has no columns left
        self.parsed = tokens(make_parser(all_links=True), markup, deepest=width // 2)
        for token in self.parsed:
            for child in token.children or ():
                if child.type == "softbreak":
                    child.type = "hardbreak"
                elif child.type == "image":
                    child.type, child.tag, child.children = "text", "", None
                    child.content = re.sub(r"\s+", " ", f"[{child.content}] ({child.attrs.get('src', '')})")
