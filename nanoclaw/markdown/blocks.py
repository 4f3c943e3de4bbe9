"""Markdown as it arrives, cut where a piece can be printed for good."""

from __future__ import annotations

import re

_FENCE = re.compile(r"( *)(`{3,}|~{3,})(.*)")
_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_UNSURE = re.compile(r"(?:[-*+]|\d{1,9}[.)]?)?")  # may yet become a list item


class Blocks:
    """Feed pieces, get whole blocks. `tail` is the block that is still growing."""

    def __init__(self) -> None:
        self._lines: list[str] = []  # complete lines of the block
        self._partial = ""  # the line that has no end yet
        self._fence = ""  # the mark that opened the code we are in, with its indent
        self._opening = ""  # the whole line of it

    @property
    def tail(self) -> str:
        return "\n".join([*self._lines, self._partial] if self._partial else self._lines)

    def feed(self, text: str) -> list[str]:
        done: list[str] = []
        *whole, self._partial = (self._partial + text).split("\n")
        for line in whole:
            self._take(line, done)
        if self._partial and not _UNSURE.fullmatch(self._partial) and self._starts_anew(self._partial):
            done.append(self._cut(len(self._lines)))
        return [block for block in done if block.strip()]

    def finish(self) -> list[str]:
        rest = self.tail
        self._lines, self._partial, self._fence = [], "", ""
        return [rest] if rest.strip() else []

    def spill(self, keep: int) -> list[str]:
        """Cut a block of more than `keep` lines inside: code between two lines, a list between two items.

        Other blocks are printed when they are complete, for their look may depend on their end.
        """
        if len(self._lines) <= keep:
            return []
        if self._fence and self._lines[0] == self._opening and len(self._lines) > 2:
            head = [*self._lines, self._fence]
            self._lines = [self._opening]
            return ["\n".join(head)]
        if not self._fence and _ITEM.match(self._lines[0]):
            items = [number for number, line in enumerate(self._lines) if number and _ITEM.match(line)]
            if items:
                return [self._cut(items[-1])]
        return []

    def _take(self, line: str, done: list[str]) -> None:
        if self._fence:
            self._lines.append(line)
            if self._closes(line):
                indented, self._fence = self._fence.startswith(" "), ""
                if not indented:
                    done.append(self._cut(len(self._lines)))
            return
        if self._starts_anew(line):
            done.append(self._cut(len(self._lines)))
        self._lines.append(line)
        if (opened := _FENCE.fullmatch(line)) and not (opened[2][0] == "`" and "`" in opened[3]):
            self._fence, self._opening = opened[1] + opened[2], line

    def _starts_anew(self, line: str) -> bool:
        """True when a line begins a new block: after a space one, unless it continues with a list."""
        if self._fence or not self._lines or not line.strip():
            return False
        if _FENCE.fullmatch(line) and not line.startswith(" "):
            return True
        if self._lines[-1].strip() or line[0] in " \t":
            return False
        first = next((one for one in self._lines if one.strip()), "")
        return not (_ITEM.match(first) and _ITEM.match(line))

    def _closes(self, line: str) -> bool:
        mark = self._fence.strip()
        bare = line.strip()
        return len(bare) >= len(mark) and set(bare) == {mark[0]}

    def _cut(self, count: int) -> str:
        head, self._lines = self._lines[:count], self._lines[count:]
        return "\n".join(head)
