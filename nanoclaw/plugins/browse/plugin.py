"""The plugin: two tools for pages in a real browser, one that looks and one that does something there."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from nanoclaw.core.errors import ToolError
from nanoclaw.core.messages import Address, Ask, CheckedCall, Effect, Image, ToolExample, UserMessage, Verdict
from nanoclaw.core.plugin import Ended, Finding, Hears, Host, Plugin, Profile, Section, Tool, ToolOutput, Turn, Tx
from nanoclaw.core.tool import ToolContext, tool
from nanoclaw.escapes import one_line
from nanoclaw.redaction import clean_environment

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Playwright

    from nanoclaw.plugins.browse.asking import Use
    from nanoclaw.plugins.browse.session import BrowserSession, Seen
    from nanoclaw.plugins.browse.sessions import BrowserSessions

NAMES = ("chromium", "chromium-browser", "google-chrome")
START_SECONDS, CLOSE_SECONDS = 30.0, 5.0

FLAGS = (
    "--disable-quic",  # which would go past the proxy
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",  # and so would WebRTC
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",  # the same, in older ones
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",  # names are the proxy's business
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-gpu",
    "--disable-crash-reporter",
    "--no-first-run",
)

NOWHERE = "http://127.0.0.1:9"
"""The proxy of what belongs to no session, such as the browser's own updates."""


def lack(chosen: str, path: str) -> str:
    """A sentence about what must be installed before anything can be opened; '' where all is there. It may look at
    everything that is installed."""
    if find_spec("playwright") is None:
        from nanoclaw.installation import install_command

        return f"the browser needs an extra package: {install_command('browser')}"
    if executable(chosen, path):
        return ""
    if chosen:
        return f"[browse] chromium: there is no program {chosen!r}. Give the path of a Chromium or Chrome."
    return (
        f"no Chromium is installed: none of {', '.join(NAMES)} is in the PATH. Install the package chromium of this "
        'system, or say where one is by [browse] chromium = "/path".'
    )


def executable(chosen: str, path: str) -> str:
    """The path of a Chromium, '' for none."""
    return next((found for name in ([chosen] if chosen else NAMES) if (found := shutil.which(name, path=path))), "")


