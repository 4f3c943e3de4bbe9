"""Marks around the text of a document in a message, which that text cannot forge."""

from __future__ import annotations

import re


def escape(text: str) -> str:
    """A document's text with marks like ours made harmless."""
    return re.sub(_MARK, lambda run: run[0].replace("[", "("), text) if "[" in text else text


def without_documents(text: str) -> str:
    """A message without the documents in it."""
    return re.sub(_WHOLE, "", text).strip() if "[attached file " in text else text


# Patterns are compiled (and kept by `re`) when first needed. The run of signs before the word is taken at once: to try
# it from each bracket anew would be quadratic.
_MARK = r"(?i)(?<![\W_])[\W_]++(?=(?:end[\W_]*+of[\W_]*+)?attached[\W_]*+file|media[\W_]*+attached)"
_WHOLE = r"\[attached file [^\n]*\]\n(?:(?!\[end of attached file ).*\n)*\[end of attached file [^\n]*\]\n*"
