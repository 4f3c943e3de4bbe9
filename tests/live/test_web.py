"""web_search with a real searx on loopback."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nanoclaw.core.messages import ToolResult
from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.program import results, running

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

SCRIPT = Path(__file__).parent / "servers" / "searx.sh"
PORT = int(os.environ.get("NANOCLAW_TEST_SEARX_PORT", "3560"))


@pytest.fixture(scope="module")
def searx() -> Iterator[str]:
    subprocess.run([SCRIPT, "start"], check=True)
    yield f"http://127.0.0.1:{PORT}"
    subprocess.run([SCRIPT, "stop"], check=True)


async def searched(root: Path, address: str, words: str, **more: str) -> ToolResult:
    model = ScriptedProvider(call("web_search", {"query": words, **more}), "Done.")
    settings = f'[web]\nsearch = "searxng"\nsearxng = "{address}"\n'
    async with running(root, model, settings=settings) as program:
        await program.ask("Search")
        return results(program.history)[-1]


async def test_a_real_searx_finds(tmp_path: Path, searx: str) -> None:
    found = await searched(tmp_path, searx, "frobnicate")
    assert not found.is_error
    assert "1. Frobnicate: docs\n   http://b.example/docs\n   Turn a widget inside out" in found.text


async def test_what_it_has_not_is_no_result(tmp_path: Path, searx: str) -> None:
    assert (await searched(tmp_path, searx, "xylophone")).text.startswith("No result for 'xylophone'")


async def test_an_engine_of_its_that_fails_is_no_missing_result(tmp_path: Path, searx: str) -> None:
    found = await searched(tmp_path, searx, "break")
    assert found.is_error
    assert "No engine that" in found.text and "index: " in found.text


async def test_engines_that_know_no_dates_are_a_reason_that_is_named(tmp_path: Path, searx: str) -> None:
    found = await searched(tmp_path, searx, "frobnicate", since="month")
    assert "No result for 'frobnicate' since" in found.text and "leaving out since" in found.text
