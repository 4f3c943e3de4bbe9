"""The bounds of web_fetch: however long, slow, packed or large what a server sends, it ends soon and memory stays."""

import asyncio
import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.core.messages import Address
from nanoclaw.net.charset import words_of
from nanoclaw.net.page import _tls
from nanoclaw.plugins.web import contents, fetching
from nanoclaw.plugins.web.fetching import fitting
from nanoclaw.plugins.web.readable import readable
from nanoclaw.providers.scripted import Hang, ScriptedProvider, call
from tests.documents.office import pack, pdf
from tests.net.web_server import reply
from tests.plugins.web.site import all_fetched, fetched, html, opened, site, to
from tests.plugins.web.tls import certified
from tests.program import NOON, results, running
from tests.virtual_time import passed, virtual_time

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


async def test_of_a_gigabyte_ten_megabytes_are_read(tmp_path: Path) -> None:
    sent, ended = 0, asyncio.Event()

    async def stream(head: str, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(HEAD + b"Content-Length: 1000000000\r\n\r\n")
        try:
            while sent < 1_000_000_000:
                writer.write(b"all work and no play\n" * 10_000)
                sent += 210_000
                await writer.drain()
        finally:
            ended.set()

    async with site({"/": stream}) as served:
        found = await fetched(tmp_path, opened(served), f"{served.url}/")
        assert "[only the first 10 MB were read]" in found.text
        (kept,) = (tmp_path / "workspace" / "outputs").iterdir()
        assert kept.stat().st_size < 10_001_000
        await ended.wait()
        assert sent < 30_000_000


async def test_a_bomb_is_unpacked_up_to_the_limit_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "MOST_BYTES", 1_000_000)
    bomb = gzip.compress(b"x y z\n" * 10_000_000)
    many = gzip.compress(b"") * 100_000  # unpacks to nothing, for ever
    twice = gzip.compress(bomb)
    pages = {
        "/gzip": reply(bomb, more="Content-Encoding: gzip\r\n"),
        "/deflate": reply(zlib.compress(b"x y z\n" * 1_000_000), more="Content-Encoding: deflate\r\n"),
        "/many": reply(many, more="Content-Encoding: gzip\r\n"),
        "/twice": reply(twice, more="Content-Encoding: gzip, gzip\r\n"),
    }
    async with site(pages) as served:
        found = await all_fetched(tmp_path, opened(served), *pages, base=served.url)
        assert ["only the first" in one.text for one in found] == [True, True, False, False]
        assert "is empty" in found[2].text
        assert "compressed as 'gzip, gzip', which nobody asked for" in found[3].text


async def test_endless_chunks_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "MOST_BYTES", 100_000)

    async def stream(head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"5\r\nhello\r\n" * 1_000)
            await writer.drain()

    async with site({"/": stream}) as served:
        assert "only the first" in (await fetched(tmp_path, opened(served), f"{served.url}/")).text


