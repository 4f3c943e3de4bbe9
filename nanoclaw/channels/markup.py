"""The model's Markdown in what a platform shows: entities for Telegram, safe HTML for Matrix and mail, plain words.

What is rendered is never longer than its source, so that a piece that fits still fits. HTML in the source is text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

SCHEMES = ("http://", "https://", "mailto:", "matrix:")
"""Links to anything else are shown as they are written."""


def telegram(text: str) -> tuple[str, list[dict[str, Any]]]:
    """Plain text and its message entities, whose offsets count UTF-16 units. No entity begins or ends within a
    character or in white space; code stands in no other entity but a quote."""
    source = _whole(text)
    rendered = _rendered(source, _Style())
    if rendered is None or not rendered.text.strip():
        return source, []
    return rendered.stripped()


def plain(text: str) -> str:
    """Words without markup, for where none can be shown; a link is followed by where it goes."""
    source = _whole(text)
    rendered = _rendered(source, _Style(shows_links=True, quote="> "))
    return source if rendered is None or not rendered.text.strip() else rendered.text.rstrip().lstrip("\n")


def html(text: str) -> str:
    """HTML with the tags that Matrix and mail allow, all else escaped; only links of SCHEMES."""
    from html import escape

    from markdown_it.renderer import RendererHTML

    source = _whole(text)
    parser = _parser(source)
    try:
        tokens = parser.parse(source)
        if not tokens or _depth(tokens) > _DEEPEST:
            raise ValueError("nested too deep")
        for token in tokens:
            _simplify(token)
            if token.children:
                token.children = list(_inline_tokens(token.children))
        shown = RendererHTML(parser).render(tokens, parser.options, {}).strip()
    except Exception:  # a parser's fault must not cost the person the words
        return escape(source, quote=False).replace("\n", "<br>\n")
    return str(shown)


# --- reading ---------------------------------------------------------------------------------------------------------

_NESTING = 60
_DEEPEST = _NESTING - 4  # what is nested deeper is lost by the parser


def _parser(source: str) -> MarkdownIt:
    """A line break of the model is a line break. A piece that begins with an indented line is the rest of a list, not
    code."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "breaks": True, "maxNesting": _NESTING})
    parser.enable(["strikethrough", "table"]).disable("reference")
    if re.match(r"(?:[ \t]*\n)*(?: {4}|\t)", source):
        parser.disable("code")
    parser.validateLink = lambda url: url.strip().lower().startswith(SCHEMES)  # type: ignore[method-assign]
    return parser


def _depth(tokens: Sequence[Any]) -> int:
    inner = (child.level for token in tokens for child in token.children or ())
    return max((*(token.level for token in tokens), *inner), default=0)


def _whole(text: str) -> str:
    """Without halves of characters, which cannot be sent."""
    return text.encode("utf-8", "replace").decode().replace("\r\n", "\n").replace("\r", "\n")


def _simplify(token: Any) -> None:
    """Take away attributes that are not allowed everywhere."""
    kept = {"ol": ("start",), "a": ("href",)}.get(token.tag, ())
    token.attrs = {name: value for name, value in token.attrs.items() if name in kept}
    if token.type == "fence":
        token.info = _language(token.info)


def _inline_tokens(children: Sequence[Any]) -> Iterator[Any]:
    """Pictures become links."""
    from markdown_it.token import Token

    for token in children:
        if token.type != "image":
            _simplify(token)
            yield token
            continue
        address = str(token.attrs.get("src", ""))
        yield Token("link_open", "a", 1, attrs={"href": address})
        yield Token("text", "", 0, content=token.content or address)
        yield Token("link_close", "a", -1)


def _language(info: str) -> str:
    """The first word of a fence's info, if it looks like the name of a language."""
    word = info.strip().split(maxsplit=1)[0] if info.strip() else ""
    return word if re.fullmatch(r"[\w+#.-]{1,32}", word) else ""


# --- text with entities ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Style:
    """`shows_links`: where a link goes is written behind its words; `quote` begins the lines of a quotation."""

    shows_links: bool = False
    quote: str = ""


@dataclass(frozen=True, slots=True)
class _Span:
    kind: str
    start: int
    end: int
    value: str = ""


