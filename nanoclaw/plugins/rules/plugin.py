"""Standing rules: pinned rules are in every prompt, and are enforced where code can."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from nanoclaw import strict_json
from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.messages import CheckedCall, ModelRequest, SystemPrompt, UserMessage
from nanoclaw.core.plugin import Command, Hears, Host, Plugin, Profile, Refuse, Reply, Said, Section, Turn, Tx, Verdict
from nanoclaw.escapes import plain
from nanoclaw.runtime_metadata import escape

MOST, MOST_WORDS = 10, 6
"""Things that one rule forbids, and words of a command among them."""

WISH = """\
A person pins a standing rule for their assistant:
“{rule}”

Which calls does it forbid, always? Answer with JSON alone, such as:
{{"forbids": [{{"tool": "memory_add"}}, {{"command": "git push"}}, {{"path": "notes/private.md", "reading": false}}]}}

- tool: one of {tools}. Only when all that this tool does is forbidden.
- command: the first words of a shell command, no more than the rule needs: "git push", "npm". Give each way to do the
  same. When only some uses are forbidden and these words can't tell which ("commit to main"), give the command all the
  same.
- path: a file or folder as the rule writes it; "reading": true when it must not even be read.

Answer {{"forbids": []}} for a wish about style or policy, for what is asked for or allowed, and where the person says
when it may be done (unless, without asking, until …).
"""
"""Asked of a model once, when a rule is pinned."""


class Forbidden(NamedTuple):
    """One thing that a rule forbids; the others are ''. A path is forbidden to change, with `reading` also to read."""

    tool: str = ""
    command: str = ""
    path: str = ""
    reading: bool = False

    def __str__(self) -> str:
        if self.tool:
            return f"the tool `{self.tool}`"
        if self.command:
            return f"commands beginning with `{self.command}`"
        how = "reading and changing" if self.reading else "changing"
        return f"{how} `{self.path}` with file tools (commands and notes are not watched for it)"


def from_answer(answer: str, rule: str, tools: Collection[str]) -> list[Forbidden] | None:
    """Read a model's answer, keeping only what is valid: existing tools, plain commands, paths that the rule names.
    None for an answer in another form."""
    try:
        given = strict_json.read(answer[answer.index("{") : answer.rindex("}") + 1])["forbids"]
        items = [item for item in given if isinstance(item, dict)]
    except (ValueError, KeyError, TypeError):
        return None
    found = (_checked(item, rule, tools) for item in items[:MOST])
    return list(dict.fromkeys(one for one in found if one))


def _checked(item: Mapping[str, Any], rule: str, tools: Collection[str]) -> Forbidden | None:
    tool, command, path = (str(item.get(name) or "").strip() for name in ("tool", "command", "path"))
    command = command or str(item.get("prefix") or "").strip()
    if command:
        return Forbidden(command=" ".join(words)) if (words := _plain_command(command)) else None
    if path:
        return Forbidden(path=path, reading=item.get("reading") is True) if path in rule else None
    return Forbidden(tool=tool) if tool in tools else None


def dump(forbidden: Iterable[Forbidden]) -> str:
    return json.dumps([one._asdict() for one in forbidden], ensure_ascii=False)


def load(text: str) -> list[Forbidden] | None:
    """Read what `dump` wrote; None if words were forgotten in it."""
    try:
        return [Forbidden(**item) for item in json.loads(text)]
    except (ValueError, TypeError):
        return None


def what_is_forbidden(
    forbidden: Iterable[Forbidden], tool: str, is_change: bool, arguments: Mapping[str, Any], root: Path
) -> str:
    """Name the forbidden thing that a call would do; '' for a call that is allowed."""
    command = arguments.get("command")
    for one in forbidden:
        if one.tool == tool and tool:
            return f"the tool {tool}"
        if one.command and isinstance(command, str) and runs(command, one.command.split()):
            return f"the command `{one.command}`"
        if (
            one.path
            and (is_change or one.reading)
            and any(_leads(root, given, one.path) for given in _paths(arguments))
        ):
            return f"{'touching' if one.reading else 'changing'} {one.path}"
    return ""


def _plain_command(text: str) -> tuple[str, ...]:
    """The words of a single command without variables, pipes and the like; () for anything else."""
    from nanoclaw.shell_words import commands_in, plain_words

    found = list(commands_in(text)) if plain_words(text) else []
    if len(found) == 1 and len(found[0]) <= MOST_WORDS:
        return found[0] if re.fullmatch(r"[\w./+~-]*\w[\w.+-]*", found[0][0]) else ()
    return ()


_PATH_ARGUMENTS = ("path", "file", "source", "target", "destination", "old_path", "new_path")


def _paths(arguments: Mapping[str, Any]) -> Iterator[str]:
    return (value for name in _PATH_ARGUMENTS if isinstance(value := arguments.get(name), str))


def _leads(root: Path, given: str, path: str) -> bool:
    """True when a tool's path is the path of a rule, or inside it."""
    real, wanted = (os.path.realpath(os.path.join(root, one.replace("\0", ""))) for one in (given, path))  # noqa: PTH118
    return real == wanted or real.startswith(wanted + os.sep)


