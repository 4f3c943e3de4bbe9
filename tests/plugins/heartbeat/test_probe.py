"""What the checklist watches is looked at as a person would look."""

import socket
from pathlib import Path

import pytest

from nanoclaw.core.errors import ToolError
from nanoclaw.plugins.heartbeat.checklist import Watch
from nanoclaw.plugins.heartbeat.probe import Seen, read
from nanoclaw.providers.scripted import ScriptedProvider
from tests.net.web_server import opened, reply, serving
from tests.program import Program, running


async def look(here: Program, address: str) -> Seen:
    return await read(here.public("heartbeat")._host, (Watch("url", address),))


async def test_what_changes_without_news_is_not_looked_at(tmp_path: Path) -> None:
    first = reply(b"<p>10</p><script>nonce='a'</script><!-- 09:00 -->", "text/html")
    second = reply(b"<p>10</p><script>nonce='b'</script><!-- 09:30 -->", "text/html")
    third = reply(b"<p>12</p><script>nonce='c'</script>", "text/html")
    async with serving(first, second, third) as (address, _):
        settings = f"[net]\nallow = {list(opened(address))}\n"
        async with running(tmp_path, ScriptedProvider(), settings=settings) as here:
            looks = [await look(here, address) for _ in range(3)]
    assert looks[0] == looks[1] != looks[2]


async def test_a_slow_page_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nanoclaw.plugins.heartbeat.probe.PAGE_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        settings = f"[net]\nallow = {list(opened(address))}\n"
        async with running(tmp_path, ScriptedProvider(), settings=settings) as here:
            with pytest.raises(ToolError, match="no complete answer"):
                await look(here, address)


async def test_this_machine_is_looked_at_only_when_the_person_allows_it(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider()) as here:
        with pytest.raises(ToolError, match="is this machine"):
            await look(here, "http://127.0.0.1:9/")