class Chromium:
    """At most one of it. Of the environment it sees what is not among the secrets and has no name of one."""

    def __init__(self, chosen: str, environment: Mapping[str, str], secrets: Collection[str] = ()) -> None:
        self._chosen, self._environment, self._secrets = chosen, environment, secrets
        self._path = environment.get("PATH", "")
        self._starting: asyncio.Task[Browser] | None = None
        self._browser: Browser | None = None
        self._driver: Playwright | None = None
        self.folder: Path | None = None
        """Its home, and the place of downloads under way."""

    async def context(self, **options: Any) -> BrowserContext:
        """A new profile, empty. Raises ToolError."""
        from playwright.async_api import Error

        with suppress(Error):
            return await (await self._running()).new_context(**options)
        await self.aclose()  # it has died without a word
        try:
            return await (await self._running()).new_context(**options)
        except Error:
            raise ToolError("the browser exits as soon as it starts. Is there enough free memory?") from None

    async def _running(self) -> Browser:
        """The browser, started where there is none. Raises ToolError."""
        if self._starting and self._starting.done() and not (self._browser and self._browser.is_connected()):
            await self.aclose()
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._start())
        # who stops waiting doesn't stop the start: a half-started browser would be nobody's
        return await asyncio.shield(self._starting)

    async def _start(self) -> Browser:
        if said := lack(self._chosen, self._path):
            raise ToolError(said)
        from playwright.async_api import Error, async_playwright

        from nanoclaw import scratch_folders

        await asyncio.to_thread(scratch_folders.remove_left_over)
        self.folder = Path(scratch_folders.make("browser"))
        seen = clean_environment(self._environment, self._secrets)
        try:
            self._driver = await async_playwright().start()
            self._browser = await self._driver.chromium.launch(
                executable_path=executable(self._chosen, self._path),
                args=[*FLAGS],
                chromium_sandbox=os.geteuid() != 0,  # it does not work for root
                ignore_default_args=["--disable-popup-blocking"],
                env={**seen, "HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder)},
                proxy={"server": NOWHERE},
                downloads_path=self.folder,
                timeout=START_SECONDS * 1000,
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
            )
            return self._browser
        except (Error, OSError) as error:
            path = executable(self._chosen, self._path)
            tried = f"Try {path} --headless --dump-dom about:blank in a shell."
            raise ToolError(f"the browser could not be started: {_why(str(error))}. {tried}") from None

    async def aclose(self) -> None:
        """End it, also one that only starts; nothing of it is left."""
        starting, self._starting = self._starting, None
        if starting is None:
            return
        # cancelled in the middle it would leave processes
        await asyncio.wait({starting}, timeout=CLOSE_SECONDS)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        browser, driver, folder = self._browser, self._driver, self.folder
        self._browser = self._driver = self.folder = None
        for end in (browser and browser.close, driver and driver.stop):  # the latter ends a browser that still runs
            if end:
                with suppress(Exception):
                    async with asyncio.timeout(CLOSE_SECONDS):
                        await end()
        if folder:
            await asyncio.to_thread(shutil.rmtree, folder, True)


def _why(said: str) -> str:
    """The reason why a browser did not start, from the output of it and its driver."""
    if "No usable sandbox" in said or "--no-sandbox is not supported" in said:
        return "its sandbox needs user namespaces, which are off here"
    if "Timeout" in said:
        return f"it was not ready within {START_SECONDS:g} s"
    lines = [line.partition("[err]")[2].strip() for line in said.splitlines() if "[err]" in line]
    return (next(filter(None, reversed(lines)), "") or said.strip().split("\n")[0])[:200].rstrip(".")


OPEN_TO = ("person", "job", "helper")

_Looking = Literal["open", "read", "scroll", "back", "screenshot"]
_Doing = Literal["click", "type", "select", "press", "upload"]


class BrowseSettings(NamedTuple):
    """The real browser."""

    chromium: str = ""  # path of the browser; empty: search the PATH


class Browse(Plugin):
    name = "browse"
    settings = BrowseSettings
    stamp = "the profile alone"

    def __init__(self, host: Host, settings: BrowseSettings) -> None:
        self._host, self._settings = host, settings
        self._path = host.environment.get("PATH", "")
        self._chromium = Chromium(settings.chromium, host.environment, host.redact.values)
        self._is_there = find_spec("playwright") is not None and bool(executable(settings.chromium, self._path))
        self._sessions: BrowserSessions | None = None
        self.hears = {"on_end": Hears()}  # as long as it was not used
        # calls of one conversation are done in their order, also those that are made side by side
        self._locks = WeakValueDictionary[Address, asyncio.Lock]()
        self._judged: dict[tuple[int, str], tuple[str, Use, CheckedCall, Turn]] = {}  # with the host that each is at
        self.public = self._use_of  # for guards

    def tools(self) -> Iterable[Tool]:
        if not self._is_there:
            return []
        look = tool(self._browse, reach="none", open_to=OPEN_TO, examples=_LOOK)
        do = tool(self._browse_do, open_to=OPEN_TO, examples=_DO)
        return [look, do._replace(audit=_begun, check=self._check)]

    def sections(self, query: str, profile: Profile) -> Iterable[Section]:
        """The model never believes that it has a browser which isn't there."""
        is_without = not self._is_there and profile.name in OPEN_TO
        return [Section("capabilities", "Browser", "You have no browser.")] if is_without else []

    async def check(self, deep: bool) -> Iterable[Finding]:
        if find_spec("playwright") is None and not self._settings.chromium:  # nobody asked for a browser
            return []
        if said := "" if self._is_there else lack(self._settings.chromium, self._path):
            return [Finding(False, said)]
        path = executable(self._settings.chromium, self._path)
        sandbox = "; without its own sandbox, as this is root" if os.geteuid() == 0 else ""
        return [Finding(True, f"{path}{sandbox}")] if deep else []

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> None:
        """A job's or helper's conversation ends with its turn, unless the person talks there too."""
        self._judged = {key: judged for key, judged in self._judged.items() if key[0] != turn.id}
        is_the_persons = any(isinstance(one, UserMessage) and one.origin == "person" for one in turn.history)
        if (sessions := self._sessions) and turn.profile.name != "person" and not is_the_persons:
            tx.after(lambda: self._host.spawn(sessions.close(turn.conversation, "its task has ended")))

    async def aclose(self) -> None:
        if self._sessions:
            await self._sessions.aclose()
        await self._chromium.aclose()

    async def _check(self, call: CheckedCall, turn: Turn) -> Verdict:
        use = await self._use_of(call, turn)
        asked = f"{use.words[0].upper()}{use.words[1:]}?"
        return Ask(asked, exact=use.exact, scope=use.scope) if use.is_asked else None

    async def _use_of(self, call: CheckedCall, turn: Turn) -> Use:
        from nanoclaw.plugins.browse.asking import use_of

        number, taint = call.arguments.get("element") or 0, self._host.get("taint")
        session = self._sessions.open_one(turn.conversation) if self._sessions else None
        before, found = self._judged.get((turn.id, call.id)), session.host(number) if session else ""
        here, label = before[0] if before else found, session.label(number) if session and number else ""
        use = use_of(call.arguments, label, here, taint.own_words(turn) if taint else "")
        use = use._replace(is_asked=use.is_asked and session is not None)
        self._judged[turn.id, call.id] = here, use, call, turn
        return use

    async def _may_send(self, context: ToolContext, host: str, exact: str) -> str:
        """Why a page may not send this to a host; '' where the owner allows it."""
        from nanoclaw.plugins.browse.asking import is_named, scope_of

        _, use, call, turn = self._judged[context.turn, context.call]
        taint, scope = self._host.get("taint"), scope_of(host)
        if taint and not is_named(host, taint.own_words(turn)) and (read := taint.untrusted(turn.outside)):
            taint.keep(call, turn, taint.learned(call, turn)._replace(sources=tuple(read)))
        ask = Ask(f"Let the page send this to {host}? I did this there: {use.words}.", exact=exact, scope=scope)
        said = await self._host.asker.ask(ask, turn.address, turn, call)
        return "" if said.is_yes else _NOT_SENT[said.by]

    # --- for the sessions --------------------------------------------------------------------------------------------

    def _all(self) -> BrowserSessions:
        if self._sessions is None:
            from nanoclaw.plugins.browse.sessions import BrowserSessions

            self.hears = {}
            self._sessions = BrowserSessions(self._host, self._make, self._chromium.aclose)
        return self._sessions

    async def _make(self) -> BrowserSession:
        """A session with a profile of its own, empty. Raises ToolError."""
        from nanoclaw.net.proxy import JudgingProxy
        from nanoclaw.plugins.browse.session import BrowserSession

        proxy = JudgingProxy(self._host.setting("net.allow"))
        try:
            context = await self._chromium.context(
                proxy={"server": await proxy.start()},
                accept_downloads=True,
                service_workers="block",  # they would outlive their pages
                viewport={"width": 1280, "height": 800},
                timezone_id=self._host.setting("person.timezone") or None,
            )
        except BaseException:
            await proxy.aclose()
            raise
        assert self._chromium.folder
        session = BrowserSession(context, proxy, self._chromium.folder)
        await context.route("**/*", session.sending.on_route)
        return session

    async def _session(self, context: ToolContext) -> BrowserSession:
        """The conversation's. Raises ToolError where it has none."""
        sessions = self._all()
        if session := await sessions.get(context.conversation):
            return session
        why = sessions.why_closed(context.conversation)
        raise ToolError(f"the page was closed: {why}. Open it again." if why else "no page is open: open one first.")

    # --- the tools ---------------------------------------------------------------------------------------------------

    async def _browse(self, context: ToolContext, action: _Looking, url: str = "") -> ToolOutput:
        """A real browser, for pages that need scripts, clicks or a login. Shows a page as text, in which what can be
        used has a number for browse_do, like [12: button "Buy"]; scroll shows more of it."""
        async with self._locks.setdefault(context.conversation, asyncio.Lock()):
            if action == "open" or (url and action == "read"):
                address = await self._checked(url)
                session = await self._all().opened(context.conversation)
                async with session.lock:
                    return await self._told(session, await session.open(address), context)
            session = await self._session(context)
            async with session.lock:
                if action == "screenshot":
                    from nanoclaw.pictures.pictures import open_picture

                    shot, seen = await session.screenshot()
                    opened = await asyncio.to_thread(open_picture, shot, "screenshot.png")
                    image = Image(opened.mime, opened.data, opened.name)
                    return (await self._told(session, seen, context))._replace(images=(image,))
                look = {"read": session.read, "scroll": session.scroll, "back": session.back}[action]
                return await self._told(session, await look(), context)

    async def _browse_do(
        self,
        context: ToolContext,
        action: _Doing,
        element: Annotated[int | None, "its number"] = None,
        value: Annotated[str, "text, option, key or workspace file; for click: answer to a dialog"] = "",
        enter: Annotated[bool, "press Enter after typing"] = False,
    ) -> ToolOutput:
        """Use an element of the page that browse shows. Returns what changed."""
        if element is None and action != "press":
            raise ToolError(f"{action} needs the number of an element, such as 12 for [12: …].")
        file = await self._file(value) if action == "upload" else ("", b"")
        async with self._locks.setdefault(context.conversation, asyncio.Lock()):
            session, number = await self._session(context), element or 0
            async with session.lock:
                host = session.host(number)
                if host != self._judged.get((context.turn, context.call), (host,))[0]:
                    raise ToolError("the page now belongs to another host: read it, then do this again.")
                context.report(_effect(action, session.label(number), value, host))
                may_send = partial(self._may_send, context)
                if action == "upload":
                    seen = await session.upload(number, *file, may_send)
                else:
                    given = value or "Enter" if action == "press" else value
                    seen = await session.do(action, element, given, may_send, enter=enter)
                told = await self._told(session, seen, context)
                return told._replace(is_error=any(one.startswith("not sent") for one in seen.happened))

    async def _checked(self, url: str) -> str:
        """An address that may be opened. Raises ToolError."""
        from nanoclaw.net.proxy import JudgingProxy
        from nanoclaw.net.public import NetError, host_of, shown

        url = url.strip()
        if not url:
            raise ToolError("open needs a url.")
        if "://" not in url and not url.lower().startswith(_SCHEMES):
            url = f"https://{url}"
        try:
            place = host_of(url)
            await JudgingProxy(self._host.setting("net.allow")).check(place.host, place.port)
        except NetError as error:
            raise ToolError(f"{shown(url)} is not opened: {error}") from None
        return url

    async def _file(self, path: str) -> tuple[str, bytes]:
        """Name and content of a file of the workspace that may be sent. Raises ToolError."""
        from nanoclaw.beneath.paths import PathError
        from nanoclaw.plugins.browse.files import file_to_upload

        if media := self._host.get("media"):
            media.sendable(path)
        try:
            return await asyncio.to_thread(file_to_upload, self._host.reach, path)
        except (PathError, ValueError) as error:
            raise ToolError(str(error)) from None

    # --- results -----------------------------------------------------------------------------------------------------

    async def _told(self, session: BrowserSession, seen: Seen, context: ToolContext) -> ToolOutput:
        """A page as the model reads it."""
        address = one_line(seen.url, 300)
        happened = [*seen.happened, *await self._taken(session, context)]
        head = " — ".join(part for part in (seen.title, address) if part)
        if seen.status >= 400:
            head = f"{head} (the server answered {seen.status})"
        note = seen.note
        if seen.all:
            from nanoclaw.outputs import Outputs

            kept = await asyncio.to_thread(Outputs(self._host.workspace).keep, "browse", seen.all)
            note = f"{note} All of it is in {kept}.".strip() if kept else note
        lines = [head, *(f"[{one}]" for one in happened), seen.text, f"[{note}]" if note else ""]
        sources = [address or "the browser", *session.sources(seen.url)]
        return ToolOutput("\n".join(filter(None, lines)), outside=", ".join(sources))

    async def _taken(self, session: BrowserSession, context: ToolContext) -> list[str]:
        """Put what was downloaded into the workspace; what is said about it."""
        from nanoclaw.atomic_write import reason
        from nanoclaw.plugins.browse.files import place, safe_name

        told = []
        while session.downloaded:
            one = session.downloaded.pop(0)
            host, name = urlsplit(one.url).netloc or session.host(), safe_name(one.name)
            if not one.path:
                told.append(f"{name} was not downloaded: {one.why}")
                continue
            try:
                path, size, digest = await asyncio.to_thread(place, self._host.workspace, one.name, Path(one.path))
            except OSError as error:
                told.append(f"{name} was not kept: {reason(error)}")
                continue
            told.append(f"downloaded {path} ({size:,} bytes)")
            said = f"downloaded {path} from {one_line(host)}"
            context.report(Effect("browse", "file", path, said, "done", "", digest))
        return told


_SCHEMES = ("about:", "data:", "javascript:", "file:", "chrome:", "blob:")
_NOT_SENT = {
    "owner": "the person said no. Accept that.",
    "time": "nobody answered in time. Say in your answer what was left undone.",
    "nobody": "nobody is there to allow it. Say in your answer what was left undone.",
}
_DID = {"click": "clicked", "type": "typed into", "select": "selected in", "press": "pressed", "upload": "uploaded to"}


def _effect(action: str, label: str, value: str, host: str) -> Effect:
    """A line of the audit log, without what is typed: it may be a secret."""
    what = label or "an element"
    if action == "press":
        key = one_line(value or "Enter", 20) if len(value) != 1 else "a key"
        what = f"{key} in {label}" if label else key
    if action == "upload":
        what = f"{what}: {one_line(value)}"
    return Effect("browse_do", "page", host, one_line(f"{_DID[action]} {what} at {host or 'no page'}", 160))


def _begun(arguments: dict[str, Any]) -> Effect:
    """Before it is known which element that is."""
    number = f"element {arguments['element']}" if arguments.get("element") else "a key"
    return Effect("browse_do", "page", "", f"{_DID[arguments['action']]} {number} of a page")


_LOOK = (ToolExample("Look at shop.example in the browser", {"action": "open", "url": "https://shop.example"}),)
_DO = (ToolExample("Click Buy", {"action": "click", "element": 12}),)
