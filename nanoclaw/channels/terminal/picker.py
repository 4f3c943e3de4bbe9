"""Pick one line of several: type to search, arrows and Enter; what was on the screen before stays."""

from __future__ import annotations

from collections.abc import Sequence

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import Dimension, FormattedTextControl, HSplit, Layout
from prompt_toolkit.layout import Window as Pane
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import TextArea

from nanoclaw.channels.terminal.tool_lines import cut
from nanoclaw.escapes import one_line

_MOST_ROWS = 12
_KEYS = "type to search · ↑↓ · Enter · Esc leaves"
_STYLE = Style.from_dict({"dim": "fg:ansibrightblack", "chosen": "reverse"})


def pick(lines: Sequence[tuple[str, str]]) -> int | None:
    """The index of the line that the person picks, of lines with a title and a remark; None for none."""
    area, keys, chosen = TextArea(prompt="› ", multiline=False), KeyBindings(), 0

    def found() -> list[int]:
        words = area.text.casefold().split()
        return [at for at, line in enumerate(lines) if all(word in " ".join(line).casefold() for word in words)]

    def rows() -> int:
        return max(1, min(_MOST_ROWS, get_app().output.get_size().rows - 4))

    def drawn() -> StyleAndTextTuples:
        places, columns = found(), get_app().output.get_size().columns
        at = min(chosen, max(0, len(places) - 1))
        first = max(0, at - rows() + 1)
        parts: StyleAndTextTuples = []
        for place in places[first : first + rows()]:
            title, remark = (one_line(text, 200) for text in lines[place])
            is_chosen = place == places[at]
            title = cut(f"{'›' if is_chosen else ' '} {title}", columns - 1)
            rest = cut(f"  {remark}", columns - 1 - len(title)) if columns - len(title) > 12 else ""
            parts += [("class:chosen" if is_chosen else "", title), ("class:dim", f"{rest}\n")]
        return parts or [("class:dim", "  nothing has these words\n")]

    def move(steps: int) -> None:
        nonlocal chosen
        chosen = max(0, min(len(found()) - 1, chosen + steps))

    def first(_: object) -> None:
        nonlocal chosen
        chosen = 0

    area.buffer.on_text_changed += first
    for names, steps in ((("up", "c-p"), -1), (("down", "c-n", "tab"), 1), (("pageup",), -10), (("pagedown",), 10)):
        for name in names:
            keys.add(name)(lambda event, steps=steps: move(steps))

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        if places := found():
            event.app.exit(result=places[chosen])

    @keys.add("escape", eager=True)
    @keys.add("c-c")
    @keys.add("c-d")
    def _(event: KeyPressEvent) -> None:
        event.app.exit(result=None)

    shown = Pane(FormattedTextControl(drawn), height=lambda: Dimension(max=rows()), dont_extend_height=True)
    hint = Pane(FormattedTextControl([("class:dim", _KEYS)]), height=1)
    made: Application[int | None] = Application(
        Layout(HSplit([shown, area, hint]), focused_element=area), key_bindings=keys, style=_STYLE, erase_when_done=True
    )
    return made.run()
