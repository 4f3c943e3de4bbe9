"""Write docs/config.md from the settings classes: each key with its default and the comment beside it."""

from __future__ import annotations

import ast
import inspect
import json
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from nanoclaw.channels import table as channels
from nanoclaw.plugins.mcp.plugin import ServerSettings
from nanoclaw.plugins.send.plugin import Hook
from nanoclaw.start import config
from nanoclaw.start.build import BUILT_IN, classes, prefix_of

PAGE = Path(__file__).resolve().parents[1] / "config.md"

HEAD = """\
# Settings

All settings, for `~/.nanoclaw/config.toml`. They are optional: what you leave out has the default shown here. A default
of `""` is text, `[]` a list of texts, `{}` a table. A misspelled key is named, with the nearest one: nanoclaw starts
with the last good settings, or not if there are none. Keys and passwords are better in `secrets.env` or the keyring
([secrets.md](secrets.md)).
"""

ALIASES = 'Short names for models: `fast = "openai/gpt-5-mini"`, which `/model fast` and the keys above understand.'

RULES = """\
Rules for tools, as lists of names or patterns: `deny = ["todo"]` hides tools from the model, `ask = ["cron"]` asks you
before each call, `allow = ["message"]` doesn't ask. `[tools.NAME]` does the same for one kind of turn only: person,
guest, job, heartbeat or helper ([approvals.md](approvals.md))."""


class Key(NamedTuple):
    name: str
    default: str
    others: str
    text: str


def page() -> str:
    """The whole page."""
    tables: dict[str, tuple[dict[str, None], list[Key]]] = {}
    for title, sentence, keys in _tables():
        sentences, known = tables.setdefault(title, ({}, []))
        sentences |= {sentence: None} if sentence else {}
        known += keys
    return "\n".join([HEAD, *(_table(title, " ".join(said), keys) for title, (said, keys) in tables.items())])


def _tables() -> Iterator[tuple[str, str, list[Key]]]:
    for name, kind in config._TYPES.items():
        yield name, _said(kind), _keys(kind)
    which = f"PURPOSE is one of {', '.join(config.PURPOSES)}."
    yield "models.PURPOSE", f"{_said(config.PurposeModel)} {which}", _keys(config.PurposeModel)
    yield "models.aliases", ALIASES, []
    plugins = classes(config.Config(Path("/nowhere")), BUILT_IN)
    for one in plugins:
        if one.settings and not {"tools.*", "mcp.*", "hooks.*"} & {*one.keys.values()}:
            for key in _keys(one.settings):
                table, _, name = one.keys.get(key.name, f"{prefix_of(one)}.{key.name}").rpartition(".")
                said = _said(one.settings) if table == prefix_of(one) else ""
                yield table, said, [key._replace(name=name)]
    yield "tools", RULES, []
    yield "mcp.NAME", _said(ServerSettings), _keys(ServerSettings)
    yield "hooks.NAME", _said(Hook), _keys(Hook)
    for rules in (one.channel_settings for one in plugins if one.channel_settings):
        yield "channels.NAME", f"{_said(rules)} Each channel takes these keys and its own below.", _keys(rules)
    for name in channels.BUILT_IN:
        spec = channels.find(name)
        assert spec and spec.settings
        yield f"channels.{name}", _said(spec.settings), _keys(spec.settings)


def _said(kind: Any) -> str:
    return str(inspect.getdoc(kind))


def _keys(kind: Any) -> list[Key]:
    """The keys of a settings class; a field without a default is not a key."""
    hints, texts = get_type_hints(kind), _comments(kind)
    lacking = [name for name in kind._field_defaults if not texts.get(name)]
    if lacking:
        raise SystemExit(f"{kind.__module__}.{kind.__name__}: write a comment beside {', '.join(lacking)}.")
    return [
        Key(name, _toml(value), _others(value, hints[name]), texts[name])
        for name, value in kind._field_defaults.items()
    ]


def _comments(kind: Any) -> dict[str, str]:
    """By field the comment behind it or on the lines above it."""
    source = inspect.getsource(kind)
    lines = iter(source.splitlines(keepends=True))
    comments = {
        token.start[0]: token.string.removeprefix("#").strip()
        for token in tokenize.generate_tokens(lambda: next(lines, ""))
        if token.type == tokenize.COMMENT
    }
    found, end = {}, 0
    for node in ast.parse(source).body[0].body:  # type: ignore[attr-defined]
        last = node.end_lineno or 0
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = " ".join(text for line, text in comments.items() if end < line <= last)
        end = last
    return found


def _others(value: Any, hint: Any) -> str:
    """The values besides its default that a setting of a few values may have."""
    others = [f"`{_toml(one)}`" for one in get_args(hint) if one != value] if get_origin(hint) is Literal else []
    return f" (or {', '.join(others)})" if others else ""


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{}"
    return json.dumps(value, ensure_ascii=False)


def _table(title: str, said: str, keys: list[Key]) -> str:
    rows = [f"- `{key.name} = {key.default}`{key.others}: {key.text}" for key in keys]
    return "\n".join([f"## [{title}]", "", said, *([""] if rows else []), *rows, ""])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
