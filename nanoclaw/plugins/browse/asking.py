"""The question before something is typed into a page, sent from it, or given to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nanoclaw.core.plugin import Ask, Scope
from nanoclaw.exact_text import as_code

FREE_KEYS = frozenset(
    {*("Escape", "Tab", "Shift+Tab", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"), "PageUp", "PageDown"}
    | {"Home", "End"}
)
"""Keys that only move about in a page."""


def question(given: Mapping[str, Any], label: str, host: str, form: str = "") -> Ask | None:
    """The question about a call of browse_do, None for one that needs none. `form` is what a click sends."""
    action, value = given["action"], str(given.get("value") or "")
    what = as_code(label, 100) if label else "an element"
    this, exact = ("a password", f"{len(value)} characters") if label.startswith("password") else ("this", value)
    match action:
        case "type":
            asked = f"Type {this if value else 'nothing'} into {what}{' and press Enter' * bool(given.get('enter'))}"
        case "upload":
            asked = f"Upload this to {what}"
        case "press" if (value or "Enter") not in FREE_KEYS:
            asked = f"Press {as_code(value or 'Enter', 30)}{f' in {what}' if label else ''}"
        case "click" if form:
            asked, exact = f"Send the form by {what}", form
        case "click" if value:
            asked = f"Click {what} and give this answer to what the page then asks"
        case _:
            return None
    if not host:  # a window that a script has filled: a yes to one says nothing of the next
        return Ask(f"{asked} in a window without an address?", exact=exact)
    scope = Scope(f"browse:{host}", f"typing, sending and uploading at {host}", is_place=True)
    return Ask(f"{asked} at {host}?", exact=exact, scope=scope)
