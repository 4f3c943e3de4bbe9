"""The command line as a table: each command, the function that carries it out, and its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from nanoclaw.channels.attach import TIMEOUT_SECONDS
from nanoclaw.core.errors import ConfigError
from nanoclaw.start.config import near

JSON = "--json: one JSON object"
CHAT = (
    "-V, --version: print the version",
    "-m, --message TEXT: answer once and end; '-' or a pipe reads stdin too",
    "--file, --image FILE… = files: attach it (repeatable)",
    "-c, --continue = goes_on: go on with the last conversation",
    "-r, --resume [NAME] = picked: go on with one, or pick it",
    "--session NAME: which conversation (default: main)",
    "--model PROVIDER/NAME: another model than the configured one",
    "--json: with -m: print one JSON object",
    "--timeout SECONDS: with -m: seconds to wait for output from the model (default: 120)",
    "--without PLUGIN…: start without a plugin",
)
"""Arguments before any command."""

YES, SHOWN = "--yes: without asking", "PATH: a folder with a SKILL.md, or a .zip, .tar or .tar.gz"
COMMANDS: dict[str, tuple[str, ...]] = {
    "init": (
        *("home.init", "create the home, and ask for model, key and time zone; again: Enter keeps what is there"),
        "--model PROVIDER/NAME: write it to config.toml; the rest stays",
        "--api-base URL: where an OpenAI-style server listens",
    ),
    "status": ("home.status", "what is configured, what runs, how much is stored", JSON),
    "gateway": ("talking.gateway", "run channels and reminders until it is stopped; nanoclaw attaches to it"),
    "web": (
        *("talking.web", "print a link to the page in your browser; starts a gateway with it, if none runs"),
        "--qr: draw it for the camera of a phone, too",
    ),
    "attach": (
        *("attaching.attach", "talk, in this terminal, with a gateway on another machine that serves the page"),
        "URL: of the page, such as https://home.example",
        "--token-file FILE: with a token that `nanoclaw web token NAME` made there",
        "--session NAME: which conversation (default: main)",
    ),
    "model": (
        *("models.model", "the models: what each is for, its key, window and price; no model is asked", JSON),
        "[PROVIDER/NAME] = name: the one that answers from now on, in config.toml",
    ),
    "doctor": (
        *("doctor.doctor", "check all that a start needs, and say what to do; exits with 1 for a problem", JSON),
        "--fix: repair what can be repaired without losing anything",
    ),
    "audit": ("doctor.audit", "who may talk, what tools may do, what is open, and how risky each is", JSON),
    "backup": (
        *("home.save", "one archive of the home and the workspace, checked by restoring it"),
        "FILE: a new file, such as nanoclaw.tar.gz",
        "--with-secrets: secrets.env too",
    ),
    "restore": ("home.restore", "restore a backup; what is there now is kept aside", "FILE"),
    "heartbeat": (
        *("plugins.heartbeat", "look at HEARTBEAT.md now, and ask the model about what is due"),
        "--dry-run: only show what is due and why; no model is asked",
    ),
    "mcp": ("mcp.listed", "the configured MCP servers, which bring tools, and what is known about each", JSON),
    "mcp add": (
        *("mcp.add", "add a server: nanoclaw mcp add NAME -- COMMAND ARGUMENT…, or with --url", "NAME", JSON),
        "--url URL: of a server that runs elsewhere",
        "--header HEADER…: such as 'Authorization: Bearer $TOKEN'",
        "--env NAME=VALUE…: a variable for it; NAME=$NAME is yours",
        "--cwd FOLDER: default: the workspace",
        "--root FOLDER… = roots: that it is told of",
        "--allow GLOB…: only these of its tools",
        "--deny GLOB…: none of these tools",
        "--reads GLOB…: tools that change nothing",
    ),
    "mcp remove": ("mcp.remove", "take a server out", "NAME", JSON),
    "mcp test": ("mcp.test", "connect to a server, signing in where it wants that, and show its tools", "NAME", JSON),
    "import": (
        *("importing.import_", "bring over what another assistant knows of you; undo takes it back", JSON),
        "ASSISTANT = source: nanobot, hermes, openclaw or claude; or undo",
        "[FOLDER] = folder: its home, such as ~/.nanobot",
        "--dry-run: only show what comes, what changes and what is lost",
        "--yes: without asking, and without its keys",
    ),
    "context": (
        *("showing.context", "what the model would see, part by part and word by word", JSON),
        "--message TEXT = said: as if this were said next",
        "--mode full|minimal|guest|none: yours (full, the default), a task's (minimal), a guest's, or one line and no"
        " tools (none)",
        "--session NAME: such as work, or telegram:555",
    ),
    "usage": (
        *("showing.usage", "how many tokens the models used, and what that cost", JSON),
        *("--by day|model|session|origin", "--days N: the last N days, today included"),
    ),
    "local": ("models.listed", "models that run on this machine, without a key"),
    "local pull": (
        *("models.pull", "download a model; continues where it was stopped"),
        "[NAME]: default: the best one for this machine's memory",
        "--if-needed: only when there is no model to talk to yet",
    ),
    "local remove": ("models.remove", "delete a model's file", "NAME"),
    "memory forget": (
        *("memory.forget", "delete text from notes and conversations for good", "QUERY…"),
        "--yes: all that contains exactly these words, without asking",
        "--number 1,3: these numbers of the list, without asking",
    ),
    "sessions show": ("showing.session", "a whole conversation, as text", "[NAME] = session"),
    "sessions export": ("showing.session", "the same as JSON", "[NAME] = session"),
    "link": (
        *("linking.link", "link your account in a chat app by a code; nanoclaw pair lets others in"),
        "[CHANNEL]: telegram, matrix, email …",
    ),
    "keys": ("keys.show", "keys and passwords: where each is stored, never its value", JSON),
    "keys set": (
        *("keys.put", "store one in the system's keyring; type it unseen, or pipe it in"),
        "NAME: the variable that it is read from, such as OPENAI_API_KEY",
        "--file = in_file: in secrets.env, which only you can read, instead",
    ),
    "keys delete": ("keys.delete", "delete one from the keyring and secrets.env", "NAME"),
    "plugins": ("plugin_files.listed", "the plugins that run, from where, and with which hooks", JSON),
    "plugins show": ("plugin_files.show", "a third-party one in full, or what changed since your review", "NAME", JSON),
    "plugins trust": (
        *("plugin_files.trust", "try one as it is now, show what it brings, load it until it changes", "NAME", JSON),
        "[HASH] = sha256: only if it is still as shown",
    ),
    "plugins remove": ("plugin_files.remove", "delete one that was added; its data stays", "NAME", JSON),
    "plugins add": (
        *("plugin_files.add", "show all of a plugin, copy it into the home after a yes, and enable it", JSON, YES),
        "PATH: a .py, a folder with an __init__.py, or a .zip or .tar",
    ),
    "skills add": (
        "plugin_files.add_skill",
        "show all of a skill, and copy it into the home after a yes",
        SHOWN,
        YES,
        JSON,
    ),
}
"""By name: module and function, what it does, and its arguments: "--flag", "--flag VALUE", "--flag VALUE…" (again
and again), "NAME", "[NAME]", "WORDS…"; behind "=" another name for the program, behind ": " the help."""

OF_CHATS_TOO = ("memory", "sessions", "skills", "web")
"""Families of which the chat has commands, too, which are the same in a shell."""

Options = SimpleNamespace


class Argument(NamedTuple):
    """One of the arguments. `value` is '' for a switch, "X…" for several, "[X]" for one that may be left out."""

    name: str
    flags: tuple[str, ...]
    value: str
    help: str

    def default(self) -> Any:
        return _DEFAULTS.get(self.name, [] if self.value.endswith("…") else "" if self.value else False)


def arguments(name: str) -> list[Argument]:
    """Those of a command, '' for none: those of talking."""
    return [_argument(one) for one in (COMMANDS[name][2:] if name else CHAT)]


def is_built_in(word: str, action: str = "") -> bool:
    """True for what the command line alone carries out, or in a way of its own, also with a slip in the action."""
    import difflib

    if word not in OF_CHATS_TOO:
        return any(word == name.split()[0] for name in COMMANDS)
    flags = [flag for one in (arguments(word) if word in COMMANDS else ()) for flag in one.flags]
    own = ["-h", "--help", *flags, *_actions(word)] if action else [""] * (word in COMMANDS)
    return action in own or bool(difflib.get_close_matches(action, own, 1, 0.85))


def parsed(words: Sequence[str]) -> Options:
    """The options of a line, with its `command`; `help` where that is asked for. Raises ConfigError."""
    options, rest = _read("", words)
    if options.help or not rest:
        return options
    family = _actions(rest[0])
    if family and rest[1:2] == ["list"]:  # which is what the family alone does
        del rest[1]
    name = next((one for one in (" ".join(rest[:2]), rest[0]) if one in COMMANDS), "")
    if rest[1:2] and not rest[1].startswith("-") and " " not in name and family:
        raise ConfigError(f"there is no action {rest[1]!r}{near(rest[1], family)}")
    if not name and not family:
        raise ConfigError(f"there is no command {rest[0]!r}{near(rest[0], {one.split()[0]: 0 for one in COMMANDS})}")
    if not name:
        return Options(**vars(options) | {"command": rest[0], "help": True})
    more, _ = _read(name, rest[len(name.split()) :])
    return Options(**vars(options) | vars(more))


def _actions(word: str) -> list[str]:
    return [one.split()[1] for one in COMMANDS if one.startswith(f"{word} ")]


def _argument(text: str) -> Argument:
    left, _, told = text.partition(": ")
    left, _, name = left.partition(" = ")
    *flags, last = left.split(", ")
    flag, _, value = last.partition(" ") if last.startswith("-") else ("", "", last)
    name = name or (flag or value).strip("-[]…").lower().replace("-", "_")
    return Argument(name, tuple(filter(None, (*flags, flag))), value, told)


def _read(command: str, words: Sequence[str]) -> tuple[Options, list[str]]:
    """The options of a command. Those before any command end at the first word that is none; the rest is given back."""
    known, rest, where = arguments(command), list(words), f"{command} ".lstrip()
    found, places = {flag: one for one in known for flag in one.flags}, [one for one in known if not one.flags]
    options = {"command": command or "chat", "help": False, "program": [], **{one.name: one.default() for one in known}}
    while rest and (command or rest[0].startswith("-")):
        word = rest.pop(0)
        flag, equals, value = word.partition("=")
        if word in ("-h", "--help"):
            return Options(**options | {"help": True}), []
        if word == "--":  # behind it stands a whole command line of another program
            options["program"], rest = rest, []
            break
        if flag in found:
            one = found[flag]
            if one.value and not equals and rest and (rest[0] == "-" or not rest[0].startswith("-")):
                value = rest.pop(0)
            elif one.value and not equals and one.value[0] != "[":
                raise ConfigError(f"{where}{flag}: expected one argument, {one.value}.")
        elif places and (word == "-" or not word.startswith("-")):
            one, value = places[0], word
            places = places if one.value.endswith("…") else places[1:]
        else:
            raise ConfigError(f"{where}{word} is not understood. Try nanoclaw {where}--help.")
        if "|" in one.value and value not in one.value.split("|"):
            raise ConfigError(f"{where}{flag} is one of {one.value.replace('|', ', ')}, not {value!r}.")
        checked = _CHECKS.get(one.name, str)(value) if one.value else True
        options[one.name] = [*options[one.name], checked] if one.value.endswith("…") else checked
    if lacking := [one.value for one in places if one.value[0] != "[" and not options[one.name]]:
        raise ConfigError(f"{where}lacks {lacking[0]}. Try nanoclaw {where}--help.")
    return Options(**options), rest


def show_usage(command: str) -> None:
    """Print the help of a command, of a family of them, or for "chat" of all."""
    name = "" if command == "chat" else command
    own = arguments(name) if name in COMMANDS or not name else []
    places = "".join(f" {one.value}" for one in own if not one.flags)
    lines = [f"usage: nanoclaw {name}".rstrip() + places + " [OPTIONS]" * any(one.flags for one in own)]
    lines += ["", COMMANDS[name][1]] if name in COMMANDS else []
    lines += _table("arguments", [(f"{', '.join(one.flags)} {one.value}".strip(), one.help) for one in own])
    lines += _table("commands", [(one, row[1]) for one, row in COMMANDS.items() if not name or f"{name} " in one])
    lines += ["", *["nanoclaw help lists what chats know: nanoclaw X is their /X."] * (not name)]
    print("\n".join(lines))


def _table(title: str, rows: Sequence[tuple[str, str]]) -> list[str]:
    return ["", f"{title}:", *(f"  {left:<30} {right}".rstrip() for left, right in rows)] if rows else []


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 < (seconds := float(text)) < float("inf"):
            return seconds
    raise ConfigError(f"{text!r} is not a number of seconds above 0.")


def _number(text: str) -> int:
    if text.isascii() and text.isdigit() and 0 < int(text[:7]) <= 36500:
        return int(text)
    raise ConfigError(f"{text!r} is not a whole number from 1 to 36500.")


def _name(text: str) -> str:
    if not text.strip():
        raise ConfigError(f"{text!r} is not a name: it is empty.")
    if not text.isprintable():
        raise ConfigError(f"{text!r} is not a name: it has characters that cannot be shown.")
    return text


_CHECKS: dict[str, Callable[[str], Any]] = {
    "session": _name,
    "timeout": _seconds,
    "days": _number,
    "path": Path,
    "file": Path,
}
_DEFAULTS = {
    "message": None,
    "picked": None,
    "session": "main",
    "timeout": TIMEOUT_SECONDS,
    "by": "day",
    "days": 30,
    "mode": "full",
}
