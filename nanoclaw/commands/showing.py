"""Commands that only show something: what the model sees, what it cost, and what was said."""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import textwrap
from datetime import timedelta
from typing import TYPE_CHECKING

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.messages import AssistantMessage, Message, ToolResult, UserMessage
from nanoclaw.escapes import json_line
from nanoclaw.installation import start_command
from nanoclaw.start.config import Config
from nanoclaw.start.home import stored

if TYPE_CHECKING:
    from nanoclaw.redaction import Redactor


def context(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw.commands.inspecting import preview_request
    from nanoclaw.plugins.inspect.request import plain_table

    view = asyncio.run(preview_request(config, options.session, options.message, options.mode))
    if options.json:
        rows = [row._asdict() for row in view.rows]
        request = {"messages": view.messages, "tools": view.tools}
        print(json.dumps({**view.manifest.as_dict(), "rows": rows, "remarks": view.remarks, **request}))
        return 0
    width = min(100, _columns())
    lines = [plain_table(view.rows, _columns()), ""]
    lines += [textwrap.fill(remark, width, initial_indent="- ", subsequent_indent="  ") for remark in view.remarks]
    lines += [
        "",
        f"What is sent, word by word{' (the tools go beside it as JSON: --json shows them)' * bool(view.tools)}:",
    ]
    for message in view.messages:
        content = message.get("content") or ""
        shown = content if isinstance(content, str) else json.dumps(content)[:2000]
        calls = "".join(f"\n-> {call['function']}" for call in message.get("tool_calls", ()))
        lines += ["", f"── {message['role']} ".ljust(width, "─"), shown + calls]
    if not options.message:
        lines[-1] = "(here comes what you say; --message TEXT shows a message with what it brings up)"
    print("\n".join(lines))
    return 0


def usage(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw.commands import usage_table
    from nanoclaw.core.store.usage import spent
    from nanoclaw.dollars import dollars
    from nanoclaw.providers import prices
    from nanoclaw.usage_totals import totals

    today = config.clock()().date()
    since = today - timedelta(days=options.days - 1)
    with stored(config) as store:
        found = totals(spent(store, options.by, since), prices.cost) if store else []
    if options.json:
        print(json_line(json.dumps(usage_table.as_json(found, options.by, since, today), ensure_ascii=False)))
    else:
        encoding = sys.stdout.encoding or "utf-8"
        lines = usage_table.table(found, options.by, since, today, _columns(), dollars, encoding)
        print("\n".join(lines))
    return 0


def _columns() -> int:
    """Columns of the screen; a pipe or a file has no limit, so no label is cut there."""
    return shutil.get_terminal_size((10_000, 24)).columns


def sessions(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw.core.store.history import list_sessions
    from nanoclaw.plugins.conversations.titles import age, titled

    now = config.clock()()
    with stored(config) as store:
        rows = titled(store.rows, list_sessions(store)) if store else []
    if options.json:
        print(json.dumps({"sessions": rows}))
        return 0
    lines = [f"{row['name']:<30} {row['messages']:>6}  {age(row['last'], now):<24}  {row['title']}" for row in rows]
    print("\n".join(line.rstrip() for line in lines) or "None yet.")
    return 0


def session(config: Config, options: argparse.Namespace) -> int:
    from nanoclaw.core.store import codec
    from nanoclaw.core.store.history import whole_history

    key = options.name if ":" in options.name else f"terminal:{options.name}"
    with stored(config) as store:
        history = whole_history(store, key) if store else None
    if history is None:
        raise ConfigError(
            f"there is no conversation {options.name!r}: {start_command()} sessions list shows which there are"
        )
    from nanoclaw.redaction import within

    hide = redactor(config)
    if options.json:
        print(json.dumps({"session": key, "messages": [within(json.loads(codec.dump(one)), hide) for one in history]}))
        return 0
    zone = config.clock()().tzinfo
    for message in history:
        calls = "".join(f"\n  -> {call.name} {call.arguments}" for call in getattr(message, "tool_calls", ()))
        if getattr(message, "origin", "") != "runtime":
            print(hide(f"{message.at.astimezone(zone):%Y-%m-%d %H:%M} {_who(message)}: {message.text}{calls}"))
    return 0


def redactor(config: Config) -> Redactor:
    """Hides the keys known today: exports are passed on, and models' answers are stored unchanged."""
    from nanoclaw.redaction import Redactor
    from nanoclaw.start.build import classes, secret_settings
    from nanoclaw.start.secret_settings import hidden_values

    try:
        kinds = classes(config)
    except ConfigError:  # a plugin cannot be loaded: then all texts of its settings count as secret
        kinds = []
    return Redactor(hidden_values(secret_settings(config, kinds)))


def _who(message: Message) -> str:
    match message:
        case UserMessage():
            return "you"
        case AssistantMessage():
            return "nanoclaw"
        case ToolResult():
            return message.name


COMMANDS = {
    "context": context,
    "usage": usage,
    "sessions": sessions,
    "sessions list": sessions,
    "sessions show": session,
    "sessions export": session,
}
