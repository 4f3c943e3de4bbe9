"""What a monitor may read, and that it reads it only where the owner wants it."""

from __future__ import annotations

from pathlib import Path

from nanoclaw.core.errors import ProviderError
from nanoclaw.core.plugin import Plugin
from tests.plugins.page.served import ON, serving

ENABLED = f'{ON}[plugins]\nenabled = ["health"]\n'


async def test_a_monitor_reads_how_the_program_is_and_nothing_that_was_said(tmp_path: Path) -> None:
    steps = ("A secret answer.", ProviderError("the key sk-x is wrong"))
    async with serving(tmp_path, *steps, settings=ENABLED) as served, served.browser() as browser:
        monitor = served.client()
        async with monitor, browser.stream() as events:
            await browser.say("page:main", "A secret question")
            await events.until("ended")
            well = await monitor.get("/health")
            assert well.status_code == 200
            assert (well.json()["ok"], well.json()["turns"]) == (True, {"answered": 1})
            assert well.json()["channels"]["page"] == {"connected": True, "seen": 0}
            await browser.say("page:main", "Another one")
            await events.until("ended")
            ill, metrics = await monitor.get("/health"), (await monitor.get("/metrics")).text
            assert ill.status_code == 503
            assert ill.json()["last_failure"]
            assert 'nanoclaw_turns_total{end="failed"} 1\n' in metrics
            assert 'nanoclaw_channel_connected{channel="page"} 1\n' in metrics
            assert "secret" not in (said := well.text + ill.text + metrics) and "sk-x" not in said
            assert (await monitor.post("/health", content="{}")).status_code == 403


async def test_without_it_nothing_is_told(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.client() as monitor:
        assert [(await monitor.get(one)).status_code for one in ("/health", "/metrics")] == [401, 401]


class Greedy(Plugin):
    name = "greedy"

    def routes(self):  # type: ignore[no-untyped-def]
        async def answer(name, headers, body):  # type: ignore[no-untyped-def]
            return 200, "mine"

        return {"GET /api/login": answer, "POST /api/say": answer}


class Broken(Plugin):
    name = "broken"

    def routes(self):  # type: ignore[no-untyped-def]
        return {"GET nowhere": None, "GET": None}


async def test_a_plugin_with_wrong_paths_or_one_of_the_page_takes_and_opens_nothing_of_the_page(tmp_path: Path) -> None:
    async with serving(tmp_path, extra=[Broken, Greedy]) as served, served.client() as other:
        assert (await other.post("/api/say", content="{}")).text == "mine"
        assert (await other.put("/api/say", content="{}")).status_code == 403