@dataclass(slots=True)
class _Out:
    """Text that grows, and spans of it, counted in characters."""

    style: _Style
    lines: Sequence[str] = ()
    parts: list[str] = field(default_factory=list)
    spans: list[_Span] = field(default_factory=list)
    length: int = 0

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def add(self, text: str) -> None:
        if text:
            self.parts.append(text)
            self.length += len(text)

    def spanned(self, kind: str, write: Callable[[], None], value: str = "") -> None:
        start = self.length
        write()
        if self.length > start:
            self.spans.append(_Span(kind, start, self.length, value))

    def take(self, other: _Out) -> None:
        self.spans += [
            _Span(one.kind, one.start + self.length, one.end + self.length, one.value) for one in other.spans
        ]
        self.add(other.text)

    def stripped(self) -> tuple[str, list[dict[str, Any]]]:
        """Without blank lines around it; the spans as entities."""
        text = self.text.rstrip()
        skipped = len(text) - len(text.lstrip("\n"))
        text = text[skipped:]
        moved = [_Span(one.kind, max(0, one.start - skipped), one.end - skipped, one.value) for one in self.spans]
        return text, _entities(text, moved)


def _rendered(source: str, style: _Style) -> _Out | None:
    """None where only the source itself will do."""
    from markdown_it.tree import SyntaxTreeNode

    try:
        tokens = _parser(source).parse(source)
        if _depth(tokens) > _DEEPEST:
            return None
        lines, out = source.split("\n"), _Out(style)
        previous: SyntaxTreeNode | None = None
        for block in SyntaxTreeNode(tokens).children:
            first, last = block.map or (0, 0)
            written = _Out(style, lines)
            _block(written, block, 0)
            original = "\n".join(lines[first:last]).strip("\n")
            if _units(written.text) > _units(original) or not written.text.strip():
                written = _Out(style)
                kind = "pre" if block.type == "table" else ""
                written.spanned(kind, lambda out=written, text=original: out.add(text))  # type: ignore[misc]
            out.add(_gap(lines, first) if previous else "")
            out.take(written)
            previous = block
    except Exception:  # a parser's fault must not cost the person the words
        return None
    return out


def _gap(lines: Sequence[str], first: int) -> str:
    """What stands before a block that begins in line `first`, between it and the one before."""
    return "\n\n" if first and not lines[first - 1].strip(" \t>") else "\n"


def _blocks(out: _Out, nodes: Sequence[SyntaxTreeNode], depth: int) -> None:
    for number, node in enumerate(nodes):
        if number:
            out.add(_gap(out.lines, node.map[0]) if node.map else "\n")
        _block(out, node, depth)


def _block(out: _Out, node: SyntaxTreeNode, depth: int) -> None:
    """`depth` counts the lists around it."""
    match node.type:
        case "heading":
            out.spanned("bold", lambda: _inlines(out, node.children))
        case "fence" | "code_block":
            language = _language(node.info) if node.type == "fence" else ""
            out.spanned("pre", lambda: out.add(node.content.rstrip("\n")), language)
        case "hr":
            out.add("———")
        case "blockquote":
            _quote(out, node, depth)
        case "bullet_list" | "ordered_list":
            _list(out, node, depth)
        case "table":
            out.spanned("pre", lambda: out.add(_table(node)))
        case "inline" | "paragraph":
            _inlines(out, node.children)
        case _:
            out.add(node.content)


def _quote(out: _Out, node: SyntaxTreeNode, depth: int) -> None:
    if not out.style.quote:
        out.spanned("blockquote", lambda: _blocks(out, node.children, depth))
        return
    inner = _Out(out.style, out.lines)
    _blocks(inner, node.children, depth)
    out.add("\n".join((out.style.quote + line).rstrip() for line in inner.text.split("\n")))


def _list(out: _Out, node: SyntaxTreeNode, depth: int) -> None:
    number = int(str(node.attrs.get("start", 1)))
    for index, item in enumerate(node.children):
        if index:
            out.add(_gap(out.lines, item.map[0]) if item.map else "\n")
        marker = "•" if node.type == "bullet_list" else f"{number + index}{item.markup}"
        out.add("  " * depth + marker + (" " if item.children else ""))
        _blocks(out, item.children, depth + 1)


