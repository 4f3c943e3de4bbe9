"""Chooses models by the configuration: which is asked, by which provider, how much it takes in and what it costs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from nanoclaw.core.errors import ConfigError, NanoclawError
from nanoclaw.core.messages import Usage
from nanoclaw.core.plugin import Reply
from nanoclaw.core.provider import Embedded, EmbeddingModel, Provider

if TYPE_CHECKING:
    from nanoclaw.providers.around import LocalQueue
    from nanoclaw.providers.embeddings import BundledEmbeddings, Embeddings
    from nanoclaw.providers.failover import Failover
    from nanoclaw.providers.transcription import Transcribe
    from nanoclaw.start.build import ModelFacts
    from nanoclaw.start.config import Config

LOCAL = "local/"

Maker = Callable[[str], Provider]
"""Makes the provider of a model from its whole name."""

DEFAULTS = {
    "ANTHROPIC_API_KEY": "anthropic/claude-sonnet-4-5",
    "OPENAI_API_KEY": "openai/gpt-5",
    "OPENROUTER_API_KEY": "openrouter/anthropic/claude-sonnet-4.5",
}
"""By variable that holds a key, a model that it opens."""


class ConfiguredModels:
    """The models that a process may ask, with one provider for each, made when first asked for."""

    def __init__(
        self, config: Config, model: str, forced: bool, facts: ModelFacts, makers: Mapping[str, Maker] | None = None
    ) -> None:
        """`model` stands where a conversation has chosen none, and everywhere when `forced`; '' is none. `makers` make
        the providers of each prefix, that of '' those of any other."""
        self.config, self._model, self._forced, self._facts = config, model, forced, facts
        self._makers = makers or {}
        self.place_of, self.abilities = partial(place_of, config), facts.abilities
        self.has_own, self.effort_of = config.purposes.has_own, config.purposes.effort_of
        self.learned_window, self.forget_window = facts.learned_window, facts.forget_window
        self._made: dict[str, Provider] = {}  # of each model alone, by its name
        self._failovers: dict[tuple[str, ...], Failover] = {}  # by purpose and what is asked in its order
        self._queues: dict[str, LocalQueue] = {}  # by server on this machine
        self._transcriptions: dict[str, Transcribe] = {}
        self._embedders: dict[EmbeddingModel, Embeddings | BundledEmbeddings] = {}

    def of(self, model: str, purpose: str = "", wait: float = 0.0) -> Provider:
        """Raises ConfigError for a model that cannot be used at present. '' is the configured one."""
        made, purposes = self._for(model, purpose), self.config.purposes
        if purpose != "pictures" and purposes.of("pictures").name:
            from nanoclaw.providers.around import Eyes

            made = Eyes(made, partial(self.of, model, "pictures"), self.is_blind, purposes.effort_of("pictures"))
        if wait:
            from nanoclaw.providers.around import Patient

            made = Patient(made, wait)
        return made

    def _for(self, model: str, purpose: str) -> Provider:
        resolve = self.config.purposes.resolve
        name = resolve(self._model if self._forced else model or self._model)
        own = self.config.purposes.of("" if self._forced else purpose)
        names = dict.fromkeys(filter(None, (own.name, *own.fallback, name)))
        if not names:
            raise ConfigError(_no_model(self.config))
        if not own.name:
            self._alone(name)  # made at once, so that what is wrong with it is told
        if not self._forced:
            names |= dict.fromkeys(self.config.model.fallback)
        if len(names) == 1:
            return self._alone(*names)
        key = (purpose if own.name else "", *names)
        if key not in self._failovers:  # those after the first are made only where that cannot answer
            from nanoclaw.providers.failover import Failover

            candidates = [(name, partial(self._alone, name)) for name in names]
            self._failovers[key] = Failover(candidates, about=self.config.purposes.in_words(key[0]))
        return self._failovers[key]

    def troubles(self) -> dict[str, str]:
        """By purpose why its own model cannot answer at present."""
        found = {}
        for purpose, own in self.config.purposes.models.items():
            if own.name:
                try:
                    if purpose == "transcription":
                        transcription_of(self.config, own.name)
                    else:
                        self._alone(own.name)
                except NanoclawError as error:
                    found[purpose] = str(error)
        for (purpose, name, *_), failover in self._failovers.items():
            if purpose and name in failover.troubles:
                found.setdefault(purpose, failover.troubles[name])
        return found

    def _alone(self, name: str) -> Provider:
        """The provider of one model, shared by everything that uses it. Raises ConfigError."""
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def listing(self, chosen: str) -> Reply:
        """All that is known of models, without asking anybody. Raises ConfigError."""
        from nanoclaw.providers.listing import listing

        chosen = self.chosen(chosen)
        window = f" ({words})" if chosen and (words := self.window_in_words(chosen)) else ""
        name = chosen or "chosen at each start"
        first = f"Model: {name}{window}. Choose another with /model provider/name, or /model ALIAS."
        return listing(self, chosen, first)

    def choose(self, wanted: str) -> tuple[str, str]:
        """The model that a person means, and a remark about a name that may be misspelt. Raises ConfigError."""
        from nanoclaw.providers import listing

        name = self.config.purposes.resolve(wanted)
        try:
            self.of(name)
            return name, listing.misspelt(self, name)
        except ConfigError as error:
            near = [one for one in listing.near(self, wanted) if f"'{one}'" not in str(error)]
            if not near:
                raise
            raise ConfigError(f"{error} Similar: {', '.join(near)}.") from None

    def chosen(self, name: str) -> str:
        """The model of a conversation that has chosen this one, '' for none."""
        return self.config.purposes.resolve(name) or self._model or self.config.model.name

    @property
    def brought(self) -> frozenset[str]:
        """Prefixes that plugins serve."""
        return frozenset(filter(None, self._makers))

    def window_of(self, model: str) -> int | None:
        """The context window of a model, as the config says, was learned or is known. The model inside this process
        has its own short prompt and takes of a conversation as much as fits."""
        from nanoclaw.providers import prices

        learned, said = self._facts.window(model), self.config.model.window_tokens
        if self._is_set(model):  # what a server refuses is too long whatever the config says
            return min(said, learned or said)
        return None if model.startswith(LOCAL) else learned or prices.window(model)

    def window_in_words(self, model: str) -> str:
        """'' if unknown it."""
        tokens = self.window_of(model)
        if tokens is None:
            return ""
        is_set = self._is_set(model) and tokens == self.config.model.window_tokens
        source = "as config.toml says" if is_set else "as is known of it"
        source = "learned from an error" if self._facts.window(model) and not is_set else source
        return f"window: {tokens:,} tokens, {source}"

    def cost_in_words(self, model: str, usage: Usage) -> str:
        from nanoclaw.dollars import dollars

        cost = 0.0 if self.is_local(model) else self.cost(model, usage)
        return "price unknown" if cost is None else dollars(cost)

    def cost(self, model: str, usage: Usage) -> float | None:
        from nanoclaw.providers import prices  # for those who set a limit, or ask

        return prices.cost(model, usage)

    def is_blind(self, provider: Provider) -> bool:
        """True if its model has refused images, or the list of known models says that it takes none."""
        from nanoclaw.providers import prices

        return not provider.supports_vision or prices.sees_images(provider.model) is False

    def is_local(self, model: str) -> bool:
        """True if a server on this machine answers for a model, whatever it is called, and should be ignored."""
        from nanoclaw.net import leads_to_loopback

        is_here = leads_to_loopback(self.place_of(model)[0])
        return is_here and not self.config.get("limits.count_local", False)

    async def transcribe(self, model: str, name: str, sound: bytes) -> str:
        """The text that is spoken in an audio file. Raises NanoclawError."""
        own, errors = self.config.purposes.of("transcription"), list[NanoclawError]()
        for one in (self.config.purposes.resolve(model),) if model else (own.name, *own.fallback):
            try:
                hear = self._transcriptions.setdefault(one, transcription_of(self.config, one))
                return await hear(name, sound)
            except NanoclawError as error:
                errors.append(error)
        raise errors[0]

    async def embed(self, model: EmbeddingModel, texts: Sequence[str], is_query: bool, seconds: float) -> Embedded:
        """Vectors of texts, or of a question about such. Raises NanoclawError."""
        if model not in self._embedders:
            from nanoclaw.providers.names import embeddings_for

            base, key = place_of(self.config, model.name)
            place = model if model.api_base else model._replace(api_base=base, api_key=model.api_key or key)
            self._embedders[model] = embeddings_for(place, self.config.environment)
        made = await self._embedders[model](texts, is_query, seconds)
        return made._replace(is_local=made.is_local and not self.config.get("limits.count_local", False))

    async def aclose(self) -> None:
        await asyncio.gather(*(one.aclose() for one in (*self._made.values(), *self._embedders.values())))

    def _is_set(self, model: str) -> bool:
        return bool(self.config.model.window_tokens) and model == self.config.model.name

    def _make(self, name: str) -> Provider:
        make = self._makers.get(name.partition("/")[0]) or self._makers.get("")
        if make is None:
            raise ConfigError(f"no plugin that is on brings the model {name!r}.")
        made = make(name)
        server = _server_here(self.config, name)
        if not server:
            return made
        from nanoclaw.providers.around import LocalQueue, OnThisMachine

        return OnThisMachine(made, self._queues.setdefault(server, LocalQueue(one_at_a_time=False)))


class GivenModels(ConfiguredModels):
    """Providers that are given in place of those that a configuration names. The first is the usual one."""

    def __init__(self, providers: Sequence[Provider], facts: ModelFacts, config: Config) -> None:
        super().__init__(config, providers[0].model if providers else "", False, facts)
        self._providers = tuple(providers)
        self._named = {one.model: one for one in reversed(providers)}  # a failover's is later that which answers

    def _alone(self, name: str) -> Provider:
        if name not in self._named:
            raise ConfigError(f"there is no model {name!r}" if name else "no model is configured.")
        return self._named[name]

    def troubles(self) -> dict[str, str]:
        return {}

    def listing(self, chosen: str) -> Reply:
        model = self.of(chosen).model
        window = f" ({words})" if (words := self.window_in_words(model)) else ""
        return Reply(f"Model: {model}{window}. Choose another with /model provider/name.", {"model": model})

    def choose(self, wanted: str) -> tuple[str, str]:
        return self.of(wanted).model, ""

    def window_of(self, model: str) -> int | None:
        return self._facts.window(model)

    def is_blind(self, provider: Provider) -> bool:
        return not provider.supports_vision

    def is_local(self, model: str) -> bool:
        return False

    async def transcribe(self, model: str, name: str, sound: bytes) -> str:
        """By a provider that has this method."""
        found = self._alone(model or self.config.purposes.of("transcription").name)
        return str(await found.transcribe(name, sound))  # type: ignore[attr-defined]

    async def embed(self, model: EmbeddingModel, texts: Sequence[str], is_query: bool, seconds: float) -> Embedded:
        """By a provider that has this method."""
        for one in self._providers:
            if make := getattr(one, "embed", None):
                return await make(model, texts, is_query, seconds)  # type: ignore[no-any-return]
        raise ConfigError(f"there is no model {model.name!r} for embeddings.")

    async def aclose(self) -> None:
        await asyncio.gather(*(provider.aclose() for provider in self._providers))


def make_provider(config: Config, name: str) -> Provider:
    """The provider of a model without plugins, to try it. Raises ConfigError when the name, the key or the file is
    missing."""
    from nanoclaw.providers.names import provider_for

    tool_mode = config.model.tool_mode
    return provider_for(name, *place_of(config, name), config.environment, home=config.home, tool_mode=tool_mode)


def load_ahead(config: Config, model: str) -> None:
    """Load what asking a model takes, so that the first answer need not wait for it; in any thread, as nothing is kept
    but modules and caches. The model in the program is none of these: it loads when it is first asked."""
    if model.startswith(LOCAL):
        return
    from nanoclaw.providers import prices

    with suppress(NanoclawError):  # told when the model is asked
        provider = make_provider(config, model)
        if load := getattr(provider, "load", None):
            load()
        prices.window(model)


def transcription_of(config: Config, name: str) -> Transcribe:
    """Writes down voice notes with that model. Raises ConfigError for one that cannot at present."""
    from nanoclaw.providers import names, transcription

    language = str(config.get("voice.language", ""))
    if name.startswith(LOCAL):
        from nanoclaw.providers import catalogue

        return transcription.on_this_machine(name, catalogue.locate(name, models_folder(config)), language)
    return names.transcription_for(name, *place_of(config, name), config.environment, language)


def is_on_this_machine(config: Config, model: str) -> bool:
    """True if the model in this program, or a server on this machine, answers."""
    return model.startswith(LOCAL) or bool(_server_here(config, model))


def _server_here(config: Config, model: str) -> str:
    """Host and port of the server on this machine that answers for a model, '' for none."""
    if model.startswith(LOCAL):
        return ""  # it has a queue of its own
    from nanoclaw.net import leads_to_loopback
    from nanoclaw.providers.names import services

    service = services().get(model.partition("/")[0].lower())
    base = place_of(config, model)[0] or (service.api_base if service else "")
    return urlsplit(base).netloc if leads_to_loopback(base) else ""


def place_of(config: Config, model: str) -> tuple[str, str]:
    """The configured address and key; they belong to the model beside them, not to one of another service. A key goes
    to no other address than its own."""
    is_same_service = model.partition("/")[0] == config.model.name.partition("/")[0]
    base, key = (config.model.api_base, config.model.api_key) if is_same_service else ("", "")
    own_base, own_key = config.purposes.place_of(model)
    return own_base or base, own_key or ("" if own_base else key)


async def choose_model(config: Config, wanted: str = "") -> str:
    """The wanted model, else the configured one, else one that already runs or is on this machine.

    Raises ConfigError, saying how to get one, if there is none.
    """
    if wanted or config.model.name:
        return config.purposes.resolve(wanted) or config.model.name
    if config.model.api_base:
        raise ConfigError(f'{config.file} has model.api_base but no model.name: add name = "openai/MODEL"')
    from nanoclaw.providers import catalogue
    from nanoclaw.providers.local_servers import detect_local_server

    if found := await detect_local_server():
        return found.model
    if here := catalogue.installed(models_folder(config)):
        best = catalogue.recommended().name
        return LOCAL + next((model.name for model in here if model.name == best), here[0].name)
    raise ConfigError(_no_model(config))


def _no_model(config: Config) -> str:
    from nanoclaw.installation import start_command

    key = next((name for name in DEFAULTS if config.environment.get(name)), "")
    return (
        "no model is configured, and none runs on this machine.\n"
        + (f"  {key} is set, so: {start_command()} init --model {DEFAULTS[key]}\n" if key else "")
        + f"  With a provider's key: {start_command()} init, or {start_command()} init --model openai/gpt-5\n"
        f"  Without any key, on this machine: {start_command()} local pull"
    )


async def has_model(config: Config) -> bool:
    try:
        return bool(await choose_model(config))
    except ConfigError:
        return False


def models_folder(config: Config) -> Path:
    return config.home / "models"
