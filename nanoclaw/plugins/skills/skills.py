"""Skills: folders with a SKILL.md whose front matter says when to use it. The first folder with a name wins."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import lru_cache, partial
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO

from nanoclaw.beneath.paths import open_again
from nanoclaw.core.errors import SkillError
from nanoclaw.log import logger
from nanoclaw.named_tuple import NamedTuple

LONGEST_BYTES = 32_000

_BLOCK = re.compile(rb"(?:\xef\xbb\xbf)?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_ENTRY = re.compile(r"([A-Za-z_][\w.-]*)[ \t]*:(?:[ \t]+(.*))?")
_PLAIN = re.compile(r"(?:[^\s\"'\[\]{}|>&*!%@`#,?-](?:(?! #).)*)?")
"""Text that means itself in YAML too, except a colon in it."""


class Field(NamedTuple):
    """`value` is text, or a list or mapping of such; JSON also brings numbers, true, false and null."""

    line: int
    value: object


def split(content: bytes) -> tuple[bytes, bytes]:
    """Split a file into its front matter, without the fence, and the rest. Raises SkillError if there is none."""
    if match := _BLOCK.match(content[: LONGEST_BYTES + 8]):
        return match[1], content[match.end() :]
    if not content.removeprefix(b"\xef\xbb\xbf").startswith(b"---"):
        raise SkillError("line 1: it must begin with front matter between two lines of ---")
    if len(content) > LONGEST_BYTES:
        raise SkillError(f"line 1: its front matter is longer than {LONGEST_BYTES:,} bytes")
    raise SkillError("line 1: its front matter has no closing line of ---")


def parse(block: bytes) -> Mapping[str, Field]:
    """Fields by key, with their line in the file. Raises SkillError with line and reason."""
    try:
        lines = block.decode().replace("\r\n", "\n").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        before = block[: error.start].count(b"\n")
        raise SkillError(f"line {before + 2}: its front matter is not UTF-8") from None
    starts: list[tuple[int, re.Match[str]]] = []
    for index, line in enumerate(lines):
        if match := _ENTRY.fullmatch(line):
            starts.append((index, match))
        elif line.startswith("#"):
            lines[index] = ""
        elif line.strip() and not starts:
            raise SkillError(f"line {index + 2}: its front matter has no 'key: value' there")
    fields, ends = dict[str, Field](), [index for index, _ in starts[1:]] + [len(lines)]
    for (index, match), end in zip(starts, ends, strict=True):
        key, first = match[1], (match[2] or "").strip(" \t")
        fields[key] = Field(index + 2, _value(key, first, lines[index:end], index + 2))
    return fields


def _value(key: str, first: str, lines: list[str], number: int) -> object:
    more = "\n".join(lines[1:]).rstrip()
    if not more and _PLAIN.fullmatch(first):
        return first
    text = f"{first}\n{more}".strip()
    if text[:1] in ("{", "[") or (first[:1] == '"' and not more):
        with suppress(ValueError, RecursionError):
            return json.loads(text)
    return _yaml(key, "\n".join(lines), number)


def _yaml(key: str, text: str, number: int) -> object:
    import yaml

    class Loader(yaml.BaseLoader):  # takes every scalar as text and makes no objects
        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            if self.check_event(yaml.AliasEvent):
                raise yaml.MarkedYAMLError(problem="it has an alias (*name), which is refused")
            return super().compose_node(parent, index)

    try:
        loaded = yaml.load(text, Loader)
    except RecursionError:
        raise SkillError(f"line {number}: {key!r} is nested too deeply") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = number + min(mark.line, text.count("\n")) if mark else number
        raise SkillError(f"line {line}: {key!r} cannot be read: {getattr(error, 'problem', None) or error}") from None
    if not isinstance(loaded, dict) or list(loaded) != [key]:
        raise SkillError(f"line {number}: {key!r} is not one YAML field")
    return loaded[key]


NAMESPACES = ("nanoclaw", "openclaw", "clawdbot", "nanobot")
"""Keys of `metadata` with a skill's requirements; the first one found counts."""

MOST_IN_A_FOLDER = 1_000
DESCRIPTION_CHARACTERS = 1_024
SUMMARY_CHARACTERS = 24_000
MOST_LISTED = 30
"""Skills in the prompt where the others can be searched for."""
BODY_BYTES = 60_000


class Means(NamedTuple):
    """Things that a run offers to skills. `setting` looks a dotted name up in the configuration; variables that are
    `withheld` are in the environment, but commands don't get them."""

    tools: frozenset[str] = frozenset()
    setting: Callable[[str], object] = lambda name: None
    environment: Mapping[str, str] = os.environ
    withheld: Set[str] = frozenset()


