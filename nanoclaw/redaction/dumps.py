"""Known values in the lines of a dump: those of `xxd`, `od` and `hexdump`, each with its place and a few bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from nanoclaw.redaction.spans import MASK

_LINE = re.compile(r"\n[ \t]*[0-9a-fA-F]{5,16}:?(?=[ \t])([^\n]*)")
_BEGUN = re.compile(r"^0000[0-9a-fA-F]{1,12}:?[ \t]", re.MULTILINE)
_HEX, _OCTAL = re.compile(r"(?:[0-9a-f]{2}){1,8}", re.IGNORECASE), re.compile(r"[0-3][0-7]{2}|[0-7]{6}")
_ESCAPES = {r"\0": 0, r"\a": 7, r"\b": 8, r"\t": 9, r"\n": 10, r"\v": 11, r"\f": 12, r"\r": 13, "sp": 32, "nl": 10}


def _has_dump(text: str) -> bool:
    return (text.startswith("0000") or "\n0000" in text) and _BEGUN.search(text) is not None


def without_dumped(text: str, values: Iterable[bytes]) -> str:
    """A text in which each line of a dump that has part of a value is masked as a whole."""
    lines = list(_LINE.finditer(f"\n{text}")) if _has_dump(text) else []
    if not lines:
        return text
    rests, found = [line[1] for line in lines], set[int]()
    for read in (_hex, _hex_backwards, _octal, _signs):
        found |= _lines_with([*map(read, rests)], values)
    for number in sorted(found, reverse=True):
        start, end = lines[number].start(1) - 1, lines[number].end(1) - 1  # there is a line break more in front
        text = f"{text[:start]} {MASK}{text[end:]}"
    return text


def _lines_with(lines: Sequence[bytes], values: Iterable[bytes]) -> set[int]:
    """Numbers of the lines on which some of a value stands."""
    whole, found = b"".join(lines), set[int]()
    for value in values:
        at = whole.find(value)
        while at >= 0:
            place = 0
            for number, line in enumerate(lines):
                if place < at + len(value) and at < place + len(line):
                    found.add(number)
                place += len(line)
            at = whole.find(value, at + 1)
    return found


def _groups(rest: str) -> Iterator[str]:
    """The groups of digits, without the text that is beside them."""
    for mark in ("  |", "  >"):
        rest = rest.partition(mark)[0]
    words = rest.split("  ") if re.match(r" ?[0-9a-fA-F]{4,} ", rest) else [rest]
    yield from words[0].split() if words[0].strip() else " ".join(words).split()


def _read(rest: str, form: re.Pattern[str], read: Callable[[str], bytes]) -> bytes:
    made = bytearray()
    for group in _groups(rest):
        if not form.fullmatch(group):
            break
        made += read(group)
    return bytes(made)


def _hex(rest: str) -> bytes:
    return _read(rest, _HEX, bytes.fromhex)


def _hex_backwards(rest: str) -> bytes:
    return _read(rest, _HEX, lambda group: bytes.fromhex(group)[::-1])


def _octal(rest: str) -> bytes:
    def read(group: str) -> bytes:
        return int(group, 8).to_bytes(2 if len(group) == 6 else 1, "little") if int(group, 8) < 1 << 16 else b""

    return _read(rest, _OCTAL, read)


def _signs(rest: str) -> bytes:
    """Characters in fields of four, as `od -c` has them."""
    made = bytearray()
    for start in range(0, len(rest), 4):
        sign = rest[start : start + 4].strip()
        if len(sign) <= 1:
            made += (sign or " ").encode("utf-8", "replace")
        elif sign in _ESCAPES:
            made.append(_ESCAPES[sign])
        elif re.fullmatch("[0-3][0-7]{2}", sign):
            made.append(int(sign, 8))
        else:
            break
    return bytes(made)
