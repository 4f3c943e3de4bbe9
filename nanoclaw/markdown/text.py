"""Markdown as text: with Telegram's message entities, or plain.

What is rendered is never longer than its source, so that a piece that fits a platform's limit still fits.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from nanoclaw.markdown.parse import language, make_parser, normalized, tokens

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode


def to_telegram(text: str) -> tuple[str, list[dict[str, Any]]]:
    """Plain text and its message entities, whose offsets count UTF-16 units. No entity begins or ends within a
    character or in white space; code stands in no other entity but a quote."""
    source = normalized(text)
    rendered = _rendered(source, is_plain=False)
    if rendered is None:
        return source, []
    shown = rendered.text.rstrip()
    skipped = len(shown) - len(shown.lstrip("\n"))
    shown = shown[skipped:]
    moved = [replace(one, start=max(0, one.start - skipped), end=one.end - skipped) for one in rendered.spans]
    return shown, _entities(shown, moved)


def to_plain(text: str) -> str:
    """Words without markup, for where none can be shown; the address of a link is behind its words."""
    source = normalized(text)
    rendered = _rendered(source, is_plain=True)
    return source if rendered is None else rendered.text.rstrip().lstrip("\n")


# --- text with spans -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Span:
    """A stretch of characters that is bold, code and so on; `value` is a link's address or a language."""

    kind: str
    start: int
    end: int
    value: str = ""


@dataclass(slots=True)
class _Out:
    """Text that grows, and its spans. If it `is_plain`, signs and addresses are written for them."""

    is_plain: bool
    lines: Sequence[str] = ()
    text: str = ""
    spans: list[_Span] = field(default_factory=list)

    @contextmanager
    def span(self, kind: str, value: str = "") -> Iterator[None]:
        """A span over everything that is added within the block."""
        start = len(self.text)
        yield
        if len(self.text) > start:
            self.spans.append(_Span(kind, start, len(self.text), value))

    def append(self, other: _Out) -> None:
        moved = len(self.text)
        self.spans += [replace(one, start=one.start + moved, end=one.end + moved) for one in other.spans]
        self.text += other.text


def _rendered(source: str, *, is_plain: bool) -> _Out | None:
    """None if only the source itself will do."""
    from markdown_it.tree import SyntaxTreeNode

    try:
        found = tokens(make_parser(source), source)
        lines, out = source.split("\n"), _Out(is_plain)
        for number, block in enumerate(SyntaxTreeNode(found).children):
            first, last = block.map or (0, 0)
            written = _Out(is_plain, lines)
            _block(written, block, 0)
            original = "\n".join(lines[first:last]).strip("\n")
            if _units(written.text) > _units(original) or not written.text.strip():
                written = _Out(is_plain, text=original)
                if block.type == "table" and original:
                    written.spans.append(_Span("pre", 0, len(original)))
            ends_bare = set(out.text.rpartition("\n")[2].strip()) == {">"}  # the line before stands there as it was
            out.text += ("\n" if ends_bare else _gap(lines, first)) if number else ""
            out.append(written)
    except Exception:  # a parser's fault must not cost the person the words
        return None
    return out if out.text.strip() else None


def _gap(lines: Sequence[str], first: int) -> str:
    """The line ends between a block that begins in line `first` and the one before."""
    return "\n\n" if first and not lines[first - 1].strip(" \t>") else "\n"


def _blocks(out: _Out, nodes: Sequence[SyntaxTreeNode], depth: int) -> None:
    for number, node in enumerate(nodes):
        if number:
            out.text += _gap(out.lines, node.map[0]) if node.map else "\n"
        _block(out, node, depth)


def _block(out: _Out, node: SyntaxTreeNode, depth: int) -> None:
    """`depth` counts the lists around it."""
    match node.type:
        case "heading":
            with out.span("bold"):
                _inlines(out, node.children)
        case "fence" | "code_block":
            with out.span("pre", language(node.info) if node.type == "fence" else ""):
                marks = [node.markup] * out.is_plain  # where nothing else shows what is code
                out.text += "\n".join(filter(None, [*marks, node.content.rstrip("\n"), *marks]))
        case "hr":
            out.text += "———"
        case "blockquote":
            _quote(out, node, depth)
        case "bullet_list" | "ordered_list":
            _list(out, node, depth)
        case "table":
            with out.span("pre"):
                out.text += _table(node)
        case "inline" | "paragraph":
            _inlines(out, node.children)
        case _:
            out.text += node.content


def _quote(out: _Out, node: SyntaxTreeNode, depth: int) -> None:
    if not out.is_plain:
        with out.span("blockquote"):
            _blocks(out, node.children, depth)
        return
    inner = _Out(out.is_plain, out.lines)
    _blocks(inner, node.children, depth)
    out.text += "\n".join(f"> {line}".rstrip() for line in inner.text.split("\n"))


