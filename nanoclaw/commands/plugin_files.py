"""`nanoclaw plugins` and `nanoclaw skills add`: what others wrote is listed, shown and added from local files."""

from __future__ import annotations

import ast
import asyncio
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from nanoclaw.atomic_write import write_atomically
from nanoclaw.commands.arguments import Options
from nanoclaw.commands.inspecting import app_over_copy
from nanoclaw.commands.plugins import carry_out, says_yes
from nanoclaw.core.chain import HOOKS
from nanoclaw.core.errors import ConfigError, SkillError
from nanoclaw.core.plugin import PERSON, Plugin, Reply
from nanoclaw.escapes import revealed
from nanoclaw.installation import start_command
from nanoclaw.packages import reading, shown
from nanoclaw.packages.pins import PackagePin, pin_of
from nanoclaw.packages.reading import File, Kind, Package, PackageError
from nanoclaw.start import build, third_party
from nanoclaw.start.config import Config

PLUGIN = Kind("plugin", third_party.main_of, "a .py, a folder with an __init__.py, or a .zip, .tar or .tar.gz of it")
NAMED = (*HOOKS, "tools", "commands", "sections", "channels", "providers", "check", "audit", "run")
"""Most hooks that the list names."""


def listed(config: Config, options: Options) -> Reply:
    """The plugins that run, their origin and hooks; then those that could be enabled."""
    left_out = dict[str, str]()
    classes = build.classes(config, tell=left_out.__setitem__)
    keys = [one for one in build.secret_settings(config, classes) if one.shows]
    sources = dict(third_party.available(config))
    on, rows, lines = {one.name: one for one in classes}, list[dict[str, Any]](), list[str]()
    names = dict.fromkeys([*on, *build.BUILT_IN, *sources, *left_out])
    for name in names:
        hooks, why = _hooks(on[name]) if name in on else [], left_out.get(name, "")
        secrets = {key.name: key.state for key in keys if name in on and key.plugin == name}
        source = "built in" if name in build.BUILT_IN else sources.get(name, "?")
        row = {"name": name, "from": source, "on": name in on, "hooks": hooks, "secrets": secrets}
        rows.append(row if name in on else {**row, "left_out": why})
        told = "".join(f"; {key} {state}" for key, state in secrets.items())
        said = f"on   {source}: {', '.join(hooks) or 'no hooks'}{told}"
        said = said if name in on else f"off  {source}{f': {why}' * bool(why)}"
        lines.append(f"{name:{max(map(len, names))}}  {said}")
    return Reply("\n".join(lines), {"plugins": rows})


def _hooks(one: type[Plugin]) -> list[str]:
    return [hook for hook in NAMED if getattr(one, hook) is not getattr(Plugin, hook)]


def show(config: Config, options: Options) -> Reply:
    """A plugin of the home, or what has changed in it since the last review."""
    name = options.name
    path = _placed(config, name)
    with _errors(name):
        code = third_party.read(path)
    why, pin = third_party.why_not(config, name, code), _pin(config, name)
    text = "\n".join(_lines(code, pin if why else None))
    data = {"name": name, "path": str(path), "not_loaded": why, **shown.as_data(code), "text": text}
    how = f"\n\n{start_command()} plugins trust {name} {code.sha256[:12]} loads it as it is shown here."
    return Reply(f"{path}: {why or 'as you reviewed it'}.\n{text}{how * bool(why)}", data)


def trust(config: Config, options: Options) -> Reply:
    """Pin the current version of a plugin of the home, or the one that was shown."""
    name = options.name
    with _errors(name):
        code = third_party.read(_placed(config, name))
        if not code.sha256.startswith(options.sha256):
            shows = f"{start_command()} plugins show {name}"
            raise ConfigError(f"the plugin {name} is no longer what was shown: {shows} shows it.")
        third_party.pins(config).set(name, code)
    runs = "" if name in config.plugins.enabled else f", once enabled in [plugins] of {config.file} names it"
    brings = _brings(config, name)
    told = "; ".join(f"{what}: {', '.join(names)}" for what, names in brings.items() if names)
    data = {"name": name, "sha256": code.sha256, "trusted": True, "brings": brings}
    return Reply(f"{_pinned(name, code)}{runs}.\nIt was tried, and brings {told or 'nothing'}.", data)


