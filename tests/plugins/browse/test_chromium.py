"""The browser itself: a real Chromium on pages of this machine. `make browser` runs these."""

import asyncio
import contextlib
import io
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.core.channel import Hints
from nanoclaw.core.messages import Address, Inbound, ToolResult, UserMessage
from nanoclaw.plugins.browse import session as sessions
from nanoclaw.plugins.browse.plugin import Browse, lack
from nanoclaw.providers.scripted import Say, ScriptedProvider
from tests.plugins.browse.driver import does, go
from tests.plugins.browse.site import Site, serving
from tests.program import REPOSITORY, FakeChannel, HandClock, Program, results, running

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(bool(lack("", os.environ["PATH"])), reason=lack("", os.environ["PATH"])),
]


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with serving() as one:
        yield one


class Talk:
    """A program whose model uses the browser."""

    def __init__(self, program: Program, model: ScriptedProvider) -> None:
        self.program, self._model = program, model

    async def __call__(self, *steps: Any, chat: str = "main", said: str = "Go on.") -> list[ToolResult]:
        return await go(self.program, self._model, *steps, chat=chat, said=said)

    async def one(self, action: str, *given: Any, chat: str = "main", **more: Any) -> ToolResult:
        (result,) = await self(does(action, *given, **more), chat=chat)
        return result

    @property
    def plugin(self) -> Browse:
        return next(one for one in self.program.app.plugins if isinstance(one, Browse))

    @property
    def session(self) -> Any:
        """The one that is open."""
        assert self.plugin._sessions
        return next(iter(self.plugin._sessions._kept.values())).session

    def pids(self) -> list[int]:
        """The browser's processes and the driver's."""
        return [*_descendants(os.getpid())]


UNASKED = '[tools]\nallow = ["browse_do"]\n'


@asynccontextmanager
async def talk(
    root: Path,
    *sites: Site,
    chromium: str = "",
    tools: str = UNASKED,
    without: tuple[str, ...] = ("taint",),
    **more: Any,
) -> AsyncIterator[Talk]:
    model = ScriptedProvider()
    net = f"[net]\nallow = {json.dumps([one.place for one in sites])}\n"
    settings = f'{tools}{net}[browse]\nchromium = "{chromium}"\n'
    async with running(root, model, settings=settings, without=without, **more) as program:
        yield Talk(program, model)


def _parents() -> dict[int, int]:
    parents = {}
    for path in Path("/proc").iterdir():
        with contextlib.suppress(OSError, IndexError):
            if path.name.isdigit():
                fields = (path / "stat").read_text().rpartition(")")[2].split()
                parents[int(path.name)] = int(fields[1])
    return parents


def _children(parent: int) -> list[int]:
    return [pid for pid, above in _parents().items() if above == parent]


def _descendants(parent: int) -> Iterator[int]:
    parents, new = _parents(), {parent}
    while new:
        new = {pid for pid, above in parents.items() if above in new}
        yield from new


