"""web_search through the whole program. SearXNG, Brave and Tavily are played by servers on loopback, which answer in
the formats that these document; ddgs is the real library, and what it asks on the net a proxy on loopback answers."""

import asyncio
import json
import os
import re
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qs, urlsplit

import pytest

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.messages import ToolResult
from nanoclaw.plugins.web import keyless, search
from nanoclaw.plugins.web.search import SearchError
from nanoclaw.providers.scripted import Hang, ScriptedProvider, call
from nanoclaw.start.build import build
from tests.examples import examples
from tests.net.web_server import reply
from tests.plugins.web.site import Answer, Site, site
from tests.plugins.web.tls import certified
from tests.program import config_of, results, running

SAID = examples(__file__, "search.jsonl")

ENGINES = (
    *("html.duckduckgo.com", "search.brave.com", "www.mojeek.com", "www.startpage.com", "search.yahoo.com"),
    *("en.wikipedia.org", "grokipedia.com", "www.bing.com", "www.google.com", "yandex.com"),
)

KEYS = dict.fromkeys(search._KEYS.values(), "a-key-of-mine")


async def searched(
    root: Path, settings: str, environment: dict[str, str] = KEYS, url: str = "", **asked: Any
) -> ToolResult:
    model = ScriptedProvider(call("web_search", {"query": "frob release", **asked}), "Done.")
    places = {"BRAVE": url or search.BRAVE, "TAVILY": url or search.TAVILY}
    with patch.multiple(search, **places):  # type: ignore[call-overload]
        return await _searched(root, model, settings, environment)


async def _searched(root: Path, model: ScriptedProvider, settings: str, environment: dict[str, str]) -> ToolResult:
    async with running(root, model, settings=f"[web]\n{settings}\n", environment=environment) as program:
        await program.ask("Search for it")
        return results(program.history)[-1]


def answer(value: object, status: str = "200 OK", more: str = "") -> bytes:
    return reply(json.dumps(value).encode(), "application/json", status, more)


def parameters(served: Site) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(served.paths[0]).query).items()}


async def test_brave_gives_numbered_results_with_title_address_date_and_snippet(tmp_path: Path) -> None:
    async with site({"/res/v1/web/search": answer(SAID["brave"][0])}) as served:
        settings = 'search = "brave"'
        environment = {"BRAVE_API_KEY": "key-of-the-person"}
        found = await searched(tmp_path, settings, environment, served.url, count=5, since="2026-03-01")
        assert found.outside == "web search"
        assert (
            "2 results for 'frob release' since 2026-03-01, by brave:\n\n"
            "1. Frob 2.4 released\n   https://frob.example/2.4\n   2026-03-04\n   The release fixes 3 & more\n\n"
            "2. Frob\n   https://frob.example/\n   A tool\n"
        ) in found.text
        assert parameters(served) == {"q": "frob release", "count": "5", "freshness": "2026-03-01to2026-03-06"}
        assert "x-subscription-token: key-of-the-person" in served.asked[0].lower()


async def test_tavily_is_asked_with_the_key_of_the_environment(tmp_path: Path) -> None:
    said = {"results": [{"title": "T", "url": "https://t.example/", "content": "words", "score": 0.9}]}
    async with site({"/search": answer(said)}) as served:
        settings = 'search = "tavily"'
        found = await searched(tmp_path, settings, url=served.url, since="week")
        assert "1. T\n   https://t.example/\n   words" in found.text
        assert "authorization: Bearer a-key-of-mine" in served.asked[0]
        assert json.loads(served.bodies[0]) == {"query": "frob release", "max_results": 8, "start_date": "2026-02-27"}
        assert "a-key-of-mine" not in found.text


async def test_a_searxng_of_ones_own_may_be_private(tmp_path: Path) -> None:
    async with site({"/sx/search": answer(SAID["searxng"][0])}) as served:
        found = await searched(tmp_path, f'search = "searxng"\nsearxng = "{served.url}/sx/"', since="month")
        assert "1 results" in found.text and "1. New\n   https://n.example/\n   2026-03-05" in found.text
        assert parameters(served) == {"q": "frob release", "format": "json", "time_range": "month"}