class Skill(NamedTuple):
    """One SKILL.md. `missing` is what this run lacks for it, such as "gh (command)"; `withheld` names variables that
    the run has and commands don't; `problem` is why its file cannot be used; `draft` says of one that the owner has not
    looked at as it is now whether it is "new" or "changed".

    A `hidden` one is not listed for the model: it needs a tool that is not there, or is only started by hand.
    """

    name: str
    description: str
    path: Path
    always: bool = False
    missing: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    hidden: bool = False
    problem: str = ""
    draft: str = ""

    @property
    def folder(self) -> Path:
        return self.path.parent


NO_MEANS = Means()

Judge = Callable[[Skill], Skill]
"""Says of a skill whether it is a draft."""


def discover(
    folders: Iterable[Path],
    means: Means = NO_MEANS,
    tell: Callable[[Skill], None] = lambda broken: None,
    judge: Judge = lambda skill: skill,
) -> tuple[Skill, ...]:
    """Skills for the model, by name; `tell` hears of broken ones."""
    found = survey(folders, means, judge)
    for skill in found:
        if skill.problem:
            tell(skill)
    return tuple(skill for skill in found if not skill.hidden and not skill.problem and not skill.draft)


def survey(folders: Iterable[Path], means: Means = NO_MEANS, judge: Judge = lambda skill: skill) -> tuple[Skill, ...]:
    """All skills by name, hidden ones too, and each broken one and each draft after its namesake: it gives way to a
    whole one."""
    found, broken = dict[str, Skill](), list[Skill]()
    path_of_commands = means.environment.get("PATH", os.defpath)
    for folder in folders:
        for path, stamp in places(str(folder)):
            loaded, requires = _load(path, str(folder), stamp)
            loaded = loaded if loaded.problem else judge(loaded)
            if loaded.problem or loaded.draft:
                broken.append(loaded)
            elif loaded.name not in found:
                found[loaded.name] = _measured(loaded, requires, means, path_of_commands) if requires else loaded
    return tuple(sorted((*found.values(), *broken), key=attrgetter("name")))


def find(skills: Sequence[Skill], name: str) -> Skill:
    """Find the skill to start by hand. Raises SkillError for one that is unknown, off, or lacks something."""
    skill = next((skill for skill in skills if skill.name.casefold() == name.casefold()), None)
    if skill is None:
        import difflib

        near = difflib.get_close_matches(name, [skill.name for skill in skills], 3, 0.5)
        raise SkillError(f"There is no skill {name!r}." + (f" Near: {', '.join(near)}." if near else ""))
    if skill.problem:
        raise SkillError(f"The skill {skill.name} is off. {shown(skill.path)}, {skill.problem}.")
    if skill.draft:
        was = "is new" if skill.draft == "new" else "was changed since you reviewed it"
        raise SkillError(
            f"The skill {skill.name} {was}, so it isn't used yet. /skills show {skill.name} shows it, "
            f"/skills trust {skill.name} accepts it as it is."
        )
    if skill.missing:
        raise SkillError(f"The skill {skill.name} cannot be started. It lacks {', '.join(skill.missing)}.")
    return skill


def by_hand(skill: Skill, task: str) -> str:
    """Message that starts a skill for `task`, which also replaces $ARGUMENTS in its text."""
    text = body(skill).replace("$ARGUMENTS", task)
    task = task or "(Nothing more was said: begin with what the skill says, and ask for what it needs.)"
    return f"Use the skill {skill.name} for this. Its folder is {skill.folder}.\n\n{text}\n\n---\n\n{task}"


def body(skill: Skill) -> str:
    """The text below the front matter, `{baseDir}` filled in; '' when it has become unreadable."""
    try:
        with _opened(skill.path, skill.folder.parent) as file:
            text = split(file.read(LONGEST_BYTES + BODY_BYTES))[1]
    except (OSError, SkillError):
        return ""
    cut = f"\n[cut after {BODY_BYTES:,} bytes: {skill.path} has the rest]" if len(text) > BODY_BYTES else ""
    kept = text[:BODY_BYTES].decode("utf-8", "ignore" if cut else "replace").replace("\r\n", "\n")
    return kept.replace("{baseDir}", str(skill.folder)).strip() + cut