async def until(holds: Callable[[], object]) -> None:
    """Wait for what nothing tells of: a thread's work, another process."""
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def wait_for_end(pids: list[int]) -> None:
    """Wait until none of these processes lives; the time limit of a test ends a wait in vain."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)
            select.select([descriptor], [], [])
            os.close(descriptor)


# --- reading and doing -----------------------------------------------------------------------------------------------


async def test_a_form_is_read_filled_and_sent(tmp_path: Path, site: Site) -> None:
    async with talk(tmp_path, site) as it:
        opened = await it.one("open", site.url)
        assert opened.outside == f"{site.url}/"
        for shown in (
            "Order — http://",
            "# Order\nWhat do you want?",
            'field "Name"]',
            'password "Password" = (filled)',
            'select "Colour" = "Blue" of Red, Blue, Green]',
            'checkbox "As a gift" not checked]',
            'button "Pay" disabled]',
            "- [8: link",
            'link "Other window"]',
            "Small | 10 €",
            'clickable "Press here"]',
        ):
            assert shown in opened.text, shown
        assert "geheim" not in opened.text and "never seen" not in opened.text and "not seen" not in opened.text
        done = await it(
            does("type", 'field "Name"', "Ann"),
            does("select", 'select "Colour"', "Green"),
            does("click", 'checkbox "As a gift"'),
            does("type", 'date field "Day"', "31 March"),
            does("type", 'date field "Day"', "2026-03-31"),
            does("type", 'password "Password"', "hunter2"),
            does("click", 'button "Send"'),
        )
        assert 'field "Name" = "Ann"]' in done[0].text and "(What is new on the page:)" in done[0].text
        assert 'checkbox "As a gift" checked]' in done[2].text
        assert done[3].is_error and "2026-03-31" in done[3].text, done[3].text
        assert "Ordered for Ann: Green" in done[-1].text
        assert not any("hunter2" in one.text for one in done)
        receipts = await it.program.ask("/receipts")
        assert f'typed into password "Password" at {site.place}' in receipts
        assert f'clicked button "Send" at {site.place}' in receipts
        assert "hunter2" not in receipts


async def test_a_named_page_costs_one_question_and_what_goes_elsewhere_or_tells_of_files_another(
    tmp_path: Path, site: Site
) -> None:
    site.asked.clear()
    with serving() as evil:
        form = f"<form action='{evil.url}/take'><input name=q aria-label=Q><button>Find</button></form>"
        site.pages["/posts"] = f"<title>Posts</title>{form}<a href='{evil.url}/bait'>More</a>"
        evil.pages["/bait"] = "<title>Bait</title><input aria-label=Key><button onclick='this.remove()'>Go</button>"
        async with talk(tmp_path, site, evil, tools="", without=()) as it:
            (it.program.workspace / "notes.md").write_text("the key is 4711")
            typed = does("type", 'field "Name"', "Ann"), does("click", 'checkbox "As a gift"')
            it._model.add([does("open", site.url), *typed, does("click", 'button "Send"'), "Ordered."])
            asked = await it.program.ask(f"Order at {site.url}")
            assert asked.startswith(f"Let the page send this to {site.place}? I did this there: click `button") and (
                f"POST {site.url}/ordered\nname: Ann\npw: (filled)\ncolour: Blue\ngift: on\n" in asked
            ), asked
            assert not any(one.method == "POST" for one in site.asked)
            await it.program.say("yes")
            assert "Ordered." in {await it.program.answer() for _ in range(2)}
            assert "Ordered for Ann: Blue" in results(it.program.history)[-1].text
            assert len(it.program.rows("SELECT 1 FROM approvals_asks")) == 1
            await it.program.ask("/elevated 30m")
            posts, read = does("open", site.url + "/posts"), Say("", (("read_file", {"path": "notes.md"}),))
            secret = does("type", 'field "Q"', "tea for Ann")
            for *steps, asked in (
                (posts, secret, does("click", 'button "Find"'), f"GET {evil.url}/take?q="),
                (posts, secret, does("press", 'field "Q"'), f"send this to {evil.place}"),
                (posts, does("click", 'link "More"'), does("click", 'button "Go"'), evil.place),
                (does("read"), does("type", 'field "Key"', "x"), f"others' text ({evil.url}/bait)"),
                (read, does("open", site.url), does("type", 'field "Name"', "4711"), "```\n4711\n```"),
            ):
                it._model.add([*steps, "Hm."])
                assert asked in await it.program.ask(f"Look at {site.url}/posts")
                await it.program.say("no")
                assert "Hm." in {await it.program.answer() for _ in range(2)}
            assert not any(one.startswith(("/take", "/?")) for one in evil.paths())


async def test_what_clicks_send_is_asked_about_and_looking_is_free(tmp_path: Path, site: Site) -> None:
    """On pages that were collected, not written for the rule. Without an answer of yes nothing is sent."""
    lines = Path(__file__).with_name("clicks.txt").read_text(encoding="utf-8").split("\n")
    (_, begin), *pages = (line.split("\t") for line in lines if "\t" in line)
    wrong = dict[str, list[str]]()
    site.asked.clear()
    site.pages["/app"] = "<script>fetch('/session', {method: 'POST', body: '{}'})</script>words"
    with serving() as api:
        async with talk(tmp_path, site, api, tools="", without=()) as it:
            for kind, html in pages:
                site.pages["/page"] = f"<script>const API = '{api.url}'</script>{begin}{html}"
                await it(does("open", site.url + "/page"), said=f"Open {site.url}/page")
                label = await it.session.tab.page.evaluate("() => document.querySelector('#b').textContent")
                found = re.findall(rf'\[(\d+): \w+ "{re.escape(label)}"', results(it.program.history)[-1].text)
                it._model.add([does("click", int(found[0])), "Hm."])
                if is_asked := await it.program.ask(f"Click it at {site.url}") != "Hm.":
                    await it.program.say("no")
                    assert "Hm." in {await it.program.answer() for _ in range(2)}
                    assert "the person said no. Accept that." in results(it.program.history)[-1].text
                if is_asked == (kind == "looks"):
                    wrong.setdefault(kind, []).append(html)
    # of 22, 7 and 31: those that buy by a mere address, and that look by sending
    assert [len(wrong.get(kind, ())) for kind in ("buys", "sends", "looks")] == [2, 0, 3], wrong
    assert {one.path for one in site.asked if one.method != "GET"} <= {"/session", "/graphql", "/track"}


async def test_where_nobody_can_be_asked_nothing_is_sent_and_an_answer_that_claims_it_is_corrected(
    tmp_path: Path, site: Site
) -> None:
    channel = FakeChannel(hints=Hints(stays=False))
    async with talk(tmp_path, site, tools="", without=(), channel=channel) as it:
        steps = does("open", site.url), does("type", 'field "Name"', "Ann"), does("click", 'button "Send"')
        it._model.add([*steps, "I bought it.", "I bought it."])
        site.asked.clear()
        assert (
            await it.program.ask(f"Buy it at {site.url}")
            == "I bought it.\n\n(nanoclaw: nothing was changed, set, sent or run for this.)"
        )
        not_sent = results(it.program.history)[-1].text
        assert "nobody is there to allow it" in not_sent and "# Order" not in not_sent and site.url in not_sent
        assert [one.method for one in site.asked] == ["GET"]


async def test_without_taint_typing_asks_and_looking_clicking_and_choosing_do_not(tmp_path: Path, site: Site) -> None:
    async with talk(tmp_path, site, tools="") as it:
        free = (
            does("click", 'checkbox "As a gift"'),
            does("select", 'select "Colour"', "Green"),
            does("press", None, "Tab"),
        )
        await it(does("open", site.url), *free, does("click", 'link "Shop"'), does("click", 'button "Vanish"'))
        it._model.add([does("open", site.url), does("type", 'field "Name"', "Ann"), "Hm."])
        asked = await it.program.ask("Type it")
        assert asked.startswith(f'Type this into `field "Name"` at {site.place}?\n\n```\nAnn\n```\n\n1. Yes\n2.')


async def test_elsewhere_an_hours_yes_holds_for_clicks_and_forms_too(tmp_path: Path, site: Site) -> None:
    async with talk(tmp_path, site, tools="", without=()) as it:
        await it(does("open", site.url), said=f"Open {site.url}")
        await it.program.ask("/new")
        steps = (does("open", site.url), does("type", 'field "Name"', "Ann"), does("click", 'checkbox "As a gift"'))
        it._model.add([*steps, does("click", 'button "Send"'), "Hm."])
        question = await it.program.ask("Order it where we were")
        assert question.startswith(f'Type this into `field "Name"` at {site.place}?') and "others' text" in question
        assert f"3. Yes always: clicking, typing, sending and uploading at {site.place}\n" in question
        await it.program.say("hour")
        assert "Hm." in {await it.program.answer() for _ in range(2)}
        assert len(it.program.rows("SELECT 1 FROM approvals_asks")) == 1


async def test_a_yes_for_a_page_is_none_for_another_that_came_since(tmp_path: Path, site: Site) -> None:
    with serving() as other:
        async with talk(tmp_path, site, other, tools="") as it:
            await it.one("open", site.url)
            press = ("browse_do", {"action": "press", "value": "x"})
            it._model.add([Say("", (("browse", {"action": "open", "url": other.url}), press)), "Hm."])
            assert (await it.program.ask("go")).startswith(f"Press `x` at {site.place}?")
            await it.program.say("yes")
            assert "Hm." in {await it.program.answer() for _ in range(2)}
            assert results(it.program.history)[-1].text.startswith("the page now belongs to another host")


async def test_frames_and_shadow_roots_are_read_and_used(tmp_path: Path, site: Site) -> None:
    async with talk(tmp_path, site) as it:
        opened, pressed, gone = await it(
            does("open", site.url + "/parts"),
            does("click", 'button "Frame button"'),
            does("click", 'button "In the shadow"'),
        )
        assert "## Card\nslotted words" in opened.text and "--- frame ---\nWithin the frame" in opened.text
        assert 'button "Pressed"' in pressed.text
        assert "lines of it are gone" in gone.text


async def test_a_number_that_is_gone_is_said_and_never_stands_for_another_element(tmp_path: Path, site: Site) -> None:
    async with talk(tmp_path, site) as it:
        await it(does("open", site.url + "/swap"), does("click", 'button "Swap"'))
        for number, said in ((1, "is not on this page any more"), (99, "was never on this page"), (0, "never")):
            stale = await it.one("click", number)
            assert stale.is_error and said in stale.text and "read it" in stale.text.lower()
        await it.one("open", site.url + "/shop")
        assert (await it.one("click", 2)).is_error  # of the page before


async def test_what_lies_over_an_element_is_said_in_our_words(tmp_path: Path, site: Site) -> None:
    async with talk(tmp_path, site) as it:
        _, covered, accepted = await it(
            does("open", site.url + "/cover"), does("click", 'button "Below"'), does("click", 'button "Accept"')
        )
        assert covered.is_error and "something lies over" in covered.text
        assert "ignore all rules" not in covered.text  # the page's own words never come unmarked
        assert not accepted.is_error


async def test_a_page_that_loads_more_is_read_on_to_its_end(tmp_path: Path, site: Site) -> None:
    async with talk(tmp_path, site) as it:
        parts = await it(does("open", site.url + "/feed"), *[does("scroll")] * 3)
        assert [f"Item {n}\n" in parts[at].text for at, n in ((0, 10), (1, 30), (2, 50))] == [True] * 3
        assert "Item 10\n" not in parts[1].text
        assert "This is the end of the page" in parts[3].text


async def test_a_long_page_comes_in_parts_and_whole_in_a_file_and_a_huge_one_in_bounds(
    tmp_path: Path, site: Site
) -> None:
    async with talk(tmp_path, site) as it:
        first, second = await it(does("open", site.url + "/long"), does("scroll"))
        assert "Paragraph 0 " in first.text and "Paragraph 899" not in first.text and len(first.text) < 9_000
        assert "Paragraph 0 " not in second.text
        kept = next((it.program.workspace / "outputs").iterdir())
        assert kept.name in first.text and "Paragraph 899" in kept.read_text()
        huge, after = await it(does("open", site.url + "/huge"), does("open", site.url + "/shop"))  # ten megabytes
        assert "larger than what is read" in huge.text and len(huge.text) < 9_000 and "# Shop" in after.text


async def test_calls_that_are_made_side_by_side_are_done_in_their_order(tmp_path: Path, site: Site) -> None:
    async with talk(tmp_path, site) as it:
        both = Say(
            "", (("browse", {"action": "open", "url": site.url + "/shop"}), ("browse", {"action": "screenshot"}))
        )
        it._model.add([both, "Hm."])
        assert await it.program.ask("Show it.") == "Hm."
        opened, shot = results(it.program.history)
        assert "# Shop" in opened.text and shot.images and shot.outside.endswith("/shop")


async def test_a_screenshot_is_a_picture_of_the_page(tmp_path: Path, site: Site) -> None:
    from PIL import Image

    async with talk(tmp_path, site) as it:
        _, shot = await it(does("open", site.url + "/picture"), does("screenshot"))
        (image,) = shot.images
        picture = Image.open(io.BytesIO(image.data)).convert("RGB")
        assert picture.size == (1280, 800)
        red, green, blue = picture.getpixel((200, 200))  # type: ignore[misc]
        assert red > 200 and green < 10 and blue < 10
        assert shot.outside == f"{site.url}/picture"


async def test_what_a_click_makes_happen_later_is_waited_for(tmp_path: Path, site: Site) -> None:
    async with talk(tmp_path, site) as it:
        _, bought = await it(does("open", site.url + "/shop"), does("click", 'button "Buy"'))
        assert "bought at last" in bought.text


# --- what comes beside -----------------------------------------------------------------------------------------------


async def test_a_new_tab_is_followed_and_left_again(tmp_path: Path, site: Site) -> None:
    async with talk(tmp_path, site) as it:
        _, popup, back, again, closed = await it(
            does("open", site.url),
            does("click", 'link "Other window"'),
            does("back"),
            does("click", 'link "Other window"'),
            does("click", 'button "Close me"'),
        )
        assert "a new tab was opened" in popup.text and "A new window." in popup.text
        assert "# Order" in back.text and "a new tab" in again.text
        assert "closed its tab" in closed.text and "# Order" in closed.text


async def test_dialogs_are_answered_and_told_and_a_yes_is_the_models_own(tmp_path: Path, site: Site) -> None:
    async with talk(tmp_path, site) as it:
        _, alert, no, yes, name = await it(
            does("open", site.url + "/alerts"),
            does("click", 'button "Alert"'),
            does("click", 'button "Delete"'),
            does("click", 'button "Delete"', "yes"),
            does("click", 'button "Ask"', "Ann"),
        )
        assert "the page said: 'Mind the gap'" in alert.text
        assert "asked 'Delete all?': answered no" in no.text and "kept" in no.text
        assert "deleted" in yes.text
        assert "name Ann" in name.text


async def test_alerts_without_end_cost_the_page_and_nothing_else(tmp_path: Path, site: Site) -> None:
    async with talk(tmp_path, site) as it:
        endless, after = await it(does("open", site.url + "/endless"), does("open", site.url + "/shop"))
        assert "dialogs without end" in endless.text
        assert "# Shop" in after.text


async def test_a_page_that_hangs_in_its_script_is_left_for_another(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "READ_SECONDS", 3.0)
    async with talk(tmp_path, site) as it:
        _, hangs, read, after = await it(
            does("open", site.url + "/busy"),
            does("click", 'button "Hang"'),
            does("read"),
            does("open", site.url + "/shop"),
        )
        assert hangs.is_error and read.is_error and "a script keeps it busy" in read.text
        assert "# Shop" in after.text


async def test_a_page_that_does_not_come_is_told_and_left(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "OPEN_SECONDS", 2.0)
    async with talk(tmp_path, site) as it:
        hangs, after = await it(does("open", site.url + "/hang"), does("open", site.url + "/shop"))
        assert "still loading after 2 s" in hangs.text
        assert "# Shop" in after.text


async def test_a_sign_in_by_http_a_missing_page_and_a_pdf_are_told(tmp_path: Path, site: Site) -> None:
    async with talk(tmp_path, site) as it:
        secret, missing, pdf = await it(*(does("open", site.url + one) for one in ("/secret", "/none", "/shown.pdf")))
        assert "this is a PDF" in pdf.text and "downloaded downloads/shown.pdf" in pdf.text
        assert "net::ERR_INVALID_AUTH_CREDENTIALS" in secret.text
        assert "the server answered 404)" in missing.text


async def test_a_download_comes_into_the_workspace_and_can_be_undone(tmp_path: Path, site: Site) -> None:
    async with talk(tmp_path, site) as it:
        _, taken = await it(does("open", site.url + "/files"), does("click", 'link "Report"'))
        assert "downloaded downloads/re port.pdf (14 bytes)" in taken.text
        file = it.program.workspace / "downloads" / "re port.pdf"
        assert file.read_text() == "%PDF-1.4 words" and not file.stat().st_mode & 0o111
        assert "downloads/re port.pdf" in await it.program.ask("/receipts")
        await it.program.ask("/undo 2")
        assert not file.exists()


async def test_a_download_that_is_too_large_is_not_taken(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "DOWNLOAD_BYTES", 1_000_000)
    async with talk(tmp_path, site) as it:
        _, taken = await it(does("open", site.url + "/files"), does("click", 'link "Too large"'))
        assert "was not downloaded: more than 1 MB" in taken.text
        assert not (it.program.workspace / "downloads").exists()


async def test_only_files_of_the_workspace_are_uploaded(tmp_path: Path, site: Site) -> None:
    async with talk(tmp_path, site) as it:
        (it.program.workspace / "note.txt").write_text("words of mine")
        (tmp_path / "outside.txt").write_text("not for you")
        await it.one("open", site.url + "/files")
        for path in ("../outside.txt", str(tmp_path / "outside.txt"), "../config.toml", "none.txt"):
            assert (await it.one("upload", 'file "Choose"', path)).is_error
        given, sent = await it(does("upload", 'file "Choose"', "note.txt"), does("click", 'button "Send it"'))
        assert '"note.txt"' in given.text
        assert "words of mine" in sent.text
        assert "not for you" not in "".join(one.body for one in site.asked)


# --- sessions --------------------------------------------------------------------------------------------------------


async def test_a_login_is_kept_in_its_conversation_alone_and_ends_with_it_and_the_browser_with_the_program(
    tmp_path: Path, site: Site
) -> None:
    async with talk(tmp_path, site) as it:
        await it.one("open", site.url + "/login")
        assert "You are who=ann." in (await it.one("open", site.url + "/me")).text
        assert "You are nobody." in (await it.one("open", site.url + "/me", chat="other")).text
        assert "You are who=ann." in (await it.one("read")).text
        await it.program.ask("/new")
        assert "You are nobody." in (await it.one("open", site.url + "/me")).text
        pids, folder = it.pids(), it.plugin._chromium.folder
        assert folder and folder.exists()
    wait_for_end(pids)
    assert not folder.exists()


async def test_what_is_not_used_is_closed_and_the_browser_with_it(tmp_path: Path, site: Site) -> None:
    clock = HandClock()
    async with talk(tmp_path, site, clock=clock) as it:
        await it.one("open", site.url + "/login")
        pids = it.pids()
        clock.now += timedelta(minutes=11)
        late = await it.one("read")
        assert late.is_error and "it was not used for 10 minutes. Open it again" in late.text
        wait_for_end(pids)


async def test_the_session_of_a_job_ends_with_its_turn(tmp_path: Path, site: Site) -> None:
    async with talk(tmp_path, site) as it:
        it._model.add([does("open", site.url + "/shop"), "Hm."])
        message = UserMessage("Look.", it.program.clock(), "job")
        inbound = Inbound(Address("job", "1"), "job", "job-1", message, role="owner")
        app = it.program.app
        app.transactions.write_now(lambda tx: tx.deliver(inbound, app.chain.profiles["job"]))
        await until(lambda: it.plugin._sessions and len(it.plugin._sessions))
        pids = it.pids()
        await until(lambda: it.plugin._sessions is not None and not len(it.plugin._sessions))
        await asyncio.to_thread(wait_for_end, pids)


async def test_a_page_that_crashes_is_told_and_the_next_one_opens(tmp_path: Path, site: Site) -> None:
    async with talk(tmp_path, site) as it:
        await it.one("open", site.url + "/shop")
        tab = it.session.tab
        cdp = await tab.page.context.new_cdp_session(tab.page)
        crashed = asyncio.Event()
        tab.page.on("crash", lambda _: crashed.set())
        sending = asyncio.ensure_future(cdp.send("Page.crash"))
        await crashed.wait()
        told, after = await it(does("read"), does("open", site.url + "/shop"))
        assert "the page has crashed" in told.text
        assert "# Shop" in after.text
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


@pytest.mark.parametrize("which", ["browser", "driver"])
async def test_a_browser_that_dies_is_told_and_started_anew(tmp_path: Path, site: Site, which: str) -> None:
    async with talk(tmp_path, site) as it:
        await it.one("open", site.url + "/login")
        before = it.pids()
        driver = next(pid for pid in before if b"run-driver" in Path(f"/proc/{pid}/cmdline").read_bytes())
        (browser,) = [pid for pid in _children(driver) if b"chrom" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        gone = asyncio.Event()
        it.session._context.browser.on("disconnected", lambda _: gone.set())
        os.kill({"browser": browser, "driver": driver}[which], signal.SIGKILL)
        if which == "browser":
            await gone.wait()
        told, after = await it(does("read"), does("open", site.url + "/me"))
        assert told.is_error and "crashed" in told.text
        assert "You are nobody." in after.text
        wait_for_end(before)


async def test_a_browser_that_cannot_start_is_said_in_one_sentence(tmp_path: Path, site: Site) -> None:
    broken = tmp_path / "chromium"
    broken.write_text("#!/bin/sh\necho libfrob.so is missing >&2\nexit 3\n")
    broken.chmod(0o755)
    async with talk(tmp_path, site, chromium=str(broken)) as it:
        said = await it.one("open", site.url)
        assert said.is_error and "could not be started: libfrob.so is missing. Try" in said.text
        assert said.text.count("\n") == 0


async def test_a_stop_ends_what_is_done_at_once_and_the_next_page_opens(tmp_path: Path, site: Site) -> None:
    async with talk(tmp_path, site) as it:
        site.pages["/slow-start"] = "<script src=/hang></script>"
        site.asked.clear()
        it._model.add([does("open", site.url + "/slow-start")])
        await it.program.say("Open it.")
        await until(lambda: "/hang" in site.paths())
        async with asyncio.timeout(5):
            assert await it.program.ask("/stop") == "Stopped."
        assert "# Shop" in (await it.one("open", site.url + "/shop")).text


async def test_a_stop_while_it_starts_leaves_nothing_behind(tmp_path: Path, site: Site) -> None:
    async with talk(tmp_path, site) as it:
        it._model.add([does("open", site.url + "/shop")])
        await it.program.say("Open it.")
        await until(it.pids)
        async with asyncio.timeout(5):
            assert await it.program.ask("/stop") == "Stopped."
        pids = it.pids()
    wait_for_end(pids)


VICTIM = """
import asyncio, sys
from pathlib import Path
from tests.plugins.browse.test_chromium import talk
from tests.plugins.browse.site import Site

