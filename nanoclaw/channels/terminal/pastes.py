"""Pastes: told from typed lines all the time, and a long one is a short label in the line until it is sent."""

from __future__ import annotations

import os
import re
import sys

from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output

_MOST_LINES = 10
_MOST_CHARACTERS = 2_000
"""A paste of more is shown by its label."""


class Pastes:
    """The long pastes of one chat, by their labels."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def shown(self, pasted: str) -> str:
        """A paste as the line shows it: itself, or a label with its size."""
        text = pasted.replace("\r\n", "\n").replace("\r", "\n")
        lines = len(text.rstrip("\n").split("\n"))
        if lines <= _MOST_LINES and len(text) <= _MOST_CHARACTERS:
            return text
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        label, number = f"[pasted {size}]", 1
        while self._texts.get(label, text) != text:
            number += 1
            label = f"[pasted {size}, no. {number}]"
        self._texts[label] = text
        return label

    def whole(self, line: str) -> str:
        """A line with the pastes in the place of their labels."""
        if not self._texts:
            return line
        labels = "|".join(map(re.escape, self._texts))
        return re.sub(labels, lambda found: self._texts[found[0]], line)

    def label_before(self, typed: str) -> str:
        """The label at the end of what is typed, '' for none."""
        return next((label for label in self._texts if typed.endswith(label)), "")


class PasteOutput(Vt100_Output):
    """A screen whose terminal marks pastes from the start of the chat to its end: whoever draws would turn that off
    for a moment at each Enter, and in that moment the lines of a paste are typed ones.

    It never asks for the cursor's place, either: the answers would mix with what is typed on a slow line."""

    def enable_bracketed_paste(self) -> None:
        pass

    def disable_bracketed_paste(self) -> None:
        pass

    def mark_pastes(self, wanted: bool) -> None:
        if wanted:
            super().enable_bracketed_paste()
        else:
            super().disable_bracketed_paste()
        self.flush()

    @classmethod
    def of_terminal(cls) -> PasteOutput:
        made = cls.from_pty(sys.stdout, os.environ.get("TERM"), ColorDepth.from_env())
        assert isinstance(made, cls)
        made.enable_cpr = False
        return made
