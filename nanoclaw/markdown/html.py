"""Markdown as HTML with the tags that Matrix and mail allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from nanoclaw.markdown.parse import language, make_parser, normalized, tokens


def to_html(text: str) -> str:
    """HTML of a text; everything else in it is escaped."""
    source = normalized(text)
    parser = make_parser(source)
    try:
        found = tokens(parser, source)
        if not found:
            return escape(source, quote=False)
        for token in found:
            _strip_attributes(token)
            if token.children:
                token.children = list(_pictures_as_links(token.children))
        return str(parser.renderer.render(found, parser.options, {})).strip()
    except Exception:  # a parser's fault must not cost the person the words
        return escape(source, quote=False).replace("\n", "<br>\n")


def _strip_attributes(token: Any) -> None:
    kept = {"ol": ("start",), "a": ("href",)}.get(token.tag, ())
    token.attrs = {name: value for name, value in token.attrs.items() if name in kept}
    if token.type == "fence":
        token.info = language(token.info)


def _pictures_as_links(children: Sequence[Any]) -> Iterator[Any]:
    from markdown_it.token import Token

    for token in children:
        if token.type != "image":
            _strip_attributes(token)
            yield token
            continue
        address = str(token.attrs.get("src", ""))
        yield Token("link_open", "a", 1, attrs={"href": address})
        yield Token("text", "", 0, content=token.content or address)
        yield Token("link_close", "a", -1)
