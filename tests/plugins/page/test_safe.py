"""Who may use the page: codes, cookies, names, origins, the policy, and bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from nanoclaw.commands.plugins import reply
from nanoclaw.core.errors import ConfigError
from nanoclaw.plugins.page.render import html
from tests.plugins.page.served import serving

PRIVATE = ("/api/start", "/api/talks", "/api/talk?c=page:abc", "/api/stream", "/api/output?c=page:abc&number=1")


async def test_a_link_lets_one_browser_in_and_its_cookie_is_out_of_reach_of_scripts(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.browser(signed_in=False) as browser:
        assert [(await browser.client.get(path)).status_code for path in PRIVATE] == [401] * len(PRIVATE)
        link = served.page.link()
        answer = await browser.sign_in(link)
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie and "samesite=strict" in cookie
        async with served.browser(signed_in=False) as other:
            assert (await other.sign_in(link)).status_code == 403
        assert (await browser.get("/api/talks"))["talks"] == []
    async with serving(tmp_path) as served, served.browser(signed_in=False) as again:
        again.client.cookies = browser.client.cookies
        assert (await again.get("/api/talks"))["talks"] == []


async def test_who_is_signed_in_is_listed_and_signed_out_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.browser() as browser, served.browser() as other:
        async with other.stream() as events:
            await events.until("afresh")
            rows = {card["title"]: card for card in (await browser.get("/api/view/house"))["cards"]}["Who is let in"][
                "rows"
            ]
            assert [row["acts"][0]["label"] for row in rows] == ["Sign out"] * 2
            out = rows[0]["acts"][0]["command"]
            assert (await browser.client.post("/api/do", json={"command": out})).status_code == 200
            with pytest.raises(AssertionError, match="the stream has ended"):
                await events.next()
        assert (await other.client.get("/api/talks")).status_code == 401
        assert (await browser.client.get("/api/talks")).status_code == 200
        assert "1: a browser, signed in 2026-03-06" in str(await reply(served.app, "/web browsers", as_json=False))
        with pytest.raises(ConfigError, match="no browser '9'"):
            await reply(served.app, "/web browser --revoke 9", as_json=False)


async def test_a_link_is_drawn_for_a_phone_where_one_can_reach_it(tmp_path: Path) -> None:
    pytest.importorskip("segno")
    async with serving(tmp_path) as served:
        told = await reply(served.app, "/web --qr", as_json=False) or ""
        assert "No phone reaches 127.0.0.1" in told and "█" not in told
    async with serving(tmp_path, settings='[page]\nport = 0\nhosts = ["home.example"]\n') as served:
        _, other, *drawn = (await reply(served.app, "/web --qr", as_json=False) or "").splitlines()
        assert other.startswith("https://home.example/#") and {len(line) for line in drawn} == {len(drawn[0])}


async def test_behind_a_proxy_its_name_counts_and_the_cookie_is_for_tls_alone(tmp_path: Path) -> None:
    settings = '[page]\nport = 0\nhosts = ["home.example"]\n'
    async with serving(tmp_path, settings=settings) as served, served.browser(signed_in=False) as browser:
        own, theirs = str(await reply(served.app, "/web", as_json=False)).splitlines()
        assert own.startswith("http://127.0.0.1:") and theirs.startswith("https://home.example/#")
        browser.client.headers.update({"host": "home.example", "origin": "https://home.example"})
        answer = await browser.sign_in(theirs)
        assert answer.status_code == 200 and "secure" in answer.headers["set-cookie"].lower()


@pytest.mark.parametrize(
    ("table", "told"), [('address = "0.0.0.0"', "set page.password"), ('address = "x"', "must be")]
)
async def test_another_address_needs_a_password(tmp_path: Path, table: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        async with serving(tmp_path, settings=f"[page]\n{table}\n"):
            pass


async def test_wrong_codes_are_bounded(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.browser(signed_in=False) as browser:
        statuses = [(await browser.sign_in("#wrong")).status_code for _ in range(12)]
        assert statuses == [403] * 10 + [429] * 2
        assert (await browser.sign_in(served.page.link())).status_code == 429


async def test_other_names_and_other_origins_get_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.browser() as browser:
        for path in ("/", "/static/app.js", *PRIVATE):
            assert (await browser.client.get(path, headers={"host": "evil.example"})).status_code == 421
        said: dict[str, Any] = {"c": "page:abc12345", "id": "abcdefgh1", "text": "Hello"}
        without = httpx.Request("POST", f"{served.url}/api/say", json=said, headers={"cookie": _cookie(browser.client)})
        assert (await browser.client.send(without)).status_code == 403
        for headers in ({"origin": "http://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}):
            assert (await browser.client.post("/api/say", json=said, headers=headers)).status_code == 403
        assert (await browser.client.get("/api/talks", headers={"sec-fetch-site": "cross-site"})).status_code == 403
        assert (await browser.talk("page:abc12345"))["items"] == []


def _cookie(client: httpx.AsyncClient) -> str:
    return "; ".join(f"{name}={value}" for name, value in client.cookies.items())


async def test_every_answer_has_a_policy_without_other_hosts_and_bad_requests_get_a_sentence(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.browser() as browser:
        for path in ("/", "/static/style.css", "/static/none.js", "/static/..%2fplugin.py", "/api/talks", "/nowhere"):
            answer = await browser.client.get(path)
            assert "default-src 'none'" in answer.headers["content-security-policy"]
            assert "http" not in answer.headers["content-security-policy"]
        big = await browser.client.post("/api/say", content=b"x" * 1_000_001)
        assert big.status_code == 413 and "1 MB" in big.json()["error"]
        for body in (b"[]", b"{", b'{"c": 3}', b'{"c": "page:abc12345", "id": "abcdefgh1", "text": " "}', b"[" * 9000):
            answer = await browser.client.post("/api/say", content=body)
            assert answer.status_code == 400 and answer.json()["error"].endswith(".")


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script><img src=x onerror=alert(1)>",
        "[a](javascript:alert(1)) [b](data:text/html,x) ![c](https://evil.example/c.png)",
        '```html" onload="alert(1)\n<b>x</b>\n```',
        '<https://e.example/"onmouseover=alert(1)>',
    ],
)
def test_an_answer_brings_no_script_and_its_pictures_are_links(text: str) -> None:
    made = html(text)
    assert "<script" not in made and "<img" not in made and "onload=" not in made.replace("&quot;", "")
    assert 'href="javascript' not in made and 'href="data' not in made