# --- commands --------------------------------------------------------------------------------------------------------


def runs(line: str, forbidden: Sequence[str]) -> bool:
    """True when a line of shell runs a command that begins with these words, however its options are ordered."""
    bare = line.translate(_UNQUOTED)
    if _name(forbidden[0]) not in bare and "$'" not in line:  # quick, as nearly every command has nothing to do with it
        return False
    from nanoclaw.shell_words import commands_in

    return any(_is(words, forbidden) for words in commands_in(line))


_UNQUOTED = {ord(sign): None for sign in "'\"\\\n"}
_GIT_WITH_VALUE = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix", "--config-env"}
)
_SHORT = {"--force": "f", "--recursive": "r", "--all": "a", "--delete": "d", "--interactive": "i", "--yes": "y"}


def _is(words: Sequence[str], forbidden: Sequence[str]) -> bool:
    name = _name(words[0])
    if name != _name(forbidden[0]):
        return False
    rest = _without_global_options(words[1:]) if name == "git" else list(words[1:])
    wanted = [word for word in forbidden[1:] if not _is_option(word)]
    options = [word for word in forbidden[1:] if _is_option(word)]
    return _begins(rest, wanted) and _options(options) <= _options(rest)


def _name(program: str) -> str:
    return program.rsplit("/", 1)[-1]


def _is_option(word: str) -> bool:
    return word.startswith("-") and len(word) > 1


def _without_global_options(words: Sequence[str]) -> list[str]:
    position = 0
    while position < len(words) and _is_option(words[position]):
        position += 2 if words[position] in _GIT_WITH_VALUE else 1
    return list(words[position:])


def _begins(words: Sequence[str], wanted: Sequence[str]) -> bool:
    """True when the words that are no options begin so; one after an option may be that option's value, so it may be
    passed over."""
    if not wanted:
        return True
    for position, word in enumerate(words):
        if _is_option(word):
            continue
        if word == wanted[0] and _begins(words[position + 1 :], wanted[1:]):
            return True
        if not (position and _is_option(words[position - 1])):
            return False
    return False


def _options(words: Iterable[str]) -> frozenset[str]:
    """Each by itself: `-rf` is `-r` and `-f`, and so is `--recursive --force`."""
    found = set[str]()
    for word in words:
        if word == "--":
            break
        name = word.partition("=")[0]
        if name.startswith("--"):
            found |= {name, *(_SHORT.get(name, ""))}
        elif _is_option(word):
            found |= {word, *({"R": "r"}.get(letter, letter) for letter in word[1:])}
    return frozenset(option for option in found if len(option) == 1 or option.startswith("--")) - _SHORT.keys()


MOST_PINS = 50
LONGEST_PIN = 500
"""Characters of one: all of them are sent with every request."""

HEAD = (
    "# Standing rules\nThe person pinned these. They hold in every conversation, whatever is said later; "
    "only the person lifts one, with /unpin."
)


