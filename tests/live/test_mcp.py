"""MCP servers of the npm registry and of PyPI (everything, filesystem, memory, time): real ones, of other hands."""

import asyncio
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.plugins.mcp.test_mcp import ALL, Watching
from tests.program import results, running

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

SCRIPT = Path(__file__).parent / "servers" / "mcp.sh"


@pytest.fixture(scope="module")
def installed() -> Path:
    try:
        done = subprocess.run([SCRIPT, "install"], capture_output=True, text=True, timeout=300)
    except (OSError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"the servers cannot be installed: {error}")
    if done.returncode:
        pytest.skip(f"the servers cannot be installed: {done.stderr[-500:]}")
    return Path(done.stdout.split()[-1])


@pytest.fixture
def port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def node(installed: Path, name: str, *arguments: str, more: str = "") -> str:
    script = installed / "node_modules" / "@modelcontextprotocol" / f"server-{name}" / "dist" / "index.js"
    return f'[mcp.{name}]\ncommand = "node"\nargs = {json.dumps([str(script), *arguments])}\n{more}\n'


def started(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    yield process
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


async def test_files_memory_time_and_everything_side_by_side(installed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "a.txt").write_text("hello from a document")
    settings = (
        ALL
        + node(installed, "filesystem", str(folder), more=f'roots = ["{folder}"]')
        + node(installed, "everything", "stdio")
        + node(installed, "memory", more=f'env = {{ MEMORY_FILE_PATH = "{tmp_path}/memory.json" }}')
        + f'[mcp.time]\ncommand = "{installed}/venv/bin/mcp-server-time"\nargs = ["--local-timezone", "UTC"]\n'
    )
    entity = {"name": "Rex", "entityType": "dog", "observations": ["likes bones"]}
    model = ScriptedProvider(
        call("filesystem__read_text_file", {"path": f"{folder}/a.txt"}),
        call("memory__create_entities", {"entities": [entity]}),
        call("memory__search_nodes", {"query": "bones"}),
        call("time__convert_time", {"source_timezone": "Asia/Tokyo", "time": "12:00", "target_timezone": "UTC"}),
        call("everything__get-sum", {"a": 2, "b": 40}),
        call("everything__get-tiny-image"),
        call("everything__get-structured-content", {"location": "Chicago"}),
        call("everything__get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
        call("everything__get-roots-list"),
        "I see.",
        call("everything__trigger-long-running-operation", {"duration": 30, "steps": 30}),
        "A prompt.",
    )
    channel = Watching()
    environment = {"PATH": os.environ["PATH"]}
    async with running(tmp_path, model, settings=settings, channel=channel, environment=environment) as here:
        assert await here.ask("go") == "I see."
        read, _, found, time, total, image, structured, reference, roots = results(here.history)
        assert "hello from a document" in read.text
        assert "likes bones" in found.text
        assert "03:00" in time.text
        assert "42" in total.text
        assert "a picture, image/png, that cannot be shown" in image.text  # its PNG has a wrong checksum
        assert "temperature" in structured.text
        assert "demo://resource" in reference.text
        assert here.workspace.as_uri() in roots.text
        await here.say("slowly")
        assert await channel.progress.get()
        async with asyncio.timeout(1):
            assert await here.ask("/stop") == "Stopped."
        assert "simple-prompt" in await here.ask("/everything:?")
        assert await here.ask("/everything:simple-prompt") == "A prompt."


async def test_everything_over_http_is_renewed_when_the_server_was_started_again(
    installed: Path, tmp_path: Path, port: int
) -> None:
    settings = f'{ALL}[mcp.e]\nurl = "http://127.0.0.1:{port}/mcp"\n'
    model = ScriptedProvider(
        call("e__get-sum", {"a": 1, "b": 1}), "Two.", call("e__get-sum", {"a": 2, "b": 2}), "Four."
    )
    for turn, (question, answer, total) in enumerate((("one and one?", "Two.", "2"), ("and two?", "Four.", "4"))):
        servers = started(str(SCRIPT), "http", str(port))
        next(servers)
        try:
            await _listening(port)
            if not turn:
                opened = running(tmp_path, model, settings=settings)
                here = await opened.__aenter__()
            assert await here.ask(question) == answer
            assert f"is {total}" in results(here.history)[-1].text
        finally:
            next(servers, None)
    await opened.__aexit__(None, None, None)


async def _listening(port: int) -> None:
    while True:
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.05)
