"""Commands that only show something: what the model sees, what it cost, and what was said."""

from __future__ import annotations

import asyncio
import json
import shutil
import textwrap
from collections.abc import Iterator
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Literal, get_args

from nanoclaw.commands.arguments import Options
from nanoclaw.core.errors import ConfigError
from nanoclaw.core.messages import AssistantMessage, Message, ToolResult, Usage, UserMessage
from nanoclaw.core.plugin import Reply
from nanoclaw.escapes import plain
from nanoclaw.installation import start_command
from nanoclaw.start.config import Config
from nanoclaw.start.home import stored

if TYPE_CHECKING:
    from nanoclaw.core.store.db import Store
    from nanoclaw.redaction import Redactor
    from nanoclaw.usage_totals import Total

By = Literal["day", "model", "session", "origin"]
BY: tuple[By, ...] = get_args(By)


def context(config: Config, options: Options) -> Reply:
    from nanoclaw.commands.inspecting import preview_request
    from nanoclaw.markdown.terminal import to_terminal
    from nanoclaw.plugins.inspect.request import table

    view = asyncio.run(preview_request(config, options.session, options.said, options.mode))
    columns = shutil.get_terminal_size((10_000, 24)).columns  # a pipe has no limit
    width = min(100, columns)
    lines = [to_terminal(table(view.rows), columns, False).rstrip(), ""]
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
    if not options.said:
        lines[-1] = "(here comes what you say; --message TEXT shows a message with what it brings up)"
    rows = [row._asdict() for row in view.rows]
    request = {"messages": view.messages, "tools": view.tools}
    return Reply("\n".join(lines), {**view.manifest.as_dict(), "rows": rows, "remarks": view.remarks, **request})


def usage(config: Config, options: Options) -> Reply:
    """A line for each row and one for all; no figure is shown that nobody knows."""
    from nanoclaw.providers import prices
    from nanoclaw.usage_totals import Total, totals

    today = config.clock()().date()
    since = today - timedelta(days=options.days - 1)
    with stored(config) as store:
        requests = list(spent(store, options.by, since)) if store else []
    found = totals(requests, prices.cost)
    found.sort(key=lambda one: one.key if options.by == "day" else "")
    total = next(iter(totals((("all", *one[1:]) for one in requests), prices.cost)), Total("all"))
    lines = [f"Tokens by {options.by}, {since} to {today}{'' if found else ': none yet.'}"]
    table = [_figures(one) for one in (*found, total)] if found else []
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for key, *figures in table:
        right = (f"{figure:>{width}}" for figure, width in zip(figures, widths[1:], strict=True))
        lines.append("  ".join([f"{key:<{widths[0]}}", *right]).rstrip())
    if total.unreported:
        lines.append(f"\n~ {total.unreported:,} of {total.calls:,} calls came without figures: counted here.")
    if total.unpriced:
        models = ", ".join(f"{plain(name)} ({count:,})" for name, count in sorted(total.unpriced.items()))
        lines.append(f"\nPrice unknown, so not in the sum: {models}.")
    told = {"by": options.by, "since": since.isoformat(), "until": today.isoformat()}
    return Reply("\n".join(lines), {**told, "rows": [_data(one) for one in found], "total": _data(total)})


def spent(store: Store, by: By, since: date | None = None) -> Iterator[tuple[str, str, Usage, bool, bool]]:
    """Requests: what each counts for, its model, its tokens, if they were reported, and if it was answered here. A day
    is that of the person's zone then."""
    key = {"day": "substr(at, 1, 10)", "model": "usage.model", "session": "coalesce(key, '')", "origin": "origin"}[by]
    sql = (
        f"SELECT {key}, usage.model, is_reported, {_local(store)}, input_tokens, output_tokens, cached_tokens"
        " FROM usage LEFT JOIN sessions ON sessions.id = usage.session WHERE substr(at, 1, 10) >= ? ORDER BY usage.id"
    )
    for name, model, told, is_local, *tokens in store.rows(sql, since.isoformat() if since else ""):
        yield name, model, Usage(*tokens), bool(told), bool(is_local)


def _local(store: Store) -> str:
    """The column if the format has it: older formats are read, too."""
    return "is_local" if store.rows("PRAGMA user_version")[0][0] > 1 else "0"


def _figures(one: Total) -> tuple[str, ...]:
    """Key, input, its cached share, output, calls, price."""
    from nanoclaw.dollars import dollars

    cached = f"({100 * one.cached_tokens / one.input_tokens:.0f} % cached)" if one.cached_tokens else ""
    price = dollars(one.cost)
    if one.unpriced:
        price = f"{price} + ?" if one.cost else "price unknown"
    about, calls = "~" if one.unreported else "", f"{one.calls:,} call{'s' * (one.calls != 1)}"
    tokens = f"{about}{one.input_tokens:,} in", cached, f"{one.output_tokens:,} out"
    return (" ".join(plain(one.key or "(none)").split()), *tokens, calls, price)


def _data(one: Total) -> dict[str, Any]:
    """`cost_usd` is null where some of it is unknown; `known_cost_usd` is the part that is known."""
    tokens = {name: getattr(one, name) for name in ("calls", "input_tokens", "output_tokens", "cached_tokens")}
    known = round(one.cost, 9)
    costs = {"cost_usd": None if one.unpriced else known, "known_cost_usd": known, "unknown_prices": one.unpriced}
    return {"key": one.key, **tokens, "estimated_calls": one.unreported, **costs}


def session(config: Config, options: Options) -> Reply:
    from nanoclaw.core.store.history import dump, whole_history

    name = options.session
    key = name if ":" in name else f"terminal:{name}"
    with stored(config) as store:
        history = whole_history(store, key) if store else None
    if history is None:
        raise ConfigError(f"there is no conversation {name!r}: {start_command()} sessions list shows which there are")
    from nanoclaw.redaction import within

    hide = redactor(config)
    if options.command == "sessions export":
        whole = {"session": key, "messages": [within(json.loads(dump(one)), hide) for one in history]}
        return Reply(json.dumps(whole), whole)
    zone, lines = config.clock()().tzinfo, list[str]()
    for message in history:
        calls = "".join(f"\n  -> {call.name} {call.arguments}" for call in getattr(message, "tool_calls", ()))
        if getattr(message, "origin", "") != "runtime":
            lines.append(hide(f"{message.at.astimezone(zone):%Y-%m-%d %H:%M} {_who(message)}: {message.text}{calls}"))
    return Reply("\n".join(lines))


def redactor(config: Config) -> Redactor:
    """Hides the keys known today: exports are passed on, and models' answers are stored unchanged."""
    from nanoclaw.redaction import Redactor
    from nanoclaw.start.build import classes, secret_settings
    from nanoclaw.start.secrets_file import hidden_values

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
