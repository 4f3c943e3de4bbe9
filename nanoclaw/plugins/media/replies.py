"""What becomes of an answer: nothing where it is a token of silence; files where its lines name some; else its text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from nanoclaw.core.errors import ToolError
from nanoclaw.core.events import Event, TextDelta, ToolStarted, TurnEnded
from nanoclaw.core.silence_token import may_become_silence, spoken

Check = Callable[[str], str]
"""From a path in the workspace to the real one of a file that may be sent; raises ToolError."""

CAPABILITY = "Files: a line of its own in your answer, MEDIA:./path/in/workspace.png, sends that file with it."
"""What the prompt says of it."""

MOST_FILES = 10
"""Of one answer; lines that name more stay as text."""

# patterns as texts: compiled when first used
_LINE = r" {0,3}[`\"'*_]{0,3}MEDIA:[ \t]*(?P<path>\S.*)"
_FENCE = r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*(?P<fence>`{3,}|~{3,})(?P<info>.*)"
_QUOTES = "`\"'"


class Leaving(NamedTuple):
    """What the person gets. `problems` are sentences about files that were asked for and not attached."""

    text: str
    files: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def is_nothing(self) -> bool:
        return not self.text.strip() and not self.files


def no_file(path: str) -> str:
    """No file may leave."""
    raise ToolError(f"{path[:200]!r} cannot be sent from here.")


def named(files: Iterable[str]) -> str:
    """Files without a word beside them."""
    return ", ".join(file.rpartition("/")[2] for file in files)


def same_words(one: str, other: str) -> bool:
    """Whether two texts differ in markup, case, spaces and punctuation only."""
    words = [re.findall(r"\w+", text.casefold()) for text in (one, other)]
    return words[0] == words[1] if any(words) else one.strip() == other.strip()


def leaving(answer: str, check: Check) -> Leaving:
    """An answer without tokens of silence and without the lines whose files are attached. A line whose file cannot be
    sent stays as it is."""
    text = spoken(answer)
    if "MEDIA:" not in text:
        return Leaving(text)
    lines, files, problems = list[str](), list[str](), list[str]()
    for line, is_code in _lines(text):
        found = None if is_code else re.fullmatch(_LINE, line)
        if found is None:
            lines.append(line)
            continue
        try:
            if len(files) == MOST_FILES:
                raise ToolError(f"more than {MOST_FILES} files cannot be attached to one answer.")
            path = check(_bare(found["path"]))
            if path not in files:
                files.append(path)
        except ToolError as error:
            problems.append(str(error))
            lines.append(line)
    if not files:
        return Leaving(text, (), tuple(problems))
    return Leaving(re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip(), tuple(files), tuple(problems))


def _lines(text: str) -> Iterable[tuple[str, bool]]:
    """Each line, and whether it belongs to a fence of code; one that is not closed goes on to the end."""
    fence = ""
    for line in text.split("\n"):
        after = _fence_after(line, fence)
        yield line, bool(fence or after)
        fence = after


def _bare(path: str) -> str:
    """The path without what it is wrapped in: `MEDIA:./a.png`, MEDIA:"a b.png"."""
    path = path.rstrip()
    if len(path) > 1 and path[0] in _QUOTES and path[-1] == path[0]:
        return path[1:-1].strip()
    return path.rstrip(_QUOTES + "*_") if path[-1] in _QUOTES + "*_" else path


class Hushed:
    """Passes the events of a turn on, but not what no person is to see of its stream: a token of silence, and lines
    that name files. What may still become one of them waits."""

    def __init__(self, show: Callable[[Event], None]) -> None:
        self._show = show
        self._begin()

    def _begin(self) -> None:
        self._begun, self._is_open = "", False  # until it is clear that something is said
        self._line, self._passed, self._fence = "", 0, ""  # the newest line, and how much of it was shown

    def __call__(self, event: Event) -> None:
        if isinstance(event, TextDelta):
            self._take(event.text)
            return
        if isinstance(event, ToolStarted | TurnEnded):
            if not self._is_open and spoken(self._begun).strip():
                self._feed(self._begun)
            self._pass(is_whole=True)
            self._begin()
        self._show(event)

    def _take(self, text: str) -> None:
        if self._is_open:
            self._feed(text)
            return
        self._begun += text
        if not may_become_silence(self._begun):
            self._is_open = True
            self._feed(self._begun)

    def _feed(self, text: str) -> None:
        *whole, rest = text.split("\n")
        for line in whole:
            self._line += line
            self._pass(is_whole=True, end="\n")
            self._fence = _fence_after(self._line, self._fence)
            self._line, self._passed = "", 0
        self._line += rest
        self._pass(is_whole=False)

    def _pass(self, *, is_whole: bool, end: str = "") -> None:
        """Show what is new of the line, unless it names a file or may still come to."""
        if not self._fence and not self._passed:
            hidden = re.fullmatch(_LINE, self._line) if is_whole else _may_name_a_file(self._line)
            if hidden:
                return
        if new := self._line[self._passed :] + end:
            self._show(TextDelta(new))
            self._passed = len(self._line)


def _may_name_a_file(begun: str) -> bool:
    head = begun[:13]
    bare = head.lstrip(" `\"'*_")
    return len(head) - len(bare) <= 6 and "MEDIA:".startswith(bare[:6])


def _fence_after(line: str, fence: str) -> str:
    """The fence of code that is open after a line, '' for none; it was `fence` before."""
    found = re.fullmatch(_FENCE, line.rstrip("\r"))
    if found is None:
        return fence
    if fence:
        return "" if found["fence"].startswith(fence) and not found["info"].strip() else fence
    return "" if "`" in found["info"] and found["fence"][0] == "`" else found["fence"]
