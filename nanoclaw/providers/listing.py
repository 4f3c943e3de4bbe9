"""All that is known of models without asking anybody: those of the configuration, what each is for, and their facts."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, NamedTuple

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.messages import Usage
from nanoclaw.core.plugin import Reply
from nanoclaw.dollars import dollars
from nanoclaw.providers import catalogue, names, prices

if TYPE_CHECKING:
    from nanoclaw.providers.choose import ConfiguredModels

UNSET = {"transcription": "none, voice notes are not transcribed", "titles": "none: a conversation's first words"}
"""Purposes that do without a model where none is named."""


class PurposeLine(NamedTuple):
    """The model of one purpose; '' is the conversation's."""

    purpose: str
    model: str
    fallback: tuple[str, ...]
    effort: str
    trouble: str


class KnownModel(NamedTuple):
    """Facts of one model. `key` is the variable that holds its key, '' if none is needed; the prices are US dollars for
    a million tokens, None if unknown them."""

    name: str
    aliases: tuple[str, ...]
    is_local: bool
    key: str
    is_key_set: bool
    window: int | None
    input_usd: float | None
    output_usd: float | None
    problem: str

    def in_words(self) -> str:
        window = f"{self.window:,} tokens" if self.window else "window unknown"
        known = self.input_usd is not None and self.output_usd is not None
        price = f"{dollars(self.input_usd or 0)} in, {dollars(self.output_usd or 0)} out" if known else "price unknown"
        key = f"{self.key} {'is' if self.is_key_set else 'is not'} set" if self.key else ""
        place = ("on this machine", window) if self.is_local else (key, window, price)
        alias = f"alias {', '.join(self.aliases)}" if self.aliases else ""
        return f"- {self.name}: {'; '.join(filter(None, (*place, alias, self.problem)))}"


def listing(means: ConfiguredModels, chosen: str, first: str) -> Reply:
    """All in words, after the `first` line, and as data."""
    purposes, models = purpose_lines(means, chosen), [_known(means, name) for name in names_of(means, chosen)]
    lines = [first, "For:"]
    lines += [f"- {_purpose_in_words(one)}" for one in purposes if one.model or one.effort]
    rest = [one.purpose for one in purposes if not (one.model or one.effort or one.purpose in UNSET)]
    lines += [f"- {', '.join(rest)}: the conversation's model"] if rest else []
    lines += [f"- {one.purpose}: {UNSET[one.purpose]}" for one in purposes if not one.model and one.purpose in UNSET]
    if models:
        told = {one.trouble for one in purposes}
        once = (one._replace(problem="" if one.problem in told else one.problem) for one in models)
        lines += ["", "Known (prices for a million tokens):", *(one.in_words() for one in once)]
    data: dict[str, Any] = {
        "model": chosen,
        "purposes": [one._asdict() for one in purposes],
        "models": [one._asdict() for one in models],
    }
    return Reply("\n".join(lines), data)


def _purpose_in_words(one: PurposeLine) -> str:
    effort = f"effort {one.effort}" if one.effort else ""
    fallback = f"then {', '.join(one.fallback)}" if one.fallback else ""
    trouble = f"cannot be asked, so the next is: {one.trouble}" if one.trouble else ""
    return f"{one.purpose}: {'; '.join(filter(None, (one.model or 'the same model', effort, fallback, trouble)))}"


def purpose_lines(means: ConfiguredModels, chosen: str) -> list[PurposeLine]:
    purposes, troubles = means.config.purposes, means.troubles()
    lines = [PurposeLine("conversation", chosen, means.config.model.fallback, purposes.effort, "")]
    for purpose in purposes.names():
        own = purposes.of(purpose)
        lines.append(PurposeLine(purpose, own.name, own.fallback, own.effort, troubles.get(purpose, "")))
    return lines


def names_of(means: ConfiguredModels, chosen: str) -> list[str]:
    """Models that the configuration names, those that are on this machine, and one of each service that has a key."""
    from nanoclaw.providers.choose import DEFAULTS, LOCAL, models_folder, place_of

    config = means.config
    named = [chosen, config.model.name, *config.model.fallback, *config.purposes.aliases.values()]
    for line in purpose_lines(means, chosen):
        named += [line.model, *line.fallback]
    named += [LOCAL + one.name for one in catalogue.installed(models_folder(config))]
    named += [one for key, one in DEFAULTS.items() if config.environment.get(key) and not place_of(config, one)[0]]
    return list(dict.fromkeys(filter(None, named)))


def _known(means: ConfiguredModels, name: str) -> KnownModel:
    from nanoclaw.providers.choose import LOCAL, is_on_this_machine, models_folder, place_of

    config = means.config
    base, given = place_of(config, name)
    key, problem = "", ""
    try:
        if name.partition("/")[0] in means.brought:
            pass  # a plugin answers for it
        elif name.startswith(LOCAL):
            catalogue.locate(name, models_folder(config))
        else:
            key, _, _ = names.check(name, base)
    except ConfigError as error:
        problem = str(error)
    aliases = tuple(alias for alias, model in config.purposes.aliases.items() if model == name)
    return KnownModel(
        name,
        aliases,
        is_on_this_machine(config, name),
        key,
        bool(given or config.environment.get(key, "").strip()) if key else True,
        means.window_of(name) or prices.window(name),
        _of_a_million(name, Usage(1000)),
        _of_a_million(name, Usage(0, 1000)),
        problem,
    )


def _of_a_million(model: str, thousand: Usage) -> float | None:
    """US dollars for a million tokens, as a small request has them."""
    usd = prices.cost(model, thousand)
    return None if usd is None else round(usd * 1000, 6)


def near(means: ConfiguredModels, wanted: str) -> list[str]:
    """Aliases and models of which the name is near to one that nobody knows."""
    wanted = wanted.strip().casefold()
    known = [*means.config.purposes.aliases, *names_of(means, means.chosen(""))]
    by_end = {one.rpartition("/")[2].casefold(): one for one in reversed(known)}
    found = difflib.get_close_matches(wanted, [*known, *by_end], 3, 0.6)
    return list(dict.fromkeys(by_end.get(one, one) for one in found))[:2]


def misspelt(means: ConfiguredModels, name: str) -> str:
    """A remark about a name of which nobody knows the model, but one that is near; '' for none."""
    from nanoclaw.providers.choose import LOCAL, place_of

    if name.startswith(LOCAL) or name.partition("/")[0] in means.brought or place_of(means.config, name)[0]:
        return ""
    _, prefix, bare = names.check(name, "")
    meant = prices.near(prefix, bare)
    return f" {name} is not among the models known here; did you mean {prefix}/{meant}?" if meant else ""