KEYED = 'search = "brave"'
TAVILY = KEYED.replace("brave", "tavily")
SEARXNG = 'search = "searxng"\nsearxng = "{url}"'
INVALID = {"type": "ErrorResponse", "error": {"code": "SUBSCRIPTION_TOKEN_INVALID", "status": 422}}
QUOTA = {"detail": {"error": "This request exceeds your plan's set usage limit."}}


@pytest.mark.parametrize(
    ("settings", "said", "told"),
    [
        (KEYED, answer({"web": {"results": []}}), "No result for 'frob release'. brave answered"),
        (KEYED, answer({"query": {}}), "No result for"),
        (SEARXNG, answer({"results": [], "unresponsive_engines": []}), "No result for"),
        (KEYED, answer(INVALID, "422 Unprocessable Entity"), "it refuses the key: check BRAVE_API_KEY"),
        (TAVILY, answer({"detail": {"error": "Unauthorized"}}, "401 Unauthorized"), "check TAVILY_API_KEY"),
        (TAVILY, answer(QUOTA, "432 Plan Limit"), "the quota of the key is used up"),
        (KEYED, answer({}, "429 Too Many Requests", "Retry-After: 7\r\n"), "too many requests: it asks to wait (7)"),
        (KEYED, answer({}, "503 Service Unavailable"), "it is down: try again later"),
        (SEARXNG, answer({}, "403 Forbidden"), "add json to search.formats"),
        (SEARXNG, reply(b"<html>hello", "text/html"), "is not searxng (no JSON)"),
        (
            SEARXNG,
            answer({"results": [], "unresponsive_engines": [["google", "CAPTCHA"], ["bing", "timeout"]]}),
            "has answered (google: CAPTCHA; bing: timeout), so this says nothing about whether there are results",
        ),
    ],
)
async def test_no_result_a_refusal_and_an_outage_are_told_apart(
    tmp_path: Path, settings: str, said: bytes, told: str
) -> None:
    async with site(dict.fromkeys(("/res/v1/web/search", "/search"), said)) as served:
        found = await searched(tmp_path, settings.format(url=served.url), url=served.url)
        assert told in found.text
        assert found.is_error is not found.text.startswith("No result")
        assert "a-key-of-mine" not in found.text


async def test_an_engine_that_is_down_is_said_to_be(tmp_path: Path) -> None:
    async with site({}) as served:
        pass
    found = await searched(tmp_path, f'search = "searxng"\nsearxng = "{served.url}"')
    assert "searxng is down or out of reach: 127.0.0.1 cannot be reached" in found.text


async def test_a_key_that_is_missing_is_said_with_its_place(tmp_path: Path) -> None:
    found = await searched(tmp_path, 'search = "brave"', {})
    assert "brave needs a key: BRAVE_API_KEY=… in secrets.env" in found.text


@pytest.mark.parametrize(("asked", "told"), SAID["what cannot be searched is said"])
async def test_what_cannot_be_searched_is_said(tmp_path: Path, asked: dict[str, str], told: str) -> None:
    assert told in (await searched(tmp_path, 'search = "brave"', KEYS, **asked)).text


