"""Acts that others' text must not bring about unasked, in words that the owner can judge."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from nanoclaw.core.messages import Address, CheckedCall
from nanoclaw.core.plugin import Host, Scope, Turn
from nanoclaw.kept_files import is_own, who_runs

_HERE = ("", "here", "this chat", "me")
FREE = frozenset(
    {
        *("read_file", "list_dir", "find_files", "search_files", "memory_search", "knowledge_search"),
        *("agenda", "find_mails", "read_mail"),
        *("todo", "exit_plan_mode", "question", "report", "keep", "propose"),  # shown to the owner, who decides
        *("tool_search", "call_tool"),  # what is called so is judged as itself
        "file_changes",  # only what a card listed, after its yes
        "delegate",  # its helper has read what this turn has read
    }
)
"""Tools of ours that others' text may have used: they reach nobody and change nothing that lasts unseen."""

JUDGED = frozenset(
    {
        *("exec", "process", "message", "memory_add", "memory_forget", "cron", "write_file", "edit_file"),
        *("append_file", "web_fetch", "web_search", "browse", "browse_do", "mcp_resources"),
    }
)
"""Those that are judged by what they are to do. Any other that reaches outside needs a yes."""


TELLING = 4
"""Letters of an argument that says something by itself: no “on”, “en” or “10”."""


class Act(NamedTuple):
    """`words` complete "May I …?", `exact` is what it is about to the letter. The owner asked for it themselves where
    they said each word of `said`; for an `address`, a `search` and what `is_open` other rules hold. `contents` are
    the texts in it that others may have given, each by itself; () is `exact`. A yes may be extended to `scope`."""

    words: str
    exact: str = ""
    said: str = ""
    address: str = ""
    search: str = ""
    contents: tuple[str, ...] = ()
    is_open: bool = False
    scope: Scope | None = None


async def act_of(call: CheckedCall, turn: Turn, host: Host) -> Act | None:
    """The act of a call, None for one that is free whatever was read before."""
    given = call.arguments
    match call.name:
        case "exec":
            return await _command(given, host)
        case "process" if given.get("action") == "input":
            return Act(f"give this to process {given.get('id')}", str(given.get("text") or "(end of input)"))
        case "message":
            return _message(given, turn, host)
        case "memory_add":
            return _note(given)
        case "memory_forget":
            return _forgetting(given, host)
        case "cron" if given.get("action") != "list":
            return _job(given)
        case "write_file" | "edit_file" | "append_file":
            return _file(call.name, given, host)
        case "web_search":
            return Act("search the web for this", str(given["query"]), search=str(given["query"]))
        case "mcp_resources" if given.get("uri"):
            return Act(f"ask {given.get('server')} for this", str(given["uri"]), address=str(given["uri"]))
        case "web_fetch":
            return Act("fetch this address", str(given["url"]), address=str(given["url"]))
        case "browse" if given.get("url"):
            return Act("open this address in the browser", str(given["url"]), address=str(given["url"]))
        case "browse_do":
            return await _page(call, turn, host)
    if call.reach == "outside" and call.name not in JUDGED | FREE:
        texts = [text for text in map(str, given.values()) if len(text) >= TELLING and not text.isdigit()]
        return Act(f"use {call.name} with this", _json(given), contents=(_json(given), *texts))
    return None


def _note(given: Mapping[str, Any]) -> Act:
    text, replaces, also = (str(given.get(name) or "") for name in ("text", "replaces", "also"))
    shown = [text, *([f"instead of: {replaces}"] if replaces else []), *([f"to be found by: {also}"] if also else [])]
    words = "remember this for good" if replaces or given.get("kind") == "fact" else "note this"
    return Act(words, "\n".join(shown), f"{text} {replaces}", contents=(text,))


def _forgetting(given: Mapping[str, Any], host: Host) -> Act:
    query, numbers, forget = str(given["query"]), given.get("numbers") or (), host.get("forget")
    chosen = forget.chosen(query, numbers) if forget else ""
    words = "forget this for good, in the memory and in all that was said" if chosen else "look for this, to forget it"
    return Act(words, chosen or query, " ".join(map(str, (query, *numbers))), contents=(query,))


async def _command(given: Mapping[str, Any], host: Host) -> Act | None:
    command, sandbox = str(given["command"]), host.get("sandbox")
    if given.get("background"):
        return Act("start this command, which runs on in the background", command)
    if any(value for name, value in given.items() if name not in ("command", "timeout_seconds", "background")):
        return Act("run this command beyond the sandbox", command)
    if sandbox is None:
        return Act("run this command without a sandbox", command)
    if not await sandbox.confines():
        return Act("run this command, which may reach more than the workspace", command)
    return None


def _message(given: Mapping[str, Any], turn: Turn, host: Host) -> Act | None:
    to, access = str(given.get("to") or "").strip(), host.get("access")
    if to.lower() in _HERE or to == str(turn.address):
        return None
    target = Address(to.partition(":")[0], to.partition(":")[2])
    if access.is_owners(target) if access else target.channel == "terminal":
        return None
    files = given.get("files") or ()
    named = f"\n\nFiles: {', '.join(map(str, files))}" if files else ""
    text = str(given.get("text") or "")
    return Act(f"send this to {to}", f"{text}{named}".strip(), contents=(text, *map(str, files)))


def _job(given: Mapping[str, Any]) -> Act:
    if given.get("action") != "add":
        return Act(f"{given.get('action')} job {given.get('id')}", said=f"{given.get('action')} {given.get('id')}")
    kind = "reminder" if given.get("kind", "reminder") == "reminder" else "task"
    text = f"{given.get('when') or ''}: {given.get('text') or ''}"
    return Act(f"set this {kind}", text, text, contents=(str(given.get("text") or ""),))


def _file(tool: str, given: Mapping[str, Any], host: Host) -> Act | None:
    path = str(given["path"])
    text = f"{given.get('old')}\n→\n{given.get('new')}" if tool == "edit_file" else str(given.get("content", ""))
    if is_guarded(host.workspace, path):
        return Act(f"change {path}, which says what I am, know or do", text)
    if _is_elsewhere(path, host):
        return Act(f"write {path}, outside the workspace", text)
    return None


def is_guarded(root: Path, path: str) -> bool:
    """True for a file that a model reads as the person's, and for what other programs of theirs run."""
    from nanoclaw.beneath.paths import name_beneath

    parts = Path(name_beneath(root, path) or path).parts
    return is_own(parts) or bool(who_runs(parts))


def _is_elsewhere(path: str, host: Host) -> bool:
    """True for a path that a tool may write and that lies outside the workspace; others it refuses by itself."""
    from nanoclaw.beneath.paths import PathRefused, name_beneath, resolve

    if name_beneath(host.workspace, path):
        return False
    try:
        resolve(host.reach, path, for_writing=True)
    except PathRefused:
        return False
    except OSError:
        pass  # the tool says what is wrong with it
    return True


async def _page(call: CheckedCall, turn: Turn, host: Host) -> Act | None:
    """At a host that the person named, the browser itself asks before something is sent."""
    action, use = call.arguments["action"], await host.get("browse")(call, turn)
    if use.is_look or (use.is_open and action not in ("type", "upload")):
        return None
    said = str(call.arguments.get("value") or "") if action in ("type", "select") else ""
    scope = use.scope if call.arguments.get("element") else None
    return Act(use.words, use.exact, said, is_open=use.is_open and action == "type", scope=scope)


def _json(given: Mapping[str, Any]) -> str:
    return json.dumps(dict(given), ensure_ascii=False, indent=1)
