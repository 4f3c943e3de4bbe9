"""Reaches every provider without an adapter of ours through litellm, which is imported when first asked."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

from nanoclaw.errors import ContextTooLong, ProviderError, ProviderRefused, ProviderUnavailable
from nanoclaw.events import Notice
from nanoclaw.messages import AssistantMessage, ModelRequest
from nanoclaw.providers.base import OnEvent, chat_messages, chat_tools, has_images, legal
from nanoclaw.providers.chat_answer import ChatAnswer
from nanoclaw.providers.http import BadRequest, Endpoint, Patience, failure, retry_after, tries

# Read by litellm while it is imported: no look-ups of prices and presets in the network, and no .env of the folder.
_SETTINGS = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_LOCAL_AUTOROUTER_PRESETS": "True",
    "LITELLM_LOCAL_BLOG_POSTS": "True",
    "LITELLM_LOCAL_POLICY_TEMPLATES": "True",
    "LITELLM_MODE": "PRODUCTION",
}


class LiteLLM:
    """One model by its litellm name. `api_key` and `api_base` are passed on when given."""

    def __init__(
        self,
        model: str,
        *,
        api_key: str = "",
        api_base: str = "",
        key_variable: str = "",
        patience: Patience | None = None,
    ) -> None:
        self._model = model
        self._access = {name: value for name, value in (("api_key", api_key), ("api_base", api_base)) if value}
        self._endpoint = Endpoint(model, api_base or "its provider", key=api_key, key_variable=key_variable)
        self._patience = patience or Patience()
        self._vision = True
        self._litellm: Any = None

    @property
    def model(self) -> str:
        return self._model

    @property
    def supports_vision(self) -> bool:
        return self._vision

    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        await self._load(on_event)
        try:
            return await self._ask(request, on_event)
        except BadRequest as error:
            if not (self._vision and has_images(request) and re.search(r"image|vision|modal", error.words, re.I)):
                raise
            self._vision = False
            on_event(Notice(f"{self._model} cannot see images; they are left out"))
            return await self._ask(request, on_event)

    async def aclose(self) -> None:
        if self._litellm is not None:
            await self._litellm.close_litellm_async_clients()

    async def _ask(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        return await tries(self._endpoint, self._patience, lambda show: self._once(request, show), on_event)

    async def _load(self, on_event: OnEvent) -> None:
        if self._litellm is None:
            on_event(Notice(f"loading litellm for {self._model}"))
            try:
                self._litellm = await asyncio.to_thread(_import)
            except ImportError as error:
                raise ProviderError(f"{self._model} needs litellm, which cannot be imported ({error}).") from None

    async def _once(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        answer = ChatAnswer(on_event, [tool.name for tool in request.tools])
        seconds = request.limits.timeout_seconds
        try:
            async with asyncio.timeout(seconds) as limit:
                stream = await self._litellm.acompletion(**self._arguments(request))
                async for chunk in _pieces(stream):
                    answer.feed(chunk)
                    limit.reschedule(asyncio.get_running_loop().time() + seconds)
        except TimeoutError:
            raise ProviderUnavailable(
                f"{self._model} sent nothing for {seconds:g} s and was given up. Try again later or raise the limit."
            ) from None
        except Exception as error:  # litellm raises its own, openai's, httpx's and plain errors
            if not answer.complete:
                raise self._mapped(error) from None
        if not answer.complete:
            raise ProviderUnavailable(f"{self._model} broke off its answer before the end. Try again.")
        return answer.answer(self._model, {"form": "litellm"})

    def _arguments(self, request: ModelRequest) -> dict[str, Any]:
        messages = chat_messages(request, vision=self._vision)
        _echo(messages, request, self._model)
        arguments: dict[str, Any] = {
            "model": self._model,
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": request.limits.output_tokens,
            "timeout": request.limits.timeout_seconds,
            "num_retries": 0,  # ours are used
            "max_retries": 0,
            "drop_params": True,
            **self._access,
        }
        if request.tools:
            # without the flag each call with tools imports the mcp package, which litellm does not install
            arguments |= {"tools": chat_tools(request.tools), "_skip_mcp_handler": True}
        return arguments

    def _mapped(self, error: Exception) -> ProviderError:
        said = _PREFIX.sub("", str(error))
        if type(error).__name__ == "ContextWindowExceededError":
            return ContextTooLong(f"The conversation is longer than {self._model} can read. Use /new to start afresh.")
        if type(error).__name__ == "LiteLLMUnknownProvider" or "LLM Provider NOT provided" in said:
            prefix = self._model.partition("/")[0]
            return ProviderRefused(
                f"{self._model} cannot be asked: litellm knows no such provider as {prefix!r}. "
                "Check the spelling of model.name in config.toml; a server of your own needs model.api_base."
            )
        status = getattr(error, "status_code", None)
        if not isinstance(status, int):
            return ProviderError(
                f"{self._model} failed ({type(error).__name__}). It says: {said[:300]!r}. Choose another model."
            )
        headers = getattr(getattr(error, "response", None), "headers", None)
        asked = retry_after(headers, self._patience.clock()) if isinstance(headers, Mapping) else None
        return failure(self._endpoint, status, said.encode("utf-8", "replace"), asked)


_PREFIX = re.compile(r"^(litellm\.)?(\w+Error: |\w+: )?(litellm\.)?(\w+Error: )?(\w+Exception\s*-\s*)?")


def _import() -> Any:
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


def _echo(messages: list[dict[str, Any]], request: ModelRequest, model: str) -> None:
    """Give a model its signed thinking back; litellm brings it into the provider's form."""
    spoken = [message for message in legal(request.history) if isinstance(message, AssistantMessage)]
    for wire, message in zip([m for m in messages if m["role"] == "assistant"], spoken, strict=True):
        if not message.opaque or message.model.split("/")[0] != model.split("/")[0]:
            continue
        try:
            kept = json.loads(message.opaque)
        except ValueError:
            continue
        if isinstance(kept, dict) and kept.get("form") == "litellm" and kept.get("thinking_blocks"):
            wire["thinking_blocks"] = kept["thinking_blocks"]
            wire["reasoning_content"] = kept.get("reasoning_content", "")