@pytest.mark.parametrize(("settings", "told"), SAID["settings that cannot be meant stop the start"])
def test_settings_that_cannot_be_meant_stop_the_start(tmp_path: Path, settings: str, told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        build(config_of(tmp_path, f"[web]\n{settings}\n"), provider=())


# --- ddgs ------------------------------------------------------------------------------------------------------------

DUCK = b"""<html><body><div class="links_main body"><h2><a>Frob 2.4 released</a></h2>
<a href="https://frob.example/2.4">All that is new in Frob 2.4</a></div></body></html>"""


NOTHING = {"en.wikipedia.org": b'["frob", [], [], []]', "grokipedia.com": b'{"results": []}'}


@asynccontextmanager
async def net(folder: Path, page: Answer) -> AsyncIterator[tuple[dict[str, str], Site]]:
    """A proxy on loopback that answers for every host of the net: the environment that leads ddgs there, and what was
    asked."""
    authority, context = certified(folder, *ENGINES)
    served = Site({})

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            host = head.split()[1].partition(":")[0]
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await writer.drain()
            await writer.start_tls(context)
            asked = (await reader.readuntil(b"\r\n\r\n")).decode()
            served.asked.append(f"GET https://{host}{asked.split()[1]} HTTP/1.1")
            if isinstance(page, bytes):
                is_asked = "duckduckgo" in host or b" 200 " not in page[:20]
                writer.write(page if is_asked else reply(NOTHING.get(host, b"<html><body></body></html>")))
                await writer.drain()
            else:
                await page(asked, writer)
        with suppress(OSError):
            writer.close()

    server = await asyncio.start_server(connect, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield {"DDGS_PROXY": f"http://127.0.0.1:{port}", "SSL_CERT_FILE": str(authority)}, served
    finally:
        server.close()


async def test_ddgs_finds_without_a_key(tmp_path: Path) -> None:
    async with net(tmp_path, reply(DUCK, "text/html", more=f"Content-Length: {len(DUCK)}\r\n")) as (
        environment,
        served,
    ):
        found = await searched(tmp_path / "home", "", environment, count=20)
        assert "1. Frob 2.4 released\n   https://frob.example/2.4\n   All that is new in Frob 2.4" in found.text
        assert any("duckduckgo" in path for path in served.paths)


async def test_engines_that_refuse_programs_are_no_missing_result(tmp_path: Path) -> None:
    async with net(tmp_path, reply(b"no", status="429 Too Many Requests")) as (environment, _):
        found = await searched(tmp_path / "home", "", environment)
        assert found.is_error
        assert "the engines refuse programs at the moment" in found.text and ": 429" in found.text


async def test_without_a_net_that_is_what_is_said(tmp_path: Path) -> None:
    found = await searched(tmp_path, "", {"DDGS_PROXY": "http://127.0.0.1:9"})
    assert found.is_error
    assert "no engine can be reached" in found.text


async def test_a_search_that_hangs_is_stopped_with_its_process(tmp_path: Path) -> None:
    hung, model = asyncio.Event(), ScriptedProvider(call("web_search", {"query": "frob"}), Hang())

    async def hang(head: str, writer: asyncio.StreamWriter) -> None:
        hung.set()
        await asyncio.Event().wait()

    async with (
        net(tmp_path, hang) as (environment, _),
        running(tmp_path / "home", model, environment=environment) as program,
    ):
        await program.say("Search")
        await hung.wait()
        await program.ask("/stop")
        assert [one.is_error for one in results(program.history)] == [True]
        assert b"keyless_child" not in b"".join(_commands_of_children())


def _commands_of_children() -> list[bytes]:
    """The command lines of all processes of this one."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):
            if f"PPid:\t{os.getpid()}\n" in status.read_text():
                found.append(status.with_name("cmdline").read_bytes())
    return found


async def test_without_its_library_searching_is_not_offered_and_the_library_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ddgs", None)
    model = ScriptedProvider(call("web_search", {"query": "frob"}), "Done.")
    async with running(tmp_path, model) as program:
        await program.ask("Search for it")
        offered = {spec.name for spec in model.requests[0].tools}
        assert "web_fetch" in offered and "web_search" not in offered
        (found,) = [one.text for plugin, one in await program.app.findings() if plugin == "web"]
        for said in (found, results(program.history)[-1].text):
            assert "searching without a key needs the library ddgs: " in said and "install" in said


async def test_status_tells_what_the_chosen_engine_lacks(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(), settings='[web]\nsearch = "tavily"\n') as program:
        (found,) = [one for plugin, one in await program.app.findings() if plugin == "web"]
        assert not found.is_well and "tavily needs a key" in found.text


def test_a_result_that_is_nested_too_deeply_is_a_failed_search() -> None:
    with pytest.raises(SearchError, match="ddgs failed"):
        keyless._read(b'{"results": ' + b"[" * 100_000 + b"}")
