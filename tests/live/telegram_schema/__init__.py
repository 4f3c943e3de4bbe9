"""Checks values against the Bot API's own types, and reads the parameters of a form by them."""

import json
from pathlib import Path
from typing import Any

_API: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("bot_api.json").read_text(encoding="utf-8"))

METHODS: dict[str, str] = {method.lower(): method for method in _API["methods"]}
"""The names of the methods; Telegram does not mind their case."""

_KINDS: dict[str, Any] = {"string": str, "array": list, "object": dict, "boolean": bool, "integer": int}


def wrong_parameters(method: str, parameters: dict[str, Any]) -> str:
    """The fault in the parameters of a call, or ""."""
    return _wrong(parameters, _API["methods"][method]["parameters"], method)


def wrong_answer(method: str, answer: Any) -> str:
    """The fault in what a method answers, or ""."""
    return _wrong(answer, _API["methods"][method]["answer"], method)


def wrong_object(name: str, value: Any) -> str:
    """What is wrong with an object such as "Update", or ""."""
    return _wrong(value, {"$ref": f"Telegram{name}"}, name)


def from_form(method: str, fields: dict[str, str]) -> dict[str, Any]:
    """The parameters that were sent as text; what cannot be read stays text and is then found wrong."""
    properties = _resolved(_API["methods"][method]["parameters"]).get("properties", {})
    return {name: _read(text, properties.get(name, {})) for name, text in fields.items()}


def update_kinds() -> list[str]:
    """The kinds of update that `allowed_updates` may name."""
    kinds: list[str] = _resolved({"$ref": "GetUpdatesParams"})["properties"]["allowed_updates"]["items"]["enum"]
    return kinds


def _resolved(schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = _API["definitions"][schema["$ref"]]
    return schema


def _read(text: str, schema: dict[str, Any]) -> Any:
    schema = _resolved(schema)
    kinds = schema.get("type", "object")
    if "string" in kinds and text.removeprefix("-").isdecimal() and "integer" in kinds:
        return int(text)
    if "string" in kinds or _takes_text(schema):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _takes_text(schema: dict[str, Any]) -> bool:
    return any(_resolved(choice).get("type") == "string" for choice in schema.get("anyOf", ()))


def _wrong(value: Any, schema: dict[str, Any], where: str) -> str:
    schema = _resolved(schema)
    if "anyOf" in schema:
        found = [_wrong(value, choice, where) for choice in schema["anyOf"]]
        return "" if "" in found else max(found, key=lambda reason: reason.split(" ")[0].count("."))
    if "const" in schema and (value != schema["const"] or type(value) is not type(schema["const"])):
        return f"{where} is {value!r}, not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where} is {value!r}, not one of {', '.join(map(str, schema['enum']))}"
    kinds = schema.get("type", ())
    if kinds and not any(_is(value, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)):
        return f"{where} is {value!r}, not of type {kinds}"
    if isinstance(value, list) and "items" in schema:
        reasons = (_wrong(item, schema["items"], f"{where}[{index}]") for index, item in enumerate(value))
        return next(filter(None, reasons), "")
    if isinstance(value, dict) and "properties" in schema:
        return _wrong_fields(value, schema, where)
    return ""


def _wrong_fields(value: dict[str, Any], schema: dict[str, Any], where: str) -> str:
    properties = schema["properties"]
    for name in schema.get("required", ()):
        if name not in value:
            return f"{where} lacks {name}"
    for name, field in value.items():
        if name not in properties:
            return f"{where} has no {name}"
        if reason := _wrong(field, properties[name], f"{where}.{name}"):
            return reason
    return ""


def _is(value: Any, kind: str) -> bool:
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, _KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))
