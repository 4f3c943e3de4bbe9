"""`nanoclaw model` and `nanoclaw local`: what is known about models, and those that run on this machine."""

from __future__ import annotations

import asyncio
import os
import sys

from nanoclaw.channels import attach
from nanoclaw.commands.arguments import Options
from nanoclaw.commands.plugins import carry_out
from nanoclaw.core.errors import ConfigError
from nanoclaw.core.plugin import Reply
from nanoclaw.escapes import write_over
from nanoclaw.installation import start_command
from nanoclaw.providers import catalogue, names, prices
from nanoclaw.providers.choose import LOCAL, has_model, models_folder
from nanoclaw.start.build import change_settings
from nanoclaw.start.config import Config, load


def model(config: Config, options: Options) -> int:
    if not options.name:
        return carry_out(config, "model", "", as_json=options.json, only_reads=True)
    done, lacking = choose(config, config.purposes.resolve(options.name), "")
    if not options.json:
        print(*done, *lacking, sep="\n")
    if any(line.startswith("Still to do") for line in lacking):
        return 0
    return carry_out(load(os.environ), "model", options.name, as_json=options.json)


_BELONGS = ("api_base", "api_key")
"""Keys of [model] that are valid for one service only."""


def choose(config: Config, model: str, api_base: str) -> tuple[list[str], list[str]]:
    """Write the model into config.toml, where all else stays as it is. Lines about what was done, and about what is
    lacking or to do. Raises ConfigError for what can't be a model's name."""
    model = model.strip() or config.model.name
    if not model:
        raise ConfigError("an address needs a model: give --model PROVIDER/NAME, too.")
    kept = config.model.api_base if not (api_base or _is_other(config, model)) else ""
    lacking = _lacking(config, model, api_base or kept)
    gone = [key for key in _BELONGS if _is_other(config, model) and config.get(f"model.{key}")]
    changes = {**{f"model.{key}": None for key in gone}, "model.name": model}
    copy = change_settings(config, changes | ({"model.api_base": api_base} if api_base else {}))
    address = f", at {api_base}" if api_base else f", at {kept}, as before; --api-base changes it" if kept else ""
    belonged = f"Removed, as it belonged to {config.model.name}: {', '.join(gone)}." if gone else ""
    done = [f"Model: {model}{address}", belonged, f"The previous file is {copy}." if copy else ""]
    return [*filter(None, done)], lacking


def _is_other(config: Config, model: str) -> bool:
    """True if a model is of another service than the configured one."""
    return model.partition("/")[0] != config.model.name.partition("/")[0]


def _lacking(config: Config, model: str, api_base: str) -> list[str]:
    """Lines about a missing key or file, or a name that may be misspelt."""
    if model.startswith(LOCAL):
        if "/" not in model.removeprefix(LOCAL):
            catalogue.find(model)  # a name of the catalogue, or none
        try:
            catalogue.locate(model, models_folder(config))
        except ConfigError as error:
            return [f"Still to do: {error}"]
        return []
    key, prefix, name = names.check(model, api_base, is_sure=not config.plugins.enabled)
    lines = []
    if not api_base and (near := prices.near(prefix, name)):
        lines.append(f"{model} is not among the models known here; did you mean {prefix}/{near}?")
    if key and not config.environment.get(key, "").strip():
        lines.append(f"Still to do: {start_command()} keys set {key} --file asks for the key and keeps it.")
    return [*lines, f"{start_command()} doctor tests it with one word."]


# --- those of this machine -------------------------------------------------------------------------------------------


def listed(config: Config, options: Options) -> Reply:
    lines = list[str]()
    for entry in catalogue.catalogue():
        is_here = (models_folder(config) / entry.file).is_file()
        state = "on this machine" if is_here else f"{start_command()} local pull {entry.name}"
        lines.append(f"local/{entry.name:<20} {entry.size / 1e6:>6,.0f} MB  {entry.licence:<11} {state}")
    own = (one for one in catalogue.installed(models_folder(config)) if one.name == one.path.name)
    return Reply("\n".join([*lines, *(f"local/{one.path}  {one.size / 1e6:,.0f} MB" for one in own)]))


def pull(config: Config, options: Options) -> Reply | int:
    from nanoclaw.providers.pull import pull as pull_model

    if options.if_needed and asyncio.run(has_model(config)):
        return 0
    entry = catalogue.find(options.name) if options.name else catalogue.recommended()
    config.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    attach.say(f"local/{entry.name}: {entry.size / 1e6:,.0f} MB, {entry.licence}")
    path = asyncio.run(pull_model(entry, models_folder(config), _Progress().show))
    return Reply(f"local/{entry.name} is ready: {path}")


def remove(config: Config, options: Options) -> Reply:
    return Reply(f"{catalogue.remove(options.name, models_folder(config)) / 1e6:,.0f} MB freed.")


class _Progress:
    """A progress bar on stderr; in a file, a line for every tenth."""

    def __init__(self) -> None:
        self._last = ""

    def show(self, done: int, total: int, phase: str) -> None:
        percent = 100 * done // max(total, 1)
        is_terminal = sys.stderr.isatty()
        bar = f"{phase:<34} {'█' * (percent // 4):<25} {percent:>3} %  {done / 1e6:,.0f} MB"
        line = bar if is_terminal else f"{phase}: {percent // 10 * 10} %"
        if line == self._last:
            return
        self._last = line
        if is_terminal:
            write_over(sys.stderr, line)
        if percent >= 100 or not is_terminal:
            print("" if is_terminal else line, file=sys.stderr, flush=True)
