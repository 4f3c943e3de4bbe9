"""The protocol of a provider, and the chat form that OpenAI-style adapters share."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, Protocol

from nanoclaw import strict_json
from nanoclaw.core.events import Event
from nanoclaw.core.messages import (
    AssistantMessage,
    HistoryMemo,
    Image,
    Message,
    ModelRequest,
    SystemPrompt,
    ToolCall,
    ToolResult,
    ToolSpec,
    UserMessage,
)
from nanoclaw.named_tuple import NamedTuple
from nanoclaw.tokens import estimate, image_tokens, weight

OnEvent = Callable[[Event], None]

MESSAGE, CALL = 4, 8
"""Tokens around each message, and around each call of a tool."""

COUNTS_TILES = "openai/"
"""Prefix of models that count a picture by tiles."""


Ability = Literal["sees_images", "calls_tools", "takes_schema"]


class Abilities(NamedTuple):
    """Abilities of a model and its server, False if one was refused before; `lacks` is called when one is."""

    sees_images: bool = True
    calls_tools: bool = True
    takes_schema: bool = True
    """The answer can be made to follow a JSON schema."""
    lacks: Callable[[Ability], None] = lambda ability: None


ABLE = Abilities()


class Provider(Protocol):
    """Answers one request. `model` is the name as the person wrote it: provider/model.

    It may also have `cuts_history`, True if it sends only the newest part of a history, as much as the model accepts,
    and `others(request)`, the names of models that it may ask instead. A Notice without text says that a request has
    not reached the model, a TextDelta without text that it has.
    """

    @property
    def model(self) -> str: ...

    @property
    def supports_vision(self) -> bool: ...

    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        """Stream deltas to `on_event` (which must not raise) and return the whole answer.

        Retries inside; raises ProviderError and nothing else (ContextTooLong when the request outgrew the window).
        Cancelling ends the request at once.
        """

    async def aclose(self) -> None: ...


class EmbeddingModel(NamedTuple):
    """A model that makes vectors of texts: its name, and its address and key if they differ from its provider's usual
    ones."""

    name: str
    api_base: str = ""
    api_key: str = ""

    def __repr__(self) -> str:
        return f"EmbeddingModel({self.name!r})"  # without the key


class Embedded(NamedTuple):
    """A vector for each text. `tokens` is what was reported, None for nothing; `is_local`: made on this machine."""

    vectors: Sequence[Sequence[float]]
    tokens: int | None = None
    is_local: bool = False


AddOpaque = Callable[[dict[str, Any], AssistantMessage], None]


def chat_messages(
    request: ModelRequest, *, vision: bool = True, add_opaque: AddOpaque | None = None
) -> list[dict[str, Any]]:
    """The request in the OpenAI chat form: system, then the history in order, repaired by `legal`.

    `add_opaque` is given each answer in this form, and the answer itself, whose `opaque` it may add.
    """
    form, history = ChatForm(vision, add_opaque), request.history
    messages = system_message(request.system)
    for position in range(len(history)):
        messages += form.of(history, position)
    return messages + form.end()


def system_message(system: SystemPrompt) -> list[dict[str, Any]]:
    """The system message in the chat form; empty if there is no text."""
    return [{"role": "system", "content": whole(system.text)}] if system.text else []


class ChatForm:
    """Puts one message of a history after the other into the OpenAI chat form."""

    def __init__(self, vision: bool = True, add_opaque: AddOpaque | None = None) -> None:
        self._vision, self._add_opaque = vision, add_opaque
        self._legal = LegalForm()
        self._shown: tuple[Image, ...] = ()  # of tool results: only a user message may hold pictures in this form
        self._last_role = ""

    def copy(self) -> ChatForm:
        other = ChatForm(self._vision, self._add_opaque)
        other._legal, other._shown, other._last_role = self._legal.copy(), self._shown, self._last_role
        return other

    def of(self, history: Sequence[Message], position: int) -> list[dict[str, Any]]:
        """The wire form of the message at that position, after all before it."""
        messages: list[dict[str, Any]] = []
        for message in self._legal.of(history, position):
            if not isinstance(message, ToolResult):
                messages += self._pictures()
            wire = chat_message(message, vision=self._vision)
            messages.append(wire)
            if self._add_opaque and isinstance(message, AssistantMessage):
                self._add_opaque(wire, message)
            if self._vision and isinstance(message, ToolResult):
                self._shown += message.images
        if messages:
            self._last_role = messages[-1]["role"]
        return messages

    def end(self) -> list[dict[str, Any]]:
        """Messages that the end of a request still needs: an answer there would be read as one to be continued."""
        if self._shown or self._last_role in ("user", "tool"):
            return self._pictures()
        return [{"role": "user", "content": GO_ON}]

    def _pictures(self) -> list[dict[str, Any]]:
        shown, self._shown = self._shown, ()
        said = "(the images of the results above)"
        return [{"role": "user", "content": _content(said, shown, vision=True)}] if shown else []


def chat_message(message: Message, *, vision: bool = True) -> dict[str, Any]:
    match message:
        case UserMessage():
            return {"role": "user", "content": _content(message.text, message.images, vision)}
        case ToolResult():
            note = "shown in the next message" if vision else _BLIND
            content = _with_notes(message.text, message.images, note)
            return {"role": "tool", "tool_call_id": message.call_id, "content": content}
        case AssistantMessage():
            answer: dict[str, Any] = {"role": "assistant", "content": message.text or None}
            if message.tool_calls:
                answer["tool_calls"] = [
                    {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                    for call in message.tool_calls
                ]
            elif not message.text:
                answer["content"] = NO_ANSWER
            return answer


def chat_tools(tools: tuple[ToolSpec, ...]) -> list[dict[str, Any]]:
    """Tool definitions for the `tools` field of an OpenAI-style request."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in tools
    ]


