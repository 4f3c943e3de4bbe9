"""Third-party plugins: installed packages with an entry point, and single files in the home."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from nanoclaw.core.config import Config
from nanoclaw.core.errors import ConfigError
from nanoclaw.core.plugin import Plugin

GROUP = "nanoclaw.plugins"
"""The entry point group of packages that bring plugins."""


def load(config: Config, name: str) -> type[Plugin]:
    """The class of a plugin that the configuration enables. Raises ConfigError when it cannot be loaded."""
    otherwise = f"Correct [plugins] enabled in {config.file}, or start with nanoclaw --without {name}."
    try:
        found = _from_file(config, name) or _from_package(name)
    except (Exception, SystemExit) as error:
        said = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
        raise ConfigError(f"the plugin {name} cannot be loaded: {said}. {otherwise}") from error
    if found is None:
        known = ", ".join(sorted({one for one, _ in available(config)}))
        there = f"there are {known}" if known else f"none is installed or in {folder(config)}"
        raise ConfigError(f"there is no plugin {name!r}; {there}. {otherwise}")
    if not (inspect.isclass(found) and issubclass(found, Plugin)):
        raise ConfigError(f"the plugin {name} is no subclass of nanoclaw.core.plugin.Plugin. {otherwise}")
    if getattr(found, "name", "") != name:
        raise ConfigError(
            f"the plugin {name} calls itself {getattr(found, 'name', '')!r}: both must be one. {otherwise}"
        )
    return found


def available(config: Config) -> Iterator[tuple[str, str]]:
    """Names of plugins that could be enabled, and where each is from."""
    for path in sorted(folder(config).glob("*.py")):
        yield path.stem, str(path)
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP):
        yield point.name, f"package {point.dist.name}" if point.dist else point.value


def folder(config: Config) -> Path:
    """The folder of plugins that are single files: outside the workspace, out of reach of tools."""
    return config.home / "plugins"


def _from_file(config: Config, name: str) -> type[Plugin] | None:
    path = folder(config) / f"{name}.py"
    if not path.is_file():
        return None
    key = f"nanoclaw_plugin_{name}"
    spec = importlib.util.spec_from_file_location(key, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[key] = module
    spec.loader.exec_module(module)
    return _class_in(module)


def _class_in(module: ModuleType) -> type[Plugin]:
    """The plugin class that a module itself defines."""
    for one in vars(module).values():
        if inspect.isclass(one) and one.__module__ == module.__name__ and issubclass(one, Plugin):
            return one
    raise ImportError(f"{module.__file__} defines no class that is a subclass of nanoclaw.core.plugin.Plugin")


def _from_package(name: str) -> type[Plugin] | None:
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP, name=name):
        return point.load()  # type: ignore[no-any-return]
    return None
