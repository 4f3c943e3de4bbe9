"""The views Today, Knows and House: what they are told, and what their buttons do; test_browser has how they look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nanoclaw.core.errors import ProviderRefused
from nanoclaw.core.messages import CheckedCall, Outbound
from nanoclaw.core.plugin import Ask, Plugin, Turn, Verdict
from nanoclaw.providers.scripted import call
from tests.plugins.page.served import ON, Browser, serving
from tests.program import MAIN


async def view(browser: Browser, name: str, **query: str) -> dict[str, Any]:
    return dict(await browser.get(f"/api/view/{name}", **query))


async def do(browser: Browser, command: str, key: str = "") -> Any:
    return await browser.client.post("/api/do", json={"command": command, "c": key})


async def test_today_tells_what_is_due_and_done_and_its_buttons_change_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.browser() as browser, browser.stream() as events:
        await browser.say("page:one", "remind me in 2 hours to water the plants")
        _, _ = [await events.until("item") for _ in range(2)]  # what was said, and what is
        today = await view(browser, "today")
        (due,) = today["jobs"]["data"]["jobs"]
        assert (due["text"], due["kind"], today["runs"]["data"]["runs"]) == ("water the plants", "reminder", [])
        (done,) = today["done"]
        assert done["text"].startswith("set reminder 1 for ") and (done["talk"], done["undo"]) == ("page:one", True)
        assert "Today: $0 spent." in today["budget"]["html"]
        assert (await do(browser, "jobs remove 1")).status_code == 200
        assert (await view(browser, "today"))["jobs"]["data"]["jobs"] == []
        await browser.say("page:one", "remind me in 2 hours to water the plants")
        _, _ = [await events.until("item") for _ in range(2)]  # what was said, and what is
        assert "Removed: reminder 2" in (await do(browser, "undo", "page:one")).json()["html"]
        undone, *_ = (await view(browser, "today"))["done"]
        assert undone["text"] == f"{done['text'].replace('1', '2', 1)} (undone)"


async def test_today_tells_what_waits_for_a_digest(tmp_path: Path) -> None:
    settings = f'{ON}[attention]\nhours = ["18:00"]\n'
    async with serving(tmp_path, settings=settings) as served, served.browser() as browser:
        news = Outbound(MAIN, "It rings.", came=served.app.clock())
        await served.app.transactions.write(lambda tx: tx.send(news))
        assert "It rings." in (await view(browser, "today"))["inbox"]["html"]


async def test_knows_keeps_a_fact_finds_it_and_renders_it_harmlessly(tmp_path: Path) -> None:
    settings = f'{ON}[mcp.notes]\ncommand = "no-such-program"\n[plugins]\noff = ["todo"]\n'
    async with serving(tmp_path, settings=settings) as served, served.browser() as browser:
        assert (await do(browser, "memory add --fact My dog is <img src=x onerror=alert(1)> Rex")).status_code == 200
        knows = await view(browser, "knows")
        assert "Rex" in knows["memory"]["html"] and "<img" not in knows["memory"]["html"]
        assert "MEMORY.md" in (await do(browser, "search Rex")).json()["html"]
        assert any(one["name"] == "weather" for one in knows["skills"]["data"]["skills"])
        (server,) = (one for one in knows["findings"] if one["plugin"] == "mcp")
        assert (server["name"], knows["plugins"]["off"]) == ("mcp notes", ["todo"]) and knows["plugins"]["on"]["page"]
        assert [(one["channel"], one["role"]) for one in knows["people"]["data"]["people"]] == [("page", "owner")]


async def test_house_tells_how_it_is_and_what_was_spent_by_day_conversation_model_and_origin(tmp_path: Path) -> None:
    steps = ("Hello.", "hello", ProviderRefused("no quota"))
    async with serving(tmp_path, *steps) as served, served.browser() as browser:
        assert (await view(browser, "house"))["spent"]["plot"] == []
        await browser.hears("page:one", "hi")
        house = await view(browser, "house", without="spent")
        assert "spent" not in house  # it takes longest where much was spent, so the page fills it in
        house |= await view(browser, "house", only="spent")
        assert any(line.startswith("Workspace: ") for line in house["status"]["about"])
        assert [size > 0 for _, size, _ in house["spent"]["plot"]] == [False] * 29 + [True]
        spent = {name: [key for key, *_ in rows] for name, rows in house["spent"]["by"].items()}
        assert spent == {"conversation": ["page:one"], "model": ["scripted/model"], "origin": ["person"]}
        assert "<table>" in house["context"]["html"]
        assert [one["alive"] for one in house["status"]["channels"] if one["name"] == "page"] == [0]
        assert " s: “hello”" in (await do(browser, "test scripted/model")).json()["html"]
        tested = (await view(browser, "house"))["spent"]["by"]["conversation"]
        assert [(key, about[:9]) for key, about, _ in tested] == [(key, "1 request") for key in ("page:one", "")]
        assert "no quota" in (await do(browser, "test scripted/model")).json()["error"]
        findings = (await do(browser, "doctor")).json()["data"]["findings"]
        assert {"name", "state", "text", "can_fix"} <= findings[0].keys()


async def test_what_waits_for_a_yes_comes_first_and_its_button_answers(tmp_path: Path) -> None:
    class Careful(Plugin):
        name = "careful"

        async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
            return Ask("Write it?\n\n```\nls a # only lists\nrm  b\n```") if call.name == "write_file" else None

    writes = call("write_file", {"path": "a.txt", "content": "x"})
    made = serving(tmp_path, writes, "Written.", writes, "Again.", extra=[Careful])
    async with made as served, served.browser() as browser, browser.stream() as events:
        await browser.say("page:one", "write it")
        await events.until("paused")
        ((number, asked, words),) = (await view(browser, "today"))["waiting"]["questions"]
        assert "<p>Write it?</p>" in asked and "ls a # only lists\nrm  b\n" in asked and words == ["yes", "no"]
        await do(browser, f"answer {number} yes")
        await events.until("ended")
        assert (served.app.settings.workspace / "a.txt").read_text() == "x"
        shown = (await browser.talk("page:one"))["items"]
        assert [one["kind"] for one in shown if "Write it?" in one.get("html", "")] == ["text"]
        assert (await view(browser, "today"))["waiting"]["questions"] == []
        await browser.say("page:one", "once more")
        await events.until("paused")
        await browser.say("page:one", "yes")
        await events.until("ended")
        await served.app.conversations.idle()
        shown = (await browser.talk("page:one"))["items"]
        assert len([one for one in shown if "OK, going ahead." in one.get("html", "")]) == 1


async def test_only_the_commands_of_cards_and_the_views_that_there_are(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.browser() as browser:
        refused = await do(browser, "panic")
        assert (refused.status_code, refused.json()["error"]) == (400, "The page has no such button.")
        assert (await browser.client.get("/api/view/cellar")).status_code == 404
        wrong = await do(browser, "jobs remove 99")
        assert wrong.status_code == 409 and "99" in wrong.json()["error"]
    async with serving(tmp_path) as served, served.browser(signed_in=False) as stranger:
        assert (await stranger.client.get("/api/view/today")).status_code == 401


async def test_what_code_answered_is_still_there_once_after_the_page_was_loaded_again(tmp_path: Path) -> None:
    async with serving(tmp_path, "Hello.", "Hi.") as served, served.browser() as browser, browser.stream() as events:
        await browser.say("page:one", "remind me in 2 hours to call mum")
        _, _ = [await events.until("item") for _ in range(2)]  # what was said, and what is
        await browser.say("page:one", "hi")
        await events.until("ended")
        said, told, hi, hello = (await browser.talk("page:one"))["items"]
        assert [one["text"] for one in (said, hi)] == ["remind me in 2 hours to call mum", "hi"]
        assert "a reminder, is set" in told["html"] and "Hello." in hello["html"]
        await browser.say("page:two", "remind me in 3 hours to call dad")
        await browser.hears("page:one", "/retry")
        for words, titles in {"": {"hi", "remind me in 3 hours to call dad"}, "hi": {"hi"}}.items():
            assert {one["title"] for one in (await browser.get("/api/talks", words=words))["talks"]} == titles
