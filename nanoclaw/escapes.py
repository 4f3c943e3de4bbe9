"""Text from outside without the bytes that steer a terminal."""

from __future__ import annotations

import re


def plain(text: str) -> str:
    """Take out escape sequences and control characters but newline and tab; half characters become U+FFFD."""
    if re.search(_SUSPECT, text) is None:
        return text
    text = re.sub(_SEQUENCE, "", text.replace("\r\n", "\n"))
    return re.sub(_SURROGATE, "\ufffd", re.sub(_CONTROL, "", text))


def printable(text: str) -> str:
    """The text without what could move a cursor, recolour or retitle a terminal: of control bytes \\n and \\t stay."""
    return text.translate(_CONTROLS)


def one_line(text: str, limit: int = 60) -> str:
    """The beginning of a text on one line, without control bytes."""
    line = " ".join(printable(text[: limit * 20]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def visible(text: str) -> str:
    """The same for the content of a file: what cannot be shown stays as a picture of itself (ESC as ␛)."""
    return re.sub(_SUSPECT, _picture, text)


_CONTROLS = dict.fromkeys([*range(9), *range(11, 32), *range(127, 160)])  # C0 but \t and \n, DEL, C1
# Patterns are compiled (and kept by `re`) when first needed: at start that would be most of this module's price.
_CONTROL = "[\x00-\x08\x0b-\x1f\x7f-\x9f]"
_SURROGATE = "[\ud800-\udfff]"
_SUSPECT = "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]"
_SEQUENCE = (
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor
    "|(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\\\|\x9c)?"  # titles, links, clipboard
    "|\x1b[ -/]*[0-~]"
)


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"
