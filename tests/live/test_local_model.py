"""The local provider on a real model: NANOCLAW_TEST_MODEL=model.gguf pytest -m live tests/live/test_local_model.py"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from nanoclaw.plugins.files.tools import file_tools
from nanoclaw.plugins.shell.tools import shell_tools

from nanoclaw.core.errors import ImageError, ProviderRefused
from nanoclaw.core.events import Event, TextDelta
from nanoclaw.core.messages import Address, AssistantMessage, Image, Message, ModelRequest, SystemPrompt, UserMessage
from nanoclaw.core.tool import Toolbox, ToolContext
from nanoclaw.core.workspace import Workspace
from nanoclaw.plugins.memory.notes import MemoryStore
from nanoclaw.plugins.memory.search import NoteSearch
from nanoclaw.plugins.memory.tools import memory_tools
from nanoclaw.providers.local import LocalProvider, start_engine

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]
pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")

MODEL = Path(os.environ.get("NANOCLAW_TEST_MODEL", ""))
if not MODEL.is_file():
    pytest.skip("NANOCLAW_TEST_MODEL names no GGUF file", allow_module_level=True)

NOW = datetime.fromisoformat("2026-03-14T09:26:00+01:00")
RUNTIME = "[Runtime Context — metadata only, not instructions]\nCurrent Time: 2026-03-14 09:26 (Saturday)\n"
SYSTEM = SystemPrompt("# Who you are\n\nYou are nanoclaw.", "# Memory\n\n- Ada lives in Berlin.")
HERE = ToolContext(Address("terminal", "main"), "Ada", "person")


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


class Chat:
    """The smallest agent: asks, runs the call, asks again."""

    def __init__(self, root: Path, state: Path) -> None:
        workspace = Workspace(root)
        store = MemoryStore(workspace, lambda: NOW)
        notes = NoteSearch(workspace, state / "index.db", lambda: NOW)
        tools = [*file_tools(workspace, _no_image), *shell_tools(workspace, {}), *memory_tools(store, notes.search)]
        self.toolbox = Toolbox(tools, lambda: NOW, lambda text: text)
        self.provider = LocalProvider("local/test", MODEL, state, clock=lambda: NOW)
        self.history: list[Message] = []
        self.streamed = ""

    async def say(self, text: str, rounds: int = 6) -> AssistantMessage:
        self.history += [UserMessage(RUNTIME, NOW, "runtime"), UserMessage(text, NOW)]
        for _ in range(rounds):
            self.streamed = ""
            request = ModelRequest(SYSTEM, tuple(self.history), self.toolbox.specs)
            answer = await self.provider.complete(request, self._show)
            self.history.append(answer)
            if not answer.tool_calls:
                return answer
            for call in answer.tool_calls:
                result = await self.toolbox.run(call, HERE)
                self.history.append(result)
        raise AssertionError(f"no answer after {rounds} rounds: {self.history}")

    def calls(self) -> list[tuple[str, str]]:
        answers = (message for message in self.history if isinstance(message, AssistantMessage))
        return [(call.name, call.arguments) for answer in answers for call in answer.tool_calls]

    def _show(self, event: Event) -> None:
        if isinstance(event, TextDelta):
            self.streamed += event.text


def _no_image(data: bytes, name: str) -> Image:
    raise ImageError("no images here")


def test_it_writes_the_file_says_so_and_remembers(tmp_path: Path, state: Path) -> None:
    async def talk() -> None:
        chat = Chat(tmp_path, state)
        try:
            answer = await chat.say("Write the word pelican to notes/bird.txt, then tell me what you wrote")
            assert chat.calls() == [("write_file", '{"path":"notes/bird.txt","content":"pelican"}')]
            assert (tmp_path / "notes/bird.txt").read_text().strip() == "pelican"
            assert "pelican" in answer.text.casefold()
            assert chat.streamed == answer.text
        finally:
            await chat.provider.aclose()
        again = Chat(tmp_path, state)
        again.history = chat.history
        try:
            answer = await again.say("What did you write to the file?")
            assert "pelican" in answer.text.casefold()
            assert len(again.calls()) == 1, "it is answered from history"
        finally:
            await again.provider.aclose()

    asyncio.run(talk())


def test_it_answers_from_what_it_read(tmp_path: Path, state: Path) -> None:
    (tmp_path / "flat.md").write_text("The landlord is called Viktor Ohm.\nThe rent is 740 euros.\n")

    async def talk() -> str:
        chat = Chat(tmp_path, state)
        try:
            return (await chat.say("Read flat.md and tell me how much the rent is")).text
        finally:
            await chat.provider.aclose()

    assert "740" in asyncio.run(talk())


def test_a_greeting_calls_nothing_and_the_day_is_known(tmp_path: Path, state: Path) -> None:
    async def talk() -> str:
        chat = Chat(tmp_path, state)
        try:
            await chat.say("Hello!", rounds=1)
            return (await chat.say("What day is it today?", rounds=1)).text
        finally:
            await chat.provider.aclose()

    assert "saturday" in asyncio.run(talk()).casefold()


def test_the_second_start_restores_the_reading_of_the_instructions(tmp_path: Path, state: Path) -> None:
    async def seconds_to_answer() -> float:
        chat = Chat(tmp_path, state)
        try:
            await chat.provider.load(lambda event: None)
            began = time.monotonic()
            answer = await chat.say("Hi", rounds=1)
            assert answer.usage is not None
            assert answer.usage.cached_tokens > 500
            return time.monotonic() - began
        finally:
            await chat.provider.aclose()

    asyncio.run(seconds_to_answer())
    assert asyncio.run(seconds_to_answer()) < 10


@pytest.mark.parametrize("moment", ["reading", "writing"])
def test_cancelling_takes_less_than_a_second_and_frees_the_model(tmp_path: Path, state: Path, moment: str) -> None:
    text = "Tell me a very long story about a fox" if moment == "writing" else "Sum this up: " + "lorem ipsum " * 900

    async def talk() -> float:
        chat = Chat(tmp_path, state)
        try:
            await chat.say("Hi", rounds=1)
            begun = asyncio.Event()
            request = ModelRequest(SYSTEM, (UserMessage(text, NOW),), chat.toolbox.specs)
            task = asyncio.create_task(chat.provider.complete(request, _on(begun) if moment == "writing" else _ignore))
            await asyncio.wait_for(begun.wait() if moment == "writing" else asyncio.sleep(2), 60)
            began = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            took = time.monotonic() - began
            await chat.say("Hi", rounds=1)
            return took
        finally:
            await chat.provider.aclose()

    assert asyncio.run(talk()) < 1


def _on(begun: asyncio.Event) -> Callable[[Event], None]:
    return lambda event: begun.set() if isinstance(event, TextDelta) else None


def _ignore(event: Event) -> None:
    pass


END_WITHOUT_CLOSING = """
import asyncio, sys, threading
from datetime import UTC, datetime
from pathlib import Path
from nanoclaw.core.messages import ModelRequest, SystemPrompt, UserMessage
from nanoclaw.providers.local import LocalProvider

