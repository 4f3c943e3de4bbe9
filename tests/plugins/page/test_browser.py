"""The page in a real Chromium. `make browser` runs these."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.commands.plugins import reply
from nanoclaw.core.errors import ProviderRefused
from nanoclaw.core.messages import Address, AssistantMessage, Message, UserMessage
from nanoclaw.plugins.browse.plugin import executable, lack
from nanoclaw.plugins.page.stream import EventStream
from nanoclaw.providers.scripted import Hang, call
from nanoclaw.start.host import ConversationStore
from tests.plugins.page.served import ON, Served, serving
from tests.program import NOON, HandClock

NONE = lack("", os.environ["PATH"])
pytestmark = [pytest.mark.live, pytest.mark.skipif(bool(NONE), reason=NONE)]

KEY, FOLLOWS = "page:abc12345", f'{ON}[session]\nqueue = "followup"\n'
HOSTILE = (
    "<script>document.title = 'run'</script> ![x](https://example.org/x.png)\n\n|a|b|\n|-|-|\n|1|2|\n\nThat is all."
)


@asynccontextmanager
async def opened(
    served: Served, width: int = 1280, scheme: str = "light", at: str = KEY, *given: str
) -> AsyncIterator[Any]:
    """A page of a signed-in Chromium at a conversation; no script may have failed, nothing asked elsewhere."""
    playwright = pytest.importorskip("playwright.async_api")
    async with playwright.async_playwright() as driver:
        path = executable("", os.environ["PATH"])
        chromium = await driver.chromium.launch(executable_path=path, chromium_sandbox=os.geteuid() != 0, args=given)
        size = {"width": width, "height": 800}
        context = await chromium.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce")
        page, faults, asked = await context.new_page(), list[str](), list[str]()
        page.on("pageerror", lambda error: faults.append(str(error)))
        context.on("request", lambda request: asked.append(request.url))
        await page.goto(served.page.links()[0])
        await page.locator("#side a, textarea").first.wait_for(state="attached")
        await page.goto(f"{served.url}/#/talk/{at}")
        await page.locator("textarea").wait_for()
        page.set_default_timeout(15_000)
        yield page
        assert faults == [] and all(url.startswith(served.url) for url in asked)
        assert await page.evaluate("document.documentElement.scrollWidth") == width
        await chromium.close()


async def say(page: Any, words: str, answer: str = "") -> None:
    await page.locator("textarea").fill(words)
    await page.keyboard.press("Enter")
    if answer:
        await page.get_by_text(answer).last.wait_for()
        await page.locator('.log[aria-busy="false"]').wait_for()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
async def test_a_person_talks_in_two_tabs_and_reloads(tmp_path: Path, width: int, scheme: str) -> None:
    expect = pytest.importorskip("playwright.async_api").expect
    writes = call("write_file", {"path": "bird.txt", "content": "pelican"})
    async with serving(tmp_path, writes, HOSTILE, HOSTILE) as served, opened(served, width, scheme) as page:
        other, link = await page.context.new_page(), served.page.links()[0]
        for used in (link, link.replace("#", "?again#")):  # a link that was used leads to where this browser is let in
            await other.goto(used)
            await other.locator("textarea").wait_for()
        await other.goto(f"{served.url}/#/talk/{KEY}")
        await other.locator("textarea").wait_for()
        await page.locator("textarea").fill("Write bird.txt")
        await page.keyboard.press("Enter")
        for one in (page, other):
            await one.locator(".text").first.wait_for()
            await one.locator('.log[aria-busy="false"]').wait_for()
            await expect(one.get_by_text("That is all.")).to_have_count(1)
            assert await one.locator(".said").count() == 1
            assert await one.locator(".text").count() == 1
        await page.locator(".tool summary").click()
        await page.locator(".diff .added").wait_for()
        await page.reload()
        await page.get_by_text("That is all.").last.wait_for()
        assert await page.locator(".said").count() == 1 and await page.locator(".words img").count() == 0
        assert await page.title() != "run"


async def test_a_tab_that_nobody_sees_draws_what_grew_once_it_is_seen(tmp_path: Path) -> None:
    sight = "is => { Object.defineProperty(document, 'hidden', { get: () => is, configurable: true });"
    sight += " document.dispatchEvent(new Event('visibilitychange')) }"
    async with serving(tmp_path, Hang("**half** of it")) as served, opened(served) as page:
        other = await page.context.new_page()
        await other.goto(f"{served.url}/#/talk/{KEY}")
        await other.locator("textarea").wait_for()
        await other.evaluate(sight, True)
        await say(page, "Hello")
        await page.locator("strong", has_text="half").wait_for()
        await other.locator(".text").wait_for(state="attached")
        assert await other.locator(".text .words").inner_text() == ""
        await other.evaluate(sight, False)
        await other.locator("strong", has_text="half").wait_for()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")])
async def test_axe_finds_nothing_in_any_view(tmp_path: Path, width: int, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.async_playwright").Axe()
    writes, hang = call("write_file", {"path": "bird.txt", "content": "pelican"}), Hang("half")
    async with (
        serving(tmp_path, writes, HOSTILE, HOSTILE, hang, "Welcome.", settings=FOLLOWS) as served,
        opened(served, width, scheme) as page,
    ):

        async def check(name: str) -> None:
            found = (await axe.run(page)).response["violations"]
            assert [(one["id"], one["nodes"][0]["html"]) for one in found] == [], name

        await page.get_by_role("button", name="What is in my workspace?").click()
        assert await page.locator("textarea").input_value() == "What is in my workspace?"
        await check("an empty conversation")
        await say(page, "Write bird.txt", "That is all.")
        await page.locator(".tool summary").click()
        await page.locator(".diff .added").wait_for()
        await check("a tool")
        await say(page, "more")
        await page.get_by_text("half").wait_for()
        await page.get_by_text(re.compile("The model is at work … [1-9] s")).wait_for()
        await say(page, "and this")
        await page.locator(".waits").wait_for()
        await check("a wait, and what waits")
        await page.get_by_role("button", name="Take back: this waits").click()
        await page.locator(".waits").wait_for(state="detached")
        assert await page.locator("textarea").input_value() == "and this"
        await page.get_by_label("Stop").click()
        await page.get_by_text("Interrupted").last.wait_for()
        assert await page.locator(".wait").is_hidden()
        await say(page, "/jobs add task tomorrow at 9: look at the weather", "a task, is set")
        await page.get_by_label("This conversation").click()
        await check("the menu, and what was broken off")
        await page.keyboard.press("Escape")
        if width < 700:
            await page.locator(".menu").click()
        await page.get_by_label("Search all conversations").fill("bird")
        await page.locator(".hit").first.wait_for()
        await check("the search")
        await page.get_by_label("Search all conversations").fill("")
        await page.keyboard.press("Control+k")
        await page.locator(".palette input").fill("/help")
        await page.locator(".palette .label", has_text="/helpers").wait_for()
        await check("Ctrl-K")
        await page.keyboard.press("Escape")
        for view, button in {"today": "", "knows": "Runs", "house": "Check everything"}.items():
            await page.goto(f"{served.url}/#/{view}")
            await page.locator(".card").first.wait_for()
            if button:
                await page.get_by_role("button", name=button).first.click()
                await page.locator(".answer > :not(.quiet)").first.wait_for()
            await check(view)
        await page.goto(f"{served.url}/#/talk/{KEY}")
        await page.get_by_label("This conversation").click()
        await page.get_by_text("Let a guest in").click()
        await page.get_by_text("A link for one guest").wait_for()
        await check("a link for a guest")
        await page.context.clear_cookies()
        link = json.loads(str(await reply(served.app, f"/web guest {KEY}", as_json=True)))["url"]
        await page.goto(f"{served.url}/?guest#{link.partition('#')[2]}")
        await page.get_by_text("Shared with you").wait_for()
        assert await page.locator("#side, .more, .clip, .mic").filter(visible=True).count() == 0
        await say(page, "Hello from a guest", "Welcome.")
        await check("a guest")
        await page.context.clear_cookies()
        await page.goto(f"{served.url}/?again")
        await page.locator(".sign-in").wait_for()
        await check("signing in")


async def test_a_conversation_is_found_branched_edited_tried_again_named_and_deleted(tmp_path: Path) -> None:
    answers = ("One heron.", "Two.", "Otter.", "Better.", "Best.")
    async with serving(tmp_path, *answers) as served, opened(served) as page:
        page.on("dialog", lambda dialog: dialog.accept("Birds"))
        await say(page, "first", "One heron.")
        await say(page, "secnod", "Two.")
        await page.locator(".said").first.hover()
        await page.get_by_role("button", name="Branch").first.click()
        await page.wait_for_url("**/#/talk/page%3Aabc12345-2")
        await page.get_by_text("One heron.").last.wait_for()
        assert await page.locator(".said").count() == 1
        await say(page, "another", "Otter.")
        await page.goto(f"{served.url}/#/talk/{KEY}")
        await page.get_by_text("Two.").last.wait_for()
        await say(page, "/rewind 77", "no message '77'")
        assert await page.locator(".command").count() == 0
        await page.locator(".said.is-last").hover()
        await page.locator(".said.is-last").get_by_role("button", name="Edit and send again").click()
        await page.get_by_text("Your last message, changed").wait_for()
        assert await page.locator("textarea").input_value() == "secnod"
        await say(page, "second", "Better.")
        await page.locator(".text").last.hover()
        await page.get_by_role("button", name="Ask again").last.click()
        await page.get_by_text("Best.").last.wait_for()
        assert await page.locator(".said[data-row] .words").all_inner_texts() == ["first", "second"]
        assert await page.locator(".text[data-row] .words").all_inner_texts() == ["One heron.", "Best."]
        await page.reload()
        await page.get_by_text("Best.").last.wait_for()
        assert await page.locator(".said[data-row] .words").all_inner_texts() == ["first", "second"]
        await page.get_by_label("Search all conversations").fill("heron")
        await page.locator(".hit").last.click()
        await page.locator(".text.found").wait_for()
        await page.get_by_label("Search all conversations").fill("")
        await page.goto(f"{served.url}/#/talk/{KEY}")
        await page.locator(".text.found").wait_for(state="detached")
        await page.get_by_label("This conversation").click()
        async with page.expect_download() as waiting:
            await page.get_by_text("Save as Markdown").click()
        text = Path(await (await waiting.value).path()).read_text()
        assert "Best." in text and "Better." not in text and "secnod" not in text
        await page.get_by_label("This conversation").click()
        await page.get_by_text("Rename").click()
        await page.locator("h1", has_text="Birds").wait_for()
        await page.get_by_label("This conversation").click()
        await page.get_by_text("Delete …").click()
        await page.locator("#side .title", has_text="Birds").wait_for(state="detached")


async def test_a_conversation_begins_in_a_project(tmp_path: Path) -> None:
    async with serving(tmp_path, "Goed.") as served:
        async with served.browser() as browser, browser.stream() as events:
            await browser.say("page:made", "/project new bees Answer in Dutch.")
            await events.until("item")
        async with opened(served, 390, "dark") as page:
            await page.get_by_role("button", name="bees").click()
            await page.get_by_text("belongs to the project bees now").wait_for()
            await say(page, "Hello", "Goed.")
            assert "Answer in Dutch." in str(served.model.requests[0].history)
            await page.locator(".menu").click()
            await page.locator("#side .about", has_text="bees").wait_for()


async def test_today_is_where_one_begins_when_a_task_has_failed_and_tries_it_again(tmp_path: Path) -> None:
    clock, steps = HandClock(), (ProviderRefused("no quota"), "It rains.")
    async with serving(tmp_path, *steps, clock=clock) as served, opened(served, 390, "dark") as page:
        page.on("dialog", lambda dialog: dialog.accept())
        tick = served.app.public("schedule").loop.tick
        await say(page, "/jobs add task tomorrow at 9: look at the weather", "a task, is set")
        await say(page, "/jobs run 1", "besides its schedule")
        clock.now += timedelta(seconds=10)
        await tick(clock.now)
        await page.get_by_text("no quota").last.wait_for()
        await page.goto(f"{served.url}/?once-more")
        failed = page.locator(".card", has=page.get_by_role("heading", name="Did not work"))
        await failed.get_by_text("no quota").wait_for()
        await failed.get_by_role("button", name="Retry").click()
        await page.get_by_text("Runs as soon as").wait_for()
        clock.now += timedelta(seconds=10)
        await tick(clock.now)
        await failed.wait_for(state="detached")
        await page.get_by_role("link", name="It rains.").wait_for()
        await page.goto(f"{served.url}/#/knows")
        await page.get_by_role("button", name="Runs").click()
        await page.locator(".answer", has_text="done (0 s, $0): It rains.").wait_for()
        await page.goto(f"{served.url}/#/today")
        await page.get_by_role("button", name="Undo").click()
        await page.get_by_text("Nothing is planned.").wait_for()


async def test_what_happens_before_the_stream_comes_is_shown_too(tmp_path: Path, monkeypatch: Any) -> None:
    reads, open_ = EventStream.read, asyncio.Event()

    async def late(*given: Any) -> AsyncIterator[bytes]:
        await open_.wait()
        async for line in reads(*given):
            yield line

    monkeypatch.setattr(EventStream, "read", late)
    async with serving(tmp_path, "One heron.") as served, opened(served) as page:
        async with page.expect_response("**/api/say"):
            await say(page, "birds by the lake")
        await served.app.conversations.idle()
        open_.set()
        await page.get_by_text("One heron.").last.wait_for()
        assert await page.locator(".said").count() == await page.locator(".text").count() == 1


async def test_what_waits_stands_above_its_own_answer_and_below_the_one_before(tmp_path: Path) -> None:
    waits = call("exec", {"command": "until [ -e go.txt ]; do sleep 0.1; done"})
    steps = (waits, "One heron.", "Two herons.")
    async with serving(tmp_path, *steps, settings=FOLLOWS) as served, opened(served) as page:
        await say(page, "first")
        await page.locator(".tool").wait_for()
        await say(page, "second")
        await page.locator(".waits").wait_for()
        (tmp_path / "workspace" / "go.txt").touch()
        await page.get_by_text("Two herons.").last.wait_for()
        shown = await page.locator(":is(.said, .text) .words").all_inner_texts()
        assert shown == ["first", "One heron.", "second", "Two herons."]


async def test_ctrl_k_finds_and_does_everything(tmp_path: Path) -> None:
    async with serving(tmp_path, "One heron.") as served, opened(served) as page:
        await say(page, "birds by the lake", "One heron.")
        await page.goto(f"{served.url}/#/house")
        await page.locator(".card").first.wait_for()
        await page.keyboard.press("Control+k")
        field = page.locator(".palette input")
        await field.fill("knows")
        await page.keyboard.press("Enter")
        await page.locator("h1", has_text="Knows").wait_for()
        await page.keyboard.press("Control+k")
        await field.fill("heron")
        await page.locator(".palette li", has_text="One heron.").click()
        await page.locator(".text.found").wait_for()
        await page.keyboard.press("Control+k")
        await field.fill("/rem")
        await page.locator(".palette li").first.wait_for()
        await page.locator(".palette .label", has_text="/remind").wait_for()
        await page.keyboard.press("Enter")
        await page.locator(".palette").wait_for(state="detached")
        assert (await page.locator("textarea").input_value()).startswith("/rem")


async def test_what_was_broken_off_says_so_and_goes_on(tmp_path: Path) -> None:
    hang = Hang("half a")
    steps = (call("write_file", {"path": "bird.txt", "content": "pelican"}), hang, "All done.")
    async with serving(tmp_path, *steps) as served, opened(served, 390, "dark") as page:
        await say(page, "write it")
        await page.get_by_text("half a").wait_for()
        await page.get_by_label("Stop").click()
        for _ in range(2):
            await page.get_by_text("Interrupted, 1 tool had run").wait_for()
            await page.reload()
        await page.get_by_role("button", name="Go on").click()
        await page.get_by_text("All done.").last.wait_for()
        assert await page.get_by_role("button", name="Go on").count() == 0
        await say(page, "!ls")
        await page.get_by_text("Only a terminal runs !ls").wait_for()
        assert await page.locator("textarea").input_value() == "!ls"


async def test_a_long_conversation_is_read_back_to_its_beginning(tmp_path: Path) -> None:
    async with serving(tmp_path, "x" * 70_000 + "end") as served:
        turns: list[list[Message]] = [
            [UserMessage(f"question {one}", NOON), AssistantMessage(f"answer {one}", NOON)] for one in range(300)
        ]
        with served.app.transactions.open() as tx:
            ConversationStore(served.app).add(Address("page", "abc12345"), turns, tx)
        async with opened(served) as page:
            await page.get_by_text("answer 299").wait_for()
            assert await page.locator(".said").count() < 100
            for _ in range(20):
                await page.locator(".log").evaluate("log => { log.scrollTop = 0 }")
                if await page.locator(".said", has_text=re.compile(r"^question 0\b")).count():
                    break
                await page.wait_for_timeout(200)
            assert await page.locator(".said").count() == 300
            texts = await page.locator(".said .words").all_inner_texts()
            assert texts == [f"question {one}" for one in range(300)]
            await page.get_by_label("Search all conversations").fill("question 33")
            await page.locator(".hit").last.click()
            await page.locator(".said.found").wait_for()
            assert await page.get_by_text("question 299").count() == 0
            await page.get_by_text("To the newest").click()
            await page.get_by_text("answer 299").wait_for()
            await page.locator(".said", has_text="question 270").scroll_into_view_if_needed()
            served.page.changed(KEY)
            await page.get_by_text("New text below").wait_for()
            await page.locator(".said", has_text="question 270").wait_for()
            await page.locator(".said", has_text="question 270").hover(timeout=1_000)
            await page.get_by_text("New text below").click()
            await page.get_by_label("This conversation").click()
            await page.get_by_label("Go to a day").fill(f"{NOON:%Y-%m-%d}")
            await page.locator(".said.found", has_text="question 0").wait_for()
            await page.get_by_text("To the newest").click()
            await say(page, "long")
            await page.get_by_role("button", name="Show all of it").click()
            await page.get_by_text("xend").wait_for()


async def test_a_voice_note_is_recorded_and_what_was_said_is_answered(tmp_path: Path) -> None:
    microphone = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
    heard = list[tuple[str, bytes]]()

    async def hear(name: str, sound: bytes) -> str:
        heard.append((name, sound[:4]))
        return "Buy oat milk"

    settings = f'{ON}[models]\ntranscription = "scripted/model"\n'
    async with (
        serving(tmp_path, "It is on the list.", settings=settings) as served,
        opened(served, 390, "light", KEY, *microphone) as page,
    ):
        served.model.transcribe = hear  # type: ignore[attr-defined]
        button = page.get_by_label("Record a voice note")
        assert (await button.inner_text(), await button.locator("svg").count()) == ("", 1)  # no font has to have it
        await button.click()
        await page.locator('.mic[aria-pressed="true"]').wait_for()
        await page.get_by_text("■ 1 s").wait_for()
        await button.click()
        await page.get_by_label("Remove voice note.webm").wait_for()
        await page.get_by_label("Send").click()
        await page.get_by_text("It is on the list.").wait_for()
        assert "[voice note] Buy oat milk" in str(served.model.requests[0].history)
    assert [(name[-5:], sound) for name, sound in heard] == [(".webm", b"\x1a\x45\xdf\xa3")]
