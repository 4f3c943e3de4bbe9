"""Lines of an answer that name files to be sent with it: MEDIA:./chart.png."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from nanoclaw.core.errors import ToolError
from nanoclaw.named_tuple import NamedTuple

MOST_FILES = 10
"""Of one answer; lines that name more stay as text."""

# patterns as texts: compiled when first used
_LINE = r" {0,3}[`\"'*_]{0,3}MEDIA:[ \t]*(?P<path>\S.*)"
_FENCE = r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*(?P<fence>`{3,}|~{3,})(?P<info>.*)"
_QUOTES = "`\"'"


class AnswerFiles(NamedTuple):
    """An answer without the lines whose files are attached. `problems` are sentences about files that are not."""

    text: str
    files: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def attached(answer: str, check: Callable[[str], str]) -> AnswerFiles:
    """The files that an answer names. `check` gives the real path of a file that may be sent, and raises ToolError for
    another, whose line stays as it is."""
    if "MEDIA:" not in answer:
        return AnswerFiles(answer)
    lines, files, problems = list[str](), list[str](), list[str]()
    for line, is_code in _lines(answer):
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
        return AnswerFiles(answer, (), tuple(problems))
    return AnswerFiles(re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip(), tuple(files), tuple(problems))


def _lines(text: str) -> Iterable[tuple[str, bool]]:
    """Each line, and True if it belongs to a fence of code; one that is not closed continues to the end."""
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


class FileLineFilter:
    """Keeps lines that name files out of an answer's stream. A line that may still come to name one waits."""

    def __init__(self) -> None:
        self._line, self._passed, self._fence = "", 0, ""  # the newest line, and how much of it was shown

    def feed(self, text: str) -> str:
        *whole, rest = text.split("\n")
        shown = ""
        for line in whole:
            self._line += line
            shown += self._news(is_whole=True, end="\n")
            self._fence = _fence_after(self._line, self._fence)
            self._line, self._passed = "", 0
        self._line += rest
        return shown + self._news(is_whole=False)

    def end(self) -> str:
        return self._news(is_whole=True)

    def _news(self, *, is_whole: bool, end: str = "") -> str:
        """The new part of the line, unless the line names a file or may still come to."""
        if not self._fence and not self._passed:
            hidden = re.fullmatch(_LINE, self._line) if is_whole else _may_name_a_file(self._line)
            if hidden:
                return ""
        news = self._line[self._passed :] + end
        self._passed = len(self._line)
        return news


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
