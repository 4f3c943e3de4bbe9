"""The line a person types on: several lines, history, completion of commands, the keys."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.completion import Completer
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import Dimension
from prompt_toolkit.output import Output
from prompt_toolkit.widgets import SearchToolbar, TextArea

from nanoclaw.channels.terminal.pastes import PasteOutput, Pastes

PROMPT = "› "


def typing_area(
    history_file: Path, completer: Completer, search: SearchToolbar, max_rows: Callable[[], int]
) -> TextArea:
    return TextArea(
        prompt=[("class:prompt", PROMPT)],
        get_line_prefix=_continuation,
        completer=completer,
        history=_History(history_file),
        search_field=search,
        height=lambda: Dimension(min=1, max=max_rows()),
        dont_extend_height=True,
    )


def typing_keys(
    area: TextArea,
    pastes: Pastes,
    interrupt: Callable[[], None],
    leave: Callable[[], None],
    busy: Callable[[], bool],
    open_result: Callable[[], None],
    open_editor: Callable[[], None],
    fetch_queued: Callable[[], None],
) -> KeyBindings:
    keys = KeyBindings()
    typing = has_focus(area)  # and not in the search of the history

    @keys.add("enter", filter=typing)
    def _(event: KeyPressEvent) -> None:
        buffer = area.buffer
        if buffer.document.current_line_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:  # a line that waits and was emptied is withdrawn
            buffer.validate_and_handle()

    @keys.add("escape", "enter", filter=typing)
    @keys.add("c-j", filter=typing)
    def _(event: KeyPressEvent) -> None:
        area.buffer.insert_text("\n")

    @keys.add(Keys.BracketedPaste, filter=typing)
    def _(event: KeyPressEvent) -> None:
        area.buffer.insert_text(pastes.shown(event.data))

    def label() -> str:
        return pastes.label_before(area.document.text_before_cursor)

    @keys.add("backspace", filter=typing & Condition(lambda: bool(label())))
    def _(event: KeyPressEvent) -> None:
        area.buffer.delete_before_cursor(len(label()))

    @keys.add("c-c", filter=typing)
    @keys.add("<sigint>")
    def _(event: KeyPressEvent) -> None:
        """Clear the line or, without one, hand it on; while a turn runs do both, and the line is in the history."""
        typed, running = bool(area.text), busy()
        area.buffer.reset(append_to_history=typed and running)
        if running or not typed:
            interrupt()

    for names, act in ((("c-o",), open_result), (("c-g",), open_editor), (("escape", "up"), fetch_queued)):
        keys.add(*names, filter=typing)(lambda event, act=act: act())

    @keys.add("c-z")
    def _(event: KeyPressEvent) -> None:
        run_in_terminal(lambda: _suspend(event.app.output))

    @keys.add("c-d", filter=Condition(lambda: not area.text))
    def _(event: KeyPressEvent) -> None:
        leave()

    return keys


def _suspend(output: Output) -> None:
    """Give the terminal to the shell, without what this chat has set."""
    if isinstance(output, PasteOutput):
        output.mark_pastes(False)
    os.kill(0, signal.SIGTSTP)
    if isinstance(output, PasteOutput):
        output.mark_pastes(True)


def typed_ahead(descriptor: int) -> list[str]:
    """Lines entered before there was a prompt; read as keys their ends would not be the Enter key."""
    text = b""
    with suppress(OSError):
        while select.select([descriptor], [], [], 0)[0] and (piece := os.read(descriptor, 4096)):
            text += piece
    return text.decode("utf-8", "replace").split("\n")


class _History(FileHistory):
    """Lines typed before, readable by their owner only; a full disk, or a pipe in its place, costs the line, not the
    chat."""

    def __init__(self, path: Path) -> None:
        with suppress(OSError):
            os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_RDWR, 0o600))
            path.chmod(0o600)
        super().__init__(str(path))
        self._is_kept = path.is_file()

    def load_history_strings(self) -> Iterable[str]:
        try:
            yield from super().load_history_strings() if self._is_kept else ()
        except OSError:
            return

    def store_string(self, string: str) -> None:
        with suppress(OSError):
            if self._is_kept:
                super().store_string(string.encode("utf-8", "replace").decode())


def _continuation(line: int, wrap: int) -> str:
    return " " * len(PROMPT) if line or wrap else ""