def tools_text(tools: tuple[ToolSpec, ...]) -> str:
    """Tool definitions as they go over the wire, '' for none."""
    return json.dumps(chat_tools(tools), ensure_ascii=False, separators=(",", ":")) if tools else ""


def image_url(image: Image) -> str:
    return f"data:{image.mime};base64,{b64encode(image.data).decode('ascii')}"


def legal(history: Sequence[Message]) -> tuple[Message, ...]:
    """The history in a form that every provider accepts; what is legal already stays the same object.

    It begins with a user; each call has an id of its own and is followed by its result, in the order of the calls; no
    result stands alone, nothing is empty, arguments are JSON objects and text is Unicode. Only what stands before a
    message decides its form, so that a longer history begins with the same messages.
    """
    form = LegalForm()
    return tuple(message for position in range(len(history)) for message in form.of(history, position))


class LegalForm:
    """Puts one message of a history after the other into its legal form. Results follow their answer at once, so that
    all before the newest answer is settled."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._has_begun = False

    def copy(self) -> LegalForm:
        other = LegalForm()
        other._used, other._has_begun = set(self._used), self._has_begun
        return other

    def of(self, history: Sequence[Message], position: int) -> list[Message]:
        """The wire form of the message at that position, after all before it."""
        message, legal = history[position], list[Message]()
        match message:
            case UserMessage():
                legal.append(_legal_user(message))
            case AssistantMessage():
                if not self._has_begun:
                    legal.append(UserMessage("(what was said before is left out)", message.at, "runtime"))
                for part in _parts_of(message):
                    answer = _legal_answer(part, self._used)
                    legal.append(answer)
                    legal += _results_of(part, answer, history, position + 1)
            case ToolResult():
                pass  # stands with its call, or alone and then nowhere
        self._has_begun = self._has_begun or bool(legal)
        return legal


def whole(text: str) -> str:
    """The text with lone surrogates joined or replaced, so that it can be stored and sent."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


NO_ANSWER = "(no answer)"
GO_ON = "(go on)"
INTERRUPTED = "No result: the call was interrupted and may or may not have taken effect. Check before repeating it."
ARGUMENTS_SHOWN = 2_000
"""Characters shown of arguments that are not a JSON object or are larger than any tool accepts."""

CALLS_LIMIT = 128
"""Calls that one message may hold; OpenAI refuses more."""

_ARGUMENTS_LIMIT = 2_000_000
_BLIND = "left out: this model cannot see images"


def _legal_user(message: UserMessage) -> UserMessage:
    text = whole(message.text)
    if not text.strip() and not message.images:
        text = "(empty message)"
    return message if text == message.text else message._replace(text=text)


def _legal_answer(message: AssistantMessage, used: set[str]) -> AssistantMessage:
    text = whole(message.text) if message.text.strip() else ""
    if not text and not message.tool_calls:
        text = NO_ANSWER
    calls = tuple(_legal_call(call, used) for call in message.tool_calls)
    if text == message.text and calls == message.tool_calls:
        return message
    return message._replace(text=text, tool_calls=calls)


def _parts_of(message: AssistantMessage) -> list[AssistantMessage]:
    """The answer, or several that share its calls if it has more than a provider accepts."""
    calls = message.tool_calls
    if len(calls) <= CALLS_LIMIT:
        return [message]
    first = message._replace(tool_calls=calls[:CALLS_LIMIT], opaque="")
    rest = range(CALLS_LIMIT, len(calls), CALLS_LIMIT)
    return [first, *(first._replace(text="", tool_calls=calls[at : at + CALLS_LIMIT]) for at in rest)]