def summary(listed: tuple[Skill, ...], budget: int = SUMMARY_CHARACTERS, most: int | None = None) -> str:
    """Skills as XML, one element each. Over budget, descriptions are left out, then the last skills; '' for none. No
    more than `most` are in it, where tool_search finds the others."""
    if not listed:
        return ""
    folders = ", ".join(dict.fromkeys(str(skill.folder.parent) for skill in listed))
    how = f"use list_dir on {_escape(folders)}" if most is None else "call tool_search"
    more = f"<more>{{}} more are left out. To find them, {how}</more>"
    left_out = [more.format(len(listed) - most)] if most is not None and len(listed) > most else []
    whole = _xml([*(_element(skill, skill.description) for skill in listed[:most]), *left_out])
    if len(whole) <= budget:
        return whole
    elements = [_element(skill) for skill in sorted(listed[:most], key=lambda skill: bool(skill.missing))]
    if len(compact := _xml([*elements, *left_out])) <= budget:
        return compact
    room = budget - len(_xml([more])) - len(str(len(listed)))
    kept = 0
    while kept < len(elements) and (room := room - len(elements[kept]) - 1) >= 0:
        kept += 1
    return _xml([*elements[:kept], more.format(len(listed) - kept)])


def by_fit(skills: Sequence[Skill], query: str) -> tuple[Skill, ...]:
    """Skills whose names and descriptions share words with a question first; a word that few have counts for more."""
    from nanoclaw.tokenizer import tokens

    asked = set(tokens(query))
    if not asked:
        return tuple(skills)
    words = {
        skill: asked.intersection(tokens(f"{skill.name.replace('-', ' ')} {skill.description}")) for skill in skills
    }
    having = Counter(word for own in words.values() for word in own)
    return tuple(sorted(skills, key=lambda skill: -sum(1 / having[word] for word in words[skill])))


def few(names: Collection[str], between: str = ", ", most: int = 5) -> str:
    """Names in one line: the first of them, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{between.join(islice(names, most))}{more}"


def shown(path: Path) -> str:
    """A path fit for a screen: file names may hold lone surrogates."""
    return str(path).encode("utf-8", "replace").decode()


# --- reading ---------------------------------------------------------------------------------------------------------

Requirements = Mapping[str, tuple[str, ...]]
_KINDS = ("bins", "anyBins", "env", "config", "os", "tools")
_Stamp = tuple[int, ...]


def places(folder: str) -> Iterator[tuple[str, _Stamp]]:
    """Each SKILL.md, or else skill.md, in the folders of `folder`, with a stamp of its state."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.is_symlink() or entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        _warn(f"{folder} cannot be read: {error.strerror}")
        return
    if len(names) > MOST_IN_A_FOLDER:
        _warn(f"{folder} holds {len(names):,} folders; only the first {MOST_IN_A_FOLDER:,} are looked at")
    for name in names[:MOST_IN_A_FOLDER]:
        for path in (f"{folder}/{name}/SKILL.md", f"{folder}/{name}/skill.md"):
            if (stamp := _stamp(path)) is not None:
                yield path, stamp
                break


def _stamp(path: str) -> _Stamp | None:
    """None if there is nothing, () for what cannot be looked at."""
    try:
        status = os.stat(path)  # noqa: PTH116  (a Path for each costs more than the call)
    except (FileNotFoundError, NotADirectoryError):
        return () if Path(path).is_symlink() else None
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_mode


@lru_cache(maxsize=8 * MOST_IN_A_FOLDER)  # parsed once for each state of the file
def _load(path: str, folder: str, stamp: _Stamp) -> tuple[Skill, Requirements]:
    """A skill and its requirements; whether they are met may change while the file does not."""
    file = Path(path)
    try:
        if stamp and not stat.S_ISREG(stamp[-1]):
            raise SkillError("line 1: it is not a plain file")
        with _opened(file, Path(folder)) as opened:
            return parsed(opened.read(LONGEST_BYTES + 8), file)
    except SkillError as error:
        return Skill(file.parent.name, "", file, problem=str(error)), {}
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: a cycle of links, until Python 3.13
        return Skill(file.parent.name, "", file, problem=f"line 1: it cannot be read: {error}"), {}


def _opened(file: Path, folder: Path) -> BinaryIO:
    """A file of a folder of skills. Raises SkillError and OSError."""
    real = file.resolve(strict=True)
    if not real.is_relative_to(folder.resolve()):  # file tools do not follow such links either
        raise SkillError(f"line 1: it is a link out of {shown(folder)}; copy it there, or add its place to the config")
    return open_again(real)


