"""Speaks to any OpenAI-style chat endpoint over httpx: hosted ones, and model servers on this machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

from nanoclaw.core.events import Notice, ReasoningDelta, TextDelta
from nanoclaw.core.messages import AssistantMessage, Message, ModelRequest
from nanoclaw.core.provider import ABLE, Abilities, ChatForm, OnEvent, chat_tools, system_message, whole
from nanoclaw.providers.chat_answer import ChatAnswer, digest, has_images, kept_of, plain_id
from nanoclaw.providers.failures import Endpoint, effort_is_refused, too_long
from nanoclaw.providers.http import (
    Adaptable,
    HttpReply,
    Lesson,
    ModelClient,
    RetryPolicy,
    dump,
    messages_json,
    object_json,
)

Echo = Literal["", "reasoning_content", "reasoning_details"]
ToolMode = Literal["native", "json"]
LimitField = Literal["max_tokens", "max_completion_tokens", ""]


_UNKNOWN = "unsupported|not supported|unexpected|extra|unknown|unrecognized|not permitted"


class Dialect(NamedTuple):
    """Deviations of a server from the common form: each refusal is learned once and kept."""

    limit_field: LimitField = "max_tokens"
    usage_option: bool = True
    echo: Echo = ""
    echo_always: bool = False
    strict_roles: bool = False
    system_role: bool = True
    short_call_ids: bool = False
    vision: bool = True
    cuts: bool = False
    """Leaves out a part of what is too long, and says nothing of it."""
    tool_mode: ToolMode = "native"
    schema: bool = True
    """Holds JSON to a schema."""
    refused_efforts: tuple[str, ...] = ()


class OpenAICompatible(Adaptable[Dialect], ModelClient):
    """One model behind a chat completions endpoint."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        dialect: Dialect | None = None,
        retries: RetryPolicy | None = None,
        abilities: Abilities = ABLE,
    ) -> None:
        dialect = dialect or Dialect()
        dialect = dialect._replace(  # without what was refused before
            vision=dialect.vision and abilities.sees_images,
            tool_mode=dialect.tool_mode if abilities.calls_tools else "json",
            schema=dialect.schema and abilities.takes_schema,
        )
        Adaptable.__init__(self, endpoint.model, dialect, abilities)
        ModelClient.__init__(self, endpoint._replace(path="/chat/completions"), retries)

    async def answer(self, request: ModelRequest, habits: Dialect, on_event: OnEvent) -> AssistantMessage:
        async def read(reply: HttpReply, show: OnEvent) -> AssistantMessage:
            if habits.tool_mode == "json":
                return await _read_json_mode(self.model, reply, show)
            return await ChatAnswer(show, request).read(reply, self.model, {"form": "openai"})

        answer = await self.ask(self._body(request, habits), request.limits.timeout_seconds, read, on_event)
        await self._check_length(request, answer, on_event)
        return answer

    def learn(self, habits: Dialect, words: str, request: ModelRequest) -> Lesson[Dialect] | None:
        dialect, said = habits, words.lower()
        if dialect.usage_option and "stream_options" in said:
            return Lesson(dialect._replace(usage_option=False))
        if dialect.limit_field and re.search(r"max_(completion_)?tokens", said):
            return Lesson(dialect._replace(limit_field=_other_limit(dialect.limit_field, said)))
        if request.effort and request.effort not in dialect.refused_efforts and effort_is_refused(said):
            refused = (*dialect.refused_efforts, request.effort)
            return Lesson(dialect._replace(refused_efforts=refused), f"has no effort {request.effort}: it is left out")
        if "reasoning_content" in said and (dialect.echo != "reasoning_content" or not dialect.echo_always):
            wanted = not re.search(
                r"unsupported|not supported|unexpected|extra|unknown|unrecognized|not permitted", said
            )
            if wanted or dialect.echo:
                return Lesson(dialect._replace(echo="reasoning_content" if wanted else "", echo_always=wanted))
        if dialect.system_role and re.search(r"system (role|message)\w* (is |are )?not supported|system role", said):
            return Lesson(dialect._replace(system_role=False))
        if not dialect.strict_roles and re.search(r"alternat|consecutive|roles? must|unexpected role", said):
            return Lesson(dialect._replace(strict_roles=True))
        if not dialect.short_call_ids and "length of 9" in said:
            return Lesson(dialect._replace(short_call_ids=True))
        if (
            dialect.vision
            and has_images(request)
            and re.search(r"image|vision|multi-?modal|mmproj|expected a string", said)
        ):
            return Lesson(dialect._replace(vision=False), lost="sees_images")
        if (
            dialect.tool_mode == "native"
            and request.tools
            and re.search(r"(not support|that support) (tool|function)|--jinja", said)
        ):
            note = "cannot call tools by itself; it is asked for JSON instead"
            return Lesson(dialect._replace(tool_mode="json"), note, "calls_tools")
        if (
            dialect.tool_mode == "json"
            and dialect.schema
            and re.search(r"response_format|json_schema|schema|grammar", said)
        ):
            return Lesson(dialect._replace(schema=False), lost="takes_schema")
        return None

    async def _check_length(self, request: ModelRequest, answer: AssistantMessage, on_event: OnEvent) -> None:
        """Raises ContextTooLong if the server read only a part, and answered as if that had been all."""
        if not self.habits.cuts or not answer.usage:
            return
        from nanoclaw.providers.prices import served_window, was_cut

        texts = [message.text for message in request.history]
        read, is_empty = answer.usage.input_tokens, not (answer.text or answer.tool_calls)
        if is_empty or was_cut(texts, read, 0):
            window = await served_window(self.model, self.endpoint.api_base)
            if was_cut(texts, read, window) or (is_empty and window and read >= window):
                if answer.text:
                    on_event(Notice(f"{self.model} had read only a part, so this answer does not count"))
                said = f" Its server read {read} tokens and left out the rest; it can be set to a longer context."
                raise too_long(self.model, said, window)

    def _body(self, request: ModelRequest, dialect: Dialect) -> bytes:
        before: dict[str, Any] = {"model": self.endpoint.wire_model or self.model}
        after: dict[str, Any] = {"stream": True}
        if dialect.usage_option:
            after["stream_options"] = {"include_usage": True}
        if dialect.limit_field:
            after[dialect.limit_field] = request.limits.output_tokens
        if request.effort and request.effort not in dialect.refused_efforts:
            after["reasoning_effort"] = request.effort
        if dialect.tool_mode == "json":
            return dump({**before, **_json_mode(request, dialect.schema), **after})
        if request.tools:
            before["tools"] = chat_tools(request.tools)
        system = system_message(request.system)
        if not dialect.system_role:
            system = [{**message, "role": "user"} for message in system]
        form = partial(ChatDialect, dialect, self.model)
        return object_json(before, messages_json(request, self, dialect, form, system), after)


