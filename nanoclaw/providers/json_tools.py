"""The json tool mode: a model that cannot call tools natively writes one small JSON object instead."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import ceil
from secrets import token_hex
from typing import Any

from nanoclaw.core.messages import (
    SEPARATOR,
    AssistantMessage,
    Message,
    ModelRequest,
    SystemPrompt,
    ToolCall,
    ToolResult,
    ToolSpec,
    UserMessage,
)
from nanoclaw.core.provider import legal, whole
from nanoclaw.outside_text import without_template_tokens
from nanoclaw.runtime_metadata import in_short

MAX_TOOLS = 12
MAX_EXAMPLES = 2
SPARE_TOOLS = ("web_search",)  # what is found must be read as well
RESULT_CHARACTERS = 1500
FACTS_CHARACTERS = 1200
PROFILE = """\
You are nanoclaw, a personal assistant. You live in a workspace folder on the person's computer.
Answer every message with one JSON object and nothing else:
{"reply":"..."} to talk to the person, or {"tool":"NAME","args":{...}} to act.
Rules:
- To read, write, find, run or remember something, call a tool. Never pretend that you did it.
- What the person tells you about their own life is worth remembering: call memory_add.
- For greetings, thanks, opinions, jokes and general knowledge, use reply. No tool is needed.
- Paths are relative to the workspace, for example notes/plan.txt.
- One step at a time. After "Result of ..." call the next tool, or reply and say what was done or found.
- If a result is an error, say so honestly or try another way.
- Earlier messages may already hold the answer; then reply from them.
- Reply in the person's language, in short plain sentences."""

SMALL_TALK = (
    ("Hi!", "Hello! What can I do for you?"),
    ("Who painted the Mona Lisa?", "Leonardo da Vinci."),
    ("What are you good at?", "I read and write files in your workspace, run commands, and remember things for you."),
    ("I need some help", "Of course. What is it about?"),
    ("How do you say thank you in French?", "Merci."),
    ("Write me a rhyme about spring", "The snow is gone, the days grow long; the birds are back with all their song."),
    ("Any idea for a present?", "A good book, a plant, or a ticket to a concert."),
    ("What is the largest ocean?", "The Pacific Ocean."),
    ("Remind me when I am at home", "When is that? Tell me a day and a time."),
    ("Thanks!", "You're welcome."),
)
"""Shown between the example calls, so that a question is not taken for a wish to search."""

Chat = list[dict[str, Any]]


def json_messages(request: ModelRequest) -> Chat:
    """A whole request for a server with room for the full system prompt."""
    static = static_messages(request.tools, system=f"{request.system.text}\n\n{PROFILE}")
    return to_answer(static + history_messages(legal(request.history)))


def static_messages(tools: Sequence[ToolSpec], *, system: str = PROFILE) -> Chat:
    """The part of every request that never changes: who it is, its tools, and an example call of each."""
    listing = "\n".join(f"- {_signature(tool)}: {_first_sentence(tool.description)}" for tool in tools)
    text = f"{system}\nTools:\n{listing}" if tools else f"{system}\nThere are no tools here: always use reply."
    calls = [
        _exchange(example.said, _call(tool.name, _dumps(example.arguments)))
        for tool in tools
        for example in tool.examples
    ]
    talk = [_exchange(said, _reply(answer)) for said, answer in SMALL_TALK]
    messages: Chat = [{"role": "system", "content": text}]
    for call, words in zip_longest(calls, talk):
        messages += [*(call or ()), *(words or ())]
    return messages


