"""Questions of servers: the person whose turn made the call fills in a form or opens an address; nobody there means
no."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.messages import Address
from nanoclaw.core.plugin import Ask, Host
from nanoclaw.core.tool import ToolContext
from nanoclaw.escapes import one_line, plain
from nanoclaw.exact_text import as_code
from nanoclaw.plugins.mcp.sdk import types
from nanoclaw.tool_schema import ArgumentsError, check

if TYPE_CHECKING:
    from nanoclaw.plugins.mcp.connection import RunningCall

SECONDS = 300.0
"""The time in which one field of a form can be filled in."""
MOST_FIELDS, MOST_OPTIONS, TRIES = 12, 9, 3
LEFT_OUT = "leave it out"
SHOWN = 600


async def roots(host: Host, folders: Sequence[str]) -> Any:
    paths = _absolute(host.workspace, folders)
    roots = [types.Root(uri=path.as_uri(), name=path.name) for path in paths]  # type: ignore[arg-type]
    return types.ListRootsResult(roots=roots)


def _can_ask(host: Host, context: ToolContext) -> bool:
    """True where somebody is there in turns of its kind."""
    try:
        return host.profile(context.profile).can_ask
    except NanoclawError:
        return False


async def elicitation(host: Host, server: str, call: RunningCall | None, params: Any) -> Any:
    if call is None or call.context is None or not _can_ask(host, call.context):
        return types.ElicitResult(action="decline")
    asking = _address if params.mode == "url" else _form
    content = await call.of_person(asking(host, server, call.context.address, params))
    if content is None:
        return types.ElicitResult(action="decline")
    return types.ElicitResult(action="accept", content=content or None)


async def _address(host: Host, server: str, place: Address, params: Any) -> dict[str, Any] | None:
    """Show an address to open; None where the person did not."""
    asked = f"The MCP server {server} wants you to open this address: {as_code(params.message, SHOWN)} Done?"
    return {} if (await host.asker.ask(Ask(asked, exact=params.url), place)).is_yes else None


async def _form(host: Host, server: str, place: Address, params: Any) -> dict[str, Any] | None:
    """Have a form filled in, field by field; None where the person did not."""
    fields = dict(list((params.requested_schema.get("properties") or {}).items())[:MOST_FIELDS])
    required = params.requested_schema.get("required") or []
    named = ", ".join(_title(name, field) for name, field in fields.items())
    wanted = f"\nIt wants to know: {named}. Fill it in?" if named else ""
    ask = Ask(f"The MCP server {server} asks: {as_code(params.message, SHOWN)}{wanted}")
    if not (await host.asker.ask(ask, place)).is_yes:
        return None
    filled: dict[str, Any] = {}
    for name, field in fields.items():
        value = await _field(host, server, place, name, field if isinstance(field, Mapping) else {})
        if value is None and name in required:
            return None
        if value is not None:
            filled[name] = value
    return filled


async def _field(host: Host, server: str, place: Address, name: str, field: Mapping[str, Any]) -> Any:
    """The person's value for one field; None for none, or when the time is over."""
    schema, described = _plain(field), field.get("description")
    about = f" — {one_line(plain(described), 200)}" if isinstance(described, str) and described else ""
    text, wrong, options = f"{server}: {_title(name, field)}{about} ({_kind(schema)})?", "", _options(schema)
    for _ in range(TRIES):
        ask = Ask(f"{wrong}{text}", (*options, LEFT_OUT), LEFT_OUT, SECONDS, is_free=True, asks_back=bool(options))
        said = (await host.asker.ask(ask, place)).text
        if said == LEFT_OUT:
            return None
        try:
            bounds = {"properties": {"value": schema}, "required": []}
            return check({"value": _typed(said.strip(), schema)}, "it", bounds)["value"]
        except ArgumentsError as error:
            wrong = f"That does not fit: {error}\n\n"
    return None


def _absolute(workspace: Path, folders: Sequence[str]) -> list[Path]:
    return [Path(workspace, Path(one).expanduser()).absolute() for one in folders]


def _title(name: str, field: Any) -> str:
    title = field.get("title") if isinstance(field, Mapping) else None
    return one_line(plain(title if isinstance(title, str) and title else name), 60)


def _plain(field: Mapping[str, Any]) -> dict[str, Any]:
    """A field's schema with what is looked at here."""
    kind = field.get("type")
    options = field.get("enum") or [one.get("const") for one in field.get("oneOf", ()) if isinstance(one, Mapping)]
    options = [one for one in options if isinstance(one, str)] if isinstance(options, list) else []
    if kind == "array":
        items = field.get("items")
        return {"type": "array", "items": _plain(items) if isinstance(items, Mapping) else {"type": "string"}}
    if kind in ("boolean", "integer", "number"):
        return {"type": kind}
    return {"type": "string", **({"enum": options} if options else {})}


def _kind(schema: Mapping[str, Any]) -> str:
    kinds = {"boolean": "yes or no", "integer": "a whole number", "number": "a number", "string": "text"}
    if schema["type"] == "array":
        return f"several, with commas between: {_kind(schema['items'])}"
    return " or ".join(schema["enum"]) if "enum" in schema else kinds[schema["type"]]


def _options(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """The answers that a field has, where they are few."""
    options = ("yes", "no") if schema["type"] == "boolean" else tuple(schema.get("enum", ()))
    return options if len(options) <= MOST_OPTIONS else ()


def _typed(text: str, schema: Mapping[str, Any]) -> Any:
    if schema["type"] == "boolean":
        from nanoclaw.yes_no import yes_or_no

        said = yes_or_no(text)
        return text if said is None else said
    if schema["type"] == "array":
        return [part.strip() for part in text.split(",") if part.strip()]
    if "enum" in schema:
        return next((one for one in schema["enum"] if one.casefold() == text.casefold()), text)
    return text
