"""Markdown as HTML for the page: closed blocks once, the open tail again while it grows."""

from __future__ import annotations

import time
from html import escape

from nanoclaw.markdown.blocks import Blocks
from nanoclaw.markdown.html import to_html

LONGEST = 64_000  # characters of a text that is rendered at once; a longer one is plain until somebody unfolds it
PLAIN_TAIL, AGAIN_SECONDS = 8_000, 0.25
"""Characters of an open block from which on only its new words are sent; time until a shorter one is HTML again."""
SHOWN = 4_000

_TAGS = "a blockquote br code del em h1 h2 h3 h4 h5 h6 hr li ol p pre s strong table tbody td th thead tr ul"


def html(text: str) -> str:
    """The HTML of a text, of known tags alone: pictures are links, and links go elsewhere than this page."""
    import nh3

    return str(
        nh3.clean(
            to_html(text),
            tags=set(_TAGS.split()),
            attributes={"a": {"href"}, "code": {"class"}, "ol": {"start"}},
            url_schemes={"http", "https", "mailto", "matrix"},
            link_rel="noopener noreferrer nofollow",
            set_tag_attribute_values={"a": {"target": "_blank"}},
        )
    )


def shown(text: str) -> tuple[str, bool]:
    """The HTML of a whole text, and True if it is too long: then it is its beginning as it was written."""
    if len(text) <= LONGEST:
        return html(text), False
    return f"<pre>{escape(text[:SHOWN])}…</pre>", True


class Growing:
    """A text while it grows. `closed` is the HTML of all blocks that will not change."""

    def __init__(self) -> None:
        self._blocks = Blocks()
        self._new: list[str] = []
        self._sent, self._again = 0, 0.0  # characters of the tail, and when it is made HTML again
        self.closed: list[str] = []
        self.text = ""

    def feed(self, piece: str) -> None:
        self.text += piece
        self._new += self._blocks.feed(piece)

    def news(self) -> dict[str, object]:
        """Changes since the last call: blocks to `add`, and the `tail` in place of the one before, or `more` words of
        it, as they are: it is long, or was made HTML a moment ago."""
        added = [_bounded(block, LONGEST) for block in self._new]
        self.closed += added
        self._new = []
        tail, found = self._blocks.tail, dict[str, object]()
        if added:
            found["add"], self._sent = added, 0
        if self._sent and time.monotonic() < self._again:
            found["more"] = tail[self._sent :]
        else:
            found["tail"], is_long = _bounded(tail, PLAIN_TAIL), len(tail) > PLAIN_TAIL
            self._again = float("inf") if is_long else time.monotonic() + AGAIN_SECONDS
        self._sent = len(tail)
        return found

    def whole(self) -> str:
        """All of it so far, for a page that comes now."""
        self.news()
        return "".join([*self.closed, f'<div class="tail">{_bounded(self._blocks.tail, PLAIN_TAIL)}</div>'])


def _bounded(text: str, most: int) -> str:
    return html(text) if len(text) <= most else f"<pre>{escape(text)}</pre>"
