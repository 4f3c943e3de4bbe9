"""A result of a tool as a whole, on a screen of its own: what was on the terminal before comes back."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from prompt_toolkit.application import Application
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.bindings.scroll import (
    scroll_one_line_down,
    scroll_one_line_up,
    scroll_page_down,
    scroll_page_up,
)
from prompt_toolkit.layout import FormattedTextControl, HSplit, Layout
from prompt_toolkit.layout import Window as Pane
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.styles import BaseStyle
from prompt_toolkit.widgets import TextArea

from nanoclaw.channels.text import tool_line
from nanoclaw.core.events import ToolFinished
from nanoclaw.escapes import printable

_KEYS = "↑↓ PgUp PgDn Home End · ←→ other results · q closes"
_TAB = 4
_SIGNS = {"+": "class:plus", "-": "class:minus", "@": "class:place"}


def pager(results: Sequence[ToolFinished], output: Output, style: BaseStyle | None) -> Application[None]:
    """Shows the last of some results; the others are a key away."""
    place = len(results) - 1
    area = TextArea(read_only=True, wrap_lines=True, scrollbar=style is not None, lexer=_Diff(lambda: results[place]))
    keys = KeyBindings()

    def turn_to(number: int) -> None:
        nonlocal place
        place = min(len(results) - 1, max(0, number))
        area.buffer.set_document(Document(whole(results[place]), 0), bypass_readonly=True)

    def bind(*names: str, to: Callable[[KeyPressEvent], object]) -> None:
        for name in names:
            keys.add(name, eager=name == "escape")(lambda event: to(event) and None)

    bind("q", "Q", "escape", "c-o", "c-c", "c-d", "<sigint>", to=lambda event: event.app.exit())
    bind("up", "k", to=scroll_one_line_up)
    bind("down", "j", "enter", to=scroll_one_line_down)
    bind("pageup", "b", to=scroll_page_up)
    bind("pagedown", " ", to=scroll_page_down)
    bind("home", "g", to=lambda event: area.buffer.__setattr__("cursor_position", 0))
    bind("end", "G", to=lambda event: area.buffer.__setattr__("cursor_position", len(area.text)))
    bind("left", "p", to=lambda event: turn_to(place - 1))
    bind("right", "n", to=lambda event: turn_to(place + 1))

    def title() -> StyleAndTextTuples:
        of = f" ({place + 1} of {len(results)})" if len(results) > 1 else ""
        return [("class:prompt", f"{tool_line(results[place])}{of}")]

    turn_to(place)
    made: Application[None] = Application(
        Layout(
            HSplit(
                [
                    Pane(FormattedTextControl(title), height=1),
                    area,
                    Pane(FormattedTextControl([("class:dim", _KEYS)]), height=1),
                ]
            ),
            focused_element=area,
        ),
        key_bindings=keys,
        style=style,
        color_depth=None if style else ColorDepth.DEPTH_1_BIT,
        full_screen=True,
        output=output,
    )
    made.ttimeoutlen = 0.05  # Escape closes at once
    return made


def whole(event: ToolFinished) -> str:
    """All that is known of a call: its arguments, what it changed, its result."""
    try:
        values = json.loads(event.call.arguments)
    except (ValueError, RecursionError):
        values = None
    given = event.call.arguments
    if isinstance(values, dict):
        given = "\n".join(f"{name}: {_value(value)}" for name, value in values.items() if _is_news(value, event.diff))
    parts = (given.strip(), event.diff, event.text.strip() or "(no output)")
    return printable("\n\n".join(filter(None, parts))).expandtabs(_TAB)


def _is_news(value: object, diff: str) -> bool:
    """False for a text of several lines where a diff shows it."""
    return not (diff and isinstance(value, str) and "\n" in value)


def _value(value: object) -> str:
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return f"\n{value.rstrip()}".replace("\n", "\n  ") if "\n" in value.rstrip() else value


class _Diff(Lexer):
    """Colours the lines of a diff."""

    def __init__(self, shown: Callable[[], ToolFinished]) -> None:
        self._shown = shown

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        lines, diff = document.lines, set(printable(self._shown().diff).expandtabs(_TAB).split("\n"))

        def line(number: int) -> StyleAndTextTuples:
            if number >= len(lines):
                return []
            text = lines[number]
            return [(_SIGNS.get(text[:1], "") if text in diff else "", text)]

        return line
