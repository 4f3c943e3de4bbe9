"""A model that does whatever it reads, and a page that tells it what."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from nanoclaw.core.events import TextDelta
from nanoclaw.core.messages import AssistantMessage, ModelRequest, ToolCall, ToolResult
from nanoclaw.core.plugin import Tool, ToolOutput
from nanoclaw.core.provider import OnEvent
from nanoclaw.core.tool import tool
from tests.program import NOON, FakeChannel, Program, running, tools_plugin

EVIL = "http://evil.example/page"


class Obedient:
    """Makes each call that is written as `DO tool {…}` in what it has not answered yet, whoever wrote it, and what is
    written as `LATER tool {…}` when somebody says thanks. Where it says SECRET it puts what it knows."""

    model, supports_vision = "obedient/model", True

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []
        self._number = 0

    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        self.requests.append(request)
        calls, word = list[ToolCall](), "LATER" if request.history[-1].text == "thanks" else "DO"
        for message in reversed(request.history):
            if isinstance(message, AssistantMessage) and word == "DO":
                break
            for name, given in re.findall(rf"{word} (\w+) (\{{.*?\}})(?=\n|$)", message.text):
                self._number += 1
                calls.append(
                    ToolCall(f"call-{self._number}", name, given.replace("SECRET", "4711").replace("HOST", "1.2.3.4"))
                )
        text = "" if calls else "Done."
        on_event(TextDelta(text))
        return AssistantMessage(text, NOON, tuple(calls), finish="tool_calls" if calls else "stop")

    async def aclose(self) -> None: ...


def do(name: str, arguments: Mapping[str, Any]) -> str:
    """An instruction that it obeys."""
    return f"DO {name} {json.dumps(arguments)}\n"


def tools_for(page: str, paid: list[str], source: str = EVIL) -> tuple[Tool, Tool]:
    """A tool that reads a page, and one of somebody else's that pays."""

    async def read_page() -> ToolOutput:
        """Read the page."""
        return ToolOutput(page, outside=source)

    async def pay(to: str) -> str:
        """Pay somebody."""
        paid.append(to)
        return "paid"

    return tool(read_page, reach="none"), tool(pay, reach="outside")


@asynccontextmanager
async def reading(
    root: Path, page: str, settings: str = "", source: str = EVIL, **more: Any
) -> AsyncIterator[tuple[Program, Obedient, list[str]]]:
    """A program with these tools; what was paid."""
    model, paid, chats = Obedient(), list[str](), [FakeChannel("telegram")]
    extra = [tools_plugin(*tools_for(page, paid, source))]
    async with running(root, model, settings=settings, extra=extra, others=chats, **more) as home:
        yield home, model, paid


def questions(home: Program) -> list[str]:
    """What the owner was asked, in order."""
    return [text for (text,) in home.rows("SELECT question FROM approvals_asks ORDER BY id")]


def last_result(home: Program) -> ToolResult:
    return [one for one in home.history if isinstance(one, ToolResult)][-1]
