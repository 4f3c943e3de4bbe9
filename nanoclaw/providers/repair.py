"""The last resort for a history that a server refuses: its calls and results told in words."""

from __future__ import annotations

import re

from nanoclaw.core.messages import AssistantMessage, Message, ModelRequest, ToolResult, UserMessage
from nanoclaw.core.provider import legal
from nanoclaw.providers.failures import BadRequest


def in_words(request: ModelRequest, error: BadRequest) -> ModelRequest:
    """The request without any call that could stand unpaired; raises the error when that speaks of something else.

    It is for one request only: what a server makes of the pairs of this one says nothing of the next. As the new
    request has no calls left, it is made only once.
    """
    calls = any(isinstance(message, AssistantMessage) and message.tool_calls for message in request.history)
    if not calls or not re.search(_PAIRING, error.words, re.IGNORECASE):
        raise error
    return request._replace(history=as_turns(request.history))


def as_turns(history: tuple[Message, ...]) -> tuple[Message, ...]:
    """The history as two sides taking turns: what was called by the assistant, what came of it by the user."""
    turns: list[Message] = []
    for message in legal(history):
        match message:
            case AssistantMessage(tool_calls=calls) if calls:
                said = [message.text, *(f"(I called {call.name} with {call.arguments})" for call in calls)]
                message = message._replace(text="\n".join(filter(str.strip, said)), tool_calls=(), opaque="")
            case AssistantMessage():
                message = message._replace(opaque="")
            case ToolResult():
                text = f"(Result of {message.name}: {message.text})"
                message = UserMessage(text, message.at, "runtime", message.images)
        last = turns[-1] if turns else None
        if isinstance(message, UserMessage) and isinstance(last, UserMessage):
            text = "\n\n".join(filter(str.strip, (last.text, message.text)))
            turns[-1] = last._replace(text=text, images=last.images + message.images)
        elif isinstance(message, AssistantMessage) and isinstance(last, AssistantMessage):
            turns[-1] = last._replace(text=f"{last.text}\n\n{message.text}")
        else:
            turns.append(message)
    return tuple(turns)


_PAIRING = (
    r"tool[_ ]?calls?[_ ]?id|tool_calls?\b|tool[_ ]use|tool[_ ]results?|tool (messages?|call)|role '?\"?tool"
    r"|function[_ ](call|response)|orphan|alternat|consecutive|unexpected role|roles? must"
)
