"""The tools of a fresh workspace, called as the owner's turn would call them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from nanoclaw.core.app import App
from nanoclaw.core.build import build
from nanoclaw.core.messages import Inbound, Origin, ToolCall, ToolResult, UserMessage
from nanoclaw.providers.scripted import ScriptedProvider
from tests.program import MAIN, config_of

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
        turn = app.runner._turn(0, inbound, MAIN, app.sessions.of(MAIN))
        result = await app.calls.call(ToolCall("1", name, arguments), turn)
        result.text.encode()
        assert not [sign for sign in result.text if sign not in "\n\t" and (sign < " " or "\x7f" <= sign < "\xa0")], (
            name,
            result.text,
        )
        return result


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace without anything."""
    root = tmp_path / "workspace"
    root.mkdir()
    return root


@pytest.fixture
def app(tmp_path: Path, root: Path) -> Iterator[App]:
    """All of the program in a home that is `tmp_path`."""
    app = build(config_of(tmp_path), provider=ScriptedProvider(), clock=lambda: NOW)
    yield app
    asyncio.run(app.aclose())


@pytest.fixture
def hands(app: App) -> Hands:
    return Hands(app)
