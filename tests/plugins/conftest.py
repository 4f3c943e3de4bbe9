"""The tools of a fresh workspace, called as the owner's turn would call them."""

import asyncio
import json
import os
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace

import pytest

from nanoclaw.core.app import App
from nanoclaw.core.messages import Effect, Inbound, Origin, ToolCall, ToolResult, UserMessage
from nanoclaw.core.plugin import Plugin
from nanoclaw.core.records import COLUMNS, effect_of
from nanoclaw.core.turn import RunningTurn
from nanoclaw.providers.scripted import ScriptedProvider
from nanoclaw.start.build import BUILT_IN, build
from tests.program import MAIN, config_of, new_store_laid

NOW = datetime(2026, 5, 3, 23, 30, tzinfo=timezone(timedelta(hours=2)))


class Hands:
    """Calls tools by name, through every gate and with a line in the audit log; answers with what the model would
    get."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.root: Path = app.config.workspace_path

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

    def send(self, name: str, arguments: str, origin: Origin = "person") -> ToolResult:
        return asyncio.run(self.run(name, arguments, origin))

    async def run(self, name: str, arguments: str, origin: Origin = "person") -> ToolResult:
        app = self.app
        inbound = Inbound(MAIN, "me", "", UserMessage("", NOW, origin), role="owner")
        profile = app.chain.profiles.get(origin)
        turn = RunningTurn(app.runner.parts, 0, inbound, MAIN, app.sessions.of(MAIN), profile=profile)
        result = await app.toolbox.call(ToolCall("1", name, arguments), turn)
        await turn.journal.change(lambda tx: None)
        result.text.encode()
        assert not [sign for sign in result.text if sign not in "\n\t" and (sign < " " or "\x7f" <= sign < "\xa0")], (
            name,
            result.text,
        )
        return result

    @property
    def effects(self) -> list[Effect]:
        """The audit log, newest first."""
        return [effect_of(row) for row in self.app.store.rows(f"SELECT {COLUMNS} FROM ledger ORDER BY id DESC")]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace without anything."""
    root = tmp_path / "workspace"
    root.mkdir()
    return root


@pytest.fixture
def app(tmp_path: Path, root: Path) -> Iterator[App]:
    """All of the program in a home that is `tmp_path`, which has a folder of skills beside the workspace. Commands run
    as they are: which sandbox there is depends on the machine."""
    skills = tmp_path / "skills"
    skills.mkdir()
    (skills / "SKILL.md").write_text("how to\n")

    class Shipped(Plugin):
        name = "skills"
        public = SimpleNamespace(folders=(skills,))

    config = config_of(tmp_path, PATH=os.environ["PATH"], HOME=str(tmp_path), CANARY_API_KEY="sk-canary-value")
    names = [name for name in BUILT_IN if name not in ("skills", "sandbox")]
    with new_store_laid(tmp_path, names):
        app = build(config, provider=ScriptedProvider(), clock=lambda: NOW, plugins=[*names, Shipped])
    app.keep_copy = lambda path, today: ""
    yield app
    asyncio.run(app.aclose())


@pytest.fixture
def hands(app: App) -> Hands:
    return Hands(app)
