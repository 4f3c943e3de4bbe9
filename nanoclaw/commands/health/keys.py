"""Keys of models and tokens of channels: present, empty, or still those of an example."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.plugin import Finding
from nanoclaw.installation import start_command
from nanoclaw.start import secrets_file
from nanoclaw.start.config import Config

_BLANKS = r".*(?:…|\.\.\.).*|<.*>|\[.*\]|\{.*\}|\*{3,}|(?:\w{1,6}[-_])?x{3,}|(?:\w{1,6}[-_])?your[-_ ].*"
_WORDS = r"(?:.*[-_ ])?(?:here|change[-_ ]?me|replace[-_ ]?me|placeholder|example|dummy|todo|api[-_ ]?key|token)"
"""Values that are no real keys: placeholders of examples."""


def keys(config: Config, models: Iterable[str]) -> Iterator[Finding]:
    """A line for each wrong or missing key, and one for all others. Raises ConfigError if the configuration is
    wrong."""
    from nanoclaw.commands.keys import settings

    lacks = [*config.keys.lacking(), *filter(None, (trouble_of_model(config, one) for one in models))]
    by_value = {one.value: one for one in settings(config) if one.source}  # a channel's is in a variable, too
    wrong = [said for one in by_value.values() if (said := _trouble(one.name, one.source, one.value))]
    for said in dict.fromkeys((*lacks, *wrong)):
        yield Finding(False, said, "keys")
    good = [str(one) for one in by_value.values() if not _trouble(one.name, one.source, one.value)]
    if good or not (lacks or wrong):
        yield Finding(True, "; ".join(good) or "none is set, and none is needed", "keys")


def trouble_of_model(config: Config, model: str) -> str:
    """The reason why the key of a model cannot be the right one, and what to do; '' for none."""
    from nanoclaw.providers import names
    from nanoclaw.providers.choose import LOCAL, place_of

    with suppress(NanoclawError):  # the line of the model says what is wrong with its name
        base, key = place_of(config, model)
        if model.startswith(LOCAL) or key or not (name := names.check(model, base)[0]):
            return ""
        if value := config.environment.get(name, ""):
            return _trouble(name, config.keys.of_variable(name, config.environment), value)
        if name in os.environ and secrets_file.read(config.home / secrets_file.NAME).get(name):
            return f"{name} is empty in the environment, which hides the one in secrets.env: run unset {name}"
        return f"{name} is not set, and {model} needs it: run {start_command()} keys set {name}"
    return ""


def _trouble(name: str, source: str, value: str) -> str:
    where = {"file": "config.toml" if "." in name else secrets_file.NAME}.get(source, f"the {source}")
    value, is_chosen = value.strip(), name.lower().endswith("password")  # by a person, so it may be anything
    if re.fullmatch(_BLANKS if is_chosen else f"{_BLANKS}|{_WORDS}", value, re.IGNORECASE):
        return f"{name} in {where} is still an example text: replace it with the real one"
    if not is_chosen and not (value.isascii() and value.isprintable() and " " not in value):
        return f"{name} in {where} has a space or a character that no key has: copy it again, as one word"
    return ""
