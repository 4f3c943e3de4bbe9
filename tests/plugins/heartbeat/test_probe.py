"""What the checklist watches is looked at as a person would look."""

import socket
from pathlib import Path

import pytest

from nanoclaw.beneath.reach import Reach
from nanoclaw.plugins.heartbeat.checklist import Watch
from nanoclaw.plugins.heartbeat.probe import Probe
from tests.net.web_server import opened, reply, serving


async def test_what_changes_without_news_is_not_looked_at(tmp_path: Path) -> None:
    first = reply(b"<p>10</p><script>nonce='a'</script><!-- 09:00 -->", "text/html")
    second = reply(b"<p>10</p><script>nonce='b'</script><!-- 09:30 -->", "text/html")
    third = reply(b"<p>12</p><script>nonce='c'</script>", "text/html")
    async with serving(first, second, third) as (address, _):
        probe = Probe(Reach(tmp_path), {}, allow=opened(address))
        looks = [await probe.read(Watch("url", address)) for _ in range(3)]
    assert looks[0].sha256 == looks[1].sha256 != looks[2].sha256
    assert not any(look.problem for look in looks)


async def test_a_slow_page_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nanoclaw.plugins.heartbeat.probe.PAGE_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        probe = Probe(Reach(tmp_path), {}, allow=opened(address))
        assert "no complete answer" in (await probe.read(Watch("url", address))).problem


async def test_this_machine_is_looked_at_only_when_the_person_allows_it(tmp_path: Path) -> None:
    problem = (await Probe(Reach(tmp_path), {}).read(Watch("url", "http://127.0.0.1:9/"))).problem
    assert problem == "127.0.0.1 is this machine. Only public pages are read: net.allow can open it"
