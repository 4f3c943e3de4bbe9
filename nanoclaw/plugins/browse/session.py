"""One conversation's browser: its tabs, what is done in them, and what happens there meanwhile."""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from nanoclaw.core.errors import ToolError
from nanoclaw.net.proxy import JudgingProxy
from nanoclaw.plugins.browse import reading
from nanoclaw.plugins.browse.sending import MaySend, Sending

if TYPE_CHECKING:
    from playwright import async_api as api


OPEN_SECONDS, ACT_SECONDS, READ_SECONDS, SETTLE_SECONDS = 30.0, 10.0, 15.0, 6.0
QUIET_SECONDS = 0.4
"""A page on which nothing was asked for so long has done what an action made it do."""
WALK_MILLISECONDS, TEXT_CHARACTERS = 3_000, 500_000
"""The most that reading one frame may take, and text that is kept of it."""
FRAMES, FRAME_DEPTH = 20, 4
TABS, DIALOGS, DOWNLOADS = 6, 20, 5
DOWNLOAD_BYTES, DOWNLOAD_SECONDS = 200_000_000, 20.0
_ENDLESS = frozenset({"websocket", "eventsource", "media", "ping", "manifest"})
"""Requests that say nothing of whether a page is done."""


class Seen(NamedTuple):
    """A page as it is: `text` is what is shown of it, `all` the whole text where it is long, `happened` what came
    beside."""

    url: str
    title: str
    text: str
    all: str
    status: int
    happened: tuple[str, ...]
    note: str = ""


class Downloaded(NamedTuple):
    """A finished download; `path` is where the browser has put it, '' where it failed, and `why`."""

    name: str
    url: str
    path: str
    why: str = ""


class Tab:
    """A page, the numbers of its elements, and how much of it was shown."""

    def __init__(self, page: api.Page) -> None:
        self.page = page
        self.text, self.end = "", 0
        self.status, self.is_pdf = 0, False
        self.is_crashed = self.is_stuck = False
        self.marks: dict[api.Frame, api.JSHandle] = {}
        self.where: dict[int, api.Frame] = {}