class ChatDialect:
    """The chat form as a server with this dialect wants it."""

    def __init__(self, dialect: Dialect, model: str, form: ChatForm | None = None) -> None:
        self._dialect, self.model = dialect, model
        self._form = form or ChatForm(dialect.vision, self._add_opaque if dialect.echo else None)
        self._identity: Callable[[str], str] = _short_id if dialect.short_call_ids else plain_id

    def copy(self) -> ChatDialect:
        return ChatDialect(self._dialect, self.model, self._form.copy())

    def add(self, open: list[dict[str, Any]], history: Sequence[Message], position: int) -> None:
        self._put(open, self._form.of(history, position))

    def end(self, open: list[dict[str, Any]]) -> None:
        self._put(open, self._form.end())

    def _put(self, open: list[dict[str, Any]], messages: list[dict[str, Any]]) -> None:
        takes_turns = self._dialect.strict_roles or not self._dialect.system_role
        for message in messages:
            if "tool_call_id" in message:
                message["tool_call_id"] = self._identity(message["tool_call_id"])
            for call in message.get("tool_calls", ()):
                call["id"] = self._identity(call["id"])
            if takes_turns and open:
                open[-1:] = _in_turn(open[-1], message)
            else:
                open.append(message)

    def _add_opaque(self, wire: dict[str, Any], message: AssistantMessage) -> None:
        """Give a model its own reasoning back, in the field its provider asks for."""
        is_own = message.model.split("/")[0] == self.model.split("/")[0]
        kept = kept_of(message, "openai") if is_own else {}
        if self._dialect.echo == "reasoning_content":
            if "reasoning_content" in kept or self._dialect.echo_always:
                wire["reasoning_content"] = kept.get("reasoning_content", "")
        elif "reasoning_details" in kept:
            wire["reasoning_details"] = kept["reasoning_details"]
        elif "reasoning_content" in kept:
            wire["reasoning"] = kept["reasoning_content"]


def _in_turn(last: dict[str, Any], message: dict[str, Any]) -> list[dict[str, Any]]:
    """Two messages as one where they are by the same side, for templates that insist on taking turns."""
    joins = message["role"] == last["role"] and message["role"] in ("user", "assistant")
    if joins and not last.get("tool_calls"):
        return [{**last, **message, "content": _joined(last["content"], message["content"])}]
    if last["role"] == "tool" and message["role"] == "user":
        return [last, {"role": "assistant", "content": "(stopped here)"}, message]  # only an answer may follow a result
    return [last, message]


def _other_limit(field: LimitField, said: str) -> LimitField:
    """The other spelling when the server asks for it; none when the number itself is refused."""
    unknown = re.search(f"{_UNKNOWN}|use ", said)
    if unknown and field == "max_tokens" and "max_completion_tokens" in said:
        return "max_completion_tokens"
    return "max_tokens" if unknown and field == "max_completion_tokens" else ""


def _json_mode(request: ModelRequest, has_schema: bool) -> dict[str, Any]:
    from nanoclaw.providers.json_tools import json_messages, reply_schema

    schema = {"name": "answer", "strict": True, "schema": reply_schema(request.tools)}
    form = {"response_format": {"type": "json_schema", "json_schema": schema}} if has_schema else {}
    return {**form, "messages": json_messages(request), "temperature": 0}


async def _read_json_mode(model: str, reply: HttpReply, on_event: OnEvent) -> AssistantMessage:
    from nanoclaw.providers.json_tools import ReplyReader, read_reply

    reader = ReplyReader()

    def show(event: Any) -> None:
        if isinstance(event, ReasoningDelta):
            on_event(event)
        elif isinstance(event, TextDelta) and (words := reader.feed(event.text)):
            on_event(TextDelta(whole(words)))

    raw = await ChatAnswer(show).read(reply, model)
    said = read_reply(raw.text)
    finish = "tool_calls" if said.calls and raw.finish == "stop" else raw.finish
    return raw._replace(text=said.text, tool_calls=said.calls, finish=finish)


def _joined(first: Any, second: Any) -> Any:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    if first is None or second is None:
        return first or second
    return _parts(first) + _parts(second)


def _parts(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _short_id(identity: str) -> str:
    """Mistral's form: nine letters and digits."""
    return identity if re.fullmatch(r"[A-Za-z0-9]{9}", identity) else digest(identity)[:9]
