"""Reaches every provider without an adapter of ours through litellm, which is imported when first asked."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NamedTuple

from nanoclaw.core.errors import ProviderError, ProviderRefused, ProviderUnavailable
from nanoclaw.core.events import Notice
from nanoclaw.core.messages import AssistantMessage, ModelRequest
from nanoclaw.core.provider import ABLE, Abilities, OnEvent, chat_messages, chat_tools
from nanoclaw.installation import install_command
from nanoclaw.providers.chat_answer import ChatAnswer, has_images, kept_of, plain_id
from nanoclaw.providers.failures import (
    Endpoint,
    effort_is_refused,
    failure,
    retry_after,
    too_long,
    window_in,
)
from nanoclaw.providers.http import Adaptable, Lesson, RetryPolicy, retried

# Read by litellm while it is imported: no look-ups of prices and presets in the network, and no .env of the folder.
_SETTINGS = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_LOCAL_AUTOROUTER_PRESETS": "True",
    "LITELLM_LOCAL_BLOG_POSTS": "True",
    "LITELLM_LOCAL_POLICY_TEMPLATES": "True",
    "LITELLM_MODE": "PRODUCTION",
}


class LiteLLMHabits(NamedTuple):
    vision: bool
    refused_efforts: tuple[str, ...] = ()


class LiteLLM(Adaptable[LiteLLMHabits]):
    """One model by its litellm name. The endpoint's key and address are passed on when given."""

    def __init__(self, endpoint: Endpoint, *, retries: RetryPolicy | None = None, abilities: Abilities = ABLE) -> None:
        super().__init__(endpoint.model, LiteLLMHabits(abilities.sees_images), abilities)
        self._endpoint, self._retries = endpoint, retries or RetryPolicy()
        access = {"api_key": endpoint.key, "api_base": endpoint.api_base}
        self._access = {name: value for name, value in access.items() if value}
        self._litellm: Any = None

    async def answer(self, request: ModelRequest, habits: LiteLLMHabits, on_event: OnEvent) -> AssistantMessage:
        await self._load(on_event)
        return await retried(self._endpoint, self._retries, lambda show: self._once(request, habits, show), on_event)

    def learn(self, habits: LiteLLMHabits, words: str, request: ModelRequest) -> Lesson[LiteLLMHabits] | None:
        if request.effort and request.effort not in habits.refused_efforts and effort_is_refused(words):
            refused = (*habits.refused_efforts, request.effort)
            return Lesson(habits._replace(refused_efforts=refused), f"has no effort {request.effort}: it is left out")
        if habits.vision and has_images(request) and re.search(r"image|vision|modal", words, re.I):
            return Lesson(habits._replace(vision=False), lost="sees_images")
        return None

    async def aclose(self) -> None:
        if self._litellm is not None:
            await self._litellm.close_litellm_async_clients()

    async def _load(self, on_event: OnEvent) -> None:
        if self._litellm is None:
            on_event(Notice(f"loading litellm for {self.model}"))
            try:
                self._litellm = await asyncio.to_thread(load_litellm)
            except ImportError as error:
                raise ProviderError(
                    f"{self.model} needs litellm, which cannot be imported ({error}): {install_command()}"
                ) from None

    async def _once(self, request: ModelRequest, habits: LiteLLMHabits, on_event: OnEvent) -> AssistantMessage:
        answer = ChatAnswer(on_event, request)
        seconds = request.limits.timeout_seconds
        try:
            async with asyncio.timeout(seconds) as limit:
                stream = await self._litellm.acompletion(**self._arguments(request, habits))
                async for chunk in _pieces(stream):
                    answer.feed(chunk)
                    limit.reschedule(asyncio.get_running_loop().time() + seconds)
        except TimeoutError:
            raise ProviderUnavailable(
                f"{self.model} sent nothing for {seconds:g} s and was given up. Try again later or raise the limit."
            ) from None
        except Exception as error:  # litellm raises its own, openai's, httpx's and plain errors
            if not answer.complete:
                raise self._mapped(error) from None
        if not answer.complete:
            raise ProviderUnavailable(f"{self.model} broke off its answer before the end. Try again.")
        return answer.answer(self.model, {"form": "litellm"})

    def _arguments(self, request: ModelRequest, habits: LiteLLMHabits) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "model": self.model,
            "messages": _messages(request, self.model, habits.vision),
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": request.limits.output_tokens,
            "timeout": request.limits.timeout_seconds,
            "num_retries": 0,  # ours are used
            "max_retries": 0,
            "drop_params": True,
            **self._access,
        }
        if request.effort and request.effort not in habits.refused_efforts:
            arguments["reasoning_effort"] = request.effort
        if request.tools:
            # without the flag each call with tools imports the mcp package, which litellm does not install
            arguments |= {"tools": chat_tools(request.tools), "_skip_mcp_handler": True}
        return arguments

    def _mapped(self, error: Exception) -> ProviderError:
        said = _PREFIX.sub("", str(error))
        if type(error).__name__ == "ContextWindowExceededError":
            return too_long(self.model, window=window_in(said))
        if type(error).__name__ == "LiteLLMUnknownProvider" or "LLM Provider NOT provided" in said:
            prefix = self.model.partition("/")[0]
            return ProviderRefused(
                f"{self.model} cannot be asked: litellm knows no such provider as {prefix!r}. "
                "Check the spelling of the model's name; a server of your own needs model.api_base."
            )
        status = getattr(error, "status_code", None)
        if not isinstance(status, int):
            return ProviderError(
                f"{self.model} failed ({type(error).__name__}). It says: {said[:300]!r}. Choose another model."
            )
        headers = getattr(getattr(error, "response", None), "headers", None)
        asked = retry_after(headers, self._retries.clock()) if isinstance(headers, Mapping) else None
        return failure(self._endpoint, status, said.encode("utf-8", "replace"), asked)


