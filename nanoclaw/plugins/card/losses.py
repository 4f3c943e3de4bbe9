"""Files that a line of shell would delete or cut short, counted on the disk before it runs.

A courtesy: only what the text tells is seen. Scripts, programs that delete by themselves and most expansions are not.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from glob import iglob
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from nanoclaw.escapes import one_line
from nanoclaw.shell_words import commands_in, replaced_in

MOST = 10_000
"""Files that are counted; of more it is said that there are more."""
SMALL = 200
"""Bytes; a file with less may shrink freely."""

_MAY_LOSE = re.compile(
    r">|\b(rm|unlink|shred|find|git|rsync|xargs|mv|cp|truncate|rmtree|rmSync|removeSync|rimraf)\b", re.ASCII
)
_REMADE_WORDS = (
    "node_modules __pycache__ .venv venv .tox .nox .pytest_cache .mypy_cache .ruff_cache .next .nuxt .gradle"
    " .parcel-cache .turbo .eggs .ipynb_checkpoints bower_components"
)
_REMADE = frozenset(_REMADE_WORDS.split())
"""Folders that tools make anew."""
_BUILT_WORDS = "build dist target out coverage htmlcov bin obj _build"
_BUILT = frozenset(_BUILT_WORDS.split())
_BUILDS = (
    *("package.json", "pyproject.toml", "setup.py", "setup.cfg", "Cargo.toml", "pom.xml", "build.gradle"),
    *("build.gradle.kts", "CMakeLists.txt", "Makefile", "go.mod", "tsconfig.json", "dune-project"),
)
"""A folder called like the first is made anew where one of these stands beside it."""
_TEMPORARY = ("/tmp/", "/var/tmp/", "/dev/")
_BYTECODE = (".pyc", ".pyo", ".o", ".class")
_REMOVE_TREE = re.compile(r"(?:rmtree|rmSync|removeSync|rimraf(?:\.sync|Sync)?)\(\s*[rf]?(['\"])([^'\"]+)\1")


class Loss(NamedTuple):
    """Files that a command takes away: how many are deleted, and the `parts` of a sentence that name what. `must_ask`:
    that cannot be counted, or a file is overwritten that is larger than what is left of it."""

    files: int = 0
    parts: tuple[str, ...] = ()
    must_ask: bool = False


def loss_of(command: str, root: Path, since: float, home: str = "") -> Loss:
    """The loss that a command would bring in a workspace. Files that were written after `since` don't count."""
    if not _MAY_LOSE.search(command):
        return Loss()
    reader = _Reader(root, since, home)
    reader.read(command)
    return reader.loss()


def shrinks(old: int, new: int) -> bool:
    """True where a file of `old` bytes loses more than what is left of it."""
    return old > SMALL and new * 2 < old


def size(count: int) -> str:
    return f"{count:,} bytes" if count < 10_000 else f"{count / 1000:,.0f} kB"


def quoted(text: str) -> str:
    """A name or a command on one line, as it is shown in a sentence."""
    shown = one_line(text, 120).replace("`", "'")
    return f"`{shown}`"


def only_looks(command: str) -> bool:
    """True for commands that are known to change nothing, and whose output goes nowhere else."""
    if re.search(r">(?!\s*(?:/dev/null|&\d))|[`]|\$\(|<\(", command):
        return False
    found = list(commands_in(command))
    return bool(found) and all(map(_looks, found))


_LOOK_WORDS = (
    "ls cat head tail wc grep egrep fgrep rg stat file du df pwd echo printf date whoami id uname which type"
    " tree uniq cut tr diff cmp md5sum sha1sum sha256sum basename dirname realpath readlink test [ true false"
    " cd nl column"
)
_LOOK = frozenset(_LOOK_WORDS.split())
_GIT_LOOKS_WORDS = "status log diff show ls-files rev-parse blame describe shortlog"
_GIT_LOOKS = frozenset(_GIT_LOOKS_WORDS.split())


def _looks(words: Sequence[str]) -> bool:
    name, rest = words[0].rsplit("/", 1)[-1], words[1:]
    if name == "find":
        return not any(word.startswith(("-exec", "-ok", "-delete", "-fprint", "-fls")) for word in rest)
    if name == "git":
        return bool(rest) and rest[0] in _GIT_LOOKS and not any(word.startswith("--output") for word in rest)
    return name in _LOOK or (name == "sort" and not any(word.startswith(("-o", "--output")) for word in rest))


