"""Writes bot_api.json: the Bot API as JSON Schema, cut down to the methods that the test server answers.

Run it as `python tests/live/telegram_schema/make.py`; it needs npm. The types come from the npm package below, which
is made from Telegram's own documentation.
"""

import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

TYPES = "@gramio/types@10.3.1"
TOOLS = ("ts-json-schema-generator@2.4.0", "typescript@7.0.2")

METHODS = (
    *("getMe", "getUpdates", "getFile", "getWebhookInfo", "deleteWebhook", "setMyCommands"),
    "deleteMyCommands",
    *("sendMessage", "sendMessageDraft", "sendChatAction"),
    *("sendPhoto", "sendDocument", "sendVoice", "sendAudio", "sendVideo"),
    *("editMessageText", "editMessageCaption", "editMessageReplyMarkup", "deleteMessage"),
    *("setMessageReaction", "answerCallbackQuery"),
)
BESIDE = ("TelegramUpdate", "TelegramResponseParameters")

FLOATS = frozenset(
    {"latitude", "longitude", "horizontal_accuracy", "x_shift", "y_shift", "scale", "main_frame_timestamp"}
)
"""The types say number for whole numbers and others; these are the others."""

ONLY_TYPESCRIPT = ({"toJSON"}, {"toString"})
"""Objects that a TypeScript caller may pass and that turn into something else on the wire."""

TARGET = Path(__file__).with_name("bot_api.json")


def make(target: Path) -> None:
    """Fetches the types with npm and writes the schema; CalledProcessError if npm fails."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "package.json").write_text("{}")
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--silent", TYPES, *TOOLS], cwd=folder, check=True)
        types = folder / "node_modules/@gramio/types/out"
        definitions = {**_generated(folder, types / "objects.d.ts"), **_generated(folder, types / "params.d.ts")}
        answers = _answers((types / "methods.d.ts").read_text(encoding="utf-8"))
    methods: dict[str, Any] = {}
    for method in METHODS:
        parameters = f"{method[0].upper()}{method[1:]}Params"
        methods[method] = {
            "parameters": {"$ref": parameters} if parameters in definitions else {"type": "object", "properties": {}},
            "answer": answers[method],
        }
    kept = _closure([*_references(methods), *BESIDE], {name: _trim(value) for name, value in definitions.items()})
    target.write_text(_written({"methods": methods, "definitions": kept}), encoding="utf-8")


def _generated(folder: Path, source: Path) -> dict[str, Any]:
    command = ["npx", "ts-json-schema-generator", "--path", str(source), "--type", "*", "--no-type-check"]
    made = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    definitions: dict[str, Any] = json.loads(made.stdout)["definitions"]
    return definitions


def _answers(source: str) -> dict[str, Any]:
    """What each method answers, read from lines such as `deleteWebhook: CallAPI<Params.DeleteWebhookParams, true>`."""
    calls = re.finditer(r"^    (\w+): CallAPI\w*<\s*(?:Params\.\w+,\s*)?([^>]+?)\s*>$", source, re.MULTILINE)
    return {call[1]: _answer(call[2]) for call in calls}


def _answer(written: str) -> dict[str, Any]:
    alternatives = [part.strip() for part in written.split("|")]
    if len(alternatives) > 1:
        return {"anyOf": [_answer(part) for part in alternatives]}
    if written == "true":
        return {"const": True}
    if written.endswith("[]"):
        return {"type": "array", "items": _answer(written.removesuffix("[]"))}
    return {"$ref": written.removeprefix("Objects.")}


def _trim(schema: Any, field: str = "") -> Any:
    """Without descriptions and without what only TypeScript knows; numbers are whole but for FLOATS."""
    match schema:
        case {"anyOf": [*choices]}:
            kept = [choice for choice in choices if set(choice.get("properties", ())) not in ONLY_TYPESCRIPT]
            trimmed = [_trim(choice, field) for choice in kept]
            return trimmed[0] if len(trimmed) == 1 else {"anyOf": trimmed}
        case {"$ref": reference}:
            return {"$ref": reference.removeprefix("#/definitions/")}
        case dict():
            small = {key: value for key, value in schema.items() if key not in ("description", "properties", "items")}
            if "properties" in schema:
                small["properties"] = {name: _trim(value, name) for name, value in schema["properties"].items()}
            if "items" in schema:
                small["items"] = _trim(schema["items"], field)
            if field not in FLOATS and "type" in small:
                kinds = small["type"]
                whole = [
                    "integer" if kind == "number" else kind for kind in ([kinds] if isinstance(kinds, str) else kinds)
                ]
                small["type"] = whole[0] if isinstance(kinds, str) else whole
            return small
    return schema


def _closure(wanted: list[str], definitions: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    while wanted:
        name = wanted.pop()
        if name not in kept:
            kept[name] = definitions[name]
            wanted += _references(kept[name])
    return dict(sorted(kept.items()))


def _references(schema: Any) -> list[str]:
    return re.findall(r'"\$ref": "([^"]+)"', json.dumps(schema))


def _written(whole: dict[str, dict[str, Any]]) -> str:
    """One definition a line, so that a change of the API reads well."""
    parts = []
    for part, values in whole.items():
        lines = [f"{json.dumps(name)}:{json.dumps(value, separators=(',', ':'))}" for name, value in values.items()]
        parts.append(f'"{part}":{{\n' + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    make(TARGET)