@pytest.mark.parametrize("where", ["head", "body", "redirect"])
@virtual_time
async def test_a_server_that_drips_is_given_thirty_seconds(tmp_path: Path, where: str) -> None:
    """In virtual time: a byte each second, for ever."""

    async def drip(head: str, writer: asyncio.StreamWriter) -> None:
        if where == "redirect":
            await asyncio.sleep(8)
            writer.write(to(head.split()[1] + "x"))
            return
        writer.write(b"HTTP/1.1 200 OK\r\n" if where == "head" else HEAD + b"\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(1)

    class Everywhere(dict[str, Any]):
        def get(self, path: str, default: Any = None) -> Any:
            return drip

    async with site(Everywhere()) as served:
        begin = passed()
        found = await fetched(tmp_path, opened(served), f"{served.url}/")
        assert "it gave no complete answer within 30 s" in found.text
        assert 29 < passed() - begin < 45


async def test_a_fetch_that_hangs_is_stopped(tmp_path: Path) -> None:
    reached = asyncio.Event()

    async def hang(head: str, writer: asyncio.StreamWriter) -> None:
        reached.set()
        await asyncio.Event().wait()

    async with site({"/": hang}) as served:
        model = ScriptedProvider(call("web_fetch", {"url": f"{served.url}/"}), Hang())
        async with running(tmp_path, model, settings=opened(served)) as program:
            await program.say("Read it")
            await reached.wait()
            await program.ask("/stop")
            assert [one.is_error for one in results(program.history)] == [True]


async def test_plain_http_leads_to_tls_with_its_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority, context = certified(tmp_path, "127.0.0.1")
    async with site({"/": html("<p>Good day</p>")}, context) as safe, site({}) as served:
        served.pages = {"/": to(f"{safe.url}/")}
        _tls.cache_clear()
        refused = await fetched(tmp_path / "a", opened(served, safe), f"{served.url}/")
        assert "certificate" in refused.text.casefold() and refused.is_error
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        _tls.cache_clear()
        assert "Good day" in (await fetched(tmp_path / "b", opened(served, safe), f"{served.url}/")).text
        _tls.cache_clear()


# --- what is read of each kind ---------------------------------------------------------------------------------------


async def test_documents_and_pictures_are_read(tmp_path: Path) -> None:
    from io import BytesIO

    from PIL import Image

    picture = BytesIO()
    Image.new("RGB", (40, 20), "red").save(picture, "PNG")
    word = '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body/></w:document>'
    pages = {
        "/report": reply(pdf(tmp_path / "r.pdf", "Rivers rise", "Bridges fall").read_bytes(), "application/pdf"),
        "/as.html": reply((tmp_path / "r.pdf").read_bytes(), "text/html"),  # whatever it is called
        "/x.docx": reply(
            pack(tmp_path / "x.docx", {"word/document.xml": word}).read_bytes(), "application/octet-stream"
        ),
        "/dot.png": reply(picture.getvalue(), "image/png"),
        "/bad.png": reply(b"\x89PNG no", "image/png"),
        "/feed": reply(b"<rss><title>News</title></rss>", "application/rss+xml"),
        "/old.doc": reply(b"\xd0\xcf\x11\xe0" + bytes(600), "application/msword"),
    }
    async with site(pages) as served:
        found = await all_fetched(tmp_path / "home", opened(served), *pages, base=served.url)
    report, called, empty, dot, bad, feed, old = found
    for one in (report, called):
        assert "PDF, 2 pages" in one.text and "[page 2]\nBridges fall" in one.text
    assert "is an archive, not a document" in empty.text or "has no text" in empty.text
    assert dot.images[0].mime == "image/png" and dot.outside.endswith("/dot.png")
    assert bad.is_error and "'bad.png'" in bad.text
    assert "<title>News</title>" in feed.text
    assert old.is_error and "old Office form" in old.text and "exec saves it: curl" in old.text


async def test_a_document_that_is_cut_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "MOST_BYTES", 300)
    monkeypatch.setattr(contents, "MOST_BYTES", 300)
    async with site({"/r.pdf": reply(pdf(tmp_path / "r.pdf", "Rivers").read_bytes(), "application/pdf")}) as served:
        found = await fetched(tmp_path / "home", opened(served), f"{served.url}/r.pdf")
        assert found.is_error and "too much to be read" in found.text


def test_html_that_would_take_for_ever_does_not() -> None:
    """Each of these took time that grows with the square of its length, with patterns that look ahead for a `>`."""
    for page in ("<a" * 300_000, "<script " * 100_000, "<!--" * 200_000, "<meta " * 100_000, "<iframe " * 100_000):
        words_of(page)
        readable(page, "http://a.example/")


def test_a_large_page_is_read_as_plain_words(monkeypatch: pytest.MonkeyPatch) -> None:
    page = f"<html><body><h1>Rivers</h1>{'<p>A river rises.</p>' * 60_000}</body></html>"
    found = readable(page, "http://a.example/")
    assert found.text.startswith("Rivers\nA river rises.\n") and "[" not in found.text[:100]
    article = f"<article><h1>Rivers</h1>{'<p>A river rises.</p>' * 50}</article>"
    page = f"<html><body><script>{'x = 1;' * 100_000}</script>{article}</body></html>"
    assert readable(page, "http://a.example/").text.startswith("# Rivers\n")


