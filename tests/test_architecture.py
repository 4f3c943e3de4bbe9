"""The house's arrows, as a table: who may import whom. Walks every import, also those inside functions."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]

FLOORS: tuple[frozenset[str], ...] = (
    frozenset({"__main__"}),
    frozenset({"cli"}),
    frozenset({"commands"}),
    frozenset({"app"}),
    frozenset({"chats", "rehearsing"}),
    frozenset({"parts"}),
    frozenset({"models"}),
    frozenset({"agent", "schedule", "channels", "providers", "tools"}),
    frozenset({"workspace", "store", "guard", "channels.base", "providers.base", "tools.base"}),
    frozenset({"events", "drafts", "attach", "silence", "pieces"}),
    frozenset({"messages", "errors"}),
)
"""From the roof down: a part imports what lies on floors below its own, and modules of its own part."""

PLUGS = frozenset({"channels", "providers", "tools"})
"""Parts whose modules stand side by side and never import each other, but for what they share."""

SHARED = frozenset(
    {
        *("channels.base", "channels.text", "channels.plain", "channels.markup", "channels.live"),
        *("providers.base", "providers.http", "providers.failures", "providers.repair"),
        *("providers.windows", "providers.prices"),
        *("providers.chat_answer", "providers.json_tools", "providers.litellm_provider"),
        "tools.base",
    }
)
CHOOSES = frozenset({"providers.names"})
"""Makes the provider of a name, so it knows them all."""

EVERYWHERE = frozenset({"", "log"})
"""The package itself (its version) and the log: any part may import them, and log imports no part."""

READS_CONFIG = frozenset({"app", "chats", "cli", "commands", "models", "parts", "rehearsing"})

LIBRARIES: dict[str, tuple[str, ...]] = {
    "prompt_toolkit": ("channels.terminal",),
    "rich": ("channels.terminal",),
    "markdown_it": ("channels.terminal", "channels.markup"),
    "httpx": ("providers", "channels.telegram"),
    "litellm": ("providers.litellm_provider",),
    "loguru": ("log",),
    "xllamacpp": ("providers.local",),
    "PIL": ("providers.images",),
    "pypdf": ("workspace.document_text",),
    "docx": ("workspace.office_text",),
    "openpyxl": ("workspace.office_text",),
    "pptx": ("workspace.office_text",),
    "rank_bm25": ("workspace.recall",),
    "yaml": ("workspace.front_matter",),
    "croniter": ("schedule.cron",),
    "dateparser": ("schedule.words",),
    "imap_tools": ("channels.email",),
    "imaplib": ("channels.email",),
    "aiosmtplib": ("channels.email",),
    "inscriptis": ("channels.email",),
    "lxml": ("channels.email",),
    "nio": ("channels.matrix",),
    "aiohttp": ("channels.matrix",),
    "Crypto": ("channels.matrix",),
}
"""Libraries with one owner."""

NEVER_AT_THE_TOP = frozenset(
    {
        *("litellm", "loguru", "xllamacpp", "rank_bm25", "numpy", "rich", "PIL", "yaml"),
        *("pypdf", "docx", "openpyxl", "pptx", "croniter", "dateparser", "markdown_it"),
        *("imap_tools", "imaplib", "aiosmtplib", "inscriptis", "lxml"),
        *("nio", "aiohttp", "Crypto"),
    }
)
"""Dear to import: only inside a function, except in the modules of WHOLE."""

WHOLE = frozenset({"channels.terminal", "providers.images", "channels.matrix.client"})
"""Modules that are themselves imported inside functions only, and may import what they are about at their top."""


@dataclass(frozen=True, slots=True)
class Import:
    """`module` and `name` without the package's own name; `name` is "" for a plain import of a library."""

    importer: str
    target: str
    line: int
    at_the_top: bool

    def __str__(self) -> str:
        return f"nanoclaw.{self.importer}:{self.line} imports {self.target}"


def imports(package: Path) -> Iterator[Import]:
    """Every import that runs, in every module; those under `if TYPE_CHECKING` do not run."""
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        importer = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        yield from _imports_in(ast.parse(path.read_text(encoding="utf-8")), importer, package, True)


