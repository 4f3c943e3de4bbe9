"""HEARTBEAT.md as items: what is to be looked after, how often, and what it watches."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal

FILE = "HEARTBEAT.md"

MOST_ITEMS = 50
"""Of a longer list the rest is left out."""

Kind = Literal["file", "url", "command"]


@dataclass(frozen=True, slots=True)
class Watch:
    """`target` is a path in the workspace, an address, or a shell command; `more` is what the line names besides."""

    kind: Kind
    target: str
    more: tuple[Watch, ...] = ()

    def __str__(self) -> str:
        own = f"$ {self.target}" if self.kind == "command" else self.target
        return ", ".join([own, *map(str, self.more)])


@dataclass(frozen=True, slots=True)
class Item:
    """`text` is all of it, as the model gets it; `every` is None if the line does not say how often. `unheard` are its
    first words about time that are not understood."""

    text: str
    every: timedelta | None = None
    watch: Watch | None = None
    unheard: str = ""

    @property
    def key(self) -> str:
        """The same for the same words: an item that was edited is a new one."""
        return hashlib.sha256(self.text.encode("utf-8", "replace")).hexdigest()


def parse(text: str) -> list[Item]:
    """The items that are open: list lines, except those that are ticked. Headings, comments, plain paragraphs and what
    stands between ``` lines are none."""
    items: dict[str, None] = {}
    # a comment ends neither a line nor a list
    for line in _list_lines(re.sub(_COMMENT, lambda found: "\n" * found[0].count("\n"), text.lstrip("\ufeff"))):
        found = re.match(_BOX, line)
        is_ticked = found is not None and found[1] != " "
        said = " ".join((line[found.end() :] if found else line).split())
        if not is_ticked and any(sign.isalnum() for sign in said):
            items.setdefault(said)
    return [_item(said) for said in list(items)[:MOST_ITEMS]]


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
    watch, said = _watch(text), text
    for one in (watch, *watch.more) if watch else ():
        said = said.replace(one.target, " ", 1)
    every = _every(said)
    rest = re.sub(_EVERY, " ", said, count=1, flags=re.IGNORECASE) if every else said
    left = re.search(_UNHEARD, rest, re.IGNORECASE)
    return Item(text, every, watch, left[0] if left else "")


def _every(text: str) -> timedelta | None:
    found = re.search(_EVERY, text, re.IGNORECASE)
    if not found or found["count"] == "0":
        return None
    count = 2 if found["other"] else int(found["count"] or 1)
    unit = "d" if found["night"] else found["unit"] or found["first"] or found["last"]
    return count * _UNITS[unit[0].lower()]


def _watch(text: str) -> Watch | None:
    for found in re.finditer(_WATCH, text, re.IGNORECASE):
        if first := _target(found):
            more = list[Watch]()
            also = re.compile(_ALSO, re.IGNORECASE)
            following = also.match(text, found.end())
            while first.kind != "command" and following and (another := _target(following)):
                more.append(another)
                following = also.match(text, following.end())
            return replace(first, more=tuple(more))
    return None


def _target(found: re.Match[str]) -> Watch | None:
    quoted = found["quoted"]
    target = (quoted if quoted is not None else found["command"] or found["bare"]).strip()
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


# patterns as texts: compiled when first used, not at every start of the program
_COMMENT = r"(?s)<!--.*?(?:-->|\Z)"
_BULLET = r"[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]+"
_BOX = r"\[([ xX✓✔])\](?:\s+|$)"
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_UNIT = r"(m|min|mins|minutes?|h|hours?|d|days?|w|weeks?)"
_LY = "hourly|daily|weekly"  # "the daily news" says nothing of how often
_EVERY = (
    rf"\b(?:every|each)\s+(?:(?P<count>\d{{1,4}})\s*|(?P<other>other|second)\s+)?(?P<unit>{_UNIT}|(?P<night>morning|evening|night))\b"
    rf"|^(?P<first>{_LY})\b(?![/-]|\.\w)"
    rf"|(?<![\w/.-])(?<!\bthe )(?P<last>{_LY})(?=\s*(?:[,;:!?)]|\.\s|\.?$))"
)
_EVERY_AT_END = rf"[\s,;(]*\bevery\s+\d{{1,4}}\s*{_UNIT}\)?\.?$"
_UNHEARD = (
    r"\b(?:every|each|once an?|twice an?)\s+(?:(?:other|second|few)\s+|\d[\d.,]*\s*)?"
    r"(?:(?:two|three|four|five|six|ten|twelve)\s+\w+|s|secs?|hours?|days?|weeks?|months?|quarter|years?|morning|noon|"
    r"afternoon|evening|night|weekend|weekday|seconds?|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b"
    r"|(?<![\w/.-])(?:hourly|daily|weekly|biweekly|fortnightly|monthly|quarterly|yearly|nightly)\b(?![/-]|\.\w)"
)
_TARGET = r"(?:`(?P<quoted>[^`]+)`|\$\s+(?P<command>.+)|(?P<bare>https?://[^\s`]+|[^\s`$,;][^\s`,;]*))"
_WATCH = rf"\bwatch:?\s+{_TARGET}"
_ALSO = rf"(?:\s*[,;]\s*(?:and\s+)?|(?<=,)\s+(?:and\s+)?|\s+(?:and|or|&)\s+){_TARGET}"