def test_a_list_of_links_is_not_taken_for_what_stands_around_a_page() -> None:
    rows = "".join(f'<li><a href="/n/{n}">Release {n} of the frobnicator</a></li>' for n in range(80))
    found = readable(f"<html><body><div><ul>{rows}</ul></div></body></html>", "http://a.example/all")
    assert "Release 79 of the frobnicator" in found.text


def test_passages_that_fit_come_in_their_order_and_within_their_room() -> None:
    paragraphs = [f"Paragraph {n} speaks of cows and hay." for n in range(40)]
    paragraphs[7] = "## Prices\n\nA litre of milk costs 2 euros."
    paragraphs[30] = "Milk prices rise in winter. " * 3
    shown = fitting("\n\n".join(paragraphs), "What is the price of milk?", 200)
    assert shown == f"## Prices\n\nA litre of milk costs 2 euros.\n\n[…]\n\n{paragraphs[30].strip()}\n\n[…]"
    assert fitting("\n\n".join(paragraphs), "xylophone", 200) == ""
    assert fitting("橋が再建された。\n\n" * 3 + "牛乳の値段は二百円です。", "牛乳の値段", 50).endswith(
        "牛乳の値段は二百円です。"
    )
    assert len(fitting("word " * 100_000, "word", 5_000)) <= 5_000


# --- robots ----------------------------------------------------------------------------------------------------------

RULES = reply(b"User-agent: *\nDisallow: /private\n")


async def fetched_by_job(root: Path, settings: str, url: str, words: str) -> str:
    """What a job's model was told, which fetches this by itself."""
    model = ScriptedProvider(call("web_fetch", {"url": url}), "Nothing new.")
    async with running(root, model, settings=settings) as program:
        from nanoclaw.core.messages import Inbound, UserMessage

        inbound = Inbound(Address("terminal", "main"), "job", "job-1", UserMessage(words, NOON, "job"), role="owner")
        await program.app.transactions.write(lambda tx: tx.deliver(inbound, program.app.chain.profiles["job"]))
        await program.answer()
        return results(program.history)[-1].text


async def test_a_job_obeys_robots_txt_but_where_its_words_name_the_site(tmp_path: Path) -> None:
    pages = {"/robots.txt": RULES, "/private": html("<p>Prices</p>"), "/public": html("<p>Opening hours</p>")}
    async with site(pages) as served:
        settings = opened(served)
        said = await fetched_by_job(tmp_path / "a", settings, f"{served.url}/private", "Look for news")
        assert "robots.txt of 127.0.0.1:" in said and "asks programs not to read it by themselves" in said
        assert served.paths == ["/robots.txt"]
        said = await fetched_by_job(tmp_path / "b", settings, f"{served.url}/public", "Look for news")
        assert "Opening hours" in said
        asked = f"Read {served.url}/private each day"
        assert "Prices" in await fetched_by_job(tmp_path / "c", settings, f"{served.url}/private", asked)
        assert served.paths[1:] == ["/robots.txt", "/public", "/private"]


async def test_a_person_reads_what_robots_may_not(tmp_path: Path) -> None:
    async with site({"/robots.txt": RULES, "/private": html("<p>Prices</p>")}) as served:
        assert "Prices" in (await fetched(tmp_path, opened(served), f"{served.url}/private")).text
        assert served.paths == ["/private"]


async def test_the_prompt_asks_for_sources_where_the_tools_are(tmp_path: Path) -> None:
    model = ScriptedProvider("Hello.", "Hello.")
    async with running(tmp_path, model) as program:
        await program.ask("Hi")
        assert "name the addresses that your answer is based on" in model.requests[0].system.text
        assert json.dumps([tool.name for tool in model.requests[0].tools]).count("web_") == 2
    async with running(tmp_path / "without", model, without=["web"]) as program:
        await program.ask("Hi")
        assert "addresses that your answer" not in model.requests[1].system.text