def _list(out: _Out, node: SyntaxTreeNode, depth: int) -> None:
    number = int(str(node.attrs.get("start", 1)))
    for index, item in enumerate(node.children):
        if index:
            out.text += _gap(out.lines, item.map[0]) if item.map else "\n"
        marker = "•" if node.type == "bullet_list" else f"{number + index}{item.markup}"
        out.text += "  " * depth + marker + (" " if item.children else "")
        _blocks(out, item.children, depth + 1)


_EMPHASIS = {"strong": "bold", "em": "italic", "s": "strikethrough"}


def _inlines(out: _Out, nodes: Sequence[SyntaxTreeNode]) -> None:
    for node in nodes:
        match node.type:
            case "inline":
                _inlines(out, node.children)
            case "strong" | "em" | "s":
                with out.span(_EMPHASIS[node.type]):
                    _inlines(out, node.children)
            case "code_inline":
                with out.span("code"):
                    out.text += node.content
            case "link" | "image":
                _link(out, node)
            case "softbreak" | "hardbreak":
                out.text += "\n"
            case _:
                out.text += node.content


def _link(out: _Out, node: SyntaxTreeNode) -> None:
    is_image = node.type == "image"
    address = str(node.attrs.get("src" if is_image else "href", ""))
    start = len(out.text)
    with out.span("text_link", address):
        if is_image:
            out.text += node.content
        else:
            _inlines(out, node.children)
            inner = [one for one in out.spans if one.kind == "text_link" and one.start >= start]
            out.spans = [one for one in out.spans if one not in inner]  # platforms know no link within a link
        if len(out.text) == start:
            out.text += address
    if out.is_plain and out.text[start:] not in (address, address.removeprefix("mailto:")):
        out.text += f" ({address})"


def _table(node: SyntaxTreeNode) -> str:
    """Columns side by side."""
    rows = [[_cell(cell) for cell in row.children] for part in node.children for row in part.children]
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    lines = [
        " | ".join(cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)) for row in rows
    ]
    lines.insert(1, "-+-".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)


def _cell(node: SyntaxTreeNode) -> str:
    out = _Out(is_plain=True)
    _inlines(out, node.children)
    return " ".join(out.text.split())


def _width(text: str) -> int:
    """Columns of a screen."""
    wide = sum(unicodedata.east_asian_width(sign) in "WF" for sign in text)
    return len(text) + wide - sum(unicodedata.category(sign) in ("Mn", "Me", "Cf") for sign in text)


# --- entities --------------------------------------------------------------------------------------------------------


def _entities(text: str, spans: Sequence[_Span]) -> list[dict[str, Any]]:
    """Entities that may be next to and within each other: emphasis ends where code begins, and continues after it."""
    trimmed = (_trimmed(text, span) for span in _legal(spans))
    ordered = sorted((one for one in trimmed if one), key=lambda one: (one.start, -one.end, one.kind))
    astral = [at for at, sign in enumerate(text) if sign > "\uffff"]
    found = []
    for span in dict.fromkeys(ordered):
        start, end = (at + bisect_left(astral, at) for at in (span.start, span.end))
        entity: dict[str, Any] = {"type": span.kind, "offset": start, "length": end - start}
        if span.kind == "text_link":
            entity["url"] = span.value
        elif span.kind == "pre" and span.value:
            entity["language"] = span.value
        found.append(entity)
    return found


def _legal(spans: Sequence[_Span]) -> Iterator[_Span]:
    links = [span for span in spans if span.kind == "text_link"]
    cuts = [span for span in spans if span.kind in ("code", "pre") and not _is_within(span, links)]
    for span in spans:
        others = [one for one in spans if one.kind == span.kind and one != span]
        match span.kind:
            case "text_link" | "pre":
                yield span
            case "code":
                if not _is_within(span, links):  # a link is worth more than how it looks
                    yield span
            case "blockquote":
                if not _is_within(span, others):
                    yield span
            case _:
                if not _is_within(span, others):
                    yield from _without(span, cuts)


def _is_within(inner: _Span, spans: Sequence[_Span]) -> bool:
    return any(one.start <= inner.start and inner.end <= one.end for one in spans)


def _without(span: _Span, cuts: Sequence[_Span]) -> Iterator[_Span]:
    """Parts of a span that are left when pieces are cut out of it."""
    start = span.start
    for cut in sorted(cuts, key=lambda one: one.start):
        if cut.end <= start or cut.start >= span.end:
            continue
        if cut.start > start:
            yield replace(span, start=start, end=cut.start)
        start = cut.end
    if start < span.end:
        yield replace(span, start=start)


def _trimmed(text: str, span: _Span) -> _Span | None:
    """Take white space off its ends; code keeps what its first line is indented by."""
    start, end = span.start, min(span.end, len(text))
    while end > start and text[end - 1].isspace():
        end -= 1
    while start < end and text[start].isspace() and not (span.kind == "pre" and text[start] in " \t"):
        start += 1
    return replace(span, start=start, end=end) if start < end else None


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2
