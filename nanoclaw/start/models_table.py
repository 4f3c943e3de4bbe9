"""The table [models] of config.toml."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from nanoclaw.core.errors import ConfigError
from nanoclaw.start.purposes import EFFORTS, PURPOSES, PurposeModel, Purposes, near


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
        raise ConfigError(f"{where}: unknown key {key!r}{near(purpose, [*PURPOSES, 'aliases'])}")
    if isinstance(given, str):
        given = {"name": given}
    if not isinstance(given, Mapping):
        raise ConfigError(f"{where}: {key!r} must be a model's name in quotes, or a table with name, fallback, effort.")
    for field in given:
        if field not in PurposeModel._fields:
            raise ConfigError(f"{where}: unknown key '{key}.{field}'{near(field, PurposeModel._fields)}")
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
