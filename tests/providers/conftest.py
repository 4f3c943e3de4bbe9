"""A scripted model server on loopback, and patience that only notes how long it would have waited."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from nanoclaw.core.events import Event, Notice, ReasoningDelta, TextDelta
from nanoclaw.core.messages import AssistantMessage, Message, ModelRequest, SystemPrompt, ToolSpec, UserMessage
from nanoclaw.core.provider import Provider
from nanoclaw.log import logger
from nanoclaw.providers.http import RetryPolicy

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
READ_FILE = ToolSpec(
    "read_file", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
)


@dataclass
class Heard:
    """Collects what a provider shows."""

    events: list[Event] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, TextDelta))

    @property
    def reasoning(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, ReasoningDelta))

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Notice)]


@dataclass
class Waits:
    """Seconds that would have been slept."""

    seconds: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)

    @property
    def retries(self) -> RetryPolicy:
        return RetryPolicy(sleep=self.sleep, clock=lambda: NOW.timestamp(), jitter=lambda: 0.0)


def request(*history: Message, tools: tuple[ToolSpec, ...] = (), system: str = "Be brief.") -> ModelRequest:
    return ModelRequest(SystemPrompt(system), history or (UserMessage("hi", NOW),), tools)


def ask(provider: Provider, asked: ModelRequest | None = None, heard: Heard | None = None) -> AssistantMessage:
    """The answer of a provider that is closed after it."""

    async def run() -> AssistantMessage:
        try:
            return await provider.complete(asked or request(), heard or Heard())
        finally:
            await provider.aclose()

    return asyncio.run(run())


@pytest.fixture(autouse=True)
def silent_log() -> None:
    """Lines of the log go nowhere."""
    logger.remove()  # after what an earlier test's start left to be set up


@pytest.fixture
def logged(silent_log: None) -> Iterator[list[str]]:
    """Lines of the log."""
    lines: list[str] = []
    logger.add(lambda line: lines.append(str(line).rstrip("\n")), level="DEBUG", format="{level}: {message}")
    yield lines
    logger.remove()


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def waits() -> Waits:
    return Waits()
