"""The server: a Starlette app behind a guard, run by uvicorn in the loop of the program."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib import resources
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nanoclaw.core.errors import FAULTS, NanoclawError
from nanoclaw.core.plugin import Log, Plugin, RouteAnswer
from nanoclaw.home_socket import LONGEST
from nanoclaw.plugins.page.sessions import COOKIE, DAYS, Browser, SignIns
from nanoclaw.plugins.page.tokens import RequestRefused

TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
MOST_BYTES = 1_000_000  # of the body of a request that is no upload

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src 'self' blob:;"
    " connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}
OPEN = ("/api/login",)  # paths besides the static files that a browser may ask for before it is signed in
LARGE = ("/api/files", "/v1/chat/completions", "/v1/audio/transcriptions")  # paths that take files
OF_GUESTS = ("/api/start", "/api/stream", "/api/talk", "/api/say", "/api/output", "/api/text")
"""Paths that a guest may ask for, besides files that were sent in their conversation."""
ONE_ONLY = "A guest sees and writes one conversation only."

QUIET: Any = {"lifespan": "off", "log_config": None, "access_log": False, "server_header": False}
TIMES: Any = {"timeout_keep_alive": 30, "timeout_graceful_shutdown": 2, "h11_max_incomplete_event_size": 32_768}

Names = Callable[[], Iterable[str]]


def browser_of(request: Request) -> Browser:
    return request.scope["state"]["browser"]  # type: ignore[no-any-return]


class Guard:
    """Passes on what comes from the page itself, in a browser that is signed in. Everything else ends here."""

    def __init__(self, app: ASGIApp, brought: Sequence[Route], sessions: SignIns, hosts: Names, uploads: int) -> None:
        self._app, self._brought, self._sessions, self._hosts, self._uploads = app, brought, sessions, hosts, uploads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        if scope["type"] == "websocket":  # `terminals` looks at its token
            await self._app(scope, receive, send)
            return
        scope["state"] = {}
        if refused := await self._refused(scope, headers):
            await refused(scope, receive, _with_headers(send))
            return
        most, read = self._uploads if scope["path"] in LARGE else MOST_BYTES, 0
        told = f"That is too much: at most {most / 1e6:,.0f} MB can be taken at once."
        if int(headers.get("content-length") or 0) > most:
            await _sentence(413, told, scope["path"])(scope, receive, _with_headers(send))
            return

        async def bounded() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > most:
                raise HTTPException(413, told)
            return message

        await self._app(scope, bounded, _with_headers(send))

    async def _refused(self, scope: Scope, headers: Headers) -> Response | None:
        """The answer to a request that goes no further."""
        hosts = {one.lower() for one in self._hosts()}
        if headers.get("host", "").lower() not in hosts:
            told = "This is not the name of this page. [page] hosts says under which names it is used."
            return _sentence(421, told, scope["path"])
        path, method = scope["path"], scope["method"]
        if (headers.get("content-length") or "0").isdecimal() is False:
            return _sentence(400, "The length of the request is not a number.", path)
        if path.startswith("/v1/") or any(one.matches(scope)[0] is Match.FULL for one in self._brought):
            return None  # those look themselves at who asks
        if method not in ("GET", "HEAD"):
            origin = urlsplit(headers.get("origin") or "")
            is_own = origin.scheme in ("http", "https") and origin.netloc.lower() in hosts
            if not is_own or headers.get("sec-fetch-site", "same-origin") != "same-origin":
                return _sentence(403, "Only the page itself may do that.")
        if path == "/" or path.startswith("/static/") or path in OPEN:
            return None
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return _sentence(403, "Only the page itself may read that.")
        browser = await self._sessions.browser(HTTPConnection(scope).cookies.get(COOKIE, ""))
        if browser is None:
            return _sentence(401, "This browser is not signed in: nanoclaw web prints a link.")
        scope["state"]["browser"] = browser
        asked = QueryParams(scope["query_string"]).get("c", browser.only)
        if browser.only and (asked != browser.only or not (path in OF_GUESTS or path.startswith("/files/"))):
            return _sentence(403, ONE_ONLY)
        return None


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = {name.lower() for name, _ in message["headers"]}
            more = ((name.encode(), value.encode()) for name, value in HEADERS.items())
            message["headers"] = [*message["headers"], *(one for one in more if one[0] not in given)]
            if b"cache-control" not in given:
                message["headers"].append((b"cache-control", b"no-store"))
        await send(message)

    return sending


def brought(plugins: Iterable[Plugin], log: Log) -> list[Route]:
    """The routes of plugins; one that fails at it brings no more."""
    found = list[Route]()
    for plugin in plugins:
        try:
            for key, answer in plugin.routes().items():
                found.append(Route(key.split()[1], partial(_answered, answer), methods=key.split()[:1]))
        except FAULTS as error:
            log.error("the routes of the plugin {} are left out: {!r}", plugin.name, error)
    return found


async def _answered(answer: RouteAnswer, request: Request) -> Response:
    given = await request.body() or request.url.query.encode()  # a GET has no body
    status, told = await answer(request.path_params.get("name", ""), request.headers, given)
    return PlainTextResponse(told, status) if isinstance(told, str) else JSONResponse(told, status)


def _sentence(status: int, text: str, path: str = "") -> JSONResponse:
    """A refusal as a client of the path expects it."""
    return JSONResponse(RequestRefused(status, text).body if path.startswith("/v1/") else {"error": text}, status)


async def given(request: Request) -> dict[str, Any]:
    """The JSON object of a request. Raises HTTPException."""
    try:
        found = await request.json()
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise HTTPException(400, "A JSON object is needed.")
    return found


def text_in(found: dict[str, Any], name: str, most: int = 1_000_000) -> str:
    """A text of a JSON object, '' for none. Raises HTTPException."""
    value = found.get(name, "")
    if not isinstance(value, str) or len(value) > most:
        raise HTTPException(400, f"{name!r} must be a text of at most {most:,} characters.")
    return value.encode("utf-8", "replace").decode()


def application(
    routes: Iterable[BaseRoute], brought: Sequence[Route], sessions: SignIns, hosts: Names, password: str, uploads: int
) -> ASGIApp:
    """The whole app. The guard passes what is for a route that plugins `brought`, so those go first. `hosts` are the
    names, with their port, under which it may be asked."""

    async def static(request: Request) -> Response:
        if (name := request.path_params.get("name", "index.html")) not in _files():
            raise HTTPException(404, "There is no such file.")
        data, kind = _files()[name]
        return Response(data, media_type=kind, headers={"cache-control": "no-cache"})

    async def login(request: Request) -> Response:
        if sessions.is_locked:
            return _sentence(429, "Too many wrong codes: try again in a minute.")
        code, agent = text_in(await given(request), "code", 1_000), request.headers.get("user-agent", "")
        if not (token := await sessions.sign_in(code, password, agent)):
            return _sentence(403, "This link was used already, or is too old. nanoclaw web prints a new one.")
        answer = JSONResponse({})
        is_secure = (request.headers.get("origin") or "").startswith("https:")
        answer.set_cookie(COOKIE, token, DAYS * 86_400, path="/", secure=is_secure, httponly=True, samesite="strict")
        return answer

    async def failed(request: Request, error: Exception) -> Response:
        told = (error.status_code, error.detail) if isinstance(error, HTTPException) else (409, str(error))
        return _sentence(*told, request.url.path)

    own = [Route("/", static), Route("/static/{name}", static), Route("/api/login", login, methods=["POST"])]
    handlers: Any = {HTTPException: failed, NanoclawError: failed}
    app = Starlette(routes=[*brought, *own, *routes], exception_handlers=handlers)
    return Guard(app, brought, sessions, hosts, uploads)


@cache
def _files() -> dict[str, tuple[bytes, str]]:
    """The files of the page by name: their bytes and their type."""
    found = (resources.files("nanoclaw.plugins.page") / "static").iterdir()
    kinds = {file.name: (file, TYPES.get(file.name.rpartition(".")[2], "")) for file in found}
    return {name: (file.read_bytes(), kind) for name, (file, kind) in kinds.items() if kind}


class Server(uvicorn.Server):
    """Runs in a loop of others: signals are theirs, an idle one wakes once a second, and `end` is heard at once."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending = asyncio.Event()

    def end(self) -> None:
        self.should_exit = True
        self._ending.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        ticks = 0
        while not await self.on_tick(ticks):
            ticks += 10
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), 1)


def listening(address: str, port: int) -> socket.socket:
    """A socket that listens. Raises OSError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    is_both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    found = socket.create_server((address, port), family=family, backlog=128, dualstack_ipv6=is_both)
    found.setblocking(False)
    return found


def _web_socket(**given: Any) -> asyncio.Protocol:
    """Its library is loaded with the first that comes."""
    from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

    return WebSocketsSansIOProtocol(**given)


async def serve(app: ASGIApp, own: socket.socket, closing: Callable[[], object]) -> None:
    """Serve until cancelled; `closing` ends the streams."""
    config = uvicorn.Config(app, http="h11", ws=_web_socket, ws_max_size=LONGEST, **QUIET, **TIMES)  # type: ignore[arg-type]
    # uvicorn takes a web socket that is refused by an answer for an error
    logging.getLogger("uvicorn.error").addFilter(lambda record: "completing handshake" not in record.msg)
    server = Server(config)
    serving = asyncio.create_task(server.serve([own]))
    try:
        await asyncio.shield(serving)
    finally:
        closing()
        server.end()
        with suppress(asyncio.CancelledError):
            await asyncio.wait([serving], timeout=3)
        serving.cancel()
