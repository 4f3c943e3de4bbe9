"""Models by purpose, and the short names (aliases) that a person gives models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

from nanoclaw.core.errors import ConfigError, NanoclawError

PURPOSES: Mapping[str, str] = {
    "tasks": "tasks",
    "heartbeat": "the heartbeat",
    "summaries": "summaries",
    "helpers": "helpers",
    "pictures": "pictures",
    "titles": "titles",
    "transcription": "voice notes",
}
"""The purposes that may have their own model, each with its name in sentences. '' is the conversation."""

Effort = Literal["", "none", "minimal", "low", "medium", "high", "xhigh", "max"]
EFFORTS = tuple(filter(None, get_args(Effort)))
"""Reasoning efforts as providers name them; each model knows some."""


class PurposeModel(NamedTuple):
    """The model of one purpose. Also written as just the model's name."""

    name: str = ""  # the model; empty: the conversation's
    # models to ask, in this order, if it can't answer; the conversation's comes last
    fallback: tuple[str, ...] = ()
    effort: Effort = ""  # empty: the model's own
    api_base: str = ""  # address of its server
    api_key: str = ""  # its key

    def __repr__(self) -> str:
        return f"PurposeModel({self.name!r})"  # without the key


class Purposes(NamedTuple):
    """All of [models]; `effort` is that of the conversation's model."""

    models: Mapping[str, PurposeModel] = MappingProxyType({})
    aliases: Mapping[str, str] = MappingProxyType({})
    effort: str = ""

    def of(self, purpose: str) -> PurposeModel:
        """Raises NanoclawError for a purpose that there is not."""
        if purpose and purpose not in PURPOSES:
            raise NanoclawError(f"models have no purpose {purpose!r}{near(purpose, PURPOSES)}")
        return self.models.get(purpose, PurposeModel())

    def has_own(self, purpose: str) -> bool:
        return self.of(purpose) != PurposeModel()

    def effort_of(self, purpose: str) -> str:
        """The effort of a purpose; the conversation's if it has no model and no effort of its own."""
        own = self.of(purpose)
        return own.effort or ("" if own.name else self.effort)

    def resolve(self, name: str) -> str:
        """The model that an alias stands for, else the name itself."""
        return self.aliases.get(name.strip().casefold(), name)

    def names(self) -> tuple[str, ...]:
        """All purposes, also those without a model of their own."""
        return tuple(PURPOSES)

    def in_words(self, purpose: str) -> str:
        """A purpose as it is called in a sentence, '' for the conversation."""
        return PURPOSES.get(purpose, "")

    def place_of(self, model: str) -> tuple[str, str]:
        """Address and key that a purpose gives its model, '' for each that it does not."""
        placed = (one for one in self.models.values() if one.name == model and (one.api_base or one.api_key))
        return next(((one.api_base, one.api_key) for one in placed), ("", ""))


def read(table: Mapping[str, Any], value: Callable[[Any, Any, str], Any], main: Any, where: str) -> Purposes:
    """[models] of the whole file `where`, beside the `main` model; `value(hint, given, key)` is a setting of a type.
    Raises ConfigError."""
    given = dict(value(Mapping[str, Any], table.get("models", {}), "models"))
    aliases: dict[str, str] = value(Mapping[str, str], given.pop("aliases", {}), "models.aliases")
    for alias, model in aliases.items():
        if "/" in alias or not alias.strip() or alias != "".join(alias.split()):
            raise ConfigError(f"{where}: the alias {alias!r} must be one word without “/”, such as fast.")
        if not model.strip() or model in aliases:
            raise ConfigError(f"{where}: 'models.aliases.{alias}' must be a model, such as \"openai/MODEL\".")
    found = Purposes({}, {alias.casefold(): model.strip() for alias, model in aliases.items()}, main.effort)
    places, models = {found.resolve(main.name): (main.api_base, "model")}, dict[str, PurposeModel]()
    for purpose, one in given.items():
        key = f"models.{purpose}"
        if purpose not in PURPOSES:
            raise ConfigError(f"{where}: unknown key {key!r}{near(purpose, [*PURPOSES, 'aliases'])}")
        own: PurposeModel = value(PurposeModel, {"name": one} if isinstance(one, str) else one, key)
        if not own.name and (own.fallback or own.api_base or own.api_key):
            raise ConfigError(
                f"{where}: {key!r} needs a name: its fallback and its address belong to a model of its own."
            )
        if own.effort and purpose == "transcription":
            raise ConfigError(
                f"{where}: '{key}.effort' has no meaning, as voice notes are only transcribed: remove it."
            )
        fallback = dict.fromkeys(found.resolve(name).strip() for name in own.fallback)
        own = models[purpose] = own._replace(name=found.resolve(own.name).strip(), fallback=tuple(fallback))
        base, first = places.setdefault(own.name, (own.api_base, key)) if own.api_base else ("", "")
        if base != own.api_base:  # by its name nobody could tell which is meant
            raise ConfigError(f"{where}: {own.name} has one address in [{first}], another in [{key}].")
    return found._replace(models=models)


def near(name: str, known: Any, shown: Any = ()) -> str:
    """The end of a sentence about an unknown name: a similar one, or those to be `shown`, else all known ones."""
    import difflib

    found = difflib.get_close_matches(name, list(known), 1, 0.82 if "." in name else 0.7)
    return f"; did you mean {found[0]!r}?" if found else f"; known: {', '.join(shown or known)}."
