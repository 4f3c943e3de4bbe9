"""Completion of what is typed: commands, the words that may stand behind one, and files of the workspace behind @."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

Words = Callable[[], Mapping[str, Sequence[Sequence[str]]]]
"""By command ("/model", "/sessions open") what may stand behind it, each with a remark."""

_MOST_FILES, _FILES_SECONDS = 5_000, 5.0  # that are looked at, and until they are looked at again
_SHOWN = 50
_SKIPPED = frozenset({"node_modules", "__pycache__"})


class Completions(Completer):
    def __init__(self, commands: Mapping[str, str], words: Words, workspace: Path | None) -> None:
        self._commands, self._words, self._workspace = commands, words, workspace
        self._files: list[str] = []
        self._looked = float("-inf")

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        typed = document.text_before_cursor
        last = typed.rpartition(" ")[2].rpartition("\n")[2]
        if typed.startswith("/") and " " in typed:
            yield from self._behind(typed)
        elif typed.startswith("/"):
            for name, help_line in self._commands.items():
                if name.startswith(typed):
                    yield Completion(name, -len(typed), display_meta=help_line)
        if last.startswith("@"):
            wanted = last[1:].casefold()
            found = [name for name in self._in_workspace() if wanted in name.casefold()]
            for name in sorted(found, key=lambda name: (not name.casefold().startswith(wanted), name))[:_SHOWN]:
                yield Completion(name, -len(last))

    def _behind(self, typed: str) -> Iterable[Completion]:
        for command, words in self._words().items():
            wanted = typed.removeprefix(f"{command} ")
            if wanted != typed and "\n" not in wanted:
                for word, remark in words:
                    if wanted.casefold() in f"{word} {remark}".casefold() and wanted != word:
                        yield Completion(word, -len(wanted), display_meta=remark)

    def _in_workspace(self) -> Sequence[str]:
        """Paths of files, without hidden ones."""
        if self._workspace and time.monotonic() - self._looked > _FILES_SECONDS:
            self._files = []
            for folder, folders, files in os.walk(self._workspace):
                folders[:] = sorted(one for one in folders if one[:1] != "." and one not in _SKIPPED)
                names = (Path(folder, one) for one in sorted(files) if one[:1] != ".")
                self._files += [str(name.relative_to(self._workspace)) for name in names]
                if len(self._files) > _MOST_FILES:
                    break
            self._looked = time.monotonic()
        return self._files