def parsed(content: bytes, file: Path) -> tuple[Skill, Requirements]:
    """A skill and its requirements from the beginning of its file. Raises SkillError with line and reason."""
    front = parse(split(content)[0])
    name, description = _text(front, "name") if "name" in front else "", _text(front, "description")
    if not re.fullmatch(r"\w[\w.-]{,59}", name):  # none, or a title
        name = file.parent.name
    if len(description) > DESCRIPTION_CHARACTERS:
        description = description[: DESCRIPTION_CHARACTERS - 1] + "…"
    values = {key: field.value for key, field in front.items()}
    metadata = _mapping(values.get("metadata"))
    ours = {name: _mapping(metadata.get(name)) for name in NAMESPACES}
    # OpenClaw's `always` only lists a skill whatever it lacks, as we do
    always = _is_true(values, "always") or _is_true(ours["nanoclaw"], "always") or _is_true(ours["nanobot"], "always")
    hidden = _is_true(values, "disable-model-invocation")
    return Skill(name, description, file, always, hidden=hidden), _requirements(values, metadata, ours)


def _text(front: Mapping[str, Field], key: str) -> str:
    field = front.get(key)
    text = " ".join(_clean(field.value).split()) if field and isinstance(field.value, str) else ""
    if not text:
        raise SkillError(f"line {field.line if field else 1}: its front matter lacks {key!r}")
    return text


def _requirements(
    front: Mapping[str, object], metadata: Mapping[str, object], ours: Mapping[str, Mapping[str, object]]
) -> Requirements:
    """Requirements by kind: nested or flat, in a namespace, in `metadata` or at the top; the first found counts."""
    own = next(filter(None, ours.values()), {})
    places = [_mapping(own.get("requires")), own, _mapping(metadata.get("requires")), _mapping(front.get("requires"))]
    found = dict[str, tuple[str, ...]]()
    for kind in _KINDS if ours["nanoclaw"] else _KINDS[:-1]:  # other programs' tools have other names
        for place in places:
            if names := _names(place.get(kind)):
                found[kind] = names
                break
    return found


def _mapping(value: object) -> Mapping[str, object]:
    if isinstance(value, str) and value.startswith("{"):
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    return value if isinstance(value, dict) else {}


def _names(value: object) -> tuple[str, ...]:
    listed = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(name.strip() for name in listed if isinstance(name, str) and name.strip())


def _is_true(front: Mapping[str, object], key: str) -> bool:
    return str(front.get(key)).lower() in ("true", "yes", "on", "1")


# --- what is missing -------------------------------------------------------------------------------------------------


def _measured(skill: Skill, requires: Requirements, means: Means, path: str) -> Skill:
    """The skill, with what this run lacks for it."""
    which = partial(shutil.which, path=path)
    asked: tuple[tuple[str, str, Callable[[str], object]], ...] = (
        ("bins", "command", which),
        ("env", "environment", means.environment.get),
        ("config", "config", means.setting),
        ("tools", "tool", means.tools.__contains__),
    )
    missing = [f"{name} ({what})" for kind, what, has in asked for name in requires.get(kind, ()) if not has(name)]
    if (any_of := requires.get("anyBins")) and not any(map(which, any_of)):
        missing.append(f"one of {', '.join(any_of)} (command)")
    systems = {_SYSTEMS.get(name.lower(), name.lower()) for name in requires.get("os", ())}
    if systems and sys.platform not in systems:
        missing.append(f"{' or '.join(requires['os'])} (system)")
    withheld = tuple(name for name in requires.get("env", ()) if name in means.withheld)
    if not missing and not withheld:
        return skill
    hidden = skill.hidden or not means.tools.issuperset(requires.get("tools", ()))
    return skill._replace(missing=tuple(missing), withheld=withheld, hidden=hidden)


_SYSTEMS = {"macos": "darwin", "mac": "darwin", "osx": "darwin", "windows": "win32", "win": "win32"}


# --- telling ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=MOST_IN_A_FOLDER)
def _warn(sentence: str) -> None:
    """Log a sentence once."""
    logger.warning("{}", sentence)


def _xml(elements: Iterable[str]) -> str:
    return "\n".join(["<skills>", *elements, "</skills>"])


def _element(skill: Skill, description: str = "") -> str:
    missing = f' available="false" missing="{_escape(", ".join(skill.missing))}"' if skill.missing else ""
    start = f'<skill name="{_escape(skill.name)}" location="skill:{_escape(skill.name)}"{missing}'
    return f"{start}>{_escape(description)}</skill>" if description else f"{start}/>"


_UNFIT = "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]"
"""Characters that XML and screens cannot hold. Compiled it takes 180 KB, so it is where a text may have one."""


def _clean(text: str) -> str:
    return text if text.isprintable() else re.sub(_UNFIT, "", text)


def _escape(text: str) -> str:
    return _clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
