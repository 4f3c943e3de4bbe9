"""HEARTBEAT.md as items: what is to be looked after, how often, and what it watches."""

from __future__ import annotations

import hashlib
import re
from datetime import timedelta
from typing import Literal, NamedTuple

from nanoclaw.plugins.heartbeat.plugin import UNIT, span_of

FILE = "HEARTBEAT.md"

MOST_ITEMS = 50
"""Of a longer list the rest is left out."""

Kind = Literal["file", "url", "command"]


class Watch(NamedTuple):
    """`target` is a path in the workspace, an address, or a shell command."""

    kind: Kind
    target: str

    def __str__(self) -> str:
        return f"$ {self.target}" if self.kind == "command" else self.target


class Item(NamedTuple):
    """`text` is all of it, as the model gets it; `every` is None if the line does not say how often."""

    text: str
    every: timedelta | None = None
    watches: tuple[Watch, ...] = ()

    @property
    def watched(self) -> str:
        return ", ".join(map(str, self.watches))

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
    watches, said = _watches(text), text
    for one in watches:
        said = said.replace(one.target, " ", 1)
    return Item(text, span_of(said), watches)


def _watches(text: str) -> tuple[Watch, ...]:
    """All that the first words of this kind name; a command is the last."""
    first = next((one for one in re.finditer(_WATCH, text, re.IGNORECASE) if _target(one)), None)
    watches, found = list[Watch](), first
    while found and (watch := _target(found)):
        watches.append(watch)
        found = re.compile(_ALSO, re.IGNORECASE).match(text, found.end()) if watch.kind != "command" else None
    return tuple(watches)


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
_EVERY_AT_END = rf"[\s,;(]*\bevery\s+\d{{1,4}}\s*{UNIT}\)?\.?$"
_TARGET = r"(?:`(?P<quoted>[^`]+)`|\$\s+(?P<command>.+)|(?P<bare>https?://[^\s`]+|[^\s`$,;][^\s`,;]*))"
_WATCH = rf"\bwatch:?\s+{_TARGET}"
_ALSO = rf"(?:\s*[,;]\s*(?:and\s+)?|(?<=,)\s+(?:and\s+)?|\s+(?:and|or|&)\s+){_TARGET}"
