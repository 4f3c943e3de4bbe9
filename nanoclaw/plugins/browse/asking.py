"""Judges what a call does to a page, and whether it needs a yes before: what the page then sends is asked apart."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from nanoclaw.core.messages import Scope
from nanoclaw.exact_text import as_code

_ARROWS = ("ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight")
FREE_KEYS = frozenset(("Escape", "Tab", "Shift+Tab", *_ARROWS, "PageUp", "PageDown", "Home", "End"))
"""Keys that only move about in a page."""


class Use(NamedTuple):
    """A call of browse_do: `words` complete "May I …?", `exact` is what is typed or given. `is_look` changes nothing,
    `is_open` is at a host that the person named, `is_asked` needs a yes also where nothing was read."""

    words: str
    exact: str
    scope: Scope | None
    is_look: bool
    is_open: bool
    is_asked: bool


def use_of(given: Mapping[str, Any], label: str, host: str, said: str) -> Use:
    """`host` is that of the element, `said` are the person's own words."""
    action, value = given["action"], str(given.get("value") or "")
    is_open, is_look = bool(given.get("element")) and is_named(host, said), False
    what = as_code(label, 100) if label else "an element"
    this, exact = ("a password", f"{len(value)} characters") if label.startswith("password") else ("this", value)
    is_asked = not is_open
    match action:
        case "type":
            words = f"type {this if value else 'nothing'} into {what}{' and press Enter' * bool(given.get('enter'))}"
        case "select":
            words, is_asked = f"select this in {what}", False
        case "upload":
            words, is_asked = f"upload this to {what}", True
        case "press":
            words = f"press {as_code(value or 'Enter', 30)}{f' in {what}' if label else ''}"
            is_look = value in FREE_KEYS
            is_asked = is_asked and not is_look
        case _:
            answer = " and give this answer to what the page then asks" * bool(value)
            words, is_look = f"click {what}{answer}", label.startswith("link ") and not value
            is_asked = is_asked and bool(value)
    place = f"at {host}" if host else "in a window without an address"
    return Use(f"{words} {place}", exact, scope_of(host), is_look, is_open, is_asked)


def scope_of(host: str) -> Scope | None:
    """The scope of a yes at a host; none where a script has filled a window, which says nothing of the
    next."""
    words = f"clicking, typing, sending and uploading at {host}"
    return Scope(f"browse:{host}", words, is_place=True) if host else None


def is_named(host: str, said: str) -> bool:
    """True where a text contains a host, alone or in an address; `www.` does not count. Not as part of another host, a
    path or a mail address."""
    name = re.escape(host.removeprefix("www."))
    around = rf"(?<![\wÀ-ӿ@.=/-])(?:https?://)?(?:www\.)?{name}(?![\w@-]|:\d|\.\w)"
    return bool(host) and re.search(around, said, re.ASCII | re.IGNORECASE) is not None