def _imports_in(node: ast.AST, importer: str, package: Path, top: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Import():
                for alias in child.names:
                    yield Import(importer, alias.name, child.lineno, top)
            case ast.ImportFrom():
                assert not child.level, f"{importer}:{child.lineno}: write the whole name"
                for alias in child.names:
                    inner = f"{child.module}.{alias.name}"
                    yield Import(
                        importer, inner if _is_module(inner, package) else child.module or "", child.lineno, top
                    )
            case ast.If() if "TYPE_CHECKING" in ast.dump(child.test):
                for other in child.orelse:
                    yield from _imports_in(other, importer, package, top)
            case _:
                inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                yield from _imports_in(child, importer, package, top and not inside)


def _is_module(name: str, package: Path) -> bool:
    path = package.parent.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def violations(package: Path) -> list[str]:
    return [f"{found}: {reason}" for found in imports(package) if (reason := _wrong(found))]


def _wrong(found: Import) -> str:
    if found.target == "nanoclaw" or found.target.startswith("nanoclaw."):
        return _wrong_inside(found.importer, found.target.removeprefix("nanoclaw").removeprefix("."))
    library = found.target.split(".")[0]
    if library in LIBRARIES and not any(_within(found.importer, owner) for owner in LIBRARIES[library]):
        return f"only {' and '.join(LIBRARIES[library])} may"
    if found.at_the_top and library in NEVER_AT_THE_TOP and not any(_within(found.importer, one) for one in WHOLE):
        return "only inside a function"
    return ""


def _wrong_inside(importer: str, target: str) -> str:
    if target in EVERYWHERE or importer == "":
        return ""
    if importer in EVERYWHERE:
        return "the log knows no part"
    if target == "config":
        return "" if _part(importer) in READS_CONFIG else "only the upper floors read the configuration"
    if importer == "config":
        return "" if target == "errors" else "the configuration knows errors only"
    if _part(importer) == _part(target):
        return "" if _may_share(importer, target) else "plugs never import each other"
    if _floor(target) <= _floor(importer):
        return "the arrows go down"
    return ""


def _within(module: str, owner: str) -> bool:
    return module == owner or module.startswith(owner + ".")


def _part(module: str) -> str:
    return module.split(".")[0]


def _may_share(importer: str, target: str) -> bool:
    """Within one part; a plug that is a package, such as channels.terminal, counts as one module."""
    if _part(importer) not in PLUGS or importer in CHOOSES:
        return True
    return target in SHARED or importer.split(".")[:2] == target.split(".")[:2]


def _floor(module: str) -> int:
    return next(number for number, floor in enumerate(FLOORS) if module in floor or _is_part_of(module, floor))


def _is_part_of(module: str, floor: frozenset[str]) -> bool:
    return _part(module) in floor and not module.endswith(".base")


def test_every_import_follows_the_arrows() -> None:
    assert violations(REPOSITORY / "nanoclaw") == []


def test_the_walk_sees_every_module() -> None:
    importers = {found.importer for found in imports(REPOSITORY / "nanoclaw")}
    assert {"cli", "app", "agent.turn", "providers.openai_compatible", "channels.terminal.chat", "log"} <= importers


@pytest.mark.parametrize(
    ("module", "line", "reason"),
    [
        ("agent/turn.py", "from nanoclaw.providers.http import Door", "arrows go down"),
        ("agent/turn.py", "def f():\n    from nanoclaw.tools import files", "arrows go down"),
        ("agent/turn.py", "from nanoclaw import channels", "arrows go down"),
        ("agent/turn.py", "import nanoclaw.schedule.clock", "arrows go down"),
        ("agent/turn.py", "from nanoclaw.app import App", "arrows go down"),
        ("agent/turn.py", "from nanoclaw import config", "only the upper floors"),
        ("tools/web.py", "from nanoclaw.channels.text import printable", "arrows go down"),
        ("tools/web.py", "from nanoclaw.agent.turn import Turn", "arrows go down"),
        ("providers/x.py", "from nanoclaw.tools.files import f", "arrows go down"),
        ("tools/web.py", "from nanoclaw.tools.files import f", "plugs never import each other"),
        ("tools/base.py", "from nanoclaw.providers.base import Provider", "arrows go down"),
        ("store/db.py", "from nanoclaw.workspace import notes", "arrows go down"),
        ("messages.py", "from nanoclaw.events import Event", "arrows go down"),
        ("errors.py", "from nanoclaw.messages import Address", "arrows go down"),
        ("log.py", "from nanoclaw.errors import ConfigError", "log knows no part"),
        ("config.py", "from nanoclaw.store.db import Store", "errors only"),
        ("agent/turn.py", "def f():\n    import httpx", "only providers and channels.telegram may"),
        ("channels/plain.py", "def f():\n    from rich.text import Text", "only channels.terminal may"),
        ("providers/litellm_provider.py", "import litellm", "only inside a function"),
        ("providers/anthropic.py", "def f():\n    import litellm", "only providers.litellm_provider may"),
        ("log.py", "from loguru import logger", "only inside a function"),
        ("store/db.py", "def f():\n    from loguru import logger", "only log may"),
        ("workspace/front_matter.py", "try:\n    import yaml\nexcept ImportError:\n    pass", "only inside a function"),
    ],
)
def test_an_arrow_that_goes_wrong_is_found(tmp_path: Path, module: str, line: str, reason: str) -> None:
    package = tmp_path / "nanoclaw"
    for name in ("agent/turn", "channels/text", "tools/files", "tools/base", "providers/http", "providers/base"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).with_suffix(".py").touch()
        (package / name).with_name("__init__.py").touch()
    for name in ("config", "app", "events"):
        (package / f"{name}.py").touch()
    path = package / module
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(line)
    found = violations(package)
    assert len(found) == 1, found
    assert reason in found[0]


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("agent/turn.py", "from nanoclaw.providers.base import Provider\nfrom nanoclaw.tools.base import Tool"),
        ("agent/turn.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from nanoclaw.app import App"),
        ("providers/anthropic.py", "from nanoclaw.providers.http import Door"),
        ("providers/litellm_provider.py", "def f():\n    import litellm"),
        ("cli.py", "from nanoclaw import config, __version__\nfrom nanoclaw.store.db import Store"),
    ],
)
def test_an_arrow_that_goes_right_is_left_alone(tmp_path: Path, module: str, line: str) -> None:
    path = tmp_path / "nanoclaw" / module
    path.parent.mkdir(parents=True)
    path.write_text(line)
    (tmp_path / "nanoclaw" / "config.py").touch()
    assert violations(tmp_path / "nanoclaw") == []


