"""The only access of models to the network: the client, streams of events, and retries."""

from __future__ import annotations

import asyncio
import json
import random
import re
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies

from nanoclaw.clock import pause
from nanoclaw.core.errors import CannotSee, ProviderError, ProviderUnavailable
from nanoclaw.core.events import Event, Notice, ReasoningDelta, TextDelta
from nanoclaw.core.messages import AssistantMessage, HistoryMemo, Message, ModelRequest
from nanoclaw.core.provider import Abilities, Ability, OnEvent
from nanoclaw.escapes import one_line
from nanoclaw.log import logger
from nanoclaw.net import leads_to_loopback
from nanoclaw.net.slim_httpx import httpx as httpx
from nanoclaw.providers.direct import Direct
from nanoclaw.providers.failures import (
    CHECK_NET,
    WAIT_LIMIT,
    BadRequest,
    Endpoint,
    failure,
    host_of,
    reason_of,
    retry_after,
    unreachable,
    waits_long,
)
from nanoclaw.strict_json import check_levels

EVENT_LIMIT = 16 * 2**20
"""Bytes that one event of a stream may have."""

ANSWER_LIMIT = 64 * 2**20
"""Bytes that one whole answer may have."""

QUICK_BYTES = 2 * 2**20
"""Bytes that an answer to `get_json` may have."""

T = TypeVar("T")


class _Habits(Protocol):
    @property
    def vision(self) -> bool: ...


H = TypeVar("H", bound=_Habits)
Sleep = Callable[[float], Awaitable[None]]


class RetryPolicy(NamedTuple):
    """Number of tries, and waits between them. Tests pass their own clock and sleep."""

    tries: int = 3
    sleep: Sleep = pause
    clock: Callable[[], float] = time.time
    jitter: Callable[[], float] = random.random

    def wait_seconds(self, failed: int, asked: float | None) -> float:
        """Seconds before the next try after `failed` tries; what the provider asked for comes first."""
        if asked is not None:
            return asked
        return min(2.0 ** (failed - 1) * (1 + 0.25 * self.jitter()), WAIT_LIMIT)


class ModelClient:
    """Asks one endpoint over one client, whose connections are kept; made when first used."""

    KEY = "authorization", "Bearer {}"
    """The header that carries the key, and how."""

    def __init__(
        self, endpoint: Endpoint, retries: RetryPolicy | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        name, form = self.KEY
        self._headers = {**(headers or {}), **({name: form.format(endpoint.key)} if endpoint.key else {})}
        self.endpoint, self._retries = endpoint, retries or RetryPolicy()
        self._client: httpx.AsyncClient | None = None

    async def ask(
        self,
        body: bytes,
        timeout_seconds: float,
        read: Callable[[HttpReply, OnEvent], Awaitable[T]],
        on_event: OnEvent = lambda event: None,
    ) -> T:
        """POST `body` and return what `read` makes of the reply; tries again where that can help."""
        return await retried(
            self.endpoint, self._retries, lambda show: self._once(body, timeout_seconds, read, show), on_event
        )

    async def _once(
        self, body: bytes, timeout_seconds: float, read: Callable[[HttpReply, OnEvent], Awaitable[T]], on_event: OnEvent
    ) -> T:
        headers = {"content-type": "application/json", "accept": "text/event-stream", **self._headers}
        timeout = httpx.Timeout(timeout_seconds, connect=min(20.0, timeout_seconds))
        client, url = self._open(), self.endpoint.url
        try:
            async with client.stream("POST", url, content=body, headers=headers, timeout=timeout) as response:
                reply = HttpReply(self.endpoint, response, timeout_seconds)
                if response.status_code != 200:
                    raise await self._failure(reply, response)
                return await read(reply, on_event)
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, UnicodeError, ExceptionGroup) as error:
            # a group: what anyio makes of an impossible port of a proxy
            raise network_error(self.endpoint, timeout_seconds, error) from None

    async def _failure(self, reply: HttpReply, response: httpx.Response) -> ProviderError:
        try:
            body = await reply.head(200_000)
        except ProviderError:  # the status is what matters
            body = b""
        asked = retry_after(response.headers, self._retries.clock())
        return failure(self.endpoint, response.status_code, body, asked)

    def _open(self) -> httpx.AsyncClient:
        if self._client is None:
            try:
                self._client = open_client(self.endpoint.url)
            except (OSError, ValueError, ImportError, httpx.InvalidURL) as error:
                raise ProviderError(
                    f"{self.endpoint.model} cannot be asked: the environment's proxy or certificates are not usable "
                    f"({one_line(str(error), 200)}). Check HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE."
                ) from None
        return self._client

    def load(self) -> None:
        """Load the authorities."""
        with suppress(OSError):  # told by the request
            _tls(self.endpoint.url)

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None


