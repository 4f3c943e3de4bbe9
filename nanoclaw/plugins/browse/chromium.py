"""The browser: found on this machine, started at first use, restarted after a crash, ended with its last session."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Collection, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nanoclaw.core.errors import ToolError
from nanoclaw.installation import install_command
from nanoclaw.redaction import clean_environment

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Playwright

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


def is_there(chosen: str, path: str) -> bool:
    return find_spec("playwright") is not None and bool(executable(chosen, path))


def lack(chosen: str, path: str) -> str:
    """A sentence about what must be installed before anything can be opened; '' where all is there. It may look at
    everything that is installed."""
    if find_spec("playwright") is None:
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
        self._driver: Playwright | None = None
        self.folder: Path | None = None
        """Its home, and the place of downloads under way."""

    @property
    def is_running(self) -> bool:
        task = self._starting
        return bool(
            task and task.done() and not task.cancelled() and not task.exception() and task.result().is_connected()
        )

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
        if self._starting and self._starting.done() and not self.is_running:
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
            return await self._driver.chromium.launch(
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
        except (Error, OSError) as error:
            path = executable(self._chosen, self._path)
            tried = f"Try {path} --headless --dump-dom about:blank in a shell."
            raise ToolError(f"the browser could not be started: {_why(str(error))}. {tried}") from None

    async def aclose(self) -> None:
        """End it, also one that only starts; nothing of it is left."""
        starting, self._starting = self._starting, None
        if starting is None:
            return
        if not starting.done():
            await asyncio.wait({starting}, timeout=CLOSE_SECONDS)  # cancelled in the middle it would leave processes
            starting.cancel()
        with suppress(Exception, asyncio.CancelledError):
            browser = await starting
            async with asyncio.timeout(CLOSE_SECONDS):
                await browser.close()
        driver, self._driver = self._driver, None
        folder, self.folder = self.folder, None
        if driver:
            # its end ends a browser that still runs
            with suppress(Exception):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await driver.stop()
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
