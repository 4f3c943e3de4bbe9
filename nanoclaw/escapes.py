"""Text from outside without what steers a terminal, or hides in a line: the one owner of what a screen may be given."""

from __future__ import annotations

import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # as in the thin client, which loads this
    from collections.abc import Iterable
    from typing import Any, TextIO

BLANKS = "".join(map(chr, (
    *range(0x21), *range(0x7F, 0xA1), 0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x1680, 0x17B4, 0x17B5, 0x180E,
    *range(0x2000, 0x2010), *range(0x2028, 0x2030), *range(0x205F, 0x2070), 0x2800, 0x3000, 0x3164,
    *range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0, *range(0xFFF9, 0xFFFC), *range(0xE0000, 0xE0080), *range(0xE0100, 0xE01F0),
)))  # fmt: skip
"""Characters that nobody sees: a text of nothing else says nothing."""


def plain(text: str) -> str:
    """Remove escape sequences and control characters but newline and tab; half characters become U+FFFD."""
    if re.search(_SUSPECT, text) is None:
        return text
    text = re.sub(_SEQUENCE, "", text.replace("\r\n", "\n"))
    return re.sub(_SURROGATE, "\ufffd", re.sub(_CONTROL, "", text))


def printable(text: str) -> str:
    """The text as a screen may show it: of control bytes only \\n and \\t stay, what turns the direction of writing and
    letters that nobody sees are named (⟨U+202E⟩), and what only joins or parts letters stays or is left out."""
    if text.replace("\n", "").isprintable():
        return text
    return re.sub(_UNSAFE, _named, text)


def one_line(text: str, limit: int = 60) -> str:
    """The beginning of a text on one line, without control bytes."""
    line = " ".join(printable(text[: limit * 20]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def visible(text: str) -> str:
    """The same for the content of a file: what cannot be shown stays as a picture of itself (ESC as ␛)."""
    return re.sub(_SUSPECT, _picture, text)


def revealed(text: str) -> str:
    """The text of a question, in which nothing hides: what cannot be seen is named, a space that is none too, and much
    blank space is counted. What joins characters of other writings and emoji stays."""
    return re.sub(_INVISIBLE, _named_or_kept, visible(text))


def json_line(text: str) -> str:
    """JSON of which a screen shows each character: the others are escaped, so that it says the same."""
    return re.sub(_UNSAFE, _escaped, text)


class SafeStream:
    """A stream that people read: whatever is written is `printable`; `beneath` is for the program's own drawing."""

    def __init__(self, stream: TextIO) -> None:
        self.beneath = stream

    def write(self, text: str) -> int:
        text = printable(text)
        if not text.isascii():  # names of files hold half characters, and encodings are narrow
            encoding = self.beneath.encoding or "utf-8"
            text = text.encode(encoding, "replace").decode(encoding)
        self.beneath.write(text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)


def write_over(stream: TextIO | SafeStream, line: str) -> None:
    """Write over the line that the cursor of a terminal is in."""
    beneath = stream.beneath if isinstance(stream, SafeStream) else stream
    beneath.write(f"\r{printable(line)}")
    beneath.flush()


def guard_streams() -> None:
    """Make all safe to show that is printed to stdout and stderr from now on."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, SafeStream):
            setattr(sys, name, SafeStream(stream))


# Patterns are compiled (and kept by `re`) when first needed: at start that would be most of this module's price.
_CONTROL = "[\x00-\x08\x0b-\x1f\x7f-\x9f]"
_SURROGATE = "[\ud800-\udfff]"
_SUSPECT = "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]"
_SEQUENCE = (
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor
    "|(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\\\|\x9c)?"  # titles, links, clipboard
    "|\x1b[ -/]*[0-~]"
)
_FLAG = "\U0001f3f4[\U000e0030-\U000e007a]{2,6}\U000e007f"  # of Scotland, say
_TURNING = "\u202a-\u202e\u2066-\u206f\ufff9-\ufffb\U000e0000-\U000e007f"  # directions, notes between lines, tags
_UNSEEN = "\xad\u180e\u200b\u2060-\u2064\ufeff"
_UNSAFE = f"({_FLAG})|([{_TURNING}])|[\x00-\x08\x0b-\x1f\x7f-\x9f{_UNSEEN}]"
_JOINING = "\u200c\u200d\ufe0e\ufe0f"
_OTHER_UNSEEN = "\u034f\u061c\u115f\u1160\u17b4\u17b5\u200e\u200f\u2028\u2029\u2800\u3164\uffa0\ufe00-\ufe0d"
_SPACES = "(?<![«0-9])[\xa0\u202f](?![?!:;»%€0-9])|[\u1680\u2000-\u200a\u205f]"
_BLANK = r"(?<=[^ \t\n])[ \t]{20,}|[ \t]{60,}|(?:\n[ \t]*){6,}(?=\n)"
_INVISIBLE = (
    "((?<=[^\x00-\x7f])(?:[\ufe0e\ufe0f]|[\u200c\u200d](?=[^\x00-\x7f]))|[0-9#*]\ufe0f\u20e3)"
    f"|([{_TURNING}{_UNSEEN}{_OTHER_UNSEEN}{_JOINING}\U000e0100-\U000e01ef]|{_SPACES})|{_BLANK}"
)


def _named(match: re.Match[str]) -> str:
    return match[1] or (f"⟨U+{ord(match[2]):04X}⟩" if match[2] else "")


def _named_or_kept(match: re.Match[str]) -> str:
    return match[1] or (f"⟨U+{ord(match[2]):04X}⟩" if match[2] else f"⟨{len(match[0]):,} blank characters⟩")


def _escaped(match: re.Match[str]) -> str:
    if match[0] == "\n":
        return match[0]
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else "\ufffd"