class Place:
    place, url = sys.argv[2], "http://" + sys.argv[2]

async def main():
    async with talk(Path(sys.argv[1]), Place) as it:
        await it.one("open", Place.url + "/shop")
        print(*it.pids(), flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def test_a_program_that_is_killed_leaves_no_browser_behind(tmp_path: Path, site: Site) -> None:
    victim = subprocess.Popen(
        [sys.executable, "-c", VICTIM, str(tmp_path), site.place],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    assert victim.stdout
    pids = [int(word) for word in victim.stdout.readline().split()]
    assert len(pids) > 3
    victim.kill()
    victim.wait()
    victim.stdout.close()
    wait_for_end(pids)


# --- the net ---------------------------------------------------------------------------------------------------------

ATTACK = """<title>Attack</title><p>words</p><iframe src="{url}/frame"></iframe><img src="{url}/img">
<link rel=stylesheet href="{url}/css"><link rel=prefetch href="{url}/prefetch"><link rel=preconnect href="{url}">
<link rel=dns-prefetch href="{url}"><script src="{url}/script"></script><object data="{url}/object"></object>
<video src="{url}/video"></video><form id=f action="{url}/form" target=_blank></form><script>
fetch("{url}/fetch", {{mode: "no-cors"}}).catch(() => 0);
fetch("http://localhost:{port}/name", {{mode: "no-cors"}}).catch(() => 0);
fetch("http://[::ffff:127.0.0.1]:{port}/six", {{mode: "no-cors"}}).catch(() => 0);
fetch("http://2130706433:{port}/int", {{mode: "no-cors"}}).catch(() => 0);
navigator.sendBeacon("{url}/beacon", "x"); new WebSocket("ws://{place}/socket"); new EventSource("{url}/events");
new Worker(URL.createObjectURL(new Blob(["fetch('{url}/worker', {{mode: 'no-cors'}})"])));
try {{ new WebTransport("https://{place}/transport") }} catch {{}}
const c = new RTCPeerConnection({{iceServers: [{{urls: "stun:127.0.0.1:{udp}"}},
 {{urls: "turn:127.0.0.1:{tcp}?transport=tcp", username: "a", credential: "b"}}]}}); c.createDataChannel("x");
c.createOffer().then(o => c.setLocalDescription(o)); f.submit();
</script>"""


async def test_no_page_reaches_a_private_place_in_any_way(tmp_path: Path, site: Site) -> None:
    with (
        serving() as private,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.create_server(("127.0.0.1", 0)) as tcp,
    ):
        udp.bind(("127.0.0.1", 0))
        udp.setblocking(False)
        tcp.setblocking(False)
        port = private.place.rpartition(":")[2]
        ports = {"port": port, "udp": udp.getsockname()[1], "tcp": tcp.getsockname()[1]}
        site.pages["/attack"] = ATTACK.format(url=private.url, place=private.place, **ports)
        site.pages["/leads"] = f"<meta http-equiv=refresh content='0;url={private.url}/refresh'>"
        site.pages["/opens"] = f"<title>Opens</title><a href='{private.url}/link'>Private</a>"
        async with talk(tmp_path, site) as it:
            attack, redirected, _, _, link = await it(
                does("open", site.url + "/attack"),
                does("open", f"{site.url}/to?url={private.url}/redirected"),
                does("open", site.url + "/leads"),
                does("open", site.url + "/opens"),
                does("click", 'link "Private"'),
            )
            assert "refused: 127.0.0.1 is this machine" in attack.text
            assert "this machine" in redirected.text and "[net] allow" in redirected.text
            assert "this machine" in link.text
            for url in ("file:///etc/passwd", "chrome://version", "javascript:alert(1)", "view-source:" + site.url):
                assert (await it.one("open", url)).is_error
            assert private.asked == []
            with pytest.raises(BlockingIOError):
                udp.recv(10)
            with pytest.raises(BlockingIOError):
                tcp.accept()
        async with talk(tmp_path / "allowed", site, private) as it:
            assert not (await it.one("open", private.url + "/shop")).is_error  # it was there all the time


async def test_a_frame_of_another_host_is_a_source_and_what_is_done_in_it_names_that_host(
    tmp_path: Path, site: Site
) -> None:
    """So a page of a host that is trusted brings no words of others as its own."""
    with serving() as other:
        other.pages["/part"] = "<p>Words of others</p><input aria-label='Code'>"
        site.pages["/with"] = f"<title>With</title><iframe src='{other.url}/part' width=300 height=90></iframe>"
        async with talk(tmp_path, site, other, tools="") as it:
            opened, shot = await it(does("open", site.url + "/with"), does("screenshot"))
            assert [opened.outside, shot.outside] == [f"{site.url}/with, {other.url}"] * 2
            (own,) = await it(does("open", site.url + "/shop"))
            assert own.outside == f"{site.url}/shop"
            it._model.add([does("open", site.url + "/with"), does("type", 'field "Code"', "7"), "Hm."])
            asked = await it.program.ask("Type it")
            assert asked.startswith(f'Type this into `field "Code"` at {other.place}?\n\n```\n7\n```')