def _brings(config: Config, name: str) -> dict[str, list[str]]:
    """Try a plugin over a copy of the store: what it brings. Raises ConfigError with the reason if it fails."""
    enabled = tuple(dict.fromkeys((*config.plugins.enabled, name)))
    plugins = config.plugins._replace(enabled=enabled, off=tuple(one for one in config.plugins.off if one != name))

    async def made() -> dict[str, list[str]]:
        async with app_over_copy(config._replace(plugins=plugins)) as app:
            app.chain.prompt_tools(PERSON)
            sections = [one.id for whose, one in app.chain.sections("", PERSON) if whose == name]
            if why := app.chain.faults.get(name):
                raise ConfigError(f"the plugin {name} is pinned, but it fails: {why}")
            one = next(one for one in app.chain.plugins if one.name == name)
            tools, commands = [tool.name for tool in one.tools()], [f"/{each.name}" for each in one.commands()]
            return {"tools": tools, "commands": commands, "sections": sections, "hooks": _hooks(type(one))}

    return asyncio.run(made())


def add(config: Config, options: Options) -> Reply | int:
    """Show a whole plugin, ask, copy it into the home, pin the version shown, and enable it."""
    with _errors(str(options.path)):
        package = _read(options.path)
    name, _ = _named(package)
    if not name.isidentifier() or not name.isascii() or name in build.BUILT_IN:
        why = "is a built-in plugin" if name in build.BUILT_IN else "must be a word of letters, digits and _"
        raise ConfigError(f"its name {name!r} {why}: give it another one in its text.")
    only = third_party.main_of(package.files.keys()) != "__init__.py"
    if only:
        package = Package({f"{name}.py": next(iter(package.files.values()))})
    target = third_party.folder(config) / f"{name}{'.py' if only else third_party.SUFFIX}"
    there, pin = third_party.place(config, name), _pin(config, name)
    is_there = False
    with suppress(PackageError):  # what can't be read is replaced
        is_there = there == target and third_party.read(target).sha256 == package.sha256
    if not is_there or pin is None or pin.sha256 != package.sha256:
        print(*_lines(package, pin), sep="\n", file=sys.stderr if options.json else sys.stdout)
        where = f"replace {there}" if there else f"copy it to {target}"
        if not options.yes and not says_yes(f"Load this plugin from the next start on, and {where}?"):
            return 1
        with _errors(name):
            if there and there != target:
                _delete(there)
            _put(package, target, only)
    with _errors(name):
        third_party.pins(config).set(name, package)
    _enable(config, name)
    return Reply(f"{_pinned(name, package)}.", {"name": name, "sha256": package.sha256, "added": True})


def add_skill(config: Config, options: Options) -> int:
    """Show a whole skill, ask, copy it into the home, and pin the version shown."""
    from nanoclaw.plugins.skills import described
    from nanoclaw.plugins.skills.package import read, read_folder

    if "skills" in config.plugins.off:
        raise ConfigError("the plugin skills is off: take it out of [plugins] off in config.toml")
    package = read(options.path)
    name = described.front_of(package, reading.stem(options.path))[0].name
    if name.startswith(".") or not name:  # the folder of all skills, or that above it
        raise SkillError(f"{name!r} is not a name for a skill: give it one in its front matter")
    folder = config.home / "skills" / name
    there = read_folder(str(folder)) if folder.is_dir() else None
    was = pin_of(there) if there and there.sha256 != package.sha256 else None
    print(*described.lines(package, name, was), sep="\n", file=sys.stderr if options.json else sys.stdout)
    where = f"replace {folder}" if there else f"copy it to {folder}"
    if not options.yes and not says_yes(f"Use this skill, and {where}?"):
        return 1
    try:
        reading.write(package, folder)
    except OSError as error:
        raise SkillError(f"the skill cannot be written to {folder}: {error.strerror or error}") from error
    return carry_out(config, "skills", f"trust {folder} {package.sha256}", as_json=options.json)


