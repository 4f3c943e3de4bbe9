"""The characters of a page, whatever its server says of them, and the words of HTML."""

from __future__ import annotations

import codecs
import html
import re


def decoded(body: bytes, kind: str = "") -> str:
    """The text of a body, by its byte order mark; else as UTF-8 where it is that; else as its server (`kind`, a
    Content-Type) or the page itself says, where that fits; else as is likely."""
    for mark, name in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    head = body[:2_048]
    declared = [name for found in (_named(kind), _named(head.decode("latin-1"))) if (name := _known(found))]
    if declared and declared[0].startswith(
        ("iso2022", "hz", "utf-16", "utf-32")
    ):  # their bytes may be plain ASCII to look at
        return body.decode(declared[0], "replace")
    for name in ("utf-8", *declared):
        try:
            return codecs.getincrementaldecoder(name)().decode(body)  # a cut may have gone through a character
        except UnicodeDecodeError:
            continue
    return body.decode(_likely(body) or (declared or ["cp1252"])[0], "replace")


_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def _named(text: str) -> str:
    found = re.search(r"(?:charset|<\?xml[^<>]{0,80}\bencoding)\s*=\s*[\"']?\s*([\w.:-]{1,40})", text, re.IGNORECASE)
    return found[1] if found else ""


def _known(name: str) -> str:
    """A character set of texts by Python's name, '' for one that it doesn't know. As browsers do, Latin-1 is taken for
    the larger set of Windows."""
    try:
        found = codecs.lookup(name)
    except (LookupError, ValueError):
        return ""
    if not found._is_text_encoding or found.name in ("utf-7", "idna", "punycode", "unicode_escape", "undefined"):
        return ""
    return "cp1252" if found.name in ("iso8859-1", "ascii") else found.name


def _likely(body: bytes) -> str:
    """A guess, '' if the library for it is not there (it comes with trafilatura)."""
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return ""
    best = from_bytes(body[:10_000]).best()
    return best.encoding if best else ""


def words_of(page: str) -> str:
    """The text of HTML that is to be read."""
    page = without_scripts(page)
    page = re.sub(r"(?i)<(?:br|/?(?:p|div|li|tr|h[1-6]|section|article|ul|ol|table|title))\b[^<>]*>", "\n", page)
    text = html.unescape(re.sub(r"<[A-Za-z/!][^<>]*>", " ", page))
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def without_scripts(page: str) -> str:
    """HTML without scripts, styles and comments, which change without any news in them."""
    return re.sub(r"(?is)<(script|style|noscript|template|svg)\b[^<>]*>.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)", " ", page)
