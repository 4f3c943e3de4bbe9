"""Requests that an act makes its page send: they are held until the owner was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

if TYPE_CHECKING:
    from playwright import async_api as api

MaySend = Callable[[str, str], Awaitable[str]]
"""Says why a page may not send something to a host; '' where it may."""
SENT_CHARACTERS = 20_000  # that are shown of what is sent


class Sending:
    """`held` are the requests that wait to be judged, `came` the frames whose page came since the act; `typed` is all
    that was typed, `secrets` what stands in fields for passwords."""

    def __init__(self, stirred: asyncio.Event, later: Callable[[Any], None]) -> None:
        """`stirred` is set when something is held; `later` does what nobody waits for."""
        self._stirred, self._later = stirred, later
        self._may_send: MaySend | None = None  # from an act on that is not free to send
        self._here, self._said = "", dict[str, str]()  # what is said of sending to a host: '' is yes
        self.held = dict["api.Request", "api.Route"]()
        self.came, self.typed, self.secrets = set["api.Frame"](), set[str](), set[str]()

    def begin(self, may_send: MaySend | None = None, here: str = "") -> None:
        """From now on `may_send` judges what a page at the host `here` sends."""
        self._may_send, self._here = may_send, here
        self.came.clear()
        self._said.clear()
        while self.held:  # nobody waits for it any more
            self._later(self.held.popitem()[1].abort("aborted"))

    async def on_route(self, route: api.Route) -> None:
        said = self._said.get(_host(route.request)) if self._may_send and self._sends(route.request) else ""
        if said is None:
            self.held[route.request] = route
            self._stirred.set()
        else:
            with suppress(Exception):  # of a page that is gone
                await (route.abort("aborted") if said else route.continue_())

    async def judge(self, may_send: MaySend) -> str:
        """Have the first of what is held judged, with all that goes to the same host; what to say where it isn't
        sent."""
        to = _host(next(iter(self.held)))
        held = {one: self.held.pop(one) for one in [*self.held] if _host(one) == to}
        said = next(filter(None, self._said.values()), "stopped")  # a no is one to all that follows
        try:
            if said == "stopped":
                exact = "\n\n".join(_exact(one) for one in held)[:SENT_CHARACTERS]
                for secret in self.secrets:
                    exact = exact.replace(secret, "(filled)")
                is_part = to.endswith("." + self._here.removeprefix("www."))
                said = await may_send(self._here if is_part else to, exact)
        finally:
            self._said[to] = said
            for one in held.values():
                self._later(one.abort("aborted") if said else one.continue_())
        return f"not sent to {to}: {said}" if said else ""

    def _sends(self, request: api.Request) -> bool:
        """True for a request with data, as a page or a script makes them, and for a page of another host with what was
        typed in its address. What a page asks for that came since is its own, a GraphQL query changes nothing, and a
        script can't read the answer to a plain request to another site: it is a count of visitors."""
        from playwright.async_api import Error

        frame, to, here = None, urlsplit(request.url), self._here
        with suppress(Error):  # of a window that is not there yet
            frame = request.frame
            here = urlsplit(frame.url).netloc
        if request.method in ("GET", "HEAD", "OPTIONS"):
            told = any(value in self.typed for _, value in parse_qsl(to.query))
            return request.is_navigation_request() and to.netloc != here and told
        is_near, kind = to.netloc.split(".")[-2:] == here.split(".")[-2:], request.headers.get("content-type", "")
        is_script = request.resource_type in ("fetch", "xhr") and frame not in self.came
        is_change = (is_near or "json" in kind) and not ("json" in kind and _only_asks(request))
        return request.is_navigation_request() or (is_script and is_change)


def _host(request: api.Request) -> str:
    return urlsplit(str(request.url)).netloc


def _exact(request: api.Request) -> str:
    body = (request.post_data_buffer or b"").decode("utf-8", "replace")
    if "urlencoded" in request.headers.get("content-type", ""):
        body = "\n".join(f"{name}: {value}" for name, value in parse_qsl(body, keep_blank_values=True))
    return f"{request.method} {request.url}\n{body}".strip()


def _only_asks(request: api.Request) -> bool:
    """True for a GraphQL query, which is sent like a change."""
    with suppress(Exception):
        said = str(request.post_data_json["query"]).lstrip()  # type: ignore[index,unused-ignore]
        return said.startswith(("query", "{")) and "mutation" not in said
    return False
