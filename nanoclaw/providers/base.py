"""What a provider promises, and the chat form that OpenAI-style adapters share."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any, Protocol

from nanoclaw.events import Event
from nanoclaw.messages import AssistantMessage, Image, Message, ModelRequest, ToolResult, ToolSpec, UserMessage

OnEvent = Callable[[Event], None]


class Provider(Protocol):
    """Answers one request. `model` is the name as the person wrote it: provider/model."""

    @property
    def model(self) -> str: ...

    @property
    def supports_vision(self) -> bool: ...

    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        """Stream deltas to `on_event` (which must not raise) and return the whole answer.

        Retries inside; raises ProviderError and nothing else (ContextTooLong when the request outgrew the window).
        Cancelling ends the request at once.
        """
        ...

    async def aclose(self) -> None: ...


def chat_messages(request: ModelRequest, *, vision: bool = True) -> list[dict[str, Any]]:
    """The request in the OpenAI chat form: system, then the history in order."""
    messages = [{"role": "system", "content": request.system.text}] if request.system.text else []
    return messages + [chat_message(message, vision=vision) for message in request.history]


def chat_message(message: Message, *, vision: bool = True) -> dict[str, Any]:
    match message:
        case UserMessage():
            return {"role": "user", "content": _content(message.text, message.images, vision)}
        case ToolResult():
            content = _content(message.text, message.images, vision)
            return {"role": "tool", "tool_call_id": message.call_id, "content": content}
        case AssistantMessage():
            answer: dict[str, Any] = {"role": "assistant", "content": message.text or None}
            if message.tool_calls:
                answer["tool_calls"] = [
                    {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                    for call in message.tool_calls
                ]
            elif not message.text:
                answer["content"] = "(no answer)"
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


def image_url(image: Image) -> str:
    return f"data:{image.mime};base64,{b64encode(image.data).decode('ascii')}"


def _content(text: str, images: tuple[Image, ...], vision: bool) -> str | list[dict[str, Any]]:
    if not images:
        return text
    if not vision:
        notes = [f"[image {image.name or 'without a name'} left out: this model cannot see images]" for image in images]
        return "\n".join([*notes, text])
    parts: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": image_url(image)}} for image in images]
    return [*parts, {"type": "text", "text": text}]