class Lesson(NamedTuple, Generic[H]):
    """Result of a refusal: other habits, a remark for the person, and the ability that is `lost` for good."""

    habits: H
    note: str = ""
    lost: Ability | None = None


class Adaptable(Generic[H]):
    """One model. What its server refuses of a request's form is learned once and kept in `habits`."""

    def __init__(self, model: str, habits: H, abilities: Abilities) -> None:
        self.model, self.habits, self._abilities = model, habits, abilities

    @property
    def supports_vision(self) -> bool:
        return self.habits.vision

    async def answer(self, request: ModelRequest, habits: H, on_event: OnEvent) -> AssistantMessage:
        """Ask once in this form. Raises BadRequest for one that is refused."""
        raise NotImplementedError

    def learn(self, habits: H, words: str, request: ModelRequest) -> Lesson[H] | None:
        """Learn from a refusal in these words; None when they name nothing that could be changed."""
        raise NotImplementedError

    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        for _ in range(6):
            habits = self.habits
            try:
                return await self.answer(request, habits, on_event)
            except BadRequest as error:
                if self.habits is not habits:  # another request has learned meanwhile
                    continue
                learned = self.learn(habits, error.words, request)
                if learned is None:
                    from nanoclaw.providers.repair import in_words

                    request = in_words(request, error)
                    continue
                self.habits = learned.habits
                if learned.lost:
                    self._abilities.lacks(learned.lost)
                is_blind = learned.lost == "sees_images"
                if is_blind and request.must_see:
                    raise CannotSee(f"{self.model} cannot see images.") from None
                note = "cannot see images; they are left out" if is_blind else learned.note
                if note:
                    on_event(Notice(f"{self.model} {note}", stays="owner" if is_blind else ""))
        raise ProviderError(f"{self.model} refuses every form of the request. Choose another model.")


async def retried(
    endpoint: Endpoint, retries: RetryPolicy, once: Callable[[OnEvent], Awaitable[T]], on_event: OnEvent
) -> T:
    """The result of `once`, called again after ProviderUnavailable; a Notice tells the person why it takes longer."""
    shown = False

    def show(event: Event) -> None:
        nonlocal shown
        shown = shown or isinstance(event, TextDelta | ReasoningDelta)
        on_event(event)

    failed = 0
    while True:
        try:
            return await once(show)
        except ProviderError as error:
            failed += 1
            if not isinstance(error, ProviderUnavailable) or failed >= retries.tries or waits_long(error.retry_after):
                _log(endpoint, error, f"try {failed}, not repeated")
                raise
            seconds = retries.wait_seconds(failed, error.retry_after)
            _log(endpoint, error, f"try {failed} of {retries.tries}, the next in {seconds:.1f} s")
            model = endpoint.model
            what = f"{model} broke off, its answer starts again" if shown else f"{reason_of(error)}, trying again"
            on_event(Notice(f"{what} in {max(1, round(seconds))} s (try {failed + 1} of {retries.tries})"))
            await retries.sleep(seconds)


def _log(endpoint: Endpoint, error: ProviderError, what: str) -> None:
    """A line of the log for a failed try: why, where, and what comes next; nothing that the provider said."""
    host, cause = host_of(endpoint.url), error.__context__
    why = re.split(r" It says:| \((?!\d)", str(error).replace(endpoint.url, host), maxsplit=1)[0].rstrip(".")
    if isinstance(cause, httpx.TransportError | OSError):
        why += f" ({type(cause).__name__}: {one_line(str(cause), 200)})"
    if endpoint.key:
        why = why.replace(endpoint.key, "[key]")
    logger.debug("{}; {} at {}: {}", why, endpoint.model, host or endpoint.url, what)


