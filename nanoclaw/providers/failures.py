"""Errors as sentences: what a provider's status and words mean, and what a person can do about it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from nanoclaw.core.errors import ContextTooLong, NanoclawError, ProviderError, ProviderRefused, ProviderUnavailable
from nanoclaw.escapes import one_line
from nanoclaw.net import leads_to_loopback

WAIT_LIMIT = 60.0
"""Seconds that one wait between two tries may take; a provider that asks for more is not asked again."""


class BadRequest(ProviderRefused):
    """A 400 or 422 with the provider's words: an adapter may know what to change and ask once more."""

    def __init__(self, text: str, words: str) -> None:
        super().__init__(text)
        self.words = words


class Endpoint(NamedTuple):
    """The place where a model is asked. `model` is the name as the person wrote it and `wire_model` the service's own;
    `key_variable` names the key in sentences, `hint` says what to do about a model that the service lacks."""

    model: str
    api_base: str = ""
    wire_model: str = ""
    key: str = ""
    key_variable: str = ""
    hint: str = "check the spelling of model.name in config.toml"
    path: str = ""
    """The rest of the address after the api_base; each adapter sets its own."""

    def __repr__(self) -> str:
        return f"Endpoint({self.model!r}, {self.url!r})"  # without the key

    @property
    def url(self) -> str:
        return self.api_base.rstrip("/") + self.path if self.api_base else "its provider"


def unknown_form(model: str, error: Exception) -> ProviderError:
    """For an answer whose fields have types that nobody uses."""
    return ProviderError(
        f"{model} sent an answer in an unknown form ({type(error).__name__}: {one_line(str(error), 100)}). "
        "Check model.api_base in config.toml, or choose another model."
    )


MISFORMED = (TypeError, AttributeError, KeyError, ValueError, OverflowError, RecursionError)


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


CHECK_NET = "Check the network and model.api_base in config.toml."
# Patterns, matched without regard to case. They stay text until an error comes: to compile them costs 30 M
# instructions at every start.
_TOO_LONG = (
    r"context_length_exceeded|exceed_context_size|model_context_window_exceeded|max_prompt_tokens_exceeded"
    r"|(maximum|model('?s)?|available|configured|the) context (length|size|window)|context (length|size) of only"
    r"|context (length|size|window)( limit)? (exceed|has been exceeded)|exceeds? (the )?context"
    r"|(prompt|input) (is )?too long|prompt exceeds (the )?max|maximum prompt length|input length .* exceeds?"
    r"|range of input length should be|token count .*exceeds|too many (input )?tokens(?!, please wait)"
    r"|maximum number of tokens allowed|exceed(s|ed)? (the |model )?(token |configured )limit|tokens? limit exceeded"
    r"|reduce the length of the (messages|prompt|input)|request[_ ]too[_ ]large|最大上下文|上下文长度"
)
_ASKS_TOO_MUCH = r"max_(completion_|output_)?tokens\W+is too large"
_WINDOW = (
    r"context (?:length|size|window)(?: limit)?(?: is| of| of only|:)? ?\(?(\d{3,9})\b"
    r"|(\d{3,9}) maximum context length|(?:\d|tokens) > (\d{3,9})\b|n_ctx\W{1,4}(\d{3,9})\b"
    r"|maximum prompt length is (\d{3,9})\b|tokens allowed \((\d{3,9})\)|limit of (\d{3,9})\b"
    r"|token limit: (\d{3,9})\b|length should be \[1, ?(\d{3,9})\]|limit (\d{3,9}), requested"
)
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
    """The error for a reply that is not an answer; `status` is 0 for one that came inside an answer."""
    text = body.decode("utf-8", "replace")
    text = text.replace(endpoint.key, "[key]") if endpoint.key else text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        text = value = "" if text.lstrip().startswith("<") else text
    details, words = text, one_line(_message(value), 301)  # for our rules, and for a person
    status = status or _status_in(value)
    model = endpoint.model
    said = f" It says: {words!r}." if words else ""
    number = f" ({status})" if status else ""
    if status == 413 or _is_overflow(status, details):
        return too_long(model, said, window_in(details))
    is_spent = _says(_NO_CREDIT, details) if status == 400 else status in (0, 403, 429) and _quota(details, asked)
    if status == 402 or is_spent:
        return ProviderRefused(
            f"{model} has no quota or credit left{number}.{said} "
            "Check the plan and the billing at the provider, or choose another model."
        )
    if status == 401 or (status in (0, 400, 403) and _says(_KEY, details)):
        # the provider's words stay out: some quote the key
        check = f"check {endpoint.key_variable}" if endpoint.key_variable else "check the key"
        return ProviderRefused(f"{model} refused the key{number}: {check}, or model.api_key in config.toml.")
    if status == 403:
        return ProviderRefused(f"{model} refused access (403).{said} Check what the key may do.")
    if status == 404:  # routers say so too when no model behind the name takes images or tools
        hint = endpoint.hint[:1].upper() + endpoint.hint[1:]
        return BadRequest(f"{model} was not found (404) at {endpoint.url}.{said} {hint}.", details)
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


