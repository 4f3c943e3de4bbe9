"""HTML of a mail as text."""

from __future__ import annotations

import re
from typing import Any

_QUOTES = (
    "//*[contains(concat(' ', normalize-space(@class), ' '), ' gmail_quote ')]"
    " | //*[contains(concat(' ', normalize-space(@class), ' '), ' yahoo_quoted ')]"
    " | //blockquote[@type='cite'] | //*[@id='isForwardContent']"
)
_CUT = "//*[@id='appendonsend' or @id='divRplyFwdMsg' or @id='mail-editor-reference-message-container']"
_ATTRIBUTIONS = "//*[contains(@class, 'moz-cite-prefix') or contains(@class, 'gmail_attr')]"
_UNSEEN = "//style | //script | //head/title | //*[contains(translate(@style, ' ', ''), 'display:none')]"


def to_text(html: str, *, quotes: bool) -> str:
    """What a reader would see, links with their addresses; without the parts that mail programs mark as quoted unless
    `quotes`."""
    import lxml.html
    from inscriptis import Inscriptis
    from inscriptis.css_profiles import CSS_PROFILES
    from inscriptis.model.config import ParserConfig
    from lxml.etree import LxmlError

    try:
        document = lxml.html.document_fromstring(_DECLARATION.sub("", html.replace("\0", ""), count=1))
    except (LxmlError, ValueError):
        return ""
    _drop(document, _UNSEEN)
    if not quotes:
        for place in document.xpath(_CUT)[:1]:
            _drop_from(place)
        _drop(document, _ATTRIBUTIONS)
        _drop(document, _QUOTES)
    try:
        config = ParserConfig(css=CSS_PROFILES["strict"].copy(), display_links=True)
        shown = str(Inscriptis(document, config).get_text())
    except RecursionError:
        shown = str(document.text_content())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in shown.splitlines())).strip("\n")


_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>", re.IGNORECASE)  # lxml refuses text that names an encoding


def _drop(document: Any, path: str) -> None:
    for found in document.xpath(path):
        if found.getparent() is not None:
            found.drop_tree()


def _drop_from(place: Any) -> None:
    """Everything from here to the end of the document."""
    node = place
    while (parent := node.getparent()) is not None:
        for follower in list(node.itersiblings()):
            parent.remove(follower)
        node = parent
    if place.getparent() is not None:
        place.drop_tree()
