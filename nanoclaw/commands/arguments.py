"""The arguments of all commands, as argparse reads them."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, cast

from nanoclaw.channels.attach import TIMEOUT_SECONDS


def chat_parser() -> _Parser:
    """Arguments before any command: all that talking needs."""
    top = _Parser(prog="nanoclaw", description="Your assistant. Without a command: talk to it. More: nanoclaw help.")
    top.set_defaults(command="chat", without_config=False)
    top.add_argument("-V", "--version", action="store_true", help="print the version")
    top.add_argument("-m", "--message", metavar="TEXT", help="answer once and end; '-' or a pipe reads stdin too")
    repeated: Any = {"action": "append", "default": []}
    top.add_argument("--file", "--image", dest="files", metavar="FILE", help="attach it (repeatable)", **repeated)
    goes_on = "go on with the last conversation"
    top.add_argument("-c", "--continue", dest="goes_on", action="store_true", default=argparse.SUPPRESS, help=goes_on)
    picks = {
        "default": argparse.SUPPRESS,
        "dest": "picked",
        "nargs": "?",
        "const": "",
        "metavar": "NAME",
        "help": "go on with one, or pick it",
    }
    top.add_argument("-r", "--resume", **cast(Any, picks))
    top.add_argument("--session", type=_name, default="main", metavar="NAME", help="which conversation (default: main)")
    top.add_argument("--model", default="", metavar="PROVIDER/NAME", help="another model than the configured one")
    top.add_argument("--json", action="store_true", help="with -m: print one JSON object")
    text = "with -m: seconds to wait for output from the model (default: 120)"
    top.add_argument("--timeout", type=_seconds, default=TIMEOUT_SECONDS, metavar="SECONDS", help=text)
    top.add_argument("--without", metavar="PLUGIN", help="start without a plugin", **repeated)
    return top


def parser(words: Collection[str] | None = None) -> _Parser:
    """All commands; of those that aren't among the words of a line only the names."""
    top = chat_parser()

    def make(**given: Any) -> Any:
        return _Parser(**given) if words is None or given["prog"].rpartition(" ")[2] in words else _Unread()

    families = {"": top.add_subparsers(title="commands", metavar="COMMAND", parser_class=cast(type[_Parser], make))}

    def command(words: str, text: str, *, json: bool = False) -> _Parser:
        """A command, or an action of a family: "memory search"."""
        family, _, name = words.rpartition(" ")
        added = families[family].add_parser(name, help=text, description=text)
        added.set_defaults(command=words)
        if json:
            added.add_argument("--json", action="store_true")
        return added

    init = command("init", "create the home, and ask for model, key and time zone; again: Enter keeps what is there")
    init.add_argument("--model", default="", metavar="PROVIDER/NAME", help="write it to config.toml; the rest stays")
    init.add_argument("--api-base", default="", metavar="URL", help="where an OpenAI-style server listens")
    command("status", "what is configured, what runs, how much is stored", json=True)
    command("gateway", "run channels and reminders until it is stopped; nanoclaw attaches to it")
    command("web", "print a link to the page in your browser; starts a gateway with it, if none runs")
    models = command("model", "the models: what each is for, its key, window and price; no model is asked", json=True)
    models.add_argument(
        "name", nargs="?", default="", metavar="PROVIDER/NAME", help="the one that answers from now on, in config.toml"
    )
    checks = "check all that a start needs, and say what to do; exits with 1 if something is wrong"
    doctor = command("doctor", checks, json=True)
    doctor.add_argument("--fix", action="store_true", help="repair what can be repaired without losing anything")
    doctor.add_argument("--last-good", action="store_true", help="with --fix: put back the last good config.toml")
    command("audit", "who may talk, what tools may do, what is open, and how risky each is", json=True)

    saving = command("backup", "one archive of the home and the workspace, checked by restoring it")
    saving.add_argument("file", type=Path, metavar="FILE", help="a new file, such as nanoclaw.tar.gz")
    saving.add_argument("--with-secrets", action="store_true", help="secrets.env too")
    restoring = command("restore", "restore a backup; what is there now is kept aside")
    restoring.add_argument("file", type=Path, metavar="FILE")
    restoring.set_defaults(without_config=True)  # it may be what is damaged

    beat = command("heartbeat", "look at HEARTBEAT.md now, and ask the model about what is due")
    beat.add_argument("--dry-run", action="store_true", help="only show what is due and why; no model is asked")

    with suppress(ModuleNotFoundError):  # that plugin may be taken out
        from nanoclaw.plugins.schedule.cli import add_arguments

        add_arguments(command("jobs", "reminders and tasks: list, add, change and try them out"))
    with suppress(ModuleNotFoundError):
        from nanoclaw.plugins.mcp.cli import add_arguments as add_mcp_arguments

        add_mcp_arguments(command("mcp", "servers of the Model Context Protocol, which bring tools"))

    importing = command("import", "bring over what another assistant knows of you; undo takes it back", json=True)
    importing.add_argument("source", metavar="ASSISTANT", help="nanobot, hermes, openclaw or claude; or undo")
    importing.add_argument("path", nargs="?", default="", metavar="FOLDER", help="its home, such as ~/.nanobot")
    importing.add_argument("--dry-run", action="store_true", help="only show what comes, what changes and what is lost")
    importing.add_argument("--yes", action="store_true", help="without asking, and without its keys")

    context = command("context", "what the model would see, part by part and word by word", json=True)
    context.add_argument("--message", default="", metavar="TEXT", help="as if this were said next")
    modes = "full: yours (default); minimal: a task's; guest: a guest's; none: one line about who it is, and no tools"
    context.add_argument("--mode", choices=("full", "minimal", "guest", "none"), default="full", help=modes)
    context.add_argument("--session", type=_name, default="main", metavar="NAME", help="such as work, or telegram:555")

    tokens = command("usage", "how many tokens the models used, and what that cost", json=True)
    tokens.add_argument("--by", choices=("day", "model", "session", "origin"), default="day")
    tokens.add_argument("--days", type=_days, default=30, metavar="N", help="the last N days, today included")

    local = command("local", "models that run on this machine, without a key")
    families["local"] = local.add_subparsers(metavar="ACTION")
    command("local list", "the catalogue")
    pull = command("local pull", "download a model; continues where it was stopped")
    pull.add_argument("name", nargs="?", default="", help="default: the best one for this machine's memory")
    pull.add_argument("--if-needed", action="store_true", help="only when there is no model to talk to yet")
    command("local remove", "delete a model's file").add_argument("name")

    memory = command("memory", "notes and facts; nanoclaw help memory says what else there is")
    families["memory"] = memory.add_subparsers(metavar="ACTION")
    search = command("memory search", "find notes, facts and what was said", json=True)
    search.add_argument("query", nargs="+")
    search.add_argument("--limit", type=int, default=5)
    forget = command("memory forget", "delete text from notes and conversations for good")
    forget.add_argument("query", nargs="+")
    forget.add_argument("--yes", action="store_true", help="all that contains exactly these words, without asking")
    forget.add_argument("--number", default="", metavar="1,3", help="these numbers of the list, without asking")

    sessions = command("sessions", "the conversations that are stored", json=True)
    families["sessions"] = sessions.add_subparsers(metavar="ACTION")
    command("sessions list", "all of them, the newest first", json=True)
    for name, text in (("show", "a whole conversation, as text"), ("export", "the same as JSON")):
        action = command(f"sessions {name}", text)
        action.add_argument("name", nargs="?", type=_name, default="main")
        action.set_defaults(json=name == "export")

    linking = command(
        "link", "link your account in a chat app by a code; nanoclaw pair says who may write, and lets others in"
    )
    linking.add_argument("channel", nargs="?", default="", metavar="CHANNEL", help="telegram, matrix, email …")

    keys = command("keys", "keys and passwords: where each is stored, never its value", json=True)
    families["keys"] = keys.add_subparsers(metavar="ACTION")
    command("keys list", "which are set, and where", json=True)
    kept = command("keys set", "store one in the system's keyring; type it unseen, or pipe it in")
    kept.add_argument("name", metavar="NAME", help="the variable that it is read from, such as OPENAI_API_KEY")
    kept.add_argument("--file", action="store_true", help="in secrets.env, which only you can read, instead")
    command("keys delete", "delete one from the keyring and secrets.env").add_argument("name", metavar="NAME")

    plugins = command("plugins", "the plugins that run, from where, and with which hooks", json=True)
    families["plugins"] = plugins.add_subparsers(metavar="ACTION")
    command("plugins list", "the same", json=True)
    for name, text in (
        ("show", "show a third-party one in full, or what changed since your review"),
        ("trust", "try one as it is now, show what it brings and load it, until it changes"),
        ("remove", "delete one that was added; its data stays"),
    ):
        action = command(f"plugins {name}", text, json=True)
        action.add_argument("name", metavar="NAME")
        if name == "trust":
            action.add_argument("sha256", nargs="?", default="", metavar="HASH", help="only if it is still as shown")
    added = command("plugins add", "show all of a plugin, copy it into the home after a yes, and enable it", json=True)
    added.add_argument("path", type=Path, metavar="PATH", help="a .py, a folder with an __init__.py, or a .zip or .tar")
    added.add_argument("--yes", action="store_true", help="without asking")

    skills = command("skills", "the skills; nanoclaw help skills says what else there is")
    families["skills"] = skills.add_subparsers(metavar="ACTION")
    added = command("skills add", "show a skill as a whole, and copy it into the home after a yes", json=True)
    added.add_argument("path", type=Path, metavar="PATH", help="a folder with a SKILL.md, or a .zip, .tar or .tar.gz")
    added.add_argument("--yes", action="store_true", help="without asking")
    return top


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 < (seconds := float(text)) < float("inf"):
            return seconds
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")


def _days(text: str) -> int:
    if text.isascii() and text.isdigit() and 0 < int(text[:7]) <= 36500:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of days")


def _name(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not a name: it is empty")
    if not text.isprintable():
        raise argparse.ArgumentTypeError(f"{text!r} is not a name: it has characters that cannot be shown")
    return text


class _Unread:
    """In the place of a parser: to make all of them takes longer than what most commands do."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self


class _Parser(argparse.ArgumentParser):
    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """An unknown command is answered with a similar one; --help lists all."""
        if action.choices is None or value in action.choices or not isinstance(action, argparse._SubParsersAction):
            super()._check_value(action, value)
            return
        import difflib

        near = difflib.get_close_matches(value, action.choices, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(action.choices)}"
        self.error(f"there is no {str(action.metavar).lower()} {value!r}; {hint}")

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}{'' if message.endswith('?') else '.'} Try {self.prog} --help.\n")