class HttpReply:
    """The body of an answer, bounded: one JSON value or a stream of events, whichever the server chose."""

    def __init__(self, endpoint: Endpoint, response: httpx.Response, timeout_seconds: float) -> None:
        self._endpoint = endpoint
        self._timeout_seconds = timeout_seconds
        self._chunks = aiter(response.aiter_bytes())
        self._size = 0

    async def head(self, limit: int) -> bytes:
        body = b""
        while len(body) < limit and (chunk := await self._next()):
            body += chunk
        return body[:limit]

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Each event's JSON object; a plain JSON body is one event. Raises for an error that came with status 200."""
        model = self._endpoint.model
        start = await self._start()
        if not start:
            raise ProviderUnavailable(f"{model} sent an empty reply. Try again.")
        if start.startswith(b"<"):
            raise ProviderError(
                f"{model} answered with a web page, not with a model's answer. "
                f"Check model.api_base in config.toml: {self._endpoint.url!r} (is /v1 missing?)."
            )
        if start[:1] in b"{[":
            pieces = [start]
            while chunk := await self._next():
                pieces.append(chunk)
            yield self._object(b"".join(pieces), "garbage instead of JSON")
            return
        async with aclosing(self._data(start)) as found:
            async for data, is_whole in found:
                if data == b"[DONE]":
                    yield {"done": True}
                    return
                yield self._object(data, "a broken event", is_whole)

    async def _data(self, chunk: bytes) -> AsyncGenerator[tuple[bytes, bool]]:
        """The data of each server-sent event; of one without its blank line not whole, as the server was frugal, or the
        stream was cut within it."""
        line, data, size = list[bytes](), list[bytes](), 0  # `line` are pieces of one without its end
        while chunk:
            *lines, rest = chunk.replace(b"\r", b"" if b"\n" in chunk else b"\n").split(b"\n")
            for one in lines:
                if line:
                    one, line = b"".join([*line, one]), []
                if one.startswith(b"data:"):
                    data.append(one[5:].strip())
                elif not one and data:
                    yield b"\n".join(data), True
                    data = []
            if rest:
                line.append(rest)
            size = len(rest) + (sum(map(len, data)) if lines else size)
            if size > EVENT_LIMIT:
                raise _too_much(self._endpoint.model, "one event", EVENT_LIMIT)
            chunk = await self._next()
        if (last := b"".join(line)).startswith(b"data:"):
            data.append(last[5:].strip())
        if data:
            yield b"\n".join(data), False

    async def drain(self) -> None:
        """Read what little follows the last event, so that the connection can be used again."""
        try:
            async with asyncio.timeout(0.1):
                while await self._next():
                    pass
        except (TimeoutError, ProviderError):
            pass

    def cut(self) -> ProviderUnavailable:
        return ProviderUnavailable(f"{self._endpoint.model} broke off its answer before the end. Try again.")

    async def _next(self) -> bytes:
        """The next bytes; none at the end."""
        try:
            chunk = await anext(self._chunks, b"")
        except (httpx.HTTPError, httpx.StreamError, OSError) as error:
            raise network_error(self._endpoint, self._timeout_seconds, error) from None
        self._size += len(chunk)
        if self._size > ANSWER_LIMIT:
            raise _too_much(self._endpoint.model, "an answer", ANSWER_LIMIT)
        return chunk

    async def _start(self) -> bytes:
        """The body from its first byte that is not a space or byte-order mark."""
        seen = b""
        while chunk := await self._next():
            seen += chunk
            if start := seen.removeprefix(b"\xef\xbb\xbf").lstrip():
                return start
        return b""

    def _object(self, data: bytes, what: str, is_whole: bool = True) -> dict[str, Any]:
        model = self._endpoint.model
        try:
            value = json.loads(data.decode("utf-8", "surrogateescape"))
            check_levels(value)  # what is kept of it is given back within another value
        except (ValueError, RecursionError):
            if not is_whole:
                raise self.cut() from None
            shown = one_line(data[:80].decode("utf-8", "replace"), 80)
            raise ProviderError(
                f"{model} sent {what} ({shown!r}). Try again; if it recurs, check model.api_base in config.toml."
            ) from None
        if isinstance(value, dict):
            if value.get("error"):
                raise failure(self._endpoint, 0, data, None)
            return value
        raise ProviderError(f"{model} sent {what}: a JSON {type(value).__name__}. Check model.api_base in config.toml.")


