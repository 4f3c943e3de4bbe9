"""A toolbox with every tool of a fresh workspace, used as a turn would use it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from nanoclaw.core.errors import ImageError
from nanoclaw.core.messages import Address, Image, ToolCall, ToolResult
from nanoclaw.core.store.audit import Ledger, insert
from nanoclaw.core.store.db import Store
from nanoclaw.core.tool import Tool, Toolbox, ToolContext
from nanoclaw.core.workspace import Workspace
from nanoclaw.plugins.files.tools import file_tools
from nanoclaw.plugins.forget.forgetting import Forgetter, forget_tool
from nanoclaw.plugins.memory.notes import MemoryStore
from nanoclaw.plugins.memory.search import NoteSearch
from nanoclaw.plugins.memory.tools import memory_tools
from nanoclaw.plugins.shell.tools import shell_tools
from nanoclaw.plugins.undo.changes import Changes
from nanoclaw.plugins.undo.kept import kept
from nanoclaw.plugins.undo.receipts import CallEffects

NOW = datetime(2026, 5, 3, 23, 30, tzinfo=timezone(timedelta(hours=2)))
CONTEXT = ToolContext(Address("test", "1"), "me", "person")


class Hands:
    """Calls tools by name; answers with what the model would get."""

    store: Store | None = None

    def __init__(self, root: Path, tools: list[Tool], store: Store | None = None) -> None:
        self.root = root
        self.tools = tools
        self.store = store
        self.box = Toolbox(tools, lambda: NOW, lambda text: text)

    def __call__(self, name: str, /, **arguments: object) -> str:
        result = self.result(name, **arguments)
        assert not result.is_error, result.text
        return result.text

    def error(self, name: str, /, **arguments: object) -> str:
        result = self.result(name, **arguments)
        assert result.is_error, result.text
        return result.text

    def result(self, name: str, /, **arguments: object) -> ToolResult:
        return self.send(name, json.dumps(arguments))

    def send(self, name: str, arguments: str) -> ToolResult:
        return asyncio.run(self.run(name, arguments))

    async def run(self, name: str, arguments: str) -> ToolResult:
        """One call, with its line in the ledger as a turn would write it."""
        call = ToolCall("1", name, arguments)
        effects = CallEffects(self.box, [call])
        result = await self.box.run(call, effects.context(0, CONTEXT))
        effects.end(0, result)
        if self.store:
            with self.store.transaction() as db:
                insert(db, str(CONTEXT.address), None, NOW, effects.ended)
        result.text.encode()
        assert not [sign for sign in result.text if sign not in "\n\t" and (sign < " " or "\x7f" <= sign < "\xa0")], (
            name,
            result.text,
        )
        return result


def fake_image(data: bytes, name: str) -> Image:
    if len(data) < 20:
        raise ImageError(f"{name} is cut off.")
    return Image("image/png", data, name)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "workspace"
    root.mkdir()
    yield root


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "state.db")
    yield store
    store.close()


@pytest.fixture
def changes(root: Path, tmp_path: Path, store: Store) -> Changes:
    return Changes(tmp_path / "undo", Workspace(root), lambda: NOW, Ledger(store, lambda: NOW))


@pytest.fixture
def forgetter(tmp_path: Path, changes: Changes) -> Forgetter:
    def drop_index() -> None:
        for file in tmp_path.glob("index.db*"):
            file.unlink()

    return Forgetter(
        tmp_path,
        changes,
        lambda: NOW,
        search=NoteSearch(changes.workspace, tmp_path / "index.db", lambda: NOW).search,
        drop_index=drop_index,
        store=None,
    )


@pytest.fixture
def hands(root: Path, tmp_path: Path, changes: Changes, forgetter: Forgetter, store: Store) -> Hands:
    workspace = Workspace(root)
    skills = tmp_path / "skills"
    skills.mkdir()
    (skills / "SKILL.md").write_text("how to\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CANARY_API_KEY": "sk-canary-value"}
    tools = [
        *file_tools(workspace, read_roots=[skills], open_image=fake_image),
        *shell_tools(workspace, environment),
        *memory_tools(
            MemoryStore(workspace, lambda: NOW), NoteSearch(workspace, tmp_path / "index.db", lambda: NOW).search
        ),
        forget_tool(forgetter),
    ]
    return Hands(root, kept(tools, changes), store)