class Pin(NamedTuple):
    """A rule in the person's words, and what of it is enforced."""

    id: int
    text: str
    forbids: tuple[Forbidden, ...]

    is_asked: bool = True
    """False while no model has said what it forbids."""

    @property
    def how(self) -> str:
        """Words about how it is enforced."""
        if not self.is_asked:
            return "for the model to follow; it is asked later what of it can be enforced"
        return f"enforced: {'; '.join(map(str, self.forbids))}" if self.forbids else "for the model to follow"


class Rulebook:
    """The rules as they are at each call: what the plugin makes public."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._pins: list[Pin] | None = None

    def reload(self) -> None:
        self._pins = None

    def all(self) -> list[Pin]:
        """In the order in which they were given."""
        if self._pins is None:
            rows = self._host.read("SELECT id, text, ban FROM pins ORDER BY id")
            self._pins = [self._made(*row) for row in rows if row[1].strip()]
        return self._pins

    def _made(self, id_: int, text: str, ban: str) -> Pin:
        forbids = load(ban) if ban else None
        return Pin(id_, text, tuple(forbids or ()), is_asked=forbids is not None)

    def tools(self) -> frozenset[str]:
        """The names that a rule can forbid."""
        return frozenset(self._host.tools(self._host.profile("person")))

    def refusal(self, tool: str, arguments: Mapping[str, Any], is_change: bool = True) -> str:
        """Why a call must not be made, with the rule that forbids it, or ''."""
        for pin in self.all():
            if what := what_is_forbidden(pin.forbids, tool, is_change, arguments, self._host.workspace):
                return (
                    f"refused by the person's standing rule “{pin.text}”: it forbids {what}. Nothing was done. Don't "
                    "look for a way around it: tell the person, who can lift it with /unpin."
                )
        return ""


class Rules(Plugin):
    name = "rules"
    hears: Mapping[str, Hears] = {"before_tool": Hears(rows="pins")}
    migrations = (
        "CREATE TABLE IF NOT EXISTS pins (id INTEGER PRIMARY KEY, at TEXT NOT NULL, text TEXT NOT NULL) STRICT;"
        # what it forbids, as JSON; '' while no model has said it
        "ALTER TABLE pins ADD COLUMN ban TEXT NOT NULL DEFAULT ''",
    )

    def __init__(self, host: Host, settings: None) -> None:
        self._host = host
        self.public = self._rules = Rulebook(host)
        self._asked_again = set[int]()

    def reload(self) -> None:
        self._rules.reload()

    @property
    def stamp(self) -> Hashable:
        return tuple(self._rules.all())

    def sections(self, query: str, profile: Profile) -> Iterable[Section]:
        is_shown = profile.mode in ("full", "minimal")
        lines = [f"{number}. {_in_a_line(pin.text)}" for number, pin in enumerate(self._rules.all(), 1)]
        text = "\n".join([HEAD, "", *lines]) if lines and is_shown else ""
        return [Section("pins", "Standing rules", text, source="pins", modes=("full", "minimal"))]

    async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
        for pin in self._rules.all():
            if not pin.is_asked and pin.id not in self._asked_again:
                self._asked_again.add(pin.id)
                if (found := await self._ask(pin.text)) is not None:
                    await self._host.write(partial(self._keep, pin=pin, forbids=found))
        refusal = self._rules.refusal(call.name, call.arguments, call.reach != "none")
        return Refuse(refusal) if refusal else None

    def commands(self) -> Iterable[Command]:
        return [
            Command("pin", "keep a rule: /pin Never run `git push`; /pin lists them", self._pin, "knowledge"),
            Command("pins", "the same as /pin alone", self._list, private=True, part_of="pin"),
            Command("unpin", "lift a rule: /unpin 2, or words of it", self._unpin, private=True, part_of="pin"),
        ]

    async def _pin(self, said: Said) -> str | Reply:
        text = " ".join(plain(said.argument).split())
        known = [pin.text.casefold() for pin in self._rules.all()]
        if not text:
            return "/pin TEXT keeps a standing rule." if said.is_group else self._list(said)
        if len(text) > LONGEST_PIN:
            return (
                f"That has {len(text)} characters, and a pin has at most {LONGEST_PIN}: say it shorter, or write it "
                "into AGENTS.md in the workspace. Nothing was pinned."
            )
        if text.casefold() in known:
            return f"That is pinned already, as rule {known.index(text.casefold()) + 1}."
        if len(known) >= MOST_PINS:
            return f"There are {MOST_PINS} pins, and no more fit: /unpin one first. Nothing was pinned."
        found = await self._ask(text)
        pin = Pin(0, text, tuple(found or ()), is_asked=found is not None)
        data = {"rule": text, "forbids": [one._asdict() for one in pin.forbids]}
        number = len(self._rules.all()) + 1  # others may have pinned something while the model was asked
        return Reply(f"Pinned as rule {number}, {pin.how}.", data, partial(self._add, pin=pin))

    async def _ask(self, rule: str) -> list[Forbidden] | None:
        """Ask a model once what a rule forbids, and check what it says. None if none answers in the form."""
        tools = self._rules.tools()
        asked = UserMessage(WISH.format(rule=rule, tools=", ".join(sorted(tools))), self._host.now())
        try:
            answer = await self._host.complete(ModelRequest(SystemPrompt(""), (asked,)))
        except NanoclawError:  # no model, no key, no answer
            return None
        return from_answer(answer.text, rule, tools)

    def _add(self, tx: Tx, pin: Pin) -> None:
        now = self._host.now().isoformat()
        ban = dump(pin.forbids) if pin.is_asked else ""
        tx.execute("INSERT INTO pins (at, text, ban) VALUES (?, ?, ?)", now, pin.text, ban)
        tx.after(self._rules.reload)

    def _keep(self, tx: Tx, pin: Pin, forbids: list[Forbidden]) -> None:
        tx.execute("UPDATE pins SET ban = ? WHERE id = ? AND text = ?", dump(forbids), pin.id, pin.text)
        tx.after(self._rules.reload)

    def _list(self, said: Said, tx: Tx | None = None) -> str:
        lines = [f"{number}. {pin.text} ({pin.how})" for number, pin in enumerate(self._rules.all(), 1)]
        return "\n".join(lines) or "Nothing is pinned. /pin TEXT keeps a standing rule."

    def _unpin(self, said: Said, tx: Tx) -> str:
        known = self._rules.all()
        if not known:
            return "Nothing is pinned."
        number = _number(said.argument, [pin.text for pin in known])
        if isinstance(number, str):
            return number
        tx.execute("DELETE FROM pins WHERE id = ?", known[number - 1].id)
        tx.after(self._rules.reload)
        return f"No longer pinned: {known[number - 1].text}"


def _in_a_line(pin: str) -> str:
    """A rule as written in the prompt: it cannot begin a section or a message of ours."""
    text = escape(" ".join(pin.split()))
    return f"\\{text}" if text.startswith(("#", "-", "=", ">", "`" * 3)) else text


def _number(wanted: str, known: list[str]) -> int | str:
    """The place of a pin that was given by number or by words, or a sentence when it isn't clear which is meant."""
    name = wanted.strip().removeprefix("#").rstrip(".")
    if name.isascii() and name.isdigit():
        if 1 <= int(name[:9]) <= len(known):
            return int(name)
        return f"There is no pin {name[:9]}: there {'is only 1' if len(known) == 1 else f'are {len(known)}'}. /pin"
    if not name:
        return "/unpin NUMBER, as /pin lists them, or /unpin with words of the rule."
    words = " ".join(wanted.split()).casefold()
    same = [number for number, text in enumerate(known, 1) if text.casefold() == words]
    found = same or [number for number, text in enumerate(known, 1) if words in text.casefold()]
    if len(found) == 1:
        return found[0]
    if found:
        return f"Several pins have these words: {', '.join(map(str, found))}. /unpin NUMBER takes one away."
    import difflib

    near = difflib.get_close_matches(wanted, known, 1, 0.6)
    hint = f"Did you mean number {known.index(near[0]) + 1}: {near[0]}?" if near else "/pin lists them."
    return f"No pin has these words. {hint}"
