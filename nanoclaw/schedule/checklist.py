"""HEARTBEAT.md as items: what is to be looked after, how often, and what it watches."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

FILE = "HEARTBEAT.md"

MOST_ITEMS = 50
"""Of a longer list the rest is left out."""

Kind = Literal["file", "url", "command"]


@dataclass(frozen=True, slots=True)
class Watch:
    """`target` is a path in the workspace, an address, or a shell command."""

    kind: Kind
    target: str

    def __str__(self) -> str:
        return f"$ {self.target}" if self.kind == "command" else self.target


@dataclass(frozen=True, slots=True)
class Item:
    """`text` is all of it, as the model gets it; `every` is None where the line does not say how often."""

    text: str
    every: timedelta | None = None
    watch: Watch | None = None

    @property
    def key(self) -> str:
        """The same for the same words: an item that was edited is a new one."""
        return hashlib.sha256(self.text.encode("utf-8", "replace")).hexdigest()


def parse(text: str) -> list[Item]:
    """The items that are open: list lines, but for those that are ticked. Headings, comments, plain paragraphs and
    what stands between ``` lines are none."""
    items: dict[str, None] = {}
    for line in _list_lines(re.sub(_COMMENT, _blank, text.lstrip("\ufeff"))):
        found = re.match(_BOX, line)
        is_ticked = found is not None and found[1] != " "
        said = " ".join((line[found.end() :] if found else line).split())
        if not is_ticked and any(sign.isalnum() for sign in said):
            items.setdefault(said)
    return [_item(said) for said in list(items)[:MOST_ITEMS]]


def _blank(found: re.Match[str]) -> str:
    """A comment ends neither a line nor a list."""
    return "\n" * found[0].count("\n")


def _list_lines(text: str) -> list[str]:
    """Each with the indented lines that follow it."""
    lines: list[str] = []
    is_item, is_code = False, False
    for line in text.splitlines():
        if line.lstrip().startswith(("```", "~~~")):
            is_item, is_code = False, not is_code
        elif is_code:
            continue
        elif found := re.match(_BULLET, line):
            lines.append(line[found.end() :])
            is_item = True
        elif is_item and line[:1].isspace() and line.strip() and not line.lstrip().startswith("#"):
            lines[-1] += " " + line.strip()
        else:
            is_item = False
    return lines


def _item(text: str) -> Item:
    watch = _watch(text)
    return Item(text, _every(_without_command(text, watch)), watch)


def _every(text: str) -> timedelta | None:
    if word := re.search(_ADVERB, text, re.IGNORECASE):
        return _UNITS[_ADVERBS.get((word[1] or word[2] or "").lower(), "d")]
    found = re.search(_EVERY, text, re.IGNORECASE)
    if not found or found[1] == "0":
        return None
    count = 2 if found[1] and not found[1].isdecimal() else int(found[1] or 1)
    return count * _UNITS[found[2][0].lower()]


def _watch(text: str) -> Watch | None:
    for found in re.finditer(_WATCH, text, re.IGNORECASE):
        quoted = found["quoted"]
        target = (quoted if quoted is not None else found["command"] or found["bare"] or "").strip()
        if quoted is None and found["command"]:
            return Watch("command", re.sub(_EVERY_AT_END, "", target, flags=re.IGNORECASE))
        if quoted is not None and target.startswith("$ "):
            return Watch("command", target[2:].strip())
        if quoted is None:
            target = target.rstrip(".,;:!?)")
        if re.match(r"https?://", target, re.IGNORECASE):
            return Watch("url", target)
        if target and (quoted is not None or re.search(r"[./\\]", target)):
            return Watch("file", target)
    return None


def _without_command(text: str, watch: Watch | None) -> str:
    return text.replace(watch.target, "", 1) if watch and watch.kind == "command" else text


# patterns as texts: compiled when first used, not at every start of the program
_COMMENT = r"(?s)<!--.*?(?:-->|\Z)"
_BULLET = r"[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]+"
_BOX = r"\[([ xX✓✔])\](?:\s+|$)"
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_UNIT = r"(m|min|mins|minutes?|h|hours?|d|days?|w|weeks?)"
_EVERY = rf"\bevery\s+(?:(\d{{1,4}}|other)\s*)?{_UNIT}\b"
_ADVERBS = {"hourly": "h", "weekly": "w"}
_ADVERB = r"^(hourly|daily|weekly)\b|\b(hourly|daily|weekly)[.)]*$|\bevery\s+(?:morning|evening|night)\b"
_EVERY_AT_END = rf"[\s,;(]*\bevery\s+\d{{1,4}}\s*{_UNIT}\)?\.?$"
_WATCH = r"\bwatch:?\s+(?:`(?P<quoted>[^`]+)`|\$\s+(?P<command>.+)|(?P<bare>[^\s`$]\S*))"
