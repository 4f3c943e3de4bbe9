"""The one door to the network for models: the client, streams of events, tries, and errors as sentences."""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
import ssl
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

from nanoclaw.errors import ContextTooLong, ProviderError, ProviderRefused, ProviderUnavailable
from nanoclaw.events import Event, Notice, ReasoningDelta, TextDelta
from nanoclaw.providers.base import OnEvent

# httpx imports its command line (click, rich, pygments) and httpcore its HTTP/2 (h2) where they happen to be installed:
# 260 M instructions of 900 at every start. Both packages have a fallback for a missing module, so these are missing
# while the two are imported, and can be imported as usual afterwards.
_UNUSED = ("httpx._main", "httpcore._sync.http2", "httpcore._async.http2")
_hidden = [name for name in _UNUSED if sys.modules.setdefault(name, None) is None]  # type: ignore[arg-type]
import httpcore  # noqa: E402, F401
import httpx as httpx  # noqa: E402 (others import it from here)

for _name in _hidden:
    sys.modules.pop(_name, None)

EVENT_LIMIT = 16 * 2**20
"""Bytes that one event of a stream may have."""

ANSWER_LIMIT = 64 * 2**20
"""Bytes that one whole answer may have."""

WAIT_LIMIT = 60.0
"""Seconds that one wait between two tries may take; a provider that asks for more is not asked again."""

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]