class BrowserSession:
    def __init__(self, context: api.BrowserContext, proxy: JudgingProxy, folder: Path) -> None:
        """`folder` is where the browser puts downloads under way."""
        self._context, self._proxy, self._folder = context, proxy, folder
        self.lock = asyncio.Lock()
        self._tabs: list[Tab] = []
        self._next = 1
        self._pending: set[api.Request] = set()
        self._stirred = asyncio.Event()
        self._happened: list[str] = []
        self._dialogs, self._yes = 0, ""
        self.sending = Sending(self._stirred, self._later)
        self._read_from = dict[str, None]()
        self._downloading: set[asyncio.Task[None]] = set()
        self.downloaded: list[Downloaded] = []
        self._closed = self._is_lost = False
        listened: Any = context  # its `on` has a signature for each event
        for event, hear in (
            ("page", self._on_page),
            ("dialog", self._on_dialog),
            ("request", self._on_request),
            ("requestfinished", self._on_request_end),
            ("requestfailed", self._on_request_end),
            ("response", self._on_response),
        ):
            listened.on(event, hear)

    @property
    def is_busy(self) -> bool:
        return self.lock.locked()

    @property
    def is_alive(self) -> bool:
        browser = self._context.browser
        return not self._closed and not self._is_lost and bool(browser and browser.is_connected())

    @property
    def tab(self) -> Tab:
        """The tab that is shown. Raises ToolError."""
        if not self._tabs:
            raise ToolError("no page is open: open one first.")
        return self._tabs[-1]

    def host(self, number: int = 0) -> str:
        """The host of an element, which may be in a frame of another one, or of the page."""
        if not self._tabs:
            return ""
        tab = self._tabs[-1]
        frame = tab.where.get(number)
        return (urlsplit(frame.url).netloc if frame else "") or urlsplit(tab.page.url).netloc

    def sources(self, page: str) -> list[str]:
        """Places of other hosts than the page's that had a part in what was read of it: its frames, dialogs."""
        others = {host: f"{scheme}://{host}" for scheme, host, *_ in map(urlsplit, self._read_from) if host}
        others.pop(urlsplit(page).netloc, None)
        return list(others.values())

    async def aclose(self) -> None:
        self._closed = True
        for task in self._downloading:
            task.cancel()
        with suppress(Exception):
            async with asyncio.timeout(ACT_SECONDS / 2):
                await self._context.close()
        await self._proxy.aclose()

    # --- actions -----------------------------------------------------------------------------------------------------

    async def open(self, url: str, *, again: bool = True) -> Seen:
        """Raises ToolError."""
        from playwright.async_api import Error

        if self._tabs and (self._tabs[-1].is_crashed or self._tabs[-1].is_stuck):
            self._later(self._close_tab(self._tabs.pop()))
        if not self._tabs:
            await self._context.new_page()
        tab = self._tabs[-1]
        self._begin()
        self._proxy.failures.clear()
        self._proxy.refusals.clear()
        try:
            async with asyncio.timeout(OPEN_SECONDS + 2):
                await tab.page.goto(url, wait_until="domcontentloaded", timeout=OPEN_SECONDS * 1000)
        except TimeoutError:
            raise self._stuck(tab) from None
        except Error as error:
            said = await self._heard(error)
            if "interrupted by another navigation" in said and again:
                return await self.open(url, again=False)  # by the error page of the one before
            if "Download is starting" not in said and "Timeout" not in said:
                host = urlsplit(url).hostname or ""
                told = (f"the browser says {word}" for word in said.split() if word.startswith("net::"))
                why = next(iter(self._proxy.refusals), "") or self._proxy.failures.get(host)
                why = why or next(told, "it did not load")
                self._proxy.refusals.clear()
                if not self.is_alive:
                    raise ToolError(_CRASHED) from None
                await self._settle()  # an error page comes, which would break off what is opened next
                raise ToolError(f"{url[:200]} was not opened: {why}") from None
            if "Timeout" in said:
                self._happened.append(f"still loading after {OPEN_SECONDS:g} s")
                with suppress(Exception):
                    async with asyncio.timeout(ACT_SECONDS / 2):
                        await (await self._context.new_cdp_session(tab.page)).send("Page.stopLoading")
        await self._settle()
        if self._tabs and self._tabs[-1].is_pdf:
            await self._save_pdf(self._tabs[-1])
        return await self._seen()

    async def read(self) -> Seen:
        self._begin()
        await self._settle()
        return await self._seen()

    async def back(self) -> Seen:
        """To the page before; from a new tab that has none, to the tab that opened it."""
        tab = self.tab
        self._begin()
        before = tab.page.url
        moved = await self._do(lambda: tab.page.go_back(wait_until="domcontentloaded", timeout=ACT_SECONDS * 1000))
        if moved is None and tab.page.url == before:
            if len(self._tabs) < 2:
                raise ToolError("there is no page before this one.")
            await self._close_tab(tab)
            self._happened.append("closed the new tab")
        await self._settle()
        return await self._seen()

    async def scroll(self) -> Seen:
        """The next part of the page; at its end, what it loads by being scrolled to its end."""
        tab = self.tab
        self._begin()
        old, end = tab.text, tab.end
        share = 1.0 if end >= len(old) else end / len(old)
        move = "share => window.scrollTo(0, share * document.documentElement.scrollHeight)"
        await self._do(lambda: tab.page.evaluate(move, share))
        await self._settle()
        text, cut = await self._text(tab)
        start = reading.goes_on(old, end, text)
        note = "This is the end of the page: nothing more was loaded." if start >= len(text) else ""
        return await self._seen((text, cut), start, note)

    async def screenshot(self) -> tuple[bytes, Seen]:
        tab = self.tab
        self._begin()
        shot = await self._do(lambda: tab.page.screenshot(timeout=ACT_SECONDS * 1000, animations="disabled"))
        self._read_from.update((frame.url, None) for frame in tab.page.frames)
        return shot, Seen(tab.page.url, "", "", "", tab.status, self._take_happened())

    async def do(self, action: str, number: int | None, value: str, may_send: MaySend, *, enter: bool = False) -> Seen:
        """Use an element; without a number a key is for the page. `value` is a text, a key, an option by its label or
        its value, or the answer to a question that the page asks on a click, '' for no. With `enter` that key follows
        what is typed."""
        if number is None:
            tab = self.tab
            self._begin()
            return await self._acted(lambda: tab.page.keyboard.press(value), may_send)
        element = await self._element(number)
        soon: Any = {"timeout": ACT_SECONDS * 500, "no_wait_after": True}
        if action == "select":
            return await self._acted(lambda: element.select_option(value.strip(), timeout=ACT_SECONDS * 100))
        if action == "type":
            self.sending.typed.add(value)
            self.sending.secrets.update([value] if value and self.label(number).startswith("password") else [])
            judged = may_send if enter else None
            return await self._acted(lambda: _type(element, value, soon if enter else None), judged)
        if action == "press":
            return await self._acted(lambda: element.press(value, **soon), may_send)
        self._yes = value
        return await self._acted(lambda: element.click(**soon), may_send)

    async def upload(self, number: int, name: str, data: bytes, may_send: MaySend) -> Seen:
        """Raises ToolError where the element takes no file."""
        element = await self._element(number)
        mime = mimetypes.guess_type(name)[0] or "application/octet-stream"
        files: Any = [{"name": name, "mimeType": mime, "buffer": data}]

        async def give() -> None:
            if await element.evaluate("e => e.localName === 'input' && e.type === 'file'"):
                await element.set_input_files(files, timeout=ACT_SECONDS * 1000)
                return
            async with self.tab.page.expect_file_chooser(timeout=ACT_SECONDS * 300) as chooser:
                await element.click(timeout=ACT_SECONDS * 300)
            await (await chooser.value).set_files(files)

        return await self._acted(give, may_send)

    # --- numbers -----------------------------------------------------------------------------------------------------

    def label(self, number: int) -> str:
        """An element as the page's text shows it, such as link "Docs"."""
        return reading.label(self._tabs[-1].text, number) if self._tabs else ""

    async def _element(self, number: int) -> api.ElementHandle:
        """Raises ToolError for one that isn't there any more."""
        from playwright.async_api import Error

        tab = self.tab
        self._begin()
        gone = f"element {number} is not on this page any more. Read it again: elements have new numbers there."
        frame = tab.where.get(number)
        if frame is None or frame not in tab.marks:
            known = f"element {number} was never on this page" if number >= self._next or number < 1 else ""
            raise ToolError(f"{known}: read it to see the numbers of its elements." if known else gone)
        look = "([marks, n]) => { const e = marks.elements.get(n)?.deref(); return e?.isConnected ? e : null }"
        try:
            async with asyncio.timeout(READ_SECONDS):
                handle = await frame.evaluate_handle(look, [tab.marks[frame], number])
        except Error as error:
            await self._heard(error)
            raise ToolError(gone if self.is_alive else _CRASHED) from None
        except TimeoutError:
            raise self._stuck(tab) from None
        element = handle.as_element()
        if element is None:
            raise ToolError(gone)
        return element

    # --- one action --------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._dialogs, self._yes = 0, ""
        self.sending.begin()
        self._read_from.clear()

    async def _acted(self, act: Callable[[], Awaitable[Any]], may_send: MaySend | None = None) -> Seen:
        """Do something and report how the page changed: only what is new, where it is still the same. With `may_send`
        that judges what the page sends then."""
        tab = self.tab
        old, url = tab.text, tab.page.url
        self.sending.begin(may_send, urlsplit(url).netloc)
        await self._do(act)
        await self._settle()
        while self.sending.held and may_send:
            if said := await self.sending.judge(may_send):
                self._happened.append(said)
            await self._settle()
        now = self.tab
        if now is not tab or now.page.url.partition("#")[0] != url.partition("#")[0]:
            return await self._seen()
        try:
            text, cut = await self._text(now)
        except ToolError as error:  # which must not look as if it could be done once more
            return Seen(now.page.url, "", "", "", now.status, self._take_happened(), f"It was done, but {error}")
        new, gone = reading.news(old, text)
        lines = text.count("\n") + 1
        if new.count("\n") * 2 > lines and lines > 10:
            return await self._seen((text, cut))
        now.text = text
        now.end = min(now.end, len(text))
        note = "" if new else f"{gone} lines of it are gone." if gone else "Nothing that can be read has changed."
        shown = new[: reading.part(new, 0)]
        if len(shown) < len(new):
            note = "More is new: read shows all of the page."
        what = f"(What is new on the page:)\n{shown}" if new else ""
        return Seen(now.page.url, await self._title(now), what, "", now.status, self._take_happened(), note)

    async def _do(self, act: Callable[[], Awaitable[Any]]) -> Any:
        """Raises ToolError, in words of ours: what playwright says quotes the page."""
        from playwright.async_api import Error
        from playwright.async_api import TimeoutError as TookTooLong

        tab = self.tab
        try:
            async with asyncio.timeout(ACT_SECONDS):
                return await act()
        except (TookTooLong, TimeoutError) as error:
            if self._dialogs >= DIALOGS:
                return None
            is_told = isinstance(error, TookTooLong)
            raise (ToolError(_why_not(str(error))) if is_told else self._stuck(tab)) from None
        except Error as error:
            said = await self._heard(error)
            if not self.is_alive:
                raise ToolError(_CRASHED) from None
            if tab.is_crashed or tab.page.is_closed():
                return None  # which is told with what is left
            raise ToolError(_why_not(said)) from None

    async def _heard(self, error: Exception) -> str:
        """The text of an error of playwright's, which may be that its driver has ended without a word."""
        from playwright.async_api import Error

        if "closed" in str(error):
            try:
                async with asyncio.timeout(ACT_SECONDS / 2):
                    await self._context.cookies([])
            except (Error, TimeoutError):
                self._is_lost = True
        return str(error)

    def _stuck(self, tab: Tab) -> ToolError:
        tab.is_stuck = True
        return ToolError("the page does not respond: a script keeps it busy. Open it again, or another.")

    async def _settle(self) -> None:
        """Wait until a page has done what it was made to do: nothing under way, nothing asked for during a moment."""
        from playwright.async_api import Error

        with suppress(TimeoutError, Error):
            async with asyncio.timeout(SETTLE_SECONDS):
                while self._tabs and not self._tabs[-1].is_crashed:
                    self._stirred.clear()
                    await self._tabs[-1].page.wait_for_load_state("domcontentloaded")
                    try:
                        async with asyncio.timeout(QUIET_SECONDS):
                            await self._stirred.wait()
                    except TimeoutError:
                        if not self._pending - self.sending.held.keys():
                            break
        if self._downloading:
            await asyncio.wait(self._downloading, timeout=DOWNLOAD_SECONDS)
            if self._downloading:
                self._happened.append("a download is still under way: read tells when it is done")

    async def _seen(self, read: tuple[str, bool] | None = None, start: int = 0, note: str = "") -> Seen:
        """The page of the tab that is shown, from a place in its text."""
        if not self._tabs:
            happened = self._take_happened()
            return Seen("", "", "", "", 0, happened, "No page is open any more: open one.")
        tab = self.tab
        if tab.is_crashed:
            await self._close_tab(tab)
            happened = (*self._take_happened(), "the page has crashed and was closed")
            left = "The tab before is shown again: read it." if self._tabs else "Open it again, or another."
            return Seen(tab.page.url, "", "", "", 0, happened, left)
        text, cut = read or await self._text(tab)
        end = reading.part(text, start)
        tab.text, tab.end = text, end
        if end < len(text):
            note = f"{end:,} of {len(text):,} characters were shown: scroll shows more."
        if cut:
            note = f"{note} The page is larger than what is read of one."
        shown = text[start:end].strip("\n") or ("" if start else "(There is nothing to read on this page.)")
        long = text if len(text) > reading.PART else ""
        return Seen(tab.page.url, await self._title(tab), shown, long, tab.status, self._take_happened(), note.strip())

    def _take_happened(self) -> tuple[str, ...]:
        refused = [f"refused: {one}" for one in self._proxy.refusals]
        if len(refused) > 3:
            refused[3:] = [f"and {len(refused) - 3} other private places"]
        if len(self._tabs) > 1:
            on = "back leads to the one before when it is the first page"
            self._happened.append(f"tab {len(self._tabs)} is shown; {on}")
        happened = tuple(dict.fromkeys([*self._happened, *refused]))
        self._happened.clear()
        self._proxy.refusals.clear()
        return happened

    async def _title(self, tab: Tab) -> str:
        with suppress(Exception):
            async with asyncio.timeout(READ_SECONDS / 10):
                return " ".join((await tab.page.title()).split())[:200]
        return ""

    async def _save_pdf(self, tab: Tab) -> None:
        """Download the PDF that is shown: the browser draws it and gives no text."""
        tab.is_pdf = False
        save = "() => { const a = document.createElement('a'); a.href = location.href; a.download = ''; a.click() }"
        with suppress(ToolError):
            await self._do(lambda: tab.page.evaluate(save))
            self._happened.append("this is a PDF, whose text the browser cannot give")
            await self._settle()

    # --- reading -----------------------------------------------------------------------------------------------------

    async def _text(self, tab: Tab) -> tuple[str, bool]:
        """The text of a page with its frames, and True where it is larger than what is read. Raises ToolError."""
        from playwright.async_api import Error

        texts: list[str] = []
        try:
            async with asyncio.timeout(READ_SECONDS):
                for again in (True, False):
                    try:
                        texts.clear()
                        cut = await self._read_frame(tab, tab.page.main_frame, texts, 0)
                        return reading.whole(texts), cut
                    except Error as error:
                        await self._heard(error)
                        if not again or not self.is_alive or tab.is_crashed or tab.page.is_closed():
                            break  # it went on to another page meanwhile
                        await tab.page.wait_for_load_state("domcontentloaded")
        except TimeoutError:
            raise self._stuck(tab) from None
        if not self.is_alive:
            raise ToolError(_CRASHED)
        return "(The page could not be read: it went on to another one meanwhile. Read it again.)", False

    async def _read_frame(self, tab: Tab, frame: api.Frame, texts: list[str], depth: int) -> bool:
        """Add the texts of a frame and of those within it. Raises playwright's Error."""
        from playwright.async_api import Error

        options = {
            "next": self._next,
            "characters": TEXT_CHARACTERS,
            "milliseconds": WALK_MILLISECONDS,
            "frames": FRAMES if depth < FRAME_DEPTH else 0,
        }
        self._read_from[frame.url] = None
        try:
            marks = tab.marks.get(frame) or await frame.evaluate_handle(_MARKS)
            found = await frame.evaluate(_script(), [marks, options])
        except Error:
            if tab.marks.pop(frame, None) is None:
                raise
            marks = await frame.evaluate_handle(_MARKS)  # it has another document by now
            found = await frame.evaluate(_script(), [marks, options])
        self._read_from[frame.url] = None  # it may have become another one meanwhile
        tab.marks[frame] = marks
        tab.where.update(dict.fromkeys(range(self._next, found["next"]), frame))
        self._next = found["next"]
        texts.append(found["text"])
        self.sending.secrets.update(found["secrets"])
        is_cut = bool(found["cut"])
        for number in range(found["frames"]):
            if len(texts) > FRAMES:
                texts.append("(more frames are not read)")
                continue
            place = len(texts)
            try:
                async with asyncio.timeout(READ_SECONDS / 4):
                    handle = await frame.evaluate_handle("([marks, at]) => marks.frames[at]", [marks, number])
                    element = handle.as_element()
                    inner = await element.content_frame() if element else None
                    if inner is None:
                        texts.append("")
                    else:
                        is_cut |= await self._read_frame(tab, inner, texts, depth + 1)
            except (Error, TimeoutError):
                texts[place:] = ["(this frame could not be read)"]
        return is_cut

    # --- events ------------------------------------------------------------------------------------------------------

    async def _close_tab(self, tab: Tab) -> None:
        if tab in self._tabs:
            self._tabs.remove(tab)
        with suppress(Exception):
            async with asyncio.timeout(ACT_SECONDS / 2):
                await tab.page.close()

    def _on_page(self, page: api.Page) -> None:
        tab = Tab(page)
        if len(self._tabs) >= TABS:
            self._happened.append(f"a new tab was closed at once: {TABS} are open")
            self._later(page.close())
            return
        if self._tabs:
            self._happened.append("a new tab was opened, which is shown now")
        self._tabs.append(tab)
        self._stirred.set()
        page.on("crash", lambda _: self._on_crash(tab))
        page.on("close", lambda _: self._on_close(tab))
        page.on("download", self._on_download)
        page.on("framenavigated", lambda _: self._stirred.set())
        asks = "the page asks for a file: upload one to the element that was clicked"
        page.on("filechooser", lambda _: self._happened.append(asks))

    def _on_crash(self, tab: Tab) -> None:
        tab.is_crashed = True
        self._stirred.set()

    def _on_close(self, tab: Tab) -> None:
        if tab in self._tabs:
            self._tabs.remove(tab)
            if not self._closed:
                self._happened.append("the page closed its tab")
        self._stirred.set()

    async def _on_dialog(self, dialog: api.Dialog) -> None:
        self._dialogs += 1
        self._stirred.set()
        tab = next((one for one in self._tabs if one.page == dialog.page), None)
        if self._dialogs == DIALOGS:
            self._happened.append("the page went on opening dialogs without end and was closed")
        if self._dialogs >= DIALOGS:
            if tab:
                self._later(self._close_tab(tab))
            return
        if dialog.page:
            self._read_from.update((frame.url, None) for frame in dialog.page.frames)
        said = " ".join(dialog.message.split())[:300]
        with suppress(Exception):
            if dialog.type in ("alert", "beforeunload"):
                await dialog.accept()
                if dialog.type == "alert":
                    self._happened.append(f"the page said: {said!r}")
            elif self._yes:
                await dialog.accept(self._yes if dialog.type == "prompt" else "")
                self._happened.append(f"the page asked {said!r}: answered {self._yes!r}")
            else:
                await dialog.dismiss()
                again = "the answer as value" if dialog.type == "prompt" else "the value yes"
                no = f"answered no (click again with {again}, to answer otherwise)"
                self._happened.append(f"the page asked {said!r}: {no}")

    def _on_request(self, request: api.Request) -> None:
        self._stirred.set()
        if request.resource_type not in _ENDLESS and not request.url.startswith(("data:", "blob:")):
            self._pending.add(request)

    def _on_request_end(self, request: api.Request) -> None:
        self._pending.discard(request)
        self._stirred.set()

    def _on_response(self, response: api.Response) -> None:
        with suppress(Exception):  # of a page that is gone
            if response.request.is_navigation_request():
                self.sending.came.add(response.frame)
                for tab in self._tabs:
                    if tab.page.main_frame == response.frame:
                        tab.status = response.status
                        tab.is_pdf = response.headers.get("content-type", "").startswith("application/pdf")

    def _on_download(self, download: api.Download) -> None:
        self._stirred.set()
        if len(self._downloading) + len(self.downloaded) >= DOWNLOADS:
            self._happened.append(f"a download was not taken: {DOWNLOADS} at once are enough")
            self._later(download.cancel())
            return
        self._later(self._download(download))

    async def _download(self, download: api.Download) -> None:
        """Wait for a download, and keep what is under way from filling the disk."""
        from playwright.async_api import Error

        finished, path, why = asyncio.ensure_future(download.failure()), "", ""
        try:
            while not (finished.done() or why):
                await asyncio.wait({finished}, timeout=0.2)
                if _bytes_in(self._folder) > DOWNLOAD_BYTES:
                    why = f"more than {DOWNLOAD_BYTES // 10**6} MB are not downloaded"
                    await (download.delete() if finished.done() else download.cancel())
            if not why and (failed := finished.result()):
                why = f"it broke off ({failed[:80]})"
            path = "" if why else str(await download.path())
        except Error:
            why = why or "it broke off"
        finally:
            finished.cancel()
        self.downloaded.append(Downloaded(download.suggested_filename, download.url, path, why))

    def _later(self, work: Any) -> None:
        """Something that ends by itself, and whose failure means that it is done already."""

        async def run() -> None:
            with suppress(Exception):
                await work

        task = asyncio.ensure_future(run())
        self._downloading.add(task)
        task.add_done_callback(self._downloading.discard)