_PREFIX = re.compile(r"^(litellm\.)?(\w+Error: |\w+: )?(litellm\.)?(\w+Error: )?(\w+Exception\s*-\s*)?")


def load_litellm() -> Any:
    """The library, quiet and without look-ups in the network. Takes seconds at the first time."""
    os.environ.update({name: value for name, value in _SETTINGS.items() if name not in os.environ})
    import litellm

    litellm.suppress_debug_info = True
    litellm.disable_aiohttp_transport = True  # one HTTP library a process, and nothing left open at the end
    litellm.disable_hf_tokenizer_download = True
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return litellm


async def _pieces(stream: Any) -> AsyncIterator[dict[str, Any]]:
    if not hasattr(stream, "__aiter__"):  # some providers cannot stream
        yield stream.model_dump(exclude_none=True)
        return
    async for chunk in stream:
        yield chunk.model_dump(exclude_none=True)


def _messages(request: ModelRequest, model: str, vision: bool) -> list[dict[str, Any]]:
    """The chat form with the model's own ids and signed thinking, which litellm brings into the provider's form.

    litellm keeps signatures in the ids of a model's calls; only those of other models' calls are made plain.
    """
    plain: dict[str, str] = {}

    def add_opaque(wire: dict[str, Any], message: AssistantMessage) -> None:
        if message.model.split("/")[0] == model.split("/")[0]:
            _echo(wire, kept_of(message, "litellm"))
        else:
            plain.update((call["id"], plain_id(call["id"])) for call in wire.get("tool_calls", ()))

    messages = chat_messages(request, vision=vision, add_opaque=add_opaque)
    for wire in messages:
        if "tool_call_id" in wire:
            wire["tool_call_id"] = plain.get(wire["tool_call_id"], wire["tool_call_id"])
        for call in wire.get("tool_calls", ()):
            call["id"] = plain.get(call["id"], call["id"])
    return _apart(messages)


def _echo(wire: dict[str, Any], kept: dict[str, Any]) -> None:
    if kept.get("thinking_blocks"):
        wire["thinking_blocks"] = kept["thinking_blocks"]
        if thought := kept.get("reasoning_content"):  # Gemini refuses an empty one
            wire["reasoning_content"] = thought


def _apart(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages with equal calls of one answer in answers of their own.

    litellm takes the second for a copy of the first and drops it for Gemini, which then has a result too many.
    """
    apart: list[dict[str, Any]] = []
    results: dict[str, dict[str, Any]] = {}
    for message in reversed(messages):  # the results of an answer follow it
        if message["role"] == "tool":
            results[message["tool_call_id"]] = message
            continue
        groups = _without_equals(message.get("tool_calls", ()))
        for number, calls in reversed(list(enumerate(groups))):
            first = message if not number else {"role": "assistant", "content": None}
            answer = {**first, "tool_calls": calls}
            apart += [*(results.pop(call["id"]) for call in reversed(calls)), answer]
        if not groups:
            apart.append(message)
    return apart[::-1]


def _without_equals(calls: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    groups: list[list[dict[str, Any]]] = []
    seen: Counter[str] = Counter()
    for call in calls:
        function = call["function"]
        key = json.dumps([function["name"], json.loads(function["arguments"])], sort_keys=True)
        if seen[key] == len(groups):
            groups.append([])
        groups[seen[key]].append(call)
        seen[key] += 1
    return groups
