"""Reads an IMAP server's answer to FETCH: the parts of a mail without their content."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from nanoclaw.channels.email.text import header_text

_TOKEN = re.compile(rb'\s*(?:([()])|"((?:[^"\\]|\\.)*)"|([^\s()"]+))', re.DOTALL)
_LITERAL = re.compile(rb"~?\{\d+\+?\}\s*$")
_DEPTH = 100  # of lists in lists
_PARTS = 200  # so many of a mail are looked at
_LINE_BYTES, _LINE_BYTES_DECODED = 78, 57  # of base64, with its line end


@dataclass(frozen=True, slots=True)
class MailPart:
    """One part of a mail. `section` is its number for IMAP, `size` about how many bytes it is when decoded."""

    section: str
    mime: str
    charset: str
    encoding: str
    size: int
    name: str
    is_attached: bool
    """The sender says that it is a file, not text of the letter."""


def fetched(data: Sequence[Any], uid: int) -> dict[str, Any]:
    """Values of one mail by the names asked for; {} when the mail is gone.

    Text is bytes, nothing is None, a list is a list. Raises ValueError for an invalid answer.
    """
    for value in _values(data):
        if isinstance(value, list):
            items = {
                bytes(name).decode("ascii", "replace").upper(): item
                for name, item in zip(value[::2], value[1::2], strict=False)
                if isinstance(name, bytes)
            }
            if items.get("UID") == str(uid).encode():
                return items
    return {}


def parts(structure: Any) -> list[MailPart]:
    """The leaves of a BODYSTRUCTURE in their order; an attached mail is one leaf. Raises ValueError."""
    if not isinstance(structure, list) or not structure:
        raise ValueError("the server does not describe this mail")
    found: list[MailPart] = []
    for part in _leaves(structure, "", 0):
        found.append(part)
        if len(found) == _PARTS:
            break
    return found


def is_report(structure: Any) -> bool:
    """True when the whole mail is a report by a mail server."""
    if not isinstance(structure, list):
        return False
    return next((_text(item).lower() == "report" for item in structure if not isinstance(item, list)), False)


def _values(data: Sequence[Any]) -> list[Any]:
    top: list[Any] = []
    stack = [top]
    for item in data:
        if isinstance(item, tuple):
            _read(_LITERAL.sub(b"", item[0]), stack)
            stack[-1].append(item[1])
        elif isinstance(item, bytes):
            _read(item, stack)
    return top


def _read(text: bytes, stack: list[list[Any]]) -> None:
    at = 0
    while match := _TOKEN.match(text, at):
        at = match.end()
        bracket, quoted, atom = match.groups()
        if bracket == b"(":
            if len(stack) > _DEPTH:
                raise ValueError("endlessly nested lists")
            inner: list[Any] = []
            stack[-1].append(inner)
            stack.append(inner)
        elif bracket:
            if len(stack) > 1:
                stack.pop()
        elif quoted is not None:
            stack[-1].append(re.sub(rb"\\(.)", rb"\1", quoted, flags=re.DOTALL))
        else:
            stack[-1].append(None if atom.upper() == b"NIL" else atom)


def _leaves(node: list[Any], section: str, depth: int) -> Iterator[MailPart]:
    if node and isinstance(node[0], list):
        inner = [item for item in node if isinstance(item, list)]
        several = next((place for place, item in enumerate(node) if not isinstance(item, list)), len(node))
        for number, child in enumerate(inner[:several], 1):
            if depth < _DEPTH:
                yield from _leaves(child, f"{section}.{number}" if section else str(number), depth + 1)
    elif len(node) >= 7:
        yield _leaf(node, section or "1")


def _leaf(node: list[Any], section: str) -> MailPart:
    kind, subtype = _text(node[0]).lower(), _text(node[1]).lower()
    given = _pairs(node[2])
    more = {"text": 8}.get(kind, 10 if (kind, subtype) == ("message", "rfc822") else 7)
    disposition = node[more + 1] if len(node) > more + 1 else None
    said, named = ("", {})
    if isinstance(disposition, list) and disposition:
        said, named = _text(disposition[0]).lower(), _pairs(disposition[1] if len(disposition) > 1 else None)
    encoding = _text(node[5]).lower()
    octets = int(_text(node[6])) if _text(node[6]).isdigit() else 0
    size = octets * _LINE_BYTES_DECODED // _LINE_BYTES if encoding == "base64" else octets
    name = _parameter(named, "filename") or _parameter(given, "name")
    charset = _text(given.get("charset"))
    return MailPart(section, f"{kind}/{subtype}", charset, encoding, size, name, said == "attachment")


def _pairs(node: Any) -> dict[str, Any]:
    if not isinstance(node, list):
        return {}
    return {_text(key).lower(): value for key, value in zip(node[::2], node[1::2], strict=False)}


def _parameter(given: dict[str, Any], name: str) -> str:
    """A file's name in any of the ways in which senders write it."""
    if value := _text(given.get(name)):
        return header_text(value)
    from email.utils import collapse_rfc2231_value, decode_params

    try:
        raw = [("", ""), *((key, f'"{_text(value)}"') for key, value in given.items() if key.startswith(f"{name}*"))]
        for key, found in decode_params(raw):
            if key == name:
                return collapse_rfc2231_value(found).strip('"')
    except (ValueError, LookupError, TypeError):
        pass
    return ""


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""
