"""Models by purpose: the table [models], and the short names (aliases) that a person gives models."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

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
"""The purposes that may have a model of their own, each as it is called in a sentence. '' is the conversation."""

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Reasoning efforts as providers name them; each model knows some."""


class PurposeModel(NamedTuple):
    """The model of one purpose. Also written as just the model's name."""

    name: str = ""  # the model; empty: the conversation's
    # models to ask, in this order, if it can't answer; the conversation's model comes last
    fallback: tuple[str, ...] = ()
    effort: str = ""  # reasoning effort; empty: the model's own
    api_base: str = ""  # address of its server, if it isn't the provider's own
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
            raise NanoclawError(f"models have no purpose {purpose!r}{_near(purpose, PURPOSES)}")
        return self.models.get(purpose, PurposeModel())

    def effort_of(self, purpose: str) -> str:
        """The conversation's, where a purpose has no model of its own and no effort."""
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


def read(table: Mapping[str, Any], where: str) -> Purposes:
    """[models] and [model] effort of the whole file `where`. Raises ConfigError."""
    main = table.get("model", {})
    main = main if isinstance(main, Mapping) else {}
    given = table.get("models", {})
    if not isinstance(given, Mapping):
        raise ConfigError(f"{where}: 'models' is a table: write [models] and below it tasks = \"openai/MODEL\".")
    aliases = _aliases(given.get("aliases", {}), where)
    models = {purpose: _model(purpose, one, aliases, where) for purpose, one in given.items() if purpose != "aliases"}
    _check_places(models, main, aliases, where)
    effort = _effort(main.get("effort", ""), "model.effort", where)
    return Purposes(MappingProxyType(models), MappingProxyType(aliases), effort)


def _model(purpose: str, given: Any, aliases: Mapping[str, str], where: str) -> PurposeModel:
    key = f"models.{purpose}"
    if purpose not in PURPOSES:
        raise ConfigError(f"{where}: unknown key {key!r}{_near(purpose, [*PURPOSES, 'aliases'])}")
    if isinstance(given, str):
        given = {"name": given}
    if not isinstance(given, Mapping):
        raise ConfigError(f"{where}: {key!r} must be a model's name in quotes, or a table with name, fallback, effort.")
    for field in given:
        if field not in PurposeModel._fields:
            raise ConfigError(f"{where}: unknown key '{key}.{field}'{_near(field, PurposeModel._fields)}")
    name, *place = (_text(given.get(field, ""), f"{key}.{field}", where) for field in ("name", "api_base", "api_key"))
    fallback = given.get("fallback", [])
    if not isinstance(fallback, list) or not all(isinstance(one, str) and one.strip() for one in fallback):
        raise ConfigError(f"{where}: '{key}.fallback' must be a list of models, such as [\"openai/MODEL\"].")
    if not name and (fallback or any(place)):
        raise ConfigError(f"{where}: '{key}' needs a name: its fallback and its address belong to a model of its own.")
    effort = _effort(given.get("effort", ""), f"{key}.effort", where)
    if effort and purpose == "transcription":
        raise ConfigError(f"{where}: '{key}.effort' has no meaning, as voice notes are only transcribed: remove it.")
    named = [aliases.get(one.strip().casefold(), one.strip()) for one in (name, *fallback)]
    return PurposeModel(named[0], tuple(dict.fromkeys(named[1:])), effort, *place)


def _aliases(given: Any, where: str) -> dict[str, str]:
    if not isinstance(given, Mapping):
        raise ConfigError(f"{where}: 'models.aliases' is a table: write [models.aliases] and fast = \"openai/MODEL\".")
    aliases = {}
    for alias, model in given.items():
        if "/" in alias or not alias.strip() or alias != "".join(alias.split()):
            raise ConfigError(f"{where}: the alias {alias!r} must be one word without “/”, such as fast.")
        name = _text(model, f"models.aliases.{alias}", where)
        if not name or name in given:
            raise ConfigError(f"{where}: 'models.aliases.{alias}' must be a model, such as \"openai/MODEL\".")
        aliases[alias.casefold()] = name
    return aliases


def _effort(given: Any, key: str, where: str) -> str:
    if given == "" or given in EFFORTS:
        return str(given)
    raise ConfigError(f"{where}: {key!r} must be one of {', '.join(EFFORTS)}, not {given!r}.")


def _text(given: Any, key: str, where: str) -> str:
    if not isinstance(given, str):
        raise ConfigError(f"{where}: {key!r} must be text in quotes.")
    return given.strip()


def _check_places(
    models: Mapping[str, PurposeModel], main: Mapping[str, Any], aliases: Mapping[str, str], where: str
) -> None:
    """Raises ConfigError for a model with two addresses: by its name nobody could tell which is meant."""
    named = aliases.get(str(main.get("name", "")).casefold(), str(main.get("name", "")))
    places = {named: (str(main.get("api_base", "")), "model")}
    for purpose, one in models.items():
        if one.api_base:
            base, first = places.setdefault(one.name, (one.api_base, f"models.{purpose}"))
            if base != one.api_base:
                raise ConfigError(f"{where}: {one.name} has one address in [{first}], another in [models.{purpose}].")


def _near(name: str, known: Any) -> str:
    import difflib

    near = difflib.get_close_matches(name, list(known), 1, 0.6)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}."
