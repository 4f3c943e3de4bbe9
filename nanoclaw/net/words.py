"""The words of HTML."""

from __future__ import annotations

import html
import re


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
