"""Figures that only fall: how they are counted, held against `figures.toml`, and written there (`make figures`).

How many tests take over one second depends on the machine and on what else runs on it, by CPU time too: no test holds
that. A whole run says it, and `make figures` writes what the last one said when it is lower.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import tomlkit
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).parents[1]
FILE, PLACE = Path(__file__).with_suffix(".toml"), "tests/figures.toml"
PYTHON = (3, 11)
"""The version whose functions of a message are held exactly: later ones make no function of a comprehension."""

HAVE_ROOMS = ("core", "plugins", "channels", "providers")
SETS_PART = re.compile(r"^ +(?!self\.)\S+\.\w+(?:, .*)? = \(?self\b", re.MULTILINE)
"""Finds the few plugins that may set a part of theirs on another object: to parse them all takes two seconds."""

Figures = Mapping[str, Mapping[str, int]]
"""By table of the file and name. A table that was not counted is left alone."""


class Hold(NamedTuple):
    """How far a figure may be off, each a part of what is allowed: above it, below it before a test asks for the lower
    one, and below it before that is written."""

    above: float = 0
    asked: float = 0.01
    written: float = 0


def hold(table: str) -> Hold:
    if table == "install":  # newer releases, and wheels of other systems: some have no OpenBLAS, 37 MB
        return Hold(0.1, 0.25, 0.1)
    if table == "message" and sys.version_info[:2] != PYTHON:
        return Hold(0.05, 1, 1)
    return Hold(float("inf"), 1) if table == "told" else Hold()


# --- counting --------------------------------------------------------------------------------------------------------


def counted(root: Path) -> dict[str, dict[str, int]]:
    """Figures of the files below a repository's root."""
    files, tests = _texts(root / "nanoclaw", "**/*.py"), _texts(root, "tests/**/*.py")
    prose = _texts(root, "README.md", "CHANGELOG.md", "docs/*.md")
    lines = defaultdict[str, int](int, {"all of tests": sum(text.count("\n") for text in tests.values())})
    for name, text in files.items():
        for room in _rooms(name.split("/")):
            lines[room] += text.count("\n")
    core = {name: ast.parse(text) for name, text in files.items() if name.startswith("core/")}
    plugins = {name: text for name, text in files.items() if name.startswith("plugins/")}
    past_the_seam = [name for name, text in plugins.items() if 'get("core")' in text]
    sql = _sql_on_tables_of(root / "nanoclaw/core/store/migrations")
    with_sql = [name for name, text in plugins.items() if sql.search(text)]
    nodes = [node for tree in core.values() for node in ast.walk(tree)]
    setting = (node for text in plugins.values() if SETS_PART.search(text) for node in ast.walk(ast.parse(text)))
    set_later = list(_set_from_outside([*nodes, *setting]))
    circles = _circles(_imports(core))
    return {
        "lines": lines,
        "files": {"core": len(core)},
        "counts": {
            "import circles in core": len(circles),
            "modules of core in import circles": sum(map(len, circles)),
            "classes with state in core": sum(map(_has_state, nodes)),
            "late bindings": sum(_is_part(value) for _, value in set_later),
            "asserts that something is made": sum(_asks_whether(node, dict(set_later)) for node in nodes),
            "files of plugins that get the core": len(past_the_seam),
            "plugins that get the core": len({name.split("/")[1] for name in past_the_seam}),
            "plugins with SQL on tables of core": len({name.split("/")[1] for name in with_sql}),
            "words of README, docs and CHANGELOG": sum(len(text.split()) for text in prose.values()),
        },
    }


def _texts(root: Path, *patterns: str) -> dict[str, str]:
    paths = sorted(path for pattern in patterns for path in root.glob(pattern))
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def _rooms(parts: list[str]) -> Iterator[str]:
    """The rooms that a file of the package belongs to: all, the folder or module at the top, a folder below it."""
    yield "all of nanoclaw"
    if parts[0] != "plugins":  # each has its own figure
        yield parts[0]
    if parts[0] in HAVE_ROOMS and len(parts) > 2:
        yield "/".join(parts[:2])


