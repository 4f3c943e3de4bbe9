"""The models: each is asked for one word; their servers' replies tell the time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Protocol, runtime_checkable
from urllib.parse import urlsplit

from nanoclaw.commands.health.keys import trouble_of_model
from nanoclaw.commands.health.times import ServerTime
from nanoclaw.core.errors import ConfigError, NanoclawError, ProviderError
from nanoclaw.core.messages import Limits, ModelRequest, SystemPrompt, UserMessage
from nanoclaw.core.plugin import Finding
from nanoclaw.start.config import Config

SECONDS = 90.0
"""Seconds within which a model must answer."""


@runtime_checkable
class Dated(Protocol):
    @property
    def dated(self) -> tuple[str, float]:
        """The server's time by its last reply, '' for none, and this machine's then."""
        ...


def named(config: Config) -> list[str]:
    """The models that the configuration names."""
    own = [config.model.name, *config.model.fallback]
    return list(dict.fromkeys(filter(None, (*map(config.purposes.resolve, own), *of_purposes(config)))))


def of_purposes(config: Config) -> dict[str, list[str]]:
    """The models that [models] names, each with its purposes."""
    found: dict[str, list[str]] = {}
    for purpose, own in config.purposes.models.items():
        for name in filter(None, (own.name, *own.fallback)):
            found.setdefault(name, []).append(purpose)
    return found


async def of_conversations(config: Config, told: list[ServerTime]) -> list[Finding]:
    """Ask the configured model, or the one that a start would choose. Raises NanoclawError."""
    from nanoclaw.providers.choose import choose_model

    return [Finding(True, await asked(config, await choose_model(config), told), "model")]


async def of_fallback(config: Config, name: str, told: list[ServerTime]) -> list[Finding]:
    """Ask a model of model.fallback. Raises NanoclawError."""
    return [Finding(True, await asked(config, name, told), f"fallback {name}")]


async def of_purpose(config: Config, name: str, purposes: list[str], told: list[ServerTime]) -> list[Finding]:
    """Ask a model of [models]. Raises NanoclawError."""
    from nanoclaw.providers.choose import check_transcription

    about = f"model for {', '.join(purposes)}"
    if "transcription" in purposes:
        check_transcription(config, name)
        if len(purposes) == 1:
            return [Finding(True, f"{name} is set up; it is not asked, as there is no sound to try it with", about)]
    return [Finding(True, await asked(config, name, told), about)]


async def asked(config: Config, name: str, told: list[ServerTime]) -> str:
    """Ask for one word. Records in `told` the time that the model's server names. Raises NanoclawError."""
    from nanoclaw.providers.choose import make_provider

    if said := trouble_of_model(config, name):
        raise ConfigError(said)
    provider = make_provider(config, name)
    limits = Limits(timeout_seconds=min(config.model.timeout_seconds, SECONDS))
    hello = UserMessage("Answer with one word: hello", config.clock()())
    try:
        async with asyncio.timeout(SECONDS):
            answer = await provider.complete(
                ModelRequest(SystemPrompt(""), (hello,), limits=limits), lambda event: None
            )
        return f"{name} answers: {' '.join(answer.text.split())[:60]!r}"
    except TimeoutError:
        raise ProviderError(
            f"{name} did not answer within {SECONDS:.0f} s: it may be busy, or still loading. Try again later."
        ) from None
    except ProviderError as error:
        raise ProviderError(f"{error}{_near(config, name) if '(404)' in str(error) else ''}") from None
    finally:
        told.extend(_time_of(config, name, provider))
        await provider.aclose()


def _near(config: Config, name: str) -> str:
    """A remark about a name that may be misspelt."""
    from nanoclaw.providers import names, prices

    with suppress(NanoclawError):
        _, prefix, bare = names.check(name, "")
        if meant := prices.near(prefix, bare):
            return f" Did you mean {prefix}/{meant}?"
    return ""


def _time_of(config: Config, name: str, provider: object) -> Iterator[ServerTime]:
    from email.utils import parsedate_to_datetime

    from nanoclaw.providers.choose import place_of

    if isinstance(provider, Dated) and provider.dated[0]:
        with suppress(ValueError, TypeError):
            named = parsedate_to_datetime(provider.dated[0])
            server = urlsplit(place_of(config, name)[0]).netloc.rpartition("@")[2] or f"the server of {name}"
            yield ServerTime(server, named.replace(tzinfo=named.tzinfo or UTC), _at(provider.dated[1]))


def _at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