def _legal_call(call: ToolCall, used: set[str]) -> ToolCall:
    wanted = whole(call.id).strip() or f"call_{len(used) + 1}"
    unique, number = wanted, 2
    while unique in used:
        unique, number = f"{wanted}_{number}", number + 1
    used.add(unique)
    call = call.as_said
    name = re.sub(r"[^A-Za-z0-9_-]|^(?=[0-9-])", "_", call.name.strip())[:64] or "unknown_tool"
    arguments = _legal_arguments(call.arguments)
    repaired = ToolCall(unique, name, arguments)
    return call if repaired == call else repaired


def _legal_arguments(text: str) -> str:
    if len(text) <= _ARGUMENTS_LIMIT:
        try:
            value = strict_json.read(text) if text.strip() else {}
            if isinstance(value, dict):
                return text if text.strip() else "{}"
        except ValueError:
            pass
    cut = len(text) - ARGUMENTS_SHOWN
    shown = text if cut <= 0 else f"{text[:ARGUMENTS_SHOWN]}[... {cut} characters left out ...]"
    return json.dumps({"_raw": whole(shown)}, ensure_ascii=False)


def _results_of(
    asked: AssistantMessage, answer: AssistantMessage, history: Sequence[Message], start: int
) -> list[ToolResult]:
    """One result for each call of `answer`, found by the ids of `asked` from `start` on, until the next answer."""
    if not asked.tool_calls:
        return []
    found: dict[str, list[ToolResult]] = {}
    for position in range(start, len(history)):  # a slice would copy the rest of a long history for each answer
        message = history[position]
        if isinstance(message, AssistantMessage):
            break
        if isinstance(message, ToolResult):
            found.setdefault(message.call_id, []).append(message)
    results = []
    for old, call in zip(asked.tool_calls, answer.tool_calls, strict=True):
        given = found.get(old.id)
        result = given.pop(0) if given else ToolResult(call.id, call.name, INTERRUPTED, asked.at, is_error=True)
        text = whole(result.text) if result.text.strip() else "(no output)"
        if (result.call_id, result.name, result.text) != (call.id, call.name, text):
            result = result._replace(call_id=call.id, name=call.name, text=text)
        results.append(result)
    return results


def _content(text: str, images: tuple[Image, ...], vision: bool) -> str | list[dict[str, Any]]:
    if not images or not vision:
        return _with_notes(text, images, _BLIND)
    parts: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": image_url(image)}} for image in images]
    return [*parts, {"type": "text", "text": text}] if text.strip() else parts


def _with_notes(text: str, images: tuple[Image, ...], note: str) -> str:
    notes = [f"[image {whole(image.name) or 'without a name'} {note}]" for image in images]
    return "\n".join([*notes, text]) if notes else text


def estimate_request(request: ModelRequest, model: str = "") -> int:
    """Tokens of a whole request; the model's name says how its provider counts pictures."""
    memo, history = request.memo or HistoryMemo(), request.history
    by_tiles = model.startswith(COUNTS_TILES)
    about, begin = (by_tiles, request.tools, request.system), partial(_Counted, request, by_tiles)
    counted = memo.state("tokens", about, history, len(history), begin, _Counted.add)
    return counted.around + max(0, round(counted.tokens))


class _Counted:
    """Tokens of the system message, the tools and the texts of some messages, and of all around them."""

    def __init__(self, request: ModelRequest, by_tiles: bool) -> None:
        self._by_tiles, self.around = by_tiles, 0
        self.tokens = weight(" ".join(filter(None, (tools_text(request.tools), request.system.text))))

    def add(self, messages: Sequence[Message], positions: range) -> None:
        texts: list[str] = []
        for position in positions:
            around, own = _parts(messages[position], self._by_tiles)
            self.around += around
            texts += own
        if text := " ".join(filter(None, texts)):  # one text of many, as each costs 20 look-ups
            self.tokens += weight(text)


def estimate_message(message: Message, model: str = "") -> int:
    around, texts = _parts(message, model.startswith(COUNTS_TILES))
    return around + sum(map(estimate, texts))


def _parts(message: Message, by_tiles: bool) -> tuple[int, list[str]]:
    """The tokens of everything but text, and the texts."""
    if isinstance(message, AssistantMessage):
        calls = [text for call in message.tool_calls for text in (call.name, call.arguments)]
        return MESSAGE + CALL * len(message.tool_calls), [message.text, *calls]
    return MESSAGE + sum(image_tokens(image.data, by_tiles=by_tiles) for image in message.images), [message.text]
