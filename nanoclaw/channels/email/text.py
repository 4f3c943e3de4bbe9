"""Bytes, headers and HTML of mails as text, whatever their sender did to them."""

from __future__ import annotations

import binascii
import codecs
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from email.errors import HeaderParseError
from typing import Any

from nanoclaw.escapes import printable

_STRANGE_CODECS = {"punycode", "idna", "unicode-escape", "raw-unicode-escape", "undefined", "utf-7"}
_WIDER = {"gb2312": "gb18030", "gbk": "gb18030", "ascii": "utf-8", "iso8859-1": "cp1252"}
_NO_LETTER = re.compile(rb"[^A-Za-z0-9+/]")


def content(data: bytes, encoding: str) -> bytes:
    """A part's bytes; what is broken in them is left out."""
    return b"".join(decoded([data], encoding))


def decoded(pieces: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """The same of a part that comes in pieces, wherever they were cut."""
    if encoding not in ("base64", "quoted-printable"):
        yield from pieces
        return
    rest = b""
    for piece in pieces:
        if encoding == "base64":
            piece = rest + _NO_LETTER.sub(b"", piece)
            whole = len(piece) // 4 * 4
            yield binascii.a2b_base64(piece[:whole])
        else:
            piece = rest + piece
            mark = piece.rfind(b"=", -2)
            whole = len(piece) if mark < 0 else mark
            yield binascii.a2b_qp(piece[:whole])
        rest = piece[whole:]
    if encoding == "base64":
        rest = rest + b"=" * (4 - len(rest)) if len(rest) > 1 else b""
        yield binascii.a2b_base64(rest)
    else:
        yield binascii.a2b_qp(rest)


def decoded_text(data: bytes, charset: str) -> str:
    """Text of a part, with \\n between lines and no other control characters than tabs."""
    try:
        name = codecs.lookup(charset or "utf-8").name
        if name in _STRANGE_CODECS:
            raise LookupError(name)
        name = _WIDER.get(name, name)
        try:
            said = data.decode(name)
        except ValueError:
            said = _guess(data) if name == "utf-8" else data.decode(name, "replace")
    except (LookupError, ValueError):
        said = _guess(data)
    return printable(said.replace("\r\n", "\n").replace("\r", "\n").replace("\ufeff", ""))


def header_text(value: str) -> str:
    """A header's value in one line, its encoded words decoded."""
    from email.header import decode_header, make_header

    with suppress(LookupError, ValueError, HeaderParseError):
        value = str(make_header(decode_header(value)))
    return " ".join(printable(value.encode("utf-8", "replace").decode()).split())


def _guess(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except ValueError:
        return data.decode("cp1252", "replace")


# --- HTML -------------------------------------------------------------------------------------------------------------

_QUOTES = (
    "//*[contains(concat(' ', normalize-space(@class), ' '), ' gmail_quote ')]"
    " | //*[contains(concat(' ', normalize-space(@class), ' '), ' yahoo_quoted ')]"
    " | //blockquote[@type='cite'] | //*[@id='isForwardContent']"
)
_CUT = "//*[@id='appendonsend' or @id='divRplyFwdMsg' or @id='mail-editor-reference-message-container']"
_ATTRIBUTIONS = "//*[contains(@class, 'moz-cite-prefix') or contains(@class, 'gmail_attr')]"
_UNSEEN = "//style | //script | //head/title | //*[contains(translate(@style, ' ', ''), 'display:none')]"


def html_text(html: str, *, quotes: bool, blocks: bool = True) -> str:
    """Text as a reader would see it, links with their addresses; without the parts that are marked as quoted unless
    `quotes`, and without those that may be quoted or only set off unless `blocks`."""
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
    if not blocks:
        _drop(document, "//blockquote")
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