_CRASHED = "the browser has crashed. Open the page again; it begins without logins."
_FORMS = "2026-03-31 for a date, 14:30 for a time, digits for a number, #aabbcc for a colour."
_MARKS = "() => ({ numbers: new WeakMap(), elements: new Map(), frames: [] })"


@cache
def _script() -> str:
    return Path(__file__).with_name("page.js").read_text(encoding="utf-8")


async def _type(element: api.ElementHandle, text: str, then: dict[str, Any] | None) -> None:
    """Fill a field, and press Enter in the way of `then`."""
    await element.fill(text, timeout=ACT_SECONDS * 500)
    if text and await element.evaluate("e => e.value === ''"):
        raise ToolError(f"this field takes another form, such as {_FORMS}")
    if then:
        await element.press("Enter", **then)


def _bytes_in(folder: Path) -> int:
    with suppress(OSError):
        return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
    return 0


def _why_not(said: str) -> str:
    """The reason why something could not be done with an element: playwright's first line. The others quote the page,
    and what runs in the page itself may say anything."""
    if "intercepts pointer events" in said:
        return "something lies over this element (a dialog or banner): close that first."
    line = said.partition("\n")[0]
    is_playwrights = line.startswith("ElementHandle.") and "evaluate" not in line
    why = f"the browser says “{line[:160]}”" if is_playwrights else "it could not be done with this element"
    return f"{why}. It may have been done all the same: read the page, or take a screenshot, before you try again."