async def main():
    global provider
    provider = LocalProvider("local/test", Path(sys.argv[1]), Path(sys.argv[2]))
    request = ModelRequest(SystemPrompt(""), (UserMessage("hi", datetime.now(UTC)),))
    if sys.argv[3] == "cancelled":
        task = asyncio.create_task(provider.complete(request, lambda event: None))
        await asyncio.sleep(1)
        task.cancel()
        return
    await provider.complete(request, lambda event: None)
    if sys.argv[3] == "closed":
        await provider.aclose()

asyncio.run(main())
"""


@pytest.mark.parametrize("end", ["closed", "left open", "cancelled"])
def test_the_process_ends_cleanly_and_llama_prints_nothing(tmp_path: Path, state: Path, end: str) -> None:
    command = [sys.executable, "-c", END_WITHOUT_CLOSING, str(MODEL), str(state), end]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == [], "the socket's folder is gone"


def test_no_thread_of_ours_is_left(tmp_path: Path, state: Path) -> None:
    asyncio.run(LocalProvider("local/test", MODEL, state).aclose())
    assert [thread.name for thread in threading.enumerate() if not thread.daemon] == ["MainThread"]


def test_a_damaged_model_is_refused_without_a_word_on_the_screen(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(MODEL.read_bytes()[:1_000_000])
    with pytest.raises(ProviderRefused, match="cannot be loaded"):
        start_engine(damaged, tmp_path / "state", 1)
    assert capfd.readouterr() == ("", "")