def network_error(endpoint: Endpoint, timeout_seconds: float, error: Exception) -> ProviderError:
    """The sentence for what httpx raises, and whether another try can help."""
    model, host, words = endpoint.model, host_of(endpoint.url), one_line(str(error), 300)
    match error:
        case httpx.ConnectTimeout():
            return ProviderUnavailable(f"{model} cannot be reached: {host} did not answer. {CHECK_NET}")
        case httpx.TimeoutException():
            return ProviderUnavailable(
                f"{model} sent nothing for {timeout_seconds:g} s and was given up. Try again later or raise the limit."
            )
        case httpx.ConnectError():
            return ProviderUnavailable(unreachable(model, endpoint.url, error))
        case httpx.DecodingError():
            return ProviderError(
                f"{model} sent an answer that cannot be unpacked (broken compression). "
                f"Try again; if it recurs, check what is between this machine and {host}."
            )
        case httpx.UnsupportedProtocol() | httpx.LocalProtocolError():
            pass
        case httpx.TransportError() | OSError():
            return ProviderUnavailable(f"{model} broke off its answer ({words or type(error).__name__}). Try again.")
    return ProviderError(f"{model} could not be asked ({words}). Check model.api_base in config.toml, and HTTPS_PROXY.")


def _too_much(model: str, what: str, limit: int) -> ProviderError:
    return ProviderError(f"{model} sent {what} of more than {limit >> 20} MB and was cut off. Ask for less.")


def open_client(url: str) -> httpx.AsyncClient:
    """A client for `url`: no redirects, certificate authorities for https only, proxies from the environment.

    A proxy never stands between two ends of one machine.
    """
    tls, proxies = _tls(url), {} if leads_to_loopback(url) else getproxies()
    return httpx.AsyncClient(verify=tls, trust_env=bool(proxies), transport=None if proxies else Direct(tls))


async def get_json(url: str, seconds: float) -> Any:
    """The JSON at an address, which answers at once; None where there is none."""
    try:
        async with asyncio.timeout(seconds), open_client(url) as client, client.stream("GET", url) as response:
            if response.status_code != 200:
                return None
            body = await HttpReply(Endpoint("", url), response, seconds).head(QUICK_BYTES + 1)
        return json.loads(body) if len(body) <= QUICK_BYTES else None
    except (httpx.HTTPError, httpx.InvalidURL, ProviderError, OSError, ValueError, RecursionError):
        return None


_contexts: dict[bool, ssl.SSLContext] = {}


def _tls(url: str) -> ssl.SSLContext:
    """One TLS context per process with the authorities, and an empty one, which trusts nobody, for plain http."""
    secure = urlsplit(url).scheme != "http"
    if secure not in _contexts:
        _contexts[secure] = httpx.create_ssl_context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return _contexts[secure]


Wire = dict[str, Any]


class WireForm(Protocol):
    """Puts one message of a history after the other into an adapter's form."""

    def copy(self) -> WireForm: ...

    def add(self, open: list[Wire], history: Sequence[Message], position: int) -> None:
        """Append what stands for a message. What comes next may still change the last of `open`: it is replaced then,
        never changed in place."""
        ...

    def end(self, open: list[Wire]) -> None:
        """Append what has to stand at the end of a request."""
        ...


class _Written:
    """A beginning of a history: the bytes of all that is settled, each message with a comma, and the last."""

    def __init__(self, form: WireForm, before: Sequence[Wire]) -> None:
        self.form, self.settled, self.open = form, bytearray(), list(before)

    def add(self, history: Sequence[Message], positions: range) -> None:
        for position in positions:
            self.form.add(self.open, history, position)
            if len(self.open) > 1:
                self.settled += dump(self.open[:-1])[1:-1] + b","
                del self.open[:-1]


def messages_json(
    request: ModelRequest, key: object, about: object, begin: Callable[[], WireForm], before: Sequence[Wire] = ()
) -> bytes:
    """The JSON array of a request's messages, after those that stand `before` the history. `about` decides, beside the
    messages, how they read; `key` is whose form it is."""
    history = request.history
    newest = (at for at in range(len(history) - 1, 0, -1) if isinstance(history[at], AssistantMessage))
    count = next(newest, 0)  # an answer's results may still come
    memo = request.memo or HistoryMemo()
    written = memo.state(key, (about, before), history, count, lambda: _Written(begin(), before), _Written.add)
    form, open = written.form.copy(), list(written.open)
    for position in range(count, len(history)):
        form.add(open, history, position)
    form.end(open)
    return b"".join((b"[", written.settled, dump(open)[1:]))


def object_json(before: Wire, messages: bytes, after: Wire) -> bytes:
    """The JSON object of a request: what stays comes first, so that the next request begins with the same bytes."""
    return b"".join((dump(before)[:-1], b',"messages":', messages, b",", dump(after)[1:]))


def dump(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
