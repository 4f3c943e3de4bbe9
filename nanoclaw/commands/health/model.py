"""The models: each is asked for one word."""

from __future__ import annotations

import asyncio

from nanoclaw.commands.health.settings import trouble_of_model
from nanoclaw.core.errors import ConfigError, NanoclawError, ProviderError
from nanoclaw.core.messages import Limits, ModelRequest, SystemPrompt, UserMessage
from nanoclaw.core.plugin import Finding
from nanoclaw.start.config import Config

SECONDS = 90.0
"""Seconds within which a model must answer."""


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


async def models(config: Config) -> list[Finding]:
    """Ask the model of conversations, its fallbacks, then those of [models]."""
    from nanoclaw.providers.choose import choose_model, transcription_of

    if config.problem and not config.table:
        return [Finding(False, config.problem, "model")]
    found, purposes = list[Finding](), of_purposes(config)
    wanted = [("model", ""), *((f"fallback {name}", name) for name in config.model.fallback)]
    for about, name in [*wanted, *((f"model for {', '.join(those)}", name) for name, those in purposes.items())]:
        try:
            if is_heard := about.startswith("model for ") and "transcription" in purposes[name]:
                transcription_of(config, name)
            if is_heard and len(purposes[name]) == 1:
                said = f"{name} is set up; it is not asked, as there is no sound to try it with"
            else:
                said = await asked(config, name or await choose_model(config))
            found.append(Finding(True, said, about))
        except NanoclawError as error:
            found.append(Finding(False, str(error), about))
    return found


async def asked(config: Config, name: str) -> str:
    """Ask for one word. Raises NanoclawError."""
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
    finally:
        await provider.aclose()