IMPORT_ALL = """
import builtins, importlib, os, pkgutil, socket, sys
import nanoclaw
opened = []
def hook(event, arguments):
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if writes or event in ("os.mkdir", "socket.connect", "subprocess.Popen", "sqlite3.connect", "os.fork"):
        opened.append(f"{event} {arguments[:1]}")
sys.dont_write_bytecode = True
names = [module.name for module in pkgutil.walk_packages(nanoclaw.__path__, "nanoclaw.")]
sys.addaudithook(hook)
for name in names:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != "xllamacpp":
            raise
print(len(names), *opened, sep="\\n")
"""


def test_importing_any_module_does_no_work(tmp_path: Path) -> None:
    """No file made, no connection, no process, no word printed."""
    ended = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "NANOCLAW_HOME": str(tmp_path / "home"), "PYTHONPATH": str(REPOSITORY)},
    )
    assert ended.stderr == ""
    count, *worked = ended.stdout.splitlines()
    assert int(count) > 40
    assert worked == []
    assert list(tmp_path.iterdir()) == []


ONE_ANSWER = (
    "import sys, nanoclaw.cli, nanoclaw.commands.talking, nanoclaw.app, nanoclaw.channels.plain; print(*sys.modules)"
)
NOT_FOR_ONE_ANSWER = (
    *("commands.home", "commands.jobs", "commands.linking", "commands.memory", "commands.showing", "commands.looking"),
    *("channels.socket", "channels.terminal", "channels.telegram", "channels.matrix", "channels.email"),
    *("schedule.heartbeat", "schedule.watched", "schedule.grammar", "schedule.lexicon"),
    *("store.backup", "agent.xray", "workspace.recall", "workspace.index", "providers.local", "rehearsing"),
)


def test_one_answer_imports_nothing_that_only_others_need(tmp_path: Path) -> None:
    """Imports are most of what `nanoclaw -m` costs."""
    ended = subprocess.run(
        [sys.executable, "-c", ONE_ANSWER],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY)},
    )
    assert ended.stderr == ""
    loaded = set(ended.stdout.split())
    assert "nanoclaw.app" in loaded
    assert loaded.isdisjoint(f"nanoclaw.{name}" for name in NOT_FOR_ONE_ANSWER)