def remove(config: Config, options: Options) -> Reply:
    """Delete a plugin of the home and its pin, and take it out of those that are enabled."""
    name = options.name
    path = _placed(config, name)
    with _errors(name):
        _delete(path)
        third_party.pins(config).drop(name)
    _enable(config, name, is_on=False)
    kept = f"Its data stays in {third_party.folder(config) / name} and in its tables."
    said = f"The plugin {name} is deleted. A running nanoclaw keeps it until its next start. {kept}"
    return Reply(said, {"name": name, "removed": True})


def _named(package: Package) -> tuple[str, list[str]]:
    """Name and hooks of the plugin in a package, which is not run for that. Raises ConfigError if there is none."""
    if not (main := third_party.main_of(package.files.keys())):
        raise ConfigError("there is no __init__.py in it")
    for path in sorted(package.files, key=lambda one: one != main):
        try:
            tree = ast.parse(package.files[path].data) if path.endswith(".py") else ast.Module([], [])
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ConfigError(f"{path} is not readable Python: {error}") from error
        for one in ast.walk(tree):
            if isinstance(one, ast.ClassDef) and any(ast.unparse(base).endswith("Plugin") for base in one.bases):
                methods = [each.name for each in one.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
                for part in one.body:
                    match part:
                        case ast.Assign([ast.Name("name")], ast.Constant(str(name))) | ast.AnnAssign(
                            ast.Name("name"), _, ast.Constant(str(name))
                        ):
                            return name, [one for one in methods if one in NAMED]
    raise ConfigError('there is no class in it that is a Plugin and has a name = "…"')


def _lines(package: Package, pin: PackagePin | None) -> Iterator[str]:
    """The whole plugin; after an earlier review, what has changed since."""
    try:
        name, hooks = _named(package)
        yield revealed(f"The plugin {name}, with the hooks {', '.join(hooks) or 'of others'}")
    except ConfigError as error:
        yield f"It cannot be loaded: {revealed(str(error))}"
    yield "A plugin runs with all rights of this program: only its text says what it does."
    yield from shown.lines(package, pin)


def _placed(config: Config, name: str) -> Path:
    """Raises ConfigError if it is not a plugin of the home."""
    if path := third_party.place(config, name):
        return path
    if name in build.BUILT_IN:
        raise ConfigError(f"the plugin {name} is part of this program and needs no approval.")
    sources = dict(third_party.available(config))
    if name in sources:
        raise ConfigError(f"the plugin {name} comes from the {sources[name]}, which pip installs and removes.")
    own = ", ".join(one for one, source in sources.items() if not source.startswith("package "))
    raise ConfigError(f"there is no plugin {name!r} in {third_party.folder(config)}; there are {own or 'none'}.")


def _pin(config: Config, name: str) -> PackagePin | None:
    try:
        return third_party.pins(config).read().get(name)
    except PackageError:  # which is why it is not loaded
        return None


def _read(path: Path) -> Package:
    if path.is_file() and path.suffix == ".py":
        return Package({path.name: reading.read_file(path)})
    found = reading.read(path, PLUGIN)
    main = PLUGIN.main(found.files.keys())
    return found if main == "__init__.py" else Package({main: File(found.files[main].data)})


def _put(package: Package, target: Path, only: bool) -> None:
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if only:
        write_atomically(target, next(iter(package.files.values())).data, 0o600)
    else:
        reading.write(package, target)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _enable(config: Config, name: str, *, is_on: bool = True) -> None:
    """Add a plugin to [plugins] enabled, or remove it. Raises ConfigError."""
    if (name in config.plugins.enabled) == is_on:
        return
    enabled = [*(one for one in config.plugins.enabled if one != name), *([name] if is_on else [])]
    build.change_settings(config, {"plugins.enabled": enabled})


def _pinned(name: str, code: Package) -> str:
    return f"The plugin {name} is pinned as it is ({code.sha256[:12]}), and loaded from the next start on"


@contextmanager
def _errors(name: str) -> Iterator[None]:
    try:
        yield
    except PackageError as error:
        said = str(error)
        raise ConfigError(said if name in said else f"{name}: {said}") from error
    except OSError as error:
        raise ConfigError(f"{name}: {error.filename or ''} {error.strerror or error}") from error
