"""Describes a plugin for its owner from its source: it is not run for that."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import NamedTuple

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.plugin import Plugin
from nanoclaw.escapes import revealed
from nanoclaw.packages import shown
from nanoclaw.packages.pins import PackagePin
from nanoclaw.packages.reading import Package
from nanoclaw.start.third_party import main_of

FOR_PLUGINS = ("plugin", "tool", "channel", "provider", "messages", "events", "errors")
"""Modules of the core that a plugin may import."""


class PluginText(NamedTuple):
    """A plugin according to its source. Its code may do more: only reading it tells."""

    name: str
    about: str
    hooks: tuple[str, ...]
    secrets: tuple[str, ...]
    tables: tuple[str, ...]
    imports: tuple[str, ...]


def read(package: Package) -> PluginText:
    """Raises ConfigError if no plugin is in it."""
    if not (main := main_of(package.files.keys())):
        raise ConfigError("there is no __init__.py in it")
    trees = {path: _tree(path, file.data) for path, file in package.files.items() if path.endswith(".py")}
    found = next((one for tree in (trees[main], *trees.values()) for one in _plugins_in(tree)), None)
    if found is None:
        raise ConfigError('there is no class in it that is a Plugin and has a name = "…"')
    methods = [one.name for one in found.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    return PluginText(
        name=_texts(found, "name")[0],
        about=(ast.get_docstring(trees[main]) or ast.get_docstring(found) or "").partition("\n")[0],
        hooks=tuple(name for name in methods if name in vars(Plugin) and not name.startswith("_")),
        secrets=_texts(found, "secrets"),
        tables=tuple(re.findall(r"(?i)CREATE TABLE (?:IF NOT EXISTS )?(\w+)", ast.unparse(found))),
        imports=tuple(dict.fromkeys(name for tree in trees.values() for name in _imports(tree))),
    )


def _plugins_in(tree: ast.Module) -> Iterator[ast.ClassDef]:
    for one in ast.walk(tree):
        if isinstance(one, ast.ClassDef) and any(ast.unparse(base).endswith("Plugin") for base in one.bases):
            yield from [one] if _texts(one, "name") else []


def lines(package: Package, pin: PackagePin | None = None) -> Iterator[str]:
    """The whole plugin; after an earlier review, what has changed since."""
    try:
        found = read(package)
        yield revealed(f"{found.name}: {found.about}")
        for what, names in (
            ("Hooks", found.hooks),
            ("Secrets in its settings", found.secrets),
            ("Tables", found.tables),
            ("Imports", found.imports),
        ):
            if names:
                yield revealed(f"{what}: {', '.join(names)}")
        if missing := [name for name in found.imports if not _is_there(name)]:
            yield revealed(f"Not installed: {', '.join(missing)}")
        if beyond := [name for name in found.imports if name.startswith("nanoclaw.") and not _is_for_plugins(name)]:
            yield revealed(f"Imports beyond what plugins may use: {', '.join(beyond)}")
    except ConfigError as error:
        yield f"It cannot be loaded: {revealed(str(error))}"
    yield "A plugin runs with all rights of this program: only its text says what it does."
    yield from shown.lines(package, pin)


def _tree(path: str, text: bytes) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ConfigError(f"{path} is not readable Python: {error}") from error


def _texts(one: ast.ClassDef, name: str) -> tuple[str, ...]:
    """The string, or the strings of a list, that a class assigns to a name."""
    for part in one.body:
        if not isinstance(part, ast.Assign | ast.AnnAssign) or part.value is None:
            continue
        targets = part.targets if isinstance(part, ast.Assign) else [part.target]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            values = part.value.elts if isinstance(part.value, ast.Tuple | ast.List) else [part.value]
            return tuple(v.value for v in values if isinstance(v, ast.Constant) and isinstance(v.value, str))
    return ()


def _imports(tree: ast.Module) -> Iterator[str]:
    """The modules that are imported anywhere: those of this program by their whole names."""
    for one in ast.walk(tree):
        names = [alias.name for alias in one.names] if isinstance(one, ast.Import) else []
        if isinstance(one, ast.ImportFrom) and one.module and not one.level:
            inner = [f"{one.module}.{alias.name}" for alias in one.names]
            names = inner if one.module in ("nanoclaw", "nanoclaw.core") else [one.module]
        yield from (name if name.startswith("nanoclaw") else name.partition(".")[0] for name in names)


def _is_there(name: str) -> bool:
    top = name.partition(".")[0]
    return top in sys.stdlib_module_names or top in sys.modules or find_spec(top) is not None


def _is_for_plugins(name: str) -> bool:
    return name in {f"nanoclaw.core.{one}" for one in FOR_PLUGINS}