class BadRequest(ProviderRefused):
    """A 400 or 422 with the provider's words: an adapter may know what to change and ask once more."""

    def __init__(self, text: str, words: str) -> None:
        super().__init__(text)
        self.words = words


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model lives. `model` is the name as the person wrote it; `key_variable` names the key in sentences."""

    model: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    key: str = field(default="", repr=False)
    key_variable: str = ""
    unknown_model_hint: str = "check the spelling of model.name in config.toml"


@dataclass(frozen=True, slots=True)
class Patience:
    """How often to try and how to wait. Tests pass their own clock and sleep."""

    tries: int = 3
    sleep: Sleep = asyncio.sleep
    clock: Callable[[], float] = time.time
    jitter: Callable[[], float] = random.random

    def wait_seconds(self, failed: int, asked: float | None) -> float:
        """Seconds before the next try after `failed` tries; what the provider asked for comes first."""
        if asked is not None:
            return asked
        return min(2.0 ** (failed - 1) * (1 + 0.25 * self.jitter()), WAIT_LIMIT)


class Door:
    """Asks one endpoint over one client, whose connections are kept; made when first used."""

    def __init__(self, endpoint: Endpoint, patience: Patience) -> None:
        self.endpoint = endpoint
        self._patience = patience
        self._client: httpx.AsyncClient | None = None

    async def ask(
        self, body: bytes, timeout_seconds: float, read: Callable[[Reply, OnEvent], Awaitable[T]], on_event: OnEvent
    ) -> T:
        """POST `body` and return what `read` makes of the reply; tries again where that can help."""
        return await tries(
            self.endpoint, self._patience, lambda show: self._once(body, timeout_seconds, read, show), on_event
        )

    async def _once(
        self, body: bytes, timeout_seconds: float, read: Callable[[Reply, OnEvent], Awaitable[T]], on_event: OnEvent
    ) -> T:
        headers = {"content-type": "application/json", "accept": "text/event-stream", **self.endpoint.headers}
        timeout = httpx.Timeout(timeout_seconds, connect=min(20.0, timeout_seconds))
        client, url = self._open(), self.endpoint.url
        try:
            async with client.stream("POST", url, content=body, headers=headers, timeout=timeout) as response:
                reply = Reply(self.endpoint, response, timeout_seconds)
                if response.status_code != 200:
                    raise await self._failure(reply, response)
                return await read(reply, on_event)
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, UnicodeError, ExceptionGroup) as error:
            # a group: what anyio makes of an impossible port
            raise network_error(self.endpoint, timeout_seconds, error) from None

    async def _failure(self, reply: Reply, response: httpx.Response) -> ProviderError:
        try:
            body = await reply.head(200_000)
        except ProviderError:  # the status is what matters
            body = b""
        asked = retry_after(response.headers, self._patience.clock())
        return failure(self.endpoint, response.status_code, body, asked)

    def _open(self) -> httpx.AsyncClient:
        if self._client is None:
            try:
                self._client = open_client(self.endpoint.url)
            except (OSError, ValueError, ImportError, httpx.InvalidURL) as error:
                raise ProviderError(
                    f"{self.endpoint.model} cannot be asked: the environment's proxy or certificates are not usable "
                    f"({_one_line(str(error))[:200]}). Check HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE."
                ) from None
        return self._client

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None


async def tries(
    endpoint: Endpoint, patience: Patience, once: Callable[[OnEvent], Awaitable[T]], on_event: OnEvent
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
            if not isinstance(error, ProviderUnavailable) or failed >= patience.tries or _waits_long(error.retry_after):
                _log(endpoint, error, f"try {failed}, not repeated")
                raise
            seconds = patience.wait_seconds(failed, error.retry_after)
            _log(endpoint, error, f"try {failed} of {patience.tries}, the next in {seconds:.1f} s")
            model = endpoint.model
            what = f"{model} broke off, its answer starts again" if shown else f"{_reason(error)}, trying again"
            on_event(Notice(f"{what} in {max(1, round(seconds))} s"))
            await patience.sleep(seconds)


def _log(endpoint: Endpoint, error: ProviderError, what: str) -> None:
    """A line of the log for a failed try: why, where, and what comes next; nothing that the provider said."""
    from nanoclaw.log import logger

    host, cause = _host(endpoint.url), error.__context__
    why = re.split(r" It says:| \((?!\d)", str(error).replace(endpoint.url, host), maxsplit=1)[0].rstrip(".")
    if isinstance(cause, httpx.TransportError | OSError):
        why += f" ({type(cause).__name__}: {_one_line(str(cause))[:200]})"
    if endpoint.key:
        why = why.replace(endpoint.key, "[key]")
    logger.debug("{}; {} at {}: {}", why, endpoint.model, host or endpoint.url, what)


class Reply:
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
        stream, chunk = _EventStream(model), start
        while chunk:
            for data in stream.feed(chunk):
                if data == b"[DONE]":
                    yield {"done": True}
                    return
                yield self._object(data, "a broken event")
            chunk = await self._next()
        if data := stream.rest():
            yield {"done": True} if data == b"[DONE]" else self._last(data)

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
        """The body from its first byte that is no blank or byte-order mark."""
        seen = b""
        while chunk := await self._next():
            seen += chunk
            if start := seen.removeprefix(b"\xef\xbb\xbf").lstrip():
                return start
        return b""

    def _last(self, data: bytes) -> dict[str, Any]:
        """An event without its blank line: the server was frugal, or the stream was cut within it."""
        try:
            json.loads(data)
        except (ValueError, RecursionError):
            raise self.cut() from None
        return self._object(data, "a broken event")

    def _object(self, data: bytes, what: str) -> dict[str, Any]:
        model = self._endpoint.model
        try:
            value = json.loads(data.decode("utf-8", "surrogateescape"))
        except (ValueError, RecursionError):
            shown = _one_line(data[:80].decode("utf-8", "replace"))
            raise ProviderError(
                f"{model} sent {what} ({shown!r}). Try again; if it stays, check model.api_base in config.toml."
            ) from None
        if isinstance(value, dict):
            if value.get("error"):
                raise failure(self._endpoint, 0, data, None)
            return value
        raise ProviderError(f"{model} sent {what}: a JSON {type(value).__name__}. Check model.api_base in config.toml.")


class _EventStream:
    """Cuts bytes into the data of server-sent events."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._line: list[bytes] = []  # pieces of a line without its end
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The data of each event that ends in this chunk."""
        *lines, rest = chunk.replace(b"\r", b"" if b"\n" in chunk else b"\n").split(b"\n")
        for line in lines:
            if self._line:
                line = b"".join([*self._line, line])
                self._line = []
            if line.startswith(b"data:"):
                self._data.append(line[5:].strip())
            elif not line and self._data:
                yield b"\n".join(self._data)
                self._data, self._size = [], 0
        if rest:
            self._line.append(rest)
        self._size = self._size + len(rest) if not lines else sum(map(len, self._data)) + len(rest)
        if self._size > EVENT_LIMIT:
            raise _too_much(self._model, "one event", EVENT_LIMIT)

    def rest(self) -> bytes:
        """The data of an event that the end of the stream left open."""
        line = b"".join(self._line)
        return b"\n".join([*self._data, *([line[5:].strip()] if line.startswith(b"data:") else [])])


def network_error(endpoint: Endpoint, timeout_seconds: float, error: Exception) -> ProviderError:
    """The sentence for what httpx raises, and whether another try can help."""
    model, host, words = endpoint.model, _host(endpoint.url), _one_line(str(error))
    match error:
        case httpx.ConnectTimeout():
            return ProviderUnavailable(f"{model} cannot be reached: {host} did not answer. {_CHECK_NET}")
        case httpx.TimeoutException():
            return ProviderUnavailable(
                f"{model} sent nothing for {timeout_seconds:g} s and was given up. Try again later or raise the limit."
            )
        case httpx.ConnectError():
            return ProviderUnavailable(_unreachable(model, endpoint.url, error))
        case httpx.DecodingError():
            return ProviderError(
                f"{model} sent an answer that cannot be unpacked (broken compression). "
                f"Try again; if it stays, check what stands between this machine and {host}."
            )
        case httpx.UnsupportedProtocol() | httpx.LocalProtocolError():
            pass
        case httpx.TransportError() | OSError():
            return ProviderUnavailable(f"{model} broke off its answer ({words or type(error).__name__}). Try again.")
    return ProviderError(f"{model} could not be asked ({words}). Check model.api_base in config.toml, and HTTPS_PROXY.")


def unknown_form(model: str, error: Exception) -> ProviderError:
    """For an answer whose fields have types that nobody uses."""
    return ProviderError(
        f"{model} sent an answer in an unknown form ({type(error).__name__}: {_one_line(str(error))[:100]}). "
        "Check model.api_base in config.toml, or choose another model."
    )


MISFORMED = (TypeError, AttributeError, KeyError, ValueError, OverflowError, RecursionError)


def _too_much(model: str, what: str, limit: int) -> ProviderError:
    return ProviderError(f"{model} sent {what} of more than {limit >> 20} MB and was cut off. Ask for less.")


def open_client(url: str) -> httpx.AsyncClient:
    """A client for `url`: no redirects, certificate authorities for https only, proxies from the environment.

    A proxy never stands between two ends of one machine.
    """
    return httpx.AsyncClient(verify=_tls(url), follow_redirects=False, trust_env=not is_loopback(url))


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


_contexts: dict[bool, ssl.SSLContext] = {}


def _tls(url: str) -> ssl.SSLContext:
    """One context a process with the authorities, and an empty one, which trusts nobody, for plain http."""
    secure = urlsplit(url).scheme != "http"
    if secure not in _contexts:
        _contexts[secure] = httpx.create_ssl_context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return _contexts[secure]


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """The seconds a Retry-After header asks for: a number, or a date."""
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        seconds = float(value)
        return seconds if 0 <= seconds < float("inf") else None
    except ValueError:
        from email.utils import parsedate_to_datetime

        try:
            return max(0.0, parsedate_to_datetime(value).timestamp() - now)
        except (ValueError, OverflowError):
            return None


_CHECK_NET = "Check the network and model.api_base in config.toml."
# Patterns, matched without regard to case. They stay text until an error comes: to compile them costs 30 M
# instructions at every start.
_TOO_LONG = (
    r"context_length_exceeded|exceed_context_size|(maximum|model'?s|available|the) context (length|size|window)"
    r"|exceeds? (the )?context|prompt is too long|input is too long|too many (input )?tokens|maximum prompt length"
    r"|maximum number of tokens allowed|reduce the length of the (messages|prompt|input)|request too large"
    r"|request_too_large|max_prompt_tokens_exceeded|prompt too long|tokens? limit exceeded|input length .* exceeds?"
)
_ASKS_TOO_MUCH = r"max_(completion_|output_)?tokens\W+is too large"
_QUOTA = (
    r"insufficient[_ ](quota|balance|credits?|funds)|billing|credit balance|out of credits|payment required"
    r"|exceeded your current quota|quota_exceeded|spending limit"
)
# in a 400, which may quote what was asked, only words that mean the account (Anthropic's own)
_NO_CREDIT = r"credit balance is too low|insufficient[_ ](quota|balance|credits?|funds)"
_SOON = r"retry ?(in|after|delay)|try again (in|after)|per (minute|min|second)\b"
# llama.cpp says 500 where its chat template or its model cannot take the form of a request
_FORM = r"alternat|system role|image input|mmproj|--jinja|raise_exception"
_BUSY = (
    r"overloaded|rate[_ ]limit|too many requests|api_error|timeout|timed out|temporarily|unavailable|try again"
    r"|server[_ ]error|internal|capacity|upstream|insufficient_system_resource"
)
_KEY = r"authentication|(invalid|incorrect)[_ ]api[_ ]key|permission_error|unauthorized"


def failure(endpoint: Endpoint, status: int, body: bytes, asked: float | None) -> ProviderError:
    """The error for a reply that is no answer; `status` is 0 for one that came inside an answer."""
    words, details = _words(body, endpoint.key)
    status = status or _status_in(body)
    model = endpoint.model
    said = f" It says: {words!r}." if words else ""
    number = f" ({status})" if status else ""
    if status == 413 or _is_overflow(status, details):
        return ContextTooLong(f"The conversation is longer than {model} can read.{said} Use /new to start afresh.")
    is_spent = _says(_NO_CREDIT, details) if status == 400 else status in (0, 403, 429) and _quota(details, asked)
    if status == 402 or is_spent:
        return ProviderRefused(
            f"{model} refused{number}: the account has no quota or credit left.{said} "
            "Check the plan and the billing at the provider, or choose another model."
        )
    if status == 401 or (status in (0, 400, 403) and _says(_KEY, details)):
        # the provider's words stay out: some quote the key
        check = f"check {endpoint.key_variable}" if endpoint.key_variable else "check the key"
        return ProviderRefused(f"{model} refused the key{number}: {check}, or model.api_key in config.toml.")
    if status == 403:
        return ProviderRefused(f"{model} refused access (403).{said} Check what the key may do.")
    if status == 404:  # routers say so too when no model behind the name takes images or tools
        return BadRequest(f"{model} was not found (404) at {endpoint.url}.{said} {_sentence(endpoint)}", details)
    if status == 429:
        return Unavailable(f"{model} is busy (429)", f"{said} Try again later or choose another model.", asked)
    if status in (400, 422) or (status == 500 and _says(_FORM, details)):
        return BadRequest(f"{model} refused the request ({status}).{said} Change the request or the model.", details)
    if status in (408, 409, 425) or status >= 500:
        what = "is overloaded" if status == 529 or "overloaded" in details.lower() else "failed"
        return Unavailable(f"{model} {what} ({status})", f"{said} Try again later.", asked)
    if 300 <= status < 400:
        return ProviderRefused(f"{model} redirects elsewhere ({status}), which is not followed. {_CHECK_API_BASE}")
    if status:
        return ProviderRefused(f"{model} refused the request ({status}).{said} {_CHECK_API_BASE}")
    if _says(_BUSY, details):
        return Unavailable(f"{model} failed in mid-answer", f"{said} Try again later.", asked)
    return ProviderError(f"{model} sent an error instead of an answer.{said} Try again or choose another model.")


_CHECK_API_BASE = "Check model.api_base in config.toml."


class Unavailable(ProviderUnavailable):
    """Worth another try; `reason` is the short half of the sentence, for the notice of a wait."""

    def __init__(self, reason: str, rest: str, asked: float | None) -> None:
        wish = f" and asks to wait {_duration(asked)}" if asked is not None and _waits_long(asked) else ""
        super().__init__(f"{reason}{wish}.{rest}", asked)
        self.reason = reason


def _waits_long(asked: float | None) -> bool:
    return asked is not None and asked > WAIT_LIMIT


def _duration(seconds: float) -> str:
    """Rounded up, so that who waits that long has waited long enough."""
    minutes = math.ceil(seconds / 60)
    hours = math.ceil(seconds / 3600)
    return (
        f"{minutes} minutes" if minutes < 120 else f"{hours} hours" if hours < 72 else f"{math.ceil(hours / 24)} days"
    )


def _reason(error: ProviderUnavailable) -> str:
    if isinstance(error, Unavailable):
        return error.reason
    return re.split(r"[.(:] |\.$| \(", str(error), maxsplit=1)[0]


def _says(pattern: str, details: str) -> bool:
    return re.search(pattern, details, re.IGNORECASE) is not None


def _is_overflow(status: int, details: str) -> bool:
    if status == 429:  # "too many tokens" a minute is another matter
        return "request too large" in details.lower()
    return _says(_TOO_LONG, details) and not _says(_ASKS_TOO_MUCH, details)


def _sentence(endpoint: Endpoint) -> str:
    hint = endpoint.unknown_model_hint
    return hint[:1].upper() + hint[1:] + "."


def _quota(details: str, asked: float | None) -> bool:
    if re.search(r"insufficient_quota", details):
        return True
    return asked is None and _says(_QUOTA, details) and not _says(_SOON, details)


def _words(body: bytes, key: str) -> tuple[str, str]:
    """What the provider says, for a person (one short line) and for our rules (with codes and types)."""
    text = body.decode("utf-8", "replace")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if value is None:
        details = text if not text.lstrip().startswith("<") else ""
        words = details
    else:
        words, details = _message(value), text
    if key:
        words, details = words.replace(key, "[key]"), details.replace(key, "[key]")
    words = _one_line(words)
    return (words if len(words) <= 300 else words[:300] + "…"), details


def _message(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value:
        return _message(value[0])
    if isinstance(value, dict):
        for name in ("error", "message", "detail", "msg", "title"):
            if found := _message(value.get(name)):
                return found
    return ""


def _status_in(body: bytes) -> int:
    """The status that an error inside an answer carries as its code."""
    try:
        error = json.loads(body)["error"]
        for name in ("code", "status", "status_code"):
            if name in error and 400 <= int(error[name]) < 600:
                return int(error[name])
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    return 0


def _unreachable(model: str, url: str, error: Exception) -> str:
    if is_loopback(url):
        return f"{model} cannot be reached: nothing listens at {_host(url)}. Start the model server, or choose another."
    if "CERTIFICATE" in str(error).upper():
        return f"{model} cannot be trusted: the certificate of {_host(url)} is not valid ({_one_line(str(error))})."
    return f"{model} cannot be reached at {_host(url)} ({_one_line(str(error)) or 'no connection'}). {_CHECK_NET}"


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() or c.isspace() else "" for c in text[:2000]).split())