def few(tools: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    """The tools a small model is offered, in their order; those without an example are the first left out."""
    ranked = sorted(tools, key=lambda tool: (not tool.examples, tool.name in SPARE_TOOLS))[:MAX_TOOLS]
    return tuple(_as_in_examples(tool) for tool in tools if tool in ranked)


def _as_in_examples(tool: ToolSpec) -> ToolSpec:
    """A tool with the parameters that its examples use, and of listed values those: a small model errs with more."""
    examples = tool.examples[:MAX_EXAMPLES]
    given = [one.arguments for one in examples]
    names = {name for one in given for name in one} | {*tool.parameters.get("required", ())}
    kept = {name: schema for name, schema in tool.parameters.get("properties", {}).items() if name in names}
    for name, schema in kept.items():
        usual = schema.get("default")
        if used := [one for one in schema.get("enum", ()) if one in (usual, *(each.get(name) for each in given))]:
            kept[name] = {**schema, "enum": used}
    return tool._replace(parameters={**tool.parameters, "properties": kept}, examples=examples) if given else tool


def facts(system: SystemPrompt) -> str:
    """The facts of the system prompt about the person, in a few words that go before the history."""
    found = [part.strip() for part in system.text.split(SEPARATOR) if _MEMORY.match(part.strip())]
    text = "\n".join(_COMMENT.sub("", _MEMORY.sub("", part, count=1)).strip() for part in found)
    known = without_template_tokens(_cut(_BLANK_LINES.sub("\n", text).strip(), FACTS_CHARACTERS))
    return f"[Known about the person:\n{known}]" if known else ""


def reply_schema(tools: Sequence[ToolSpec]) -> dict[str, Any]:
    """Either a reply or one call, its arguments held to that tool's own parameters."""
    reply = _object({"reply": {"type": "string"}})
    calls = [_object({"tool": {"const": tool.name}, "args": _plain(tool.parameters)}) for tool in tools]
    return {"anyOf": [reply, *calls]} if calls else reply


def history_messages(history: Sequence[Message], known: str = "") -> Chat:
    """The conversation as strictly alternating turns: a call is the assistant's, its result the person's."""
    messages: Chat = _exchange(known, _reply("OK.")) if known else []
    results = {message.call_id: message for message in history if isinstance(message, ToolResult)}
    for message in history:
        match message:
            case UserMessage():
                _add(messages, "user", _spoken(message))
            case AssistantMessage(tool_calls=()):
                _add(messages, "assistant", _reply(message.text))
            case AssistantMessage():
                for call in (one.as_said for one in message.tool_calls):
                    _add(messages, "assistant", _call(call.name, call.arguments))
                    _add(messages, "user", _result(call, results.get(call.id)))
            case ToolResult():
                pass  # shown with its call
    return messages


def to_answer(messages: Chat) -> Chat:
    """The messages with the user's turn at the end, which is what a model answers."""
    return messages if messages[-1]["role"] == "user" else [*messages, {"role": "user", "content": "(Go on.)"}]


def exchanges(history: Sequence[Message]) -> list[tuple[Message, ...]]:
    """The history cut where a user speaks, so that no call is parted from its result."""
    groups: list[list[Message]] = []
    for message in history:
        opens = isinstance(message, UserMessage) and not (groups and isinstance(groups[-1][-1], UserMessage))
        if opens or not groups:
            groups.append([])
        groups[-1].append(message)
    return [tuple(group) for group in groups]


def fit(history: Sequence[Message], budget: int, count: Callable[[str], int] | None = None) -> tuple[Message, ...]:
    """The newest exchanges that fit in `budget` tokens.

    The oldest go in steps of half the budget, so that several requests in a row begin alike and the model's
    cached state stays of use.
    """
    groups = exchanges(history)
    measure = count or estimate
    sizes = [sum(measure(one["content"]) + 5 for one in history_messages(group)) for group in groups]
    step = max(1, budget // 2)
    to_drop = ceil(max(0, sum(sizes) - budget) / step) * step
    start = dropped = 0
    while dropped < to_drop and start < len(groups) - 1:
        dropped += sizes[start]
        start += 1
    return tuple(message for group in groups[start:] for message in group)


def without_oldest(history: Sequence[Message]) -> tuple[Message, ...] | None:
    """The history less its oldest exchange, or less the oldest call of the only one; None when nothing can go."""
    groups = exchanges(history)
    if len(groups) > 1:
        return tuple(message for group in groups[1:] for message in group)
    calls = [i for i, message in enumerate(history) if isinstance(message, AssistantMessage)]
    if len(calls) < 2:
        return None
    return (*history[: calls[0]], *history[calls[1] :])


def estimate(text: str) -> int:
    """Tokens of a text, guessed on the safe side: about three bytes each."""
    return len(text.encode("utf-8", "replace")) // 3 + 1


class ReplyReader:
    """Follows the JSON while it is written and hands out the reply's text, decoded; calls yield nothing."""

    def __init__(self) -> None:
        self.raw = ""
        self._at: int | None = None

    def feed(self, piece: str) -> str:
        self.raw += piece
        if self._at is None:
            opening = _OPENING.match(self.raw)
            if opening is None:
                return ""
            self._at = opening.end()
        whole = _WHOLE_CHARACTERS.match(self.raw, self._at)
        assert whole is not None  # it matches the empty string too
        self._at = whole.end()
        return str(json.loads(f'"{whole.group()}"', strict=False))


@dataclass(frozen=True, slots=True)
class JsonReply:
    """A model's answer in JSON: words for the person, or one call."""

    text: str
    calls: tuple[ToolCall, ...] = ()


def read_reply(raw: str) -> JsonReply:
    """The model's JSON; plain words, or JSON cut off in the middle, count as the words they hold."""
    match _decoded(raw):
        case {"reply": str(text)} | str(text):
            pass
        case {"tool": str(name), "args": dict(arguments)} | {"tool": str(name), "arguments": dict(arguments)}:
            return JsonReply("", (_new_call(name, arguments),))
        case None if raw.lstrip().startswith("{"):
            text = ReplyReader().feed(raw)
        case _:
            text = raw.strip()
    return JsonReply(whole(text))


def calls_in_text(text: str, names: Sequence[str], history: Sequence[Message] = ()) -> JsonReply:
    """Calls that a server left in the text: <tool_call> tags, fenced JSON, or a bare object on lines of its own.

    Text in a result or in a message of the `history` is quoted, and not a call. Nor is anything that has words
    beside it when the model has made calls as a server tells of them.
    """
    known = {name.casefold(): name for name in names}
    shown = ""
    calls: list[ToolCall] = []
    rest: list[str] = []
    end = 0
    for start in _LINE_OBJECT.finditer(text):
        if start.start(1) < end:
            continue
        decoded = _decode(text, start.start(1))
        found = _calls_of(decoded[0], known) if decoded else []
        if not decoded or not found:
            continue
        closing = _CLOSING.match(text, decoded[1])
        if closing is None:
            continue  # words follow on the same line: talk about a call, not a call
        shown = shown or _squeezed("\n".join(one.text for one in history if not isinstance(one, AssistantMessage)))
        if _squeezed(text[start.start(1) : decoded[1]]) in shown:
            continue
        rest.append(text[end : start.start()])
        calls += found
        end = closing.end()
    rest.append(text[end:])
    words = "\n".join(part.strip() for part in rest if part.strip())
    return JsonReply(text) if not calls or (words and _calls_natively(history)) else JsonReply(words, tuple(calls))


_MEMORY = re.compile(r"#+\s*(?:long-term\s+)?memory\b[^\n]*\n?|#+\s*recalled[^\n]*\n?", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?-->|^What you knew when[^\n]*:$|^#[^\n]*$", re.DOTALL | re.MULTILINE)
_BLANK_LINES = re.compile(r"\n\s*\n")
_OPENING = re.compile(r'\s*\{\s*"reply"\s*:\s*"')
_WHOLE_CHARACTERS = re.compile(
    r'(?:[^"\\]|\\["\\/bfnrt]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})*'
)
_LINE_OBJECT = re.compile(
    r"(?:^|(?<=\n))[ \t]*(?:```\w*\s*)?(?:<[\w-]+>\s*)?(?:```\w*\s*)?"
    r'([{\[])(?=[\s{]*"(?:name|tool|type|id|function|arguments)")'
)
_CLOSING = re.compile(r"\}?[ \t]*(?:\s*```)?(?:\s*</[\w-]+>)?(?:\s*```)?[ \t]*(?=\n|\Z)")
_LAYOUT = re.compile(r"^[ ]*\d+\t|[\s\\]", re.MULTILINE)
_OWN_ID = re.compile(r"call_[0-9a-f]{12}")
_PLAIN_KEYS = ("type", "enum", "const", "minimum", "maximum", "minItems", "maxItems")


def _exchange(said: str, answer: str) -> Chat:
    return [{"role": "user", "content": said}, {"role": "assistant", "content": answer}]


def _reply(text: str) -> str:
    return f'{{"reply":{_dumps(text)}}}'


def _call(name: str, arguments: str) -> str:
    return f'{{"tool":{_dumps(name)},"args":{arguments}}}'


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _result(call: ToolCall, result: ToolResult | None) -> str:
    if result is None:
        return f"Result of {call.name}: error: it was interrupted"
    kind = "error: " if result.is_error else ""
    return f"Result of {call.name}: {kind}{without_template_tokens(_cut(result.text, RESULT_CHARACTERS))}"


def _spoken(message: UserMessage) -> str:
    if message.origin == "runtime":
        return without_template_tokens(in_short(message.text)).strip()
    notes = [
        f"[image {without_template_tokens(whole(image.name))} left out: you cannot see images]"
        for image in message.images
    ]
    return "\n".join([*notes, without_template_tokens(message.text)]).strip()


def _add(messages: Chat, role: str, content: str) -> None:
    """Append a turn so that the sides alternate, as most chat templates insist on."""
    if not content:
        return
    previous = messages[-1]["role"] if messages else "assistant"
    if role == "user" and previous == "user":
        messages[-1]["content"] += f"\n{content}"
        return
    if role == "assistant" and previous == "assistant":
        messages.append({"role": "user", "content": "(Some time later.)"})
    messages.append({"role": role, "content": content})


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    head, tail = limit * 7 // 10, limit * 2 // 10
    return f"{text[:head]}\n[... {len(text) - head - tail} characters left out ...]\n{text[-tail:]}"


def _signature(tool: ToolSpec) -> str:
    required = tool.parameters.get("required", ())
    names = [name if name in required else f"{name}?" for name in tool.parameters.get("properties", {})]
    return f"{tool.name}({', '.join(names)})"


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?])\s|\n", text.strip(), maxsplit=1)[0][:120]


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with only the keywords every grammar builder knows."""
    if not isinstance(schema, dict):  # of others: true, for anything
        return {}
    plain = {key: schema[key] for key in _PLAIN_KEYS if key in schema}
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return {"anyOf": [_plain(option) for option in schema[choice]]}
    if "items" in schema:
        plain["items"] = _plain(schema["items"])
    if "properties" in schema:
        plain["properties"] = {name: _plain(value) for name, value in schema["properties"].items()}
        plain["required"] = [name for name in schema.get("required", ()) if name in schema["properties"]]
        plain["additionalProperties"] = False
    return plain


def _decode(text: str, start: int) -> tuple[Any, int] | None:
    decoder = json.JSONDecoder(strict=False)
    try:
        return decoder.raw_decode(text, start)
    except ValueError:
        return _decode_unclosed(text, start)
    except RecursionError:
        return None


def _decode_unclosed(text: str, start: int) -> tuple[Any, int] | None:
    """Small models forget the last brace now and then."""
    end = re.compile(r"\s*(?:</|```|\Z)").search(text, start)
    assert end is not None  # \Z always matches
    found = _decoded(text[start : end.start()] + "}")
    return None if found is None else (found, end.start())


def _calls_of(value: Any, known: dict[str, str]) -> list[ToolCall]:
    if isinstance(value, list):
        return [call for item in value for call in _calls_of(item, known)]
    if not isinstance(value, dict):
        return []
    if isinstance(value.get("function"), dict):
        value = value["function"]
    name = value.get("name", value.get("tool"))
    arguments = value.get("arguments", value.get("args", value.get("parameters")))
    if isinstance(arguments, str):
        arguments = _decoded(arguments)
    if not isinstance(name, str) or name.casefold() not in known or not isinstance(arguments, dict):
        return []
    return [_new_call(known[name.casefold()], arguments)]


def _decoded(text: str) -> Any:
    """The value of a JSON text, None for any other."""
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _squeezed(text: str) -> str:
    """Without space, escapes, and the numbers that read_file puts before lines."""
    return _LAYOUT.sub("", text)


def _calls_natively(history: Sequence[Message]) -> bool:
    calls = (call for one in history if isinstance(one, AssistantMessage) for call in one.tool_calls)
    return any(not _OWN_ID.fullmatch(call.id) for call in calls)


def _new_call(name: str, arguments: dict[str, Any]) -> ToolCall:
    return ToolCall(f"call_{token_hex(6)}", name, whole(_dumps(arguments)))
