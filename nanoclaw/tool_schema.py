"""Arguments of tools: a JSON schema from an annotated function, and a model's JSON checked and converted against it.

Pure: knows nothing of an assistant. Types: str, int, float, bool, list of these, Literal, and any of them `| None`.
"""

from __future__ import annotations

import inspect
import json
import math
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

from nanoclaw import strict_json

ARGUMENTS_LIMIT = 2_000_000
"""Characters of JSON that a call may carry; more is a runaway model."""


class ArgumentsError(ValueError):
    """An error in arguments, in words for the model."""


def schema_of(tool: str, parameters: Iterable[inspect.Parameter], hints: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of a tool's parameters, with their evaluated types. Raises TypeError for a type that has none."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    for parameter in parameters:
        properties[parameter.name] = _schema(hints[parameter.name], f"{tool}({parameter.name})")
        if parameter.default is inspect.Parameter.empty:
            required.append(parameter.name)
    return {"type": "object", "properties": properties} | ({"required": required} if required else {})


def parse(text: str) -> dict[str, Any]:
    """The JSON object of a call's arguments. Raises ArgumentsError."""
    if len(text) > ARGUMENTS_LIMIT:
        raise ArgumentsError(
            f"the arguments are {len(text):,} characters, more than {ARGUMENTS_LIMIT:,}: send less at once"
        )
    if not text.strip():
        return {}
    try:
        value = strict_json.read(text)
        if isinstance(value, str):  # some models encode twice
            value = strict_json.read(value)
    except ValueError as error:
        raise ArgumentsError(
            f"the arguments are not valid JSON ({error}). Nothing was done; send one JSON object."
        ) from None
    if not isinstance(value, dict):
        raise ArgumentsError(f"the arguments are a {type(value).__name__}, not a JSON object. Nothing was done.")
    return cast(dict[str, Any], value)


def check(arguments: dict[str, Any], tool: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Arguments that fit the schema of the tool of that name, converted. Raises ArgumentsError."""
    properties, required = schema["properties"], schema.get("required", ())
    checked: dict[str, Any] = {}
    for name, value in arguments.items():
        if name not in properties:
            if value is None:
                continue
            raise ArgumentsError(f"{tool} has no argument {name!r}; it takes {', '.join(properties) or 'none'}.")
        if value is None:
            continue
        checked[name] = _convert(value, properties[name], f"{tool}: argument {name!r}")
    missing = [name for name in required if name not in checked]
    if missing:
        raise ArgumentsError(f"{tool} needs {' and '.join(repr(name) for name in missing)}. Nothing was done.")
    return checked


def _convert(value: Any, schema: dict[str, Any], where: str) -> Any:
    kind = schema.get("type")
    if kind == "array":
        items = value if isinstance(value, list) else [value]
        return [_convert(item, schema["items"], where) for item in items]
    if kind == "object" and isinstance(value, dict):
        return value
    if kind == "string":
        if not isinstance(value, str):
            value = json.dumps(value, ensure_ascii=False)
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ArgumentsError(f"{where} is not valid Unicode text (a lone surrogate). Nothing was done.") from None
        if "enum" in schema and value not in schema["enum"]:
            raise ArgumentsError(f"{where} must be one of {', '.join(schema['enum'])}, not {value!r}.")
        return value
    converted = _number(value, kind)
    if converted is None:
        raise ArgumentsError(f"{where} must be of type {kind}, not {json.dumps(value, ensure_ascii=False)[:80]}.")
    return converted


def _number(value: Any, kind: Any) -> bool | int | float | None:
    if kind == "boolean":
        if isinstance(value, str):
            return {"true": True, "false": False}.get(value.strip().lower())
        return value if isinstance(value, bool) else None
    if isinstance(value, bool):
        return None
    try:
        if kind == "integer":
            whole = int(value)
            return whole if whole == float(value) else None
        share = float(value)
        return share if math.isfinite(share) else None
    except (TypeError, ValueError, OverflowError):
        return None


_SIMPLE: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def _schema(hint: Any, where: str) -> dict[str, Any]:
    origin = typing.get_origin(hint)
    if origin is typing.Annotated:
        inner, *notes = typing.get_args(hint)
        return {**_schema(inner, where), "description": str(notes[0])}
    if origin in (typing.Union, types.UnionType):
        (inner,) = [option for option in typing.get_args(hint) if option is not type(None)]
        return _schema(inner, where)
    if origin is list:
        return {"type": "array", "items": _schema(typing.get_args(hint)[0], where)}
    if origin is Literal:
        return {"type": "string", "enum": list(typing.get_args(hint))}
    if hint in _SIMPLE:
        return {"type": _SIMPLE[hint]}
    raise TypeError(f"{where} has a type that has no schema: {hint!r}")
