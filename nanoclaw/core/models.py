"""Which model is asked by which provider, how much it takes in, and what it may cost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from nanoclaw.core.clock import Clock
from nanoclaw.core.config import Config
from nanoclaw.core.errors import ConfigError
from nanoclaw.core.messages import Usage
from nanoclaw.core.provider import SIGHTED, Provider, Sight
from nanoclaw.core.store.db import Store
from nanoclaw.core.store.flags import Flags
from nanoclaw.core.store.models import ModelFacts
from nanoclaw.plugins.budget import budget as budgets
from nanoclaw.plugins.budget.budget import Budget

LOCAL = "local/"

_KEYS = {
    "ANTHROPIC_API_KEY": "anthropic/claude-sonnet-4-5",
    "OPENAI_API_KEY": "openai/gpt-5",
    "OPENROUTER_API_KEY": "openrouter/anthropic/claude-sonnet-4.5",
}


class Providers:
    """One provider per model, made when first asked for."""

    def __init__(self, config: Config, model: str, forced: bool, facts: ModelFacts) -> None:
        self._config, self._model, self._forced, self._facts = config, model, forced, facts
        self._made: dict[str, Provider] = {}

    def of(self, model: str) -> Provider:
        """Raises ConfigError for a model that cannot be used as things are. '' is the configured one."""
        name = self._model if self._forced else model or self._model
        if not name:
            raise ConfigError(_no_model(self._config))
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def _make(self, name: str) -> Provider:
        """The first is made at once, so that what is wrong with it is told; others only when it cannot answer."""
        first = make_provider(self._config, name, self._facts)
        others = [other for other in self._config.model.fallback if other != name]
        if not others or self._forced:
            return first
        from nanoclaw.providers.failover import Failover

        make = [(other, partial(make_provider, self._config, other, self._facts)) for other in others]
        return Failover([(name, lambda: first), *make])

    async def aclose(self) -> None:
        await asyncio.gather(*(provider.aclose() for provider in self._made.values()))


def make_provider(config: Config, name: str, facts: ModelFacts | None = None) -> Provider:
    """The provider of a model; raises ConfigError when the name, the key or the file is missing.

    What it learns of the model goes into the `facts`.
    """
    if name.startswith(LOCAL):
        from nanoclaw.providers import catalogue
        from nanoclaw.providers.local import LocalProvider

        return LocalProvider(name, catalogue.locate(name, models_folder(config)), config.home / "models" / "state")
    from nanoclaw.providers.names import provider_for

    model = config.model
    same_service = _has_address(config, name)
    return provider_for(
        name,
        model.api_base if same_service else "",
        model.api_key if same_service else "",
        config.environment,
        tool_mode="json" if model.tool_mode == "json" else "native",
        sight=Sight(facts.sees_images(name) is not False, partial(facts.refused_images, name)) if facts else SIGHTED,
    )


def window_of(config: Config, facts: ModelFacts, model: str) -> int | None:
    """How many tokens a model takes in, as the config says, was learned or is known. The model inside this process has
    its own short prompt and takes of a conversation what fits."""
    from nanoclaw.providers import windows

    if config.model.window_tokens and model == config.model.name:
        return config.model.window_tokens
    return None if model.startswith(LOCAL) else facts.window(model) or windows.window_of(model)


def window_in_words(config: Config, facts: ModelFacts, model: str) -> str:
    """'' where nobody knows it."""
    tokens = window_of(config, facts, model)
    if tokens is None:
        return ""
    is_set = config.model.window_tokens and model == config.model.name
    source = (
        "as config.toml says" if is_set else "learned from an error" if facts.window(model) else "as is known of it"
    )
    return f"window: {tokens:,} tokens, {source}"


def make_budget(config: Config, store: Store, flags: Flags, now: Clock) -> Budget:
    def price(model: str, usage: Usage) -> float | None:
        from nanoclaw.providers import prices  # for those who set a limit, or ask

        return prices.cost(model, usage)

    def dollars(amount: float) -> str:
        from nanoclaw.providers import prices

        return prices.dollars(amount)

    limits = config.limits
    most = budgets.SpendingLimits(limits.day_usd, limits.month_usd, limits.heartbeat_share, limits.count_local)
    return Budget(store, flags, now, price, dollars, most, partial(is_local, config), config.model.fallback)


def is_local(config: Config, model: str) -> bool:
    """Whether a server on this machine answers for a model, whatever it is called."""
    if not config.model.api_base or not _has_address(config, model):
        return False
    from nanoclaw.providers.failures import is_loopback

    return is_loopback(config.model.api_base)


def _has_address(config: Config, model: str) -> bool:
    """The address and the key in the config belong to the model beside them, not to another one chosen later."""
    return model.partition("/")[0] == config.model.name.partition("/")[0]


def price_in_words(config: Config, model: str, usage: Usage) -> str:
    from nanoclaw.providers import prices

    is_free = is_local(config, model) and not config.limits.count_local
    return prices.dollars(0) if is_free else prices.in_words(model, usage)


async def choose_model(config: Config, wanted: str = "") -> str:
    """The wanted model, else the configured one, else what already runs or lies on this machine.

    Raises ConfigError, saying how to get one, when there is none.
    """
    if wanted or config.model.name:
        return wanted or config.model.name
    if config.model.api_base:
        raise ConfigError(f'{config.file} has model.api_base but no model.name: add name = "openai/MODEL"')
    from nanoclaw.providers import catalogue
    from nanoclaw.providers.names import detect_local_server

    if found := await detect_local_server():
        return found.model
    if here := catalogue.installed(models_folder(config)):
        best = catalogue.recommended().name
        return LOCAL + next((model.name for model in here if model.name == best), here[0].name)
    raise ConfigError(_no_model(config))


def _no_model(config: Config) -> str:
    key = next((name for name in _KEYS if config.environment.get(name)), "")
    return (
        "no model is configured, and none runs on this machine.\n"
        + (f"  {key} is set, so: nanoclaw init --model {_KEYS[key]}\n" if key else "")
        + "  With a provider's key: nanoclaw init --model openai/gpt-5 (and set OPENAI_API_KEY)\n"
        "  Without any key, on this machine: nanoclaw local pull"
    )


async def has_model(config: Config) -> bool:
    try:
        return bool(await choose_model(config))
    except ConfigError:
        return False


def transcriber(config: Config) -> Callable[[Path], Awaitable[str]] | None:
    """What writes down voice notes; None where none is configured. It raises NanoclawError when it is asked."""
    name = config.media.transcription
    if not name:
        return None

    async def transcribe(path: Path) -> str:
        from nanoclaw.providers.names import transcription_for

        same_service = _has_address(config, name)
        base, key = (config.model.api_base, config.model.api_key) if same_service else ("", "")
        return await transcription_for(name, base, key, config.environment)(path)

    return transcribe


def models_folder(config: Config) -> Path:
    return config.home / "models"
