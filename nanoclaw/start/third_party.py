"""Third-party plugins: installed packages with an entry point, and files in the home, which run only as their owner
looked at them: they are pinned by a hash, and what was hashed is what runs."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.plugin import Plugin
from nanoclaw.start.config import Config

if TYPE_CHECKING:
    from nanoclaw.packages.pins import PinFile
    from nanoclaw.packages.reading import Package

GROUP = "nanoclaw.plugins"
"""The entry point group of packages that bring plugins."""


SUFFIX = ".plugin"
"""Ends the name of the folder that has the modules of a plugin; NAME alone is the folder of what it keeps."""


class NotPinned(Exception):
    """A plugin of the home is not as its owner looked at it; the text says why, and what to do."""


def load(config: Config, name: str) -> type[Plugin]:
    """The class of a plugin that the configuration enables. Raises NotPinned, and ConfigError if it cannot be
    loaded."""
    otherwise = f"Correct [plugins] enabled in {config.file}, or start with nanoclaw --without {name}."
    code = _pinned_code(config, name)
    try:
        found = _from_home(config, name, code) if code else _from_package(name)
    except (Exception, SystemExit) as error:
        said = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
        raise ConfigError(f"the plugin {name} cannot be loaded: {said}. {otherwise}") from error
    if found is None:
        known = ", ".join(sorted({one for one, _ in available(config)}))
        there = f"there are {known}" if known else f"none is installed or in {folder(config)}"
        raise ConfigError(f"there is no plugin {name!r}; {there}. {otherwise}")
    if not (inspect.isclass(found) and issubclass(found, Plugin)):
        raise ConfigError(f"the plugin {name} is not a subclass of nanoclaw.core.plugin.Plugin. {otherwise}")
    if getattr(found, "name", "") != name:
        raise ConfigError(
            f"the plugin {name} calls itself {getattr(found, 'name', '')!r}: both names must match. {otherwise}"
        )
    return found


def available(config: Config) -> Iterator[tuple[str, str]]:
    """Names of plugins that could be enabled, and where each is from."""
    for path in sorted((*folder(config).glob("*.py"), *folder(config).glob(f"*{SUFFIX}"))):
        yield path.stem, str(path)
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP):
        yield point.name, f"package {point.dist.name}" if point.dist else point.value


def folder(config: Config) -> Path:
    """The folder of plugins that are files: outside the workspace, out of reach of tools."""
    return config.home / "plugins"


def place(config: Config, name: str) -> Path | None:
    """The file of the home that is a plugin, or the folder of its modules."""
    if name != Path(name).name:  # it leads elsewhere
        return None
    places = (folder(config) / f"{name}{ending}" for ending in (".py", SUFFIX))
    return next((path for path in places if path.exists() or path.is_symlink()), None)


def read(path: Path) -> Package:
    """A plugin's files as they are now. Raises PackageError."""
    from nanoclaw.packages.reading import Package, PackageError, read_file, read_folder

    try:
        return read_folder(str(path), "plugin") if path.is_dir() else Package({path.name: read_file(path)})
    except OSError as error:
        raise PackageError(f"it cannot be read: {error.strerror or error}") from error


def main_of(names: Collection[str]) -> str:
    """The file of a plugin that gets imported: its __init__.py, or its only one; "" for none."""
    (only, *more) = names or ("",)
    return "__init__.py" if "__init__.py" in names else only if not more and only.endswith(".py") else ""


def pins(config: Config) -> PinFile:
    """The pins of the home's plugins. They are beside the store, which is opened after plugins are loaded."""
    from nanoclaw.packages.pins import PinFile

    return PinFile(folder(config) / "pins.json")


def why_not(config: Config, name: str, code: Package) -> str:
    """The reason why a plugin of the home is not loaded as it is; "" if it is as its owner looked at it."""
    from nanoclaw.packages.reading import PackageError

    try:
        pin = pins(config).read().get(name)
    except PackageError as error:
        return f"cannot be checked for changes, as {error}"
    if pin is None:
        return "has not been reviewed"
    return "" if pin.sha256 == code.sha256 else "was changed since you reviewed it"


def _pinned_code(config: Config, name: str) -> Package | None:
    """The files of a plugin of the home, None if there are none. Raises NotPinned."""
    from nanoclaw.installation import start_command
    from nanoclaw.packages.reading import PackageError

    if (path := place(config, name)) is None:
        return None
    try:
        code = read(path)
        why = why_not(config, name, code) if config.plugins.unpinned != "load" else ""
    except PackageError as error:
        raise NotPinned(f"the plugin {name} is not loaded: {error} ({path}).") from error
    if why:
        start = start_command()
        raise NotPinned(
            f"the plugin {name} {why}, so it is not loaded. {start} plugins show {name} shows it, "
            f"{start} plugins trust {name} loads it as it is, from the next start on."
        )
    return code


def _from_home(config: Config, name: str, code: Package) -> type[Plugin]:
    from nanoclaw.packages.importing import imported

    path = place(config, name) or folder(config)
    main = main_of(code.files.keys())
    if not main:
        raise ImportError(f"{path} has no __init__.py")
    return _class_in(imported(f"nanoclaw_plugin_{name}", code, main, path if path.suffix == SUFFIX else path.parent))


def _class_in(module: ModuleType) -> type[Plugin]:
    """The plugin class that a module defines, or one of its submodules."""
    found = [one for one in vars(module).values() if inspect.isclass(one) and issubclass(one, Plugin)]
    for one in sorted(found, key=lambda one: one.__module__ != module.__name__):
        if f"{one.__module__}.".startswith(f"{module.__name__}."):
            return one
    raise ImportError(f"{module.__file__} defines no class that is a subclass of nanoclaw.core.plugin.Plugin")


def _from_package(name: str) -> type[Plugin] | None:
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP, name=name):
        return point.load()  # type: ignore[no-any-return]
    return None
