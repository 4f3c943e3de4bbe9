"""The local provider on a real model: NANOCLAW_TEST_MODEL=model.gguf pytest -m live tests/live/test_local_model.py"""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import pytest

from nanoclaw.core.errors import ProviderRefused
from nanoclaw.core.events import Event, TextDelta
from nanoclaw.core.messages import AssistantMessage, ModelRequest, SystemPrompt, UserMessage
from nanoclaw.providers.local import LocalProvider, start_engine
from tests.program import Program, running

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]
pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")

MODEL = Path(os.environ.get("NANOCLAW_TEST_MODEL", ""))
if not MODEL.is_file():
    pytest.skip("NANOCLAW_TEST_MODEL names no GGUF file", allow_module_level=True)

NOW = datetime.fromisoformat("2026-03-14T09:26:00+01:00")
SYSTEM = SystemPrompt("# Who you are\n\nYou are nanoclaw.", "# Memory\n\n- Ada lives in Berlin.")
PLUGINS = ("files", "shell", "memory")


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


@asynccontextmanager
async def chat(root: Path, state: Path) -> AsyncIterator[Program]:
    """The program with a model inside the process."""
    provider = LocalProvider("local/test", MODEL, state, clock=lambda: NOW)
    try:
        async with running(root, provider, plugins=PLUGINS, clock=lambda: NOW, seconds=500) as program:
            yield program
    finally:
        await provider.aclose()


def calls(program: Program) -> list[tuple[str, str]]:
    answers = (message for message in program.history if isinstance(message, AssistantMessage))
    return [(call.name, call.arguments) for answer in answers for call in answer.tool_calls]


async def test_it_writes_the_file_says_so_and_remembers(tmp_path: Path, state: Path) -> None:
    async with chat(tmp_path, state) as program:
        answer = await program.ask("Write the word pelican to notes/bird.txt, then tell me what you wrote")
        assert calls(program) == [("write_file", '{"path":"notes/bird.txt","content":"pelican"}')]
        assert (program.workspace / "notes/bird.txt").read_text().strip() == "pelican"
        assert "pelican" in answer.casefold()
        shown = (event.text for _, event in program.channel.events if isinstance(event, TextDelta))
        assert "".join(shown).endswith(answer)
    async with chat(tmp_path, state) as program:
        assert "pelican" in (await program.ask("What did you write to the file?")).casefold()
        assert len(calls(program)) == 1, "it is answered from history"


async def test_it_answers_from_what_it_read(tmp_path: Path, state: Path) -> None:
    async with chat(tmp_path, state) as program:
        (program.workspace / "flat.md").write_text("The landlord is called Viktor Ohm.\nThe rent is 740 euros.\n")
        assert "740" in await program.ask("Read flat.md and tell me how much the rent is")


async def test_a_greeting_calls_nothing_and_the_day_is_known(tmp_path: Path, state: Path) -> None:
    async with chat(tmp_path, state) as program:
        await program.ask("Hello!")
        assert "saturday" in (await program.ask("What day is it today?")).casefold()
        assert calls(program) == []


async def test_the_second_start_restores_the_reading_of_the_instructions(tmp_path: Path, state: Path) -> None:
    async def seconds_to_answer() -> float:
        async with chat(tmp_path, state) as program:
            provider = program.app.models.of("")
            assert isinstance(provider, LocalProvider)
            await provider.load(lambda event: None)
            began = time.monotonic()
            await program.ask("Hi")
            answers = [message for message in program.history if isinstance(message, AssistantMessage)]
            assert answers[-1].usage is not None
            assert answers[-1].usage.cached_tokens > 500
            return time.monotonic() - began

    await seconds_to_answer()
    assert await seconds_to_answer() < 10


@pytest.mark.parametrize("moment", ["reading", "writing"])
async def test_cancelling_takes_under_a_second_and_frees_the_model(tmp_path: Path, state: Path, moment: str) -> None:
    text = "Tell me a very long story about a fox" if moment == "writing" else "Sum this up: " + "lorem ipsum " * 900
    async with chat(tmp_path, state) as program:
        await program.ask("Hi")
        begun, provider = asyncio.Event(), program.app.models.of("")
        request = ModelRequest(SYSTEM, (UserMessage(text, NOW),), tuple(one.spec for one in program.app.chain.tools()))
        task = asyncio.create_task(provider.complete(request, _on(begun) if moment == "writing" else _ignore))
        await asyncio.wait_for(begun.wait() if moment == "writing" else asyncio.sleep(2), 60)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        took = time.monotonic() - began
        await program.ask("Hi")
    assert took < 1


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
