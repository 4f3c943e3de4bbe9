"""The plugin: the setting with the folders, the tool that searches them, and /knowledge."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, NamedTuple

from nanoclaw.core.errors import ConfigError, NanoclawError
from nanoclaw.core.plugin import Command, Finding, Host, Plugin, Profile, Reply, Said, Section, Tool, ToolOutput
from nanoclaw.core.tool import ToolContext, tool
from nanoclaw.escapes import one_line
from nanoclaw.installation import install_command
from nanoclaw.plugins.knowledge.index import Library

PASSAGES = 5
"""Passages that a search finds."""


class KnowledgeSettings(NamedTuple):
    """Folders of Markdown, text and PDF that questions are looked up in."""

    folders: tuple[str, ...] = ()  # such as "~/Documents/manuals"; nothing in them is changed

    def check(self) -> None:
        for folder in self.folders:
            if not Path(folder).expanduser().is_absolute():
                raise ConfigError(f'knowledge.folders must be whole paths such as "~/Notes", not {folder!r}.')


class Knowledge(Plugin):
    name = "knowledge"
    settings = KnowledgeSettings
    stamp = "the settings alone"

    def __init__(self, host: Host, settings: KnowledgeSettings) -> None:
        self._host = host
        self._folders = [Path(os.path.realpath(Path(one).expanduser())) for one in settings.folders]

    @cached_property
    def _index(self) -> Library:
        return Library(self._host.home / "index.db", self._folders, [self._host.program_home])

    def tools(self) -> Iterable[Tool]:
        return [tool(self._knowledge_search, reach="none")] if self._folders and not self._lacks() else []

    def commands(self) -> Iterable[Command]:
        told = "your folders of documents, and what is found in them: /knowledge warranty"
        return [Command("knowledge", told, self._knowledge, part_of="memory", private=True, cli=True)]

    def sections(self, query: str, profile: Profile) -> Iterable[Section]:
        if not self._folders or profile.mode == "guest" or self._lacks():
            return ()
        names = one_line(", ".join(map(str, self._folders)), 600)
        text = (
            f"# Knowledge\n\nThe person's documents are in {names}. Look there with knowledge_search before you answer "
            "what they may tell, and name the place that an answer comes from in brackets, as the search shows it."
        )
        return [Section("knowledge", "Knowledge", text)]

    async def run(self) -> None:
        """Read the folders before the first question comes."""
        if self._folders:
            await asyncio.to_thread(self._index.refresh)
        else:  # what was read of folders that were taken out
            (self._host.program_home / "plugins" / self.name / "index.db").unlink(missing_ok=True)

    async def check(self, deep: bool) -> Iterable[Finding]:
        gone = (one for one in self._folders if not one.is_dir())
        findings = [Finding(False, f"knowledge.folders has {one}, which is not a folder.") for one in gone]
        return [*findings, Finding(False, lacks)] if self._folders and (lacks := self._lacks()) else findings

    def _lacks(self) -> str:
        """A sentence about the libraries that it needs; '' if they are there."""
        lacks = [one for one in ("pypdfium2", "pathspec") if not find_spec(one)]
        names = " and ".join(lacks)
        return f"the documents can't be searched without {names}: {install_command(self.name)}" if lacks else ""

    async def _knowledge_search(
        self, context: ToolContext, query: Annotated[str, "words that the passage may have, in its language"]
    ) -> ToolOutput:
        """Find passages in the person's documents: Markdown, text and PDF in the folders of the prompt."""
        found = await asyncio.to_thread(self._index.found, query, PASSAGES, context.show)
        if not found:
            return ToolOutput("Nothing was found. Try other words.")
        text = "\n\n".join(f"[{one.address}]\n{one.text}" for one in found)
        return ToolOutput(text, outside=", ".join(dict.fromkeys(one.address for one in found)))

    async def _knowledge(self, said: Said) -> Reply:
        if not self._folders:
            raise NanoclawError('no folders yet: write folders = ["~/Notes"] below [knowledge] in config.toml.')
        if lacks := self._lacks():
            raise NanoclawError(lacks)
        if words := said.argument.strip():
            found = await asyncio.to_thread(self._index.found, words, PASSAGES)
            told = [f"- [{one.address}] {one_line(one.text, 200)}" for one in found]
            told = told or [one.text for one in await self.check(False)] or ["Nothing was found."]
            return Reply("\n".join(told), {"passages": [one._asdict() for one in found]})
        await asyncio.to_thread(self._index.refresh)
        files = self._index.files()
        bad = [one.text for one in await self.check(False)] + [f"not read: {at} {why}" for at, _, why in files if why]
        lines = [f"{len(files):,} files in {', '.join(map(str, self._folders))}", *(f"- {one}" for one in bad[:10])]
        lines += [f"- {len(bad) - 10} more are not read"] if len(bad) > 10 else []
        return Reply("\n".join(lines), {"files": [[*one] for one in files]})
