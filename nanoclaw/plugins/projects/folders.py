"""Folders of projects: what is read of them for a model, and which conversation belongs to which."""

from __future__ import annotations

import re

from nanoclaw.atomic_write import reason, replace_in
from nanoclaw.beneath.paths import open_for_reading, open_parent_for_writing
from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.messages import Address
from nanoclaw.core.plugin import Host
from nanoclaw.runtime_metadata import one_line

FOLDER, WISHES, NOTES = "projects", "PROJECT.md", "NOTES.md"
MOST, MOST_WISHES, LONGEST = 1_000_000, 12_000, 2_000
"""Bytes of a file that are looked at, of what the person wants that are told, and of a line."""

NAME = re.compile(r"[^\W_][\w-]{0,39}")


class ProjectFolders:
    def __init__(self, host: Host) -> None:
        self._host = host

    def of(self, conversation: Address) -> str:
        """The project of a conversation, '' for none, or where its folder is gone."""
        found = self._host.read("SELECT project FROM projects_chosen WHERE conversation = ?", str(conversation))
        return next((name for (name,) in found if name in self.names()), "")

    def names(self) -> list[str]:
        folders = (self._host.workspace / FOLDER).glob("*/")
        return sorted(one.name for one in folders if NAME.fullmatch(one.name) and not one.is_symlink())

    def wishes(self, name: str) -> list[str]:
        text = "\n".join(self.lines(name, WISHES))[:MOST_WISHES]
        return [line for line in text.splitlines() if line.strip("# ").casefold() != name.casefold()]

    def lines(self, name: str, file: str) -> list[str]:
        """Lines of one of its files as a model is told them; none where it can't be read."""
        try:
            text = self._data(name, file)[:MOST].decode("utf-8", "replace")
        except OSError:
            return []
        return [one_line(line.strip(), LONGEST) for line in text.splitlines() if line.strip()]

    def _data(self, name: str, file: str) -> bytes:
        try:
            with open_for_reading(self._host.reach, f"{FOLDER}/{name}/{file}") as opened:
                return opened.read()
        except FileNotFoundError:
            return b""

    def source(self, name: str, file: str) -> str:
        """The source of others' text in one of its files, '' for none."""
        taint = self._host.get("taint")
        source = taint.files.source(f"{FOLDER}/{name}/{file}") if taint else ""
        return source if source and taint.untrusted([source]) else ""

    def add(self, name: str, file: str, text: str) -> None:
        """Add lines at the end of one of its files."""
        path = f"{FOLDER}/{name}/{file}"
        try:
            before = self._data(name, file)
            data = before + b"\n" * (before[-1:] not in (b"", b"\n")) + text.encode("utf-8", "replace")
            with open_parent_for_writing(self._host.reach, path) as (folder, last):
                replace_in(folder, last, data)
        except OSError as error:
            raise NanoclawError(f"{path} could not be written: {reason(error)}.") from None