def _sql_on_tables_of(migrations: Path) -> re.Pattern[str]:
    made = re.findall(r"CREATE TABLE (\w+)", "".join(_texts(migrations, "*.sql").values()))
    return re.compile(rf'\b(?:FROM|JOIN|INTO|UPDATE|TABLE)\s+"?(?:{"|".join(made) or "(?!)"})\b')


def _imports(trees: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """By module those of the same trees that it imports anywhere, under `if TYPE_CHECKING` too."""
    names = {name: f"nanoclaw.{name[:-3].replace('/', '.')}".removesuffix(".__init__") for name in trees}
    modules, found = set(names.values()), defaultdict[str, set[str]](set)
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                inner = (f"{node.module}.{alias.name}" for alias in node.names)
                found[names[name]] |= {one if one in modules else node.module or "" for one in inner} & modules
            elif isinstance(node, ast.Import):
                found[names[name]] |= {alias.name for alias in node.names} & modules
    return found


def _circles(imports: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """Groups of modules each of which imports, through others, all of its group."""
    reached: dict[str, set[str]] = {}
    for module in imports:
        seen, left = set[str](), [module]
        while left:
            new = imports.get(left.pop(), set()) - seen
            seen |= new
            left += new
        reached[module] = seen
    within = {one: frozenset(two for two in reached[one] if one in reached.get(two, ())) for one in reached}
    return {circle for circle in within.values() if len(circle) > 1}


def _has_state(one: ast.AST) -> bool:
    """True for a class whose `__init__` sets attributes."""
    parts = one.body if isinstance(one, ast.ClassDef) else []
    made = (part for part in parts if isinstance(part, ast.FunctionDef) and part.name == "__init__")
    nodes = (node for part in made for node in ast.walk(part) if isinstance(node, ast.Attribute))
    return any(isinstance(node.ctx, ast.Store) and _is_self(node.value) for node in nodes)


def _set_from_outside(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    """Attributes that are set on another object than `self`, each with its value; where the value is a part of the
    program, that is a late binding. With an underscore it is an object's own, in a copy of it."""
    for node in nodes:
        if isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
            if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(node.targets[0].elts, node.value.elts, strict=False))
            for one, value in pairs:
                if isinstance(one, ast.Attribute) and not _is_self(one.value) and not one.attr.startswith("_"):
                    yield one.attr, value


def _is_part(value: ast.expr) -> bool:
    """True for a part of the program, `self` or an attribute of it, and not for a plain value."""
    return _is_self(value.value if isinstance(value, ast.Attribute) else value)


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _asks_whether(node: ast.AST, set_later: Container[str]) -> bool:
    """True for an assert of nothing but attributes that are set from outside: whether that was done yet."""
    if not isinstance(node, ast.Assert):
        return False
    parts = node.test.values if isinstance(node.test, ast.BoolOp) else [node.test]
    return all(isinstance(part, ast.Attribute) and part.attr in set_later for part in parts)


def of_message(root: Path) -> dict[str, dict[str, int]]:
    """Figures of a message that calls one tool, the first and the second of a process."""
    command = [sys.executable, str(root / "bench/one_message.py"), "--json"]
    said: dict[str, int] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return {"counts": {"slash commands": said.pop("slash commands")}, "message": said}


def settings_keys() -> set[str]:
    """Keys of config.toml that core, a built-in plugin or a built-in channel owns; those that each channel has because
    of a plugin are counted once, and so is a table of free names."""
    from nanoclaw.channels import table
    from nanoclaw.start import build, config

    kinds = build.classes(config.Config(Path("/nowhere")))
    keys = set(config._own_keys())
    for one in kinds:
        keys.update(config.owned_keys(one.settings, build.prefix_of(one), one.keys))
        keys.update(config.owned_keys(one.channel_settings, "channels.*"))
    for name in table.BUILT_IN:
        keys.update(config.owned_keys(getattr(table.find(name), "settings", None), f"channels.{name}"))
    return keys


def installed(root: Path) -> dict[str, dict[str, int]]:
    """Figures of an install without extras, from what the distributions list, with no size of compiled modules. The
    requirements are those of all extras but `dev`."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [line for name, lines in project["optional-dependencies"].items() if name != "dev" for line in lines]
    extras = [line for line in extras if not line.startswith(project["name"])]  # one extra brings others
    seen, left = set[tuple[str, str]](), [Requirement(line) for line in project["dependencies"]]
    while left:
        wanted = left.pop()
        for one in {(canonicalize_name(wanted.name), extra) for extra in ("", *wanted.extras)} - seen:
            seen.add(one)
            needs = map(Requirement, metadata.requires(one[0]) or ())
            left += [need for need in needs if need.marker is None or need.marker.evaluate({"extra": one[1]})]
    names = {name for name, _ in seen}
    size = sum(file.size or 0 for name in names for file in metadata.files(name) or ())
    return {
        "counts": {"requirements": len(project["dependencies"]) + len(extras)},
        "install": {"distributions": len(names), "megabytes": size // 10**6},
    }


def measured(root: Path) -> dict[str, dict[str, int]]:
    """All figures that a test holds."""
    found = counted(root)
    for more in (of_message(root), installed(root), {"counts": {"settings keys": len(settings_keys())}}):
        for table, figures in more.items():
            found[table] = found.get(table, {}) | figures
    return found


def told(root: Path) -> dict[str, dict[str, int]]:
    """The figure of the last whole run of the tests, kept by `conftest.py`; none where there was no such run."""
    kept = root / ".pytest_cache/v/figures/slow_tests"
    return {"told": {"tests over one second": json.loads(kept.read_text())}} if kept.exists() else {}


# --- holding and writing ---------------------------------------------------------------------------------------------


def higher(allowed: Figures, found: Figures) -> list[str]:
    """A sentence for each figure that is higher than the file's, or has none there."""
    said = []
    for table, name, figure in _each(found):
        most = allowed.get(table, {}).get(name)
        if most is None:
            budget = f'add its budget to [{table}] in {PLACE}, "{name}" = {figure}, and say so in the commit'
            said.append(f"{name} is new, with {_many(figure, table)}: {budget}")
        elif figure > most * (1 + hold(table).above):
            grown = f"{name} grew by {_many(figure - most, table)} to {figure:,} ({most:,} allowed)"
            said.append(f"{grown}: take something away, or give a new room its own budget in {PLACE}")
    return said


def lower(allowed: Figures, found: Figures) -> list[str]:
    """A sentence for each figure that is so much lower that it is to be written, or whose room is gone."""
    said = [f"{name} is gone: run `make figures`, which takes it out of {PLACE}" for _, name in gone(allowed, found)]
    for table, name, figure in _each(found):
        most = allowed.get(table, {}).get(name, 0)
        if figure < most * (1 - hold(table).asked):
            fallen = f"{name} fell by {_many(most - figure, table)} to {figure:,} ({most:,} allowed)"
            said.append(f"{fallen}: run `make figures`, which writes the lower figure into {PLACE}")
    return said


def gone(allowed: Figures, found: Figures) -> list[tuple[str, str]]:
    return [(table, name) for table, name, _ in _each(allowed) if table in found and name not in found[table]]


def write(file: Path, found: Figures) -> int:
    """Write the figures that are lower, and take out those whose room is gone; comments stay. Returns the exit status:
    1 when any figure is higher, and then nothing is written."""
    document = tomlkit.parse(file.read_text(encoding="utf-8"))
    allowed: Figures = document.unwrap()
    if refused := higher(allowed, found):
        print(*refused, "Nothing was written.", sep="\n")
        return 1
    said = []
    for table, name in gone(allowed, found):
        del document[table][name]
        said.append(f"{name}: gone")
    for table, name, figure in _each(found):
        most = allowed[table][name]
        if figure < most * (1 - hold(table).written):
            document[table][name] = figure
            said.append(f"{name}: {figure:,} (was {most:,})")
    file.write_text(tomlkit.dumps(document), encoding="utf-8")
    print(*said or ["No figure is lower."], sep="\n")
    return 0


def _each(figures: Figures) -> Iterator[tuple[str, str, int]]:
    yield from ((table, name, figure) for table, rows in figures.items() for name, figure in rows.items())


def _many(figure: int, table: str) -> str:
    """A figure with its unit, where the table has one."""
    unit = f" {table.removesuffix('s' * (figure == 1))}" if table in ("lines", "files") else ""
    return f"{figure:,}{unit}"


if __name__ == "__main__":
    sys.exit(write(FILE, {**measured(REPOSITORY), **told(REPOSITORY)}))