class _Unknown(Exception):
    """A word whose meaning shows only at run time; `many` where it may well name several files."""

    def __init__(self, *, many: bool) -> None:
        self.many = many


class _Reader:
    """Goes through the commands of a line in their order."""

    def __init__(self, root: Path, since: float, home: str) -> None:
        self._root, self._since, self._folder = root, since, root
        self._values: dict[str, str] = {"PWD": str(root), "HOME": home or str(Path.home())}
        self._loops: dict[str, list[str] | None] = {}
        self._lost: dict[str, None] = {}  # files
        self._trees: dict[str, int] = {}  # folders, with the files in them
        self._seen = 0
        self._unknown = 0
        self._open: dict[str, None] = {}
        self._cut: dict[str, None] = {}
        self._text = ""
        self._producer: Sequence[str] = ()

    def read(self, command: str) -> None:
        self._text = command
        self._note_values(command)
        names = set()
        is_fed = False
        for words in commands_in(command):
            name, rest = words[0].rsplit("/", 1)[-1], list(words[1:])
            names.add(name)
            match name:
                case "cd" | "pushd" if rest and (paths := self._paths(rest[-1:])):
                    self._folder = paths[0]
                case "xargs":
                    is_fed = True
                case "rm" | "unlink" | "shred":
                    self._remove(name, rest, is_fed=is_fed)
                    is_fed = False
                case "find":
                    self._find(rest)
                case "git":
                    self._git(rest)
                case "rsync":
                    self._rsync(rest)
                case "mv" | "cp":
                    self._move(name, rest)
                case "truncate":
                    self._truncate(rest)
            if name in ("find", "ls", "cat", "git", "grep", "rg", "fd", "echo", "printf", "sort", "head", "tail"):
                self._producer = words
        if any(name.startswith(("python", "node", "deno", "bun", "ipython")) for name in names):
            for match in _REMOVE_TREE.finditer(command):
                self._take(self._absolute(match[2]), recursive=True)
        for target, text in replaced_in(command):
            if text is not None:
                for path in self._paths([target]):
                    self._overwrite(path, len(text.encode()), "a redirection")

    def loss(self) -> Loss:
        parts = [
            f"delete the folder {quoted(self._named(one))} ({_files(count)})" for one, count in self._trees.items()
        ]
        if self._lost:
            names = ", ".join(quoted(self._named(one)) for one in islice(self._lost, 3))
            more = f" and {len(self._lost) - 3:,} more" if len(self._lost) > 3 else ""
            parts.append(f"delete {_files(len(self._lost))} ({names}{more})")
        parts += [*self._open, *self._cut]
        count = len(self._lost) + sum(self._trees.values()) + self._unknown
        return Loss(count, tuple(parts), bool(self._open or self._cut))

    # --- commands ----------------------------------------------------------------------------------------------------

    def _remove(self, name: str, words: list[str], *, is_fed: bool) -> None:
        options, operands = _split(words)
        recursive = name == "rm" and any(
            one == "--recursive" or (not one.startswith("--") and re.search("[rR]", one)) for one in options
        )
        operands = [one for one in operands if "{}" not in one and one not in (";", "+")]
        if is_fed and not operands:
            self._remove_fed(recursive=recursive)
        for operand in operands:
            try:
                for path in self._expanded(operand):
                    self._take(path, recursive=recursive)
            except _Unknown as unknown:
                if unknown.many and self._is_loop(operand):
                    self._remove_fed(recursive=recursive)
                elif unknown.many or recursive:
                    self._open[f"delete what {quoted(operand)} names"] = None
                else:
                    self._unknown += 1

    def _remove_fed(self, *, recursive: bool) -> None:
        """Names that come from a list: a file, or what a command before finds."""
        if (paths := self._fed()) is None:
            self._open["delete all files of a list that is only known when it runs"] = None
        for path in paths or ():
            self._take(path, recursive=recursive)

    def _fed(self) -> list[Path] | None:
        if listed := re.search(r"(?<!<)<\s*([\w./-]+)\s*(?:$|[;&|\n)])", self._text):
            try:
                text = self._absolute(listed[1]).read_text("utf-8", "replace")[:1_000_000]
            except OSError:
                return []
            return [self._absolute(line) for line in text.splitlines()[: MOST + 1] if line.strip()]
        name, rest = (self._producer[0].rsplit("/", 1)[-1], list(self._producer[1:])) if self._producer else ("", [])
        if name == "find":
            return list(self._matches(rest))
        if name == "ls":
            found = []
            for path in self._paths(_split(rest)[1] or ["."]):
                found += [path / one for one in _listed(path)] if path.is_dir() else [path]
            return found
        return None

    def _find(self, words: list[str]) -> None:
        deletes, recursive = "-delete" in words, False
        for number, word in enumerate(words):
            if word in ("-exec", "-execdir", "-ok", "-okdir"):
                begun = words[number + 1 : number + 3]
                if begun and begun[0].rsplit("/", 1)[-1] in ("rm", "unlink", "shred"):
                    deletes = True
                    recursive = recursive or bool(begun[1:] and re.match("-[a-zA-Z]*[rR]", begun[1]))
        if deletes:
            for path in self._matches(words):
                self._take(path, recursive=recursive)

    def _matches(self, words: Sequence[str]) -> Iterator[Path]:
        """Files and folders that `find` comes to; tests that are not understood are taken for true."""
        at = next((n for n, word in enumerate(words) if word.startswith("-") or word in ("(", "!", "\\(")), len(words))
        tests, deepest = _tests(words[at:])
        for top in self._paths(words[:at] or ["."]):
            base = len(top.parts)
            for path in self._walk(top):
                if len(path.parts) - base <= deepest and any(_holds(path, top, one) for one in tests):
                    yield path

    def _git(self, words: list[str]) -> None:
        if "clean" not in words[:3]:
            return
        options = _split(words)[0]
        short = "".join(one[1:] for one in options if not one.startswith("--"))
        is_real = ("f" in short or "--force" in options) and not ("n" in short or "--dry-run" in options)
        if is_real and any((one / ".git").exists() for one in (self._folder, *self._folder.parents)):
            self._open[f"delete all files that git does not know ({quoted('git ' + ' '.join(words))})"] = None

    def _rsync(self, words: list[str]) -> None:
        options, operands = _split(words, with_value=("-e", "--exclude", "--include", "--filter", "-f"))
        is_dry = "--dry-run" in options or any("n" in one for one in options if not one.startswith("--"))
        if is_dry or len(operands) < 2 or not any(one.startswith("--del") for one in options):
            return
        *sources, target = operands
        if ":" in target or any(":" in one for one in sources):
            self._open[f"delete files in {quoted(target)} that are not in {quoted(sources[0])}"] = None
            return
        kept: set[str] = set()
        for source in sources:
            for path in self._paths([source]):
                top = path if source.endswith("/") else path.parent
                kept |= {os.path.relpath(one, top) for one in self._walk(path)}
        for path in self._paths([target]):
            for one in self._walk(path):
                if one.is_file() and os.path.relpath(one, path) not in kept:
                    self._take(one, recursive=False)

    def _move(self, name: str, words: list[str]) -> None:
        options, operands = _split(words)
        if len(operands) < 2 or any(one in ("-n", "--no-clobber") for one in options):
            return
        targets = self._paths(operands[-1:])
        for target in targets[:1]:
            for source in self._paths(operands[:-1]):
                if name == "mv" and self._is_temporary(target / "x"):
                    self._take(source, recursive=True)
                elif source.is_file():
                    place = target / source.name if target.is_dir() else target
                    if place != source:
                        self._overwrite(place, source.stat().st_size, quoted(self._named(str(source))))

    def _truncate(self, words: list[str]) -> None:
        text = " ".join(words)
        if found := re.search(r"(?:-s\s*|--size[= ])(\d+)([KMG]?)\b", text):
            left = int(found[1]) * {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}[found[2]]
            for path in self._paths(_split(words, with_value=("-s", "--size", "-r"))[1]):
                self._overwrite(path, left, "")

    # --- files -------------------------------------------------------------------------------------------------------

    def _take(self, path: Path, *, recursive: bool) -> None:
        """Count what goes with a path."""
        key = os.path.normpath(path)
        if key in self._lost or key in self._trees or any(key.startswith(f"{one}/") for one in self._trees):
            return
        if path.is_dir() and not path.is_symlink():
            if recursive and (count := sum(self._counts(one) for one in self._walk(path) if not _is_folder(one))):
                self._trees[key] = count
                for one in [one for one in self._lost if one.startswith(f"{key}/")]:
                    del self._lost[one]
        elif self._counts(Path(key)) and len(self._lost) <= MOST:
            self._lost[key] = None

    def _counts(self, path: Path) -> bool:
        """False for what is not there, was made meanwhile, is made anew by tools, or is temporary."""
        try:
            found = path.lstat()
        except OSError:
            return False
        return found.st_mtime <= self._since and not self._is_temporary(path) and not self._is_remade(path)

    def _is_temporary(self, path: Path) -> bool:
        return str(path).startswith(_TEMPORARY) and not path.is_relative_to(self._root)

    def _is_remade(self, path: Path) -> bool:
        if path.name.endswith(_BYTECODE):
            return True
        for one in (path, *path.parents):
            if one == self._root or one.parent == one:
                return False
            if one.name in _REMADE:
                return True
            if one.name in _BUILT and any((one.parent / name).exists() for name in _BUILDS):
                return True
        return False

    def _walk(self, top: Path) -> Iterator[Path]:
        """A path and all below it, up to a bound."""
        yield top
        for folder, folders, files in os.walk(top):
            for name in (*folders, *files):
                self._seen += 1
                if self._seen > MOST * 5:
                    return
                yield Path(folder, name)

    def _overwrite(self, path: Path, left: int, by: str) -> None:
        try:
            old = path.stat().st_size if path.is_file() else 0
        except OSError:
            return
        if shrinks(old, left) and self._counts(path):
            self._cut[f"overwrite {quoted(self._named(str(path)))}: {size(old)} become {size(left)}"] = None

    def _named(self, path: str) -> str:
        found = Path(path)
        return str(found.relative_to(self._root)) if found.is_relative_to(self._root) else path

    # --- words -------------------------------------------------------------------------------------------------------

    def _note_values(self, command: str) -> None:
        for name in re.findall(r"\b(\w+)=[\"']?[$`]\(?\s*mktemp\b", command):
            self._values[name] = "/tmp/made"
        for name, value in re.findall(
            r"(?:^|[;&|\n({]|\bexport)\s*(\w+)=(\"[^\"$`]*\"|'[^']*'|[^\s;&|()\"'$`]+)", command
        ):
            self._values[name] = value.strip("\"'")
        for name, words in re.findall(r"\bfor\s+(\w+)\s+in\s+(.*?)\s*[;\n]\s*do\b", command):
            try:
                self._loops[name] = None if re.search(r"[$`]", words) else shlex.split(words)
            except ValueError:
                self._loops[name] = None
        for name in re.findall(r"\bwhile\s+(?:IFS=\S*\s+)?read\s+(?:-\S+\s+(?:''\s+)?)*(\w+)", command):
            self._loops[name] = None

    def _is_loop(self, word: str) -> bool:
        found = re.search(r"\$\{?(\w+)", word)
        return found is not None and found[1] in self._loops and re.search(r"\bread\b", self._text) is not None

    def _paths(self, words: Sequence[str]) -> list[Path]:
        """Paths that words name; those that are not known are left out."""
        found: list[Path] = []
        for word in words:
            try:
                found += self._expanded(word)
            except _Unknown:
                continue
        return found

    def _expanded(self, word: str) -> list[Path]:
        """Paths that a word names on this disk. Raises _Unknown."""
        if "$(" in word or "`" in word:
            raise _Unknown(many=True)
        if found := re.search(r"\$\{?(\w+)\}?", word):
            if found[1] in self._loops:
                items = self._loops[found[1]]
                if items is None:
                    raise _Unknown(many=True)
                return [path for item in items for path in self._expanded(word.replace(found[0], item, 1))]
            if found[1] not in self._values:
                raise _Unknown(many=False)
            return self._expanded(word.replace(found[0], self._values[found[1]], 1))
        if word == "~" or word.startswith("~/"):
            word = self._values["HOME"] + word[1:]
        paths: list[Path] = []
        for one in _braced(word):
            if re.search(r"[*?\[]", one):
                found_here = sorted(islice(iglob(str(self._folder / one)), MOST + 1))  # noqa: PTH207 - hides dot files
                paths += map(Path, found_here)
            else:
                paths.append(self._absolute(one))
        return paths

    def _absolute(self, word: str) -> Path:
        return Path(os.path.normpath(self._folder / word))


