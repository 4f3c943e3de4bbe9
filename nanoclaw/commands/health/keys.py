"""Keys of models and tokens of channels: present or missing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.plugin import Finding
from nanoclaw.installation import start_command
from nanoclaw.start import secrets_file
from nanoclaw.start.config import Config


def keys(config: Config, models: Iterable[str]) -> Iterator[Finding]:
    """A line for each wrong or missing key, and one for all others. Raises ConfigError if the configuration is
    wrong."""
    from nanoclaw.commands.keys import settings

    lacks = [*config.keys.lacking(), *filter(None, (trouble_of_model(config, one) for one in models))]
    good = {one.value: str(one) for one in settings(config) if one.source}  # a channel's is in a variable, too
    for said in dict.fromkeys(lacks):
        yield Finding(False, said, "keys")
    if good or not lacks:
        yield Finding(True, "; ".join(good.values()) or "none is set, and none is needed", "keys")


def trouble_of_model(config: Config, model: str) -> str:
    """The reason why a model has no key, and what to do; '' for none."""
    from nanoclaw.providers import names
    from nanoclaw.providers.choose import LOCAL, place_of

    with suppress(NanoclawError):  # the line of the model says what is wrong with its name
        base, key = place_of(config, model)
        if model.startswith(LOCAL) or key or not (name := names.check(model, base)[0]):
            return ""
        if config.environment.get(name, ""):
            return ""
        if name in os.environ and secrets_file.read(config.home / secrets_file.NAME).get(name):
            return f"{name} is empty in the environment, which hides the one in secrets.env: run unset {name}"
        return f"{name} is not set, and {model} needs it: run {start_command()} keys set {name}"
    return ""
