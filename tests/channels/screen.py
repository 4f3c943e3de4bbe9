"""A terminal as small as the tests need: a screen with scrollback, read as lines of text."""

from __future__ import annotations

import re
import unicodedata

_SEQUENCE = re.compile(r"\x1b\[([?>]?)([0-9;]*)([A-Za-z])|\x1b[=>]|\x1b\][^\x07]*\x07")


class Screen:
    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.gone: list[str] = []
        self.cells = [[" "] * columns for _ in range(rows)]
        self.x = self.y = 0
        self.kept: tuple[list[list[str]], int, int] | None = None  # the usual screen while the other one is shown
        self.styled = False  # whether an SGR code other than reset was seen
        self._rest = ""

    @property
    def lines(self) -> list[str]:
        """All that was ever scrolled away and what is there now, without blank lines."""
        return [line for line in [*self.gone, *map(_text, self.cells)] if line.strip()]

    @property
    def shown(self) -> str:
        """The screen as it stands."""
        return "\n".join(map(_text, self.cells))

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def feed(self, text: str) -> None:
        text, self._rest = self._rest + text, ""
        place = 0
        while place < len(text):
            if text[place] == "\x1b":
                found = _SEQUENCE.match(text, place)
                if not found:
                    self._rest = text[place:]  # its end has yet to come
                    return
                self._control(found)
                place = found.end()
                continue
            self._put(text[place])
            place += 1

    def _put(self, char: str) -> None:
        if char == "\r":
            self.x = 0
        elif char == "\n":
            self._down()
        elif char == "\b":
            self.x = max(0, self.x - 1)
        elif char == "\x07":
            pass
        else:
            assert char.isprintable() or unicodedata.category(char) in ("Cf", "Zs"), f"control byte {char!r}"
            width = 2 if unicodedata.east_asian_width(char) in "WF" else 1
            if self.x + width > self.columns:
                self.x = 0
                self._down()
            self.cells[self.y][self.x] = char
            if width == 2:
                self.cells[self.y][self.x + 1] = ""
            self.x += width

    def _down(self) -> None:
        if self.y + 1 < self.rows:
            self.y += 1
            return
        self.gone.append(_text(self.cells.pop(0)))
        self.cells.append([" "] * self.columns)

    def _control(self, found: re.Match[str]) -> None:
        private, numbers, letter = found.groups()
        if letter is None or private:
            if numbers == "1049":
                self._turn_to_other(on=letter == "h")
            return
        first = int(numbers.split(";")[0] or 0) if numbers else 0
        count = max(1, first)
        match letter:
            case "A":
                self.y = max(0, self.y - count)
            case "B":
                self.y = min(self.rows - 1, self.y + count)
            case "C":
                self.x = min(self.columns - 1, self.x + count)
            case "D":
                self.x = max(0, min(self.x, self.columns - 1) - count)
            case "K" if first == 0:
                self.cells[self.y][self.x :] = [" "] * (self.columns - self.x)
            case "J" if first == 0:
                self.cells[self.y][self.x :] = [" "] * (self.columns - self.x)
                for row in range(self.y + 1, self.rows):
                    self.cells[row] = [" "] * self.columns
            case "H":
                row, column = (*(max(1, int(number or 1)) for number in numbers.split(";")), 1)[:2]
                self.y, self.x = min(self.rows, row) - 1, column - 1
            case "J":
                self.cells = [[" "] * self.columns for _ in range(self.rows)]
            case "m":
                self.styled = self.styled or numbers not in ("", "0")
            case _:
                raise AssertionError(f"the terminal does not know {found[0]!r}")

    def _turn_to_other(self, *, on: bool) -> None:
        if on and self.kept is None:
            self.kept = self.cells, self.x, self.y
            self.cells, self.x, self.y = [[" "] * self.columns for _ in range(self.rows)], 0, 0
        elif not on and self.kept:
            (self.cells, self.x, self.y), self.kept = self.kept, None


def _text(cells: list[str]) -> str:
    return "".join(cells).rstrip()