def _files(count: int) -> str:
    return f"more than {MOST:,} files" if count > MOST else f"{count:,} file{'s' * (count != 1)}"


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _listed(path: Path) -> list[str]:
    try:
        return [one.name for one in path.iterdir()]
    except OSError:
        return []


def _split(words: Sequence[str], with_value: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """Options and operands."""
    options, operands, is_value = list[str](), list[str](), False
    for number, word in enumerate(words):
        if is_value:
            is_value = False
        elif word == "--":
            operands += words[number + 1 :]
            break
        elif word.startswith("-") and len(word) > 1:
            options.append(word)
            is_value = word in with_value
        else:
            operands.append(word)
    return options, operands


def _braced(word: str) -> list[str]:
    found = re.search(r"\{([^{}]*,[^{}]*|\d+\.\.\d+)\}", word)
    if not found:
        return [word]
    if ".." in found[1] and "," not in found[1]:
        first, last = sorted(map(int, found[1].split("..")))
        items = [str(one) for one in range(first, min(last, first + MOST) + 1)]
    else:
        items = found[1].split(",")
    return [one for item in items for one in _braced(word[: found.start()] + item + word[found.end() :])]


_WITH_ARGUMENT_WORDS = (
    "-name -iname -path -wholename -ipath -type -mtime -mmin -atime -amin -ctime -cmin -size -newer -perm"
    " -user -group -regex -iregex -maxdepth -mindepth -links -inum -samefile -regextype -printf"
)
_WITH_ARGUMENT = frozenset(_WITH_ARGUMENT_WORDS.split())
Test = tuple[str, str, bool]


def _tests(words: Sequence[str]) -> tuple[list[list[Test]], int]:
    """Alternatives of a `find`, each a list of (test, its argument, whether it holds); and how deep it goes."""
    alternatives: list[list[Test]] = [[]]
    deepest, number, is_not, pruned = MOST, 0, False, list[Test]()
    while number < len(words):
        word = words[number]
        argument = words[number + 1] if word in _WITH_ARGUMENT and number + 1 < len(words) else ""
        number += 2 if word in _WITH_ARGUMENT else 1
        if word in ("!", "-not"):
            is_not = True
            continue
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            while number < len(words) and words[number] not in (";", "+", "\\;"):
                number += 1
            number += 1
        elif word in ("-o", "-or"):
            alternatives.append([])
        elif word == "-prune":
            pruned += [(test, given, not holds) for test, given, holds in alternatives[-1]]
            alternatives[-1] = [("never", "", True)]
        elif word == "-maxdepth" and argument.isdigit():
            deepest = int(argument)
        elif word in ("-name", "-iname", "-path", "-wholename", "-type", "-empty"):
            alternatives[-1].append((word, argument, not is_not))
        is_not = False
    return [[*one, *pruned] for one in alternatives], deepest


def _holds(path: Path, top: Path, tests: Sequence[Test]) -> bool:
    return all(_is(path, top, test, argument) == holds for test, argument, holds in tests)


def _is(path: Path, top: Path, test: str, argument: str) -> bool:
    match test:
        case "-name":
            return fnmatchcase(path.name, argument)
        case "-iname":
            return fnmatchcase(path.name.casefold(), argument.casefold())
        case "-path" | "-wholename":
            shown = f"./{os.path.relpath(path, top)}"
            bare = argument.removesuffix("/*")
            return fnmatchcase(shown, argument) or shown == bare or shown.startswith(f"{bare}/")
        case "-type":
            return {"f": path.is_file(), "d": _is_folder(path), "l": path.is_symlink()}.get(argument[:1], True)
        case "-empty":
            return path.stat().st_size == 0 if path.is_file() else not _listed(path)
    return False