def _inlines(out: _Out, nodes: Sequence[SyntaxTreeNode]) -> None:
    for node in nodes:
        match node.type:
            case "inline":
                _inlines(out, node.children)
            case "strong":
                out.spanned("bold", lambda node=node: _inlines(out, node.children))  # type: ignore[misc]
            case "em":
                out.spanned("italic", lambda node=node: _inlines(out, node.children))  # type: ignore[misc]
            case "s":
                out.spanned("strikethrough", lambda node=node: _inlines(out, node.children))  # type: ignore[misc]
            case "code_inline":
                out.spanned("code", lambda node=node: out.add(node.content))  # type: ignore[misc]
            case "link" | "image":
                _link(out, node)
            case "softbreak" | "hardbreak":
                out.add("\n")
            case _:
                out.add(node.content)


def _link(out: _Out, node: SyntaxTreeNode) -> None:
    is_image = node.type == "image"
    address = str(node.attrs.get("src" if is_image else "href", ""))

    def words() -> None:
        before = out.length
        if is_image:
            out.add(node.content)
        else:
            _inlines(out, node.children)
        if out.length == before:
            out.add(address)

    first = len(out.parts)
    out.spanned("text_link", words, address)
    shown = "".join(out.parts[first:])
    if out.style.shows_links and shown not in (address, address.removeprefix("mailto:")):
        out.add(f" ({address})")


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
    out = _Out(_Style(shows_links=True))
    _inlines(out, node.children)
    return " ".join(out.text.split())


def _width(text: str) -> int:
    """Columns of a screen."""
    wide = sum(unicodedata.east_asian_width(sign) in "WF" for sign in text)
    return len(text) + wide - sum(unicodedata.category(sign) in ("Mn", "Me", "Cf") for sign in text)


# --- entities --------------------------------------------------------------------------------------------------------

_ALONE = ("code", "pre")


def _entities(text: str, spans: Sequence[_Span]) -> list[dict[str, Any]]:
    """What may not contain one another is taken apart: emphasis ends where code begins, and goes on behind it."""
    code = [span for span in spans if span.kind in _ALONE]
    links = [(span.start, span.end) for span in spans if span.kind == "text_link"]
    cuts = [(span.start, span.end) for span in code]
    legal: list[_Span] = []
    for span in spans:
        if not span.kind:
            continue
        if span.kind == "blockquote":
            if not any(one.kind == "blockquote" and _contains(one, span) and one != span for one in spans):
                legal.append(span)
        elif span.kind == "code" and any(start <= span.start and span.end <= end for start, end in links):
            continue  # a link is worth more than how it looks
        elif span.kind in (*_ALONE, "text_link"):
            legal.append(span)
        elif not any(one.kind == span.kind and _contains(one, span) and one != span for one in spans):
            legal += _without(span, [cut for cut in cuts if not any(a <= cut[0] and cut[1] <= b for a, b in links)])
    trimmed = (_trimmed(text, span) for span in legal)
    offsets = _offsets(text)
    ordered = sorted((one for one in trimmed if one), key=lambda one: (one.start, -one.end, one.kind))
    return [_entity(span, offsets) for span in dict.fromkeys(ordered)]


def _contains(outer: _Span, inner: _Span) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def _without(span: _Span, cuts: Sequence[tuple[int, int]]) -> Iterator[_Span]:
    """What is left of a span around what is cut out of it."""
    start = span.start
    for first, last in sorted(cuts):
        if last <= start or first >= span.end:
            continue
        if first > start:
            yield _Span(span.kind, start, first, span.value)
        start = last
    if start < span.end:
        yield _Span(span.kind, start, span.end, span.value)


def _trimmed(text: str, span: _Span) -> _Span | None:
    """Without white space at its ends; code keeps what its first line is indented by."""
    start, end = span.start, min(span.end, len(text))
    while end > start and text[end - 1].isspace():
        end -= 1
    while start < end and text[start].isspace() and not (span.kind == "pre" and text[start] in " \t"):
        start += 1
    return _Span(span.kind, start, end, span.value) if start < end else None


def _offsets(text: str) -> Callable[[int], int]:
    """From a position in characters to one in UTF-16 units."""
    if text.isascii():
        return lambda at: at
    astral = [at for at, sign in enumerate(text) if sign > "\uffff"]
    from bisect import bisect_left

    return lambda at: at + bisect_left(astral, at)


def _entity(span: _Span, offset: Callable[[int], int]) -> dict[str, Any]:
    start = offset(span.start)
    entity: dict[str, Any] = {"type": span.kind, "offset": start, "length": offset(span.end) - start}
    if span.kind == "text_link":
        entity["url"] = span.value
    elif span.kind == "pre" and span.value:
        entity["language"] = span.value
    return entity


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2
