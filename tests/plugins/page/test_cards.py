"""The views Today, Knows and House: what they tell, and what their buttons do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nanoclaw.core.messages import CheckedCall, Outbound
from nanoclaw.core.plugin import Ask, Plugin, Turn, Verdict
from nanoclaw.providers.scripted import call
from tests.plugins.page.served import ON, Browser, serving
from tests.program import MAIN


async def cards(browser: Browser, view: str) -> dict[str, Any]:
    return {card["title"]: card for card in (await browser.get(f"/api/view/{view}"))["cards"]}


async def do(browser: Browser, command: str) -> Any:
    return await browser.client.post("/api/do", json={"command": command})


async def test_today_tells_what_is_due_and_done_and_its_buttons_change_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.browser() as browser, browser.stream() as events:
        await browser.say("page:one", "remind me in 2 hours to water the plants")
        await events.until("item")  # what was said
        await events.until("item")
        today = await cards(browser, "today")
        (due,) = today["Due"]["rows"]
        assert due["text"] == "water the plants"
        assert due["about"].startswith("reminder · ")
        (done,) = today["Done"]["rows"]
        assert done["text"].startswith("set reminder 1 for ")
        assert done["talk"] == "page:one"
        assert "Today: $0 spent." in today["Cost"]["text"]
        remove = next(act for act in due["acts"] if act["label"] == "Remove")
        assert remove["asks"] == "Remove reminder 1?"
        assert (await do(browser, remove["command"])).status_code == 200
        assert (await cards(browser, "today"))["Due"]["rows"] == []
        for text in ("remind me in 2 hours to water the plants", "/undo"):
            await browser.say("page:one", text)
            await events.until("item")
            await events.until("item")
        undone, *_ = (await cards(browser, "today"))["Done"]["rows"]
        assert undone["text"] == f"{done['text'].replace('1', '2', 1)} (undone)"


async def test_today_tells_what_waits_for_a_digest(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, settings=f'{ON}[attention]\nhours = ["18:00"]\n') as served,
        served.browser() as browser,
    ):
        news = Outbound(MAIN, "It rings.", came=served.app.clock())
        await served.app.transactions.write(lambda tx: tx.send(news))
        assert "It rings." in (await cards(browser, "today"))["Collected"]["text"]


async def test_knows_keeps_a_fact_finds_it_and_renders_it_harmlessly(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.browser() as browser:
        assert (await do(browser, "memory add --fact My dog is <img src=x onerror=alert(1)> Rex")).status_code == 200
        knows = await cards(browser, "knows")
        assert "Rex" in knows["What it remembers"]["text"]
        assert "<img" not in knows["What it remembers"]["text"]
        found = await do(browser, f"{knows['Notes and changes']['form']['command']} Rex")
        assert "MEMORY.md" in found.json()["html"]
        assert any(row["text"] == "weather" for row in knows["Skills"]["rows"])


async def test_house_tells_how_it_is_and_what_was_spent_by_day_model_and_origin(tmp_path: Path) -> None:
    async with serving(tmp_path, "Hello.") as served, served.browser() as browser, browser.stream() as events:
        assert (await cards(browser, "house"))["The last 30 days"]["plot"] == []
        await browser.say("page:one", "hi")
        await events.until("ended")
        house = await cards(browser, "house")
        assert any(row["text"].startswith("Workspace: ") for row in house["How it is"]["rows"])
        plot = house["The last 30 days"]["plot"]
        assert [size > 0 for _, size, _ in plot] == [False] * 29 + [True]
        assert [row["text"] for row in house["The last 30 days"]["rows"]] == ["scripted/model", "person"]
        assert "<table>" in house["What the model is sent"]["text"]


async def test_what_waits_for_a_yes_comes_first_and_its_button_answers(tmp_path: Path) -> None:
    class Careful(Plugin):
        name = "careful"

        async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
            return Ask("Write it?") if call.name == "write_file" else None

    writes = call("write_file", {"path": "a.txt", "content": "x"})
    async with (
        serving(tmp_path, writes, "Written.", writes, "Again.", extra=[Careful]) as served,
        served.browser() as browser,
        browser.stream() as events,
    ):
        await browser.say("page:one", "write it")
        await events.until("paused")
        first = (await browser.get("/api/view/today"))["cards"][0]
        assert first["title"] == "Waits for your answer"
        (asked,) = first["rows"]
        assert asked["text"].startswith("Write it?")
        assert [act["label"] for act in asked["acts"]] == ["Yes", "No"]
        await do(browser, asked["acts"][0]["command"])
        await events.until("ended")
        assert (served.app.settings.workspace / "a.txt").read_text() == "x"
        shown = (await browser.talk("page:one"))["items"]
        assert [one["kind"] for one in shown if "Write it?" in one.get("html", "")] == ["text"]
        assert "Waits for your answer" not in await cards(browser, "today")
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
        assert wrong.status_code == 409
        assert "99" in wrong.json()["error"]
    async with serving(tmp_path) as served, served.browser(signed_in=False) as stranger:
        assert (await stranger.client.get("/api/view/today")).status_code == 401


async def test_what_code_answered_is_still_there_once_after_the_page_was_loaded_again(tmp_path: Path) -> None:
    async with serving(tmp_path, "Hello.") as served, served.browser() as browser, browser.stream() as events:
        await browser.say("page:one", "remind me in 2 hours to call mum")
        await events.until("item")  # what was said
        await events.until("item")
        await browser.say("page:one", "hi")
        await events.until("ended")
        said, told, hi, hello = (await browser.talk("page:one"))["items"]
        assert [one["text"] for one in (said, hi)] == ["remind me in 2 hours to call mum", "hi"]
        assert "a reminder, is set" in told["html"]
        assert "Hello." in hello["html"]