def too_long(model: str, said: str = "", window: int | None = None) -> ContextTooLong:
    """`said` is what the provider said, with a space before it; `window` the tokens it takes in, if it told."""
    return ContextTooLong(f"The conversation is longer than {model} can read.{said} Use /new to start afresh.", window)


def window_in(words: str) -> int | None:
    """The number of tokens that a refusal for length names as the limit."""
    found = re.search(_WINDOW, re.sub(r"(?<=\d),(?=\d{3})", "", words), re.IGNORECASE)
    return int(next(filter(None, found.groups()))) if found else None


_CHECK_API_BASE = "Check model.api_base in config.toml."


class Unavailable(ProviderUnavailable):
    """Worth another try; `reason` is a short form of the sentence, for the notice while waiting."""

    def __init__(self, reason: str, rest: str, asked: float | None) -> None:
        wish = f" and asks to wait {_duration(asked)}" if asked is not None and waits_long(asked) else ""
        super().__init__(f"{reason}{wish}.{rest}", asked)
        self.reason = reason


def waits_long(asked: float | None) -> bool:
    return asked is not None and asked > WAIT_LIMIT


def _duration(seconds: float) -> str:
    """Rounded up, so that who waits that long has waited long enough."""
    minutes = math.ceil(seconds / 60)
    hours = math.ceil(seconds / 3600)
    return (
        f"{minutes} minutes" if minutes < 120 else f"{hours} hours" if hours < 72 else f"{math.ceil(hours / 24)} days"
    )


def reason_of(error: NanoclawError) -> str:
    """The short half of an error's sentence: what happened, without what to do about it."""
    if isinstance(error, Unavailable):
        return error.reason
    return re.split(r"[.(:;] |\.$| \((?!\d)", str(error), maxsplit=1)[0]


def _says(pattern: str, details: str) -> bool:
    return re.search(pattern, details, re.IGNORECASE) is not None


def _is_overflow(status: int, details: str) -> bool:
    if status == 429:  # "too many tokens" a minute is another matter
        return "request too large" in details.lower()
    if status in (401, 402, 403):  # the limit of an account
        return False
    return _says(_TOO_LONG, details) and not _says(_ASKS_TOO_MUCH, details)


def _quota(details: str, asked: float | None) -> bool:
    if re.search(r"insufficient_quota", details):
        return True
    return asked is None and _says(_QUOTA, details) and not _says(_SOON, details)


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


def _status_in(value: Any) -> int:
    """The status that an error inside an answer carries as its code."""
    with suppress(ValueError, TypeError, KeyError):
        error = value["error"]
        for name in ("code", "status", "status_code"):
            if name in error and 400 <= int(error[name]) < 600:
                return int(error[name])
    return 0


def unreachable(model: str, url: str, error: Exception) -> str:
    why = one_line(str(error), 300)
    if leads_to_loopback(url):
        return (
            f"{model} cannot be reached: nothing listens at {host_of(url)}. Start the model server, or choose another."
        )
    if "CERTIFICATE" in str(error).upper():
        return f"{model} cannot be trusted: the certificate of {host_of(url)} is not valid ({why})."
    return f"{model} cannot be reached at {host_of(url)} ({why or 'no connection'}). {CHECK_NET}"


def host_of(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


def effort_is_refused(words: str) -> bool:
    """True if a refusal speaks of the reasoning effort that was asked for."""
    return bool(re.search(r"effort|not support (thinking|reasoning)", words, re.IGNORECASE))
