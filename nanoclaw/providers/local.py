"""A small GGUF model inside this process: llama.cpp behind a private Unix socket, asked in json tool mode."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import weakref
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

from nanoclaw import scratch_folders
from nanoclaw.core.errors import ContextTooLong, ProviderError, ProviderRefused, ProviderUnavailable
from nanoclaw.core.events import Notice, TextDelta
from nanoclaw.core.messages import AssistantMessage, Finish, Message, ModelRequest, Usage
from nanoclaw.core.provider import OnEvent, legal
from nanoclaw.installation import install_command, start_command
from nanoclaw.providers.around import LocalQueue
from nanoclaw.providers.chat_answer import object_in
from nanoclaw.providers.http import httpx
from nanoclaw.providers.json_tools import (
    Chat,
    ReplyReader,
    facts,
    few,
    fit,
    history_messages,
    read_reply,
    reply_schema,
    static_messages,
    to_answer,
    without_oldest,
)
from nanoclaw.providers.prices import LOCAL_TOKENS

CONTEXT_TOKENS = LOCAL_TOKENS
OUTPUT_TOKENS = 768
KEPT_STATES = 4
BATCH_TOKENS = 128  # between two batches the server looks whether somebody still listens
READ_AHEAD = 1 << 26


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Engine:
    """A loaded model: how to talk to it, what its saved states depend on, and how to end it (twice does no harm)."""

    transport: httpx.AsyncBaseTransport
    key: str
    version: str
    stop: Callable[[], None]


StartEngine = Callable[[Path, Path, int], Engine]


class LocalProvider:
    """Answers one request at a time; the model is loaded by the first one, or by `load`.

    `state` is a folder for the model's saved reading of the instructions.
    """

    supports_vision = False
    cuts_history = True

    def __init__(
        self,
        model: str,
        path: Path,
        state: Path,
        *,
        start: StartEngine | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.model = model
        self._path = path
        self._state = state
        self._start = start or start_engine
        self._clock = clock
        self._queue = LocalQueue(one_at_a_time=True)
        self._loading: asyncio.Task[_Llama] | None = None
        self._read_prefix = ""

    async def load(self, on_event: OnEvent) -> None:
        """Load the model now; raises ProviderError."""
        await self._llama(on_event)

    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        async with self._queue.place(request.purpose, on_event) as show:
            llama = await self._llama(show)
            try:
                return await self._answer(llama, request, show)
            except httpx.TimeoutException as error:
                raise ProviderUnavailable("the local model took too long; try a shorter request") from error
            except httpx.HTTPError as error:
                raise ProviderUnavailable(f"the local model stopped working: {error}") from error

    async def aclose(self) -> None:
        loading, self._loading = self._loading, None
        if loading is None:
            return
        (llama,) = await asyncio.gather(loading, return_exceptions=True)
        if isinstance(llama, _Llama):
            await llama.aclose()

    async def _llama(self, on_event: OnEvent) -> _Llama:
        """The loaded model. After a cancelled turn, loading continues for the next one."""
        if self._loading is None or (self._loading.done() and self._loading.exception() is not None):
            self._loading = asyncio.create_task(self._load(on_event))
        return await asyncio.shield(self._loading)

    async def _load(self, on_event: OnEvent) -> _Llama:
        text = f"Loading {self.model}"
        on_event(Notice(text, 0.0))
        # llama.cpp holds Python's lock while it loads: what the disk has to do is done before, where nothing waits.
        async for fraction in _read_ahead(self._path):
            on_event(Notice(text, fraction))
        return _Llama(
            await asyncio.to_thread(self._start, self._path, self._state, physical_cores()), self._path, self._state
        )

    async def _answer(self, llama: _Llama, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        tools = few(request.tools)
        static = static_messages(tools)
        prefix = await llama.prefix(static)
        await self._read_once(llama, prefix, on_event)
        prompt = await _fitting_prompt(llama, static, facts(request.system), request.history)
        asked = {
            "prompt": prompt,
            "n_predict": min(request.limits.output_tokens, OUTPUT_TOKENS),
            "json_schema": reply_schema(tools),
        }
        return await self._stream_answer(llama, asked, request.limits.timeout_seconds, on_event)

    async def _stream_answer(
        self, llama: _Llama, asked: dict[str, Any], quiet_seconds: float, on_event: OnEvent
    ) -> AssistantMessage:
        reader, shown, last = ReplyReader(), "", dict[str, Any]()
        async for chunk in llama.complete(asked, quiet_seconds):
            delta = reader.feed(chunk.get("content", ""))
            if delta:
                shown += delta
                on_event(TextDelta(delta))
            last = chunk
        reply = read_reply(reader.raw)
        if reply.text.startswith(shown) and len(reply.text) > len(shown):
            on_event(TextDelta(reply.text[len(shown) :]))
        cut_off = last.get("stop_type") == "limit"
        finish: Finish = "length" if cut_off else "tool_calls" if reply.calls else "stop"
        return AssistantMessage(
            reply.text, self._clock(), reply.calls, usage=_usage(last), finish=finish, model=self.model
        )

    async def _read_once(self, llama: _Llama, prefix: str, on_event: OnEvent) -> None:
        """Bring the model to the end of the static prefix: from the slot, from a saved state, or by reading it."""
        if prefix == self._read_prefix:
            return
        self._read_prefix = ""
        saved = llama.state_file(prefix)
        if not await llama.restore(saved):
            async for chunk in llama.complete({"prompt": prefix, "n_predict": 0}, quiet_seconds=300):
                on_event(Notice("Reading the instructions, once for this model", _fraction(chunk)))
            await llama.save(saved)
        self._read_prefix = prefix


def start_engine(path: Path, state: Path, threads: int) -> Engine:
    """Load a GGUF file with llama.cpp (takes seconds); raises ProviderRefused."""
    _check_gguf(path)
    # Idle OpenMP threads spin by default, which on a busy machine costs a hundredfold; libgomp reads this when loaded.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    try:
        import xllamacpp
    except ImportError as error:
        raise ProviderRefused(f"the local model needs an extra package: {install_command('local')}") from error
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = scratch_folders.make("llama")  # a Unix socket's path must be short
    key = token_hex(16)
    try:
        server = [xllamacpp.Server(_parameters(xllamacpp, path, state, threads, f"{folder}/llama.sock", key))]
    except (RuntimeError, ValueError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        why = "it is damaged, or of a kind that this llama.cpp does not know. Choose another with /model."
        raise ProviderRefused(f"{path} cannot be loaded: {why}") from error

    def stop() -> None:
        server.clear()  # its destructor ends the loop and joins the threads
        shutil.rmtree(folder, ignore_errors=True)

    # The server drops idle connections, so each request has its own.
    transport = httpx.AsyncHTTPTransport(uds=f"{folder}/llama.sock", limits=httpx.Limits(max_keepalive_connections=0))
    engine = Engine(transport, key, str(xllamacpp.__version__), stop)
    weakref.finalize(engine, stop)  # also when the interpreter ends, or a cancelled load is dropped
    return engine


def physical_cores() -> int:
    """Cores this process may use, not counting hyper-threads, which only get in each other's way here."""
    if sys.platform == "darwin":
        counted = subprocess.run(["sysctl", "-n", "hw.physicalcpu"], capture_output=True, text=True, check=False)
        return int(counted.stdout) if counted.stdout.strip().isdigit() else os.cpu_count() or 1
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return len({_siblings(cpu) for cpu in usable})


class _Llama:
    """llama.cpp's own HTTP interface, as far as we need it."""

    def __init__(self, engine: Engine, path: Path, state: Path) -> None:
        self._engine = engine
        self._identity = _identity(path)
        self._state = state
        self._client = httpx.AsyncClient(
            transport=engine.transport,
            base_url="http://local",
            headers={"Authorization": f"Bearer {engine.key}"},
            timeout=60,
        )

    async def aclose(self) -> None:
        await self._client.aclose()
        await asyncio.to_thread(self._engine.stop)

    async def render(self, messages: Chat) -> str:
        return str((await self._post("/apply-template", {"messages": messages}))["prompt"])

    async def prefix(self, static: Chat) -> str:
        """The bytes that every request with these first messages begins with."""
        mark = "\N{BLACK FOUR POINTED STAR}"
        return (await self.render([*static, {"role": "user", "content": mark}])).split(mark)[0]

    async def count(self, prompt: str) -> int:
        body = {"content": prompt, "add_special": True, "parse_special": True}
        return len((await self._post("/tokenize", body))["tokens"])

    async def complete(self, asked: dict[str, Any], quiet_seconds: float) -> AsyncIterator[dict[str, Any]]:
        body = {"temperature": 0, "cache_prompt": True, "id_slot": 0, "stream": True, "return_progress": True, **asked}
        async with self._client.stream("POST", "/completion", json=body, timeout=quiet_seconds) as response:
            if response.is_error:
                await response.aread()
                raise _failure(response.text)
            async for line in response.aiter_lines():
                kind, _, data = line.partition(": ")
                if kind == "error" or data.startswith('{"error"'):
                    raise _failure(data)
                if kind == "data":
                    yield _chunk(data)

    def state_file(self, prefix: str) -> Path:
        parts = f"{self._engine.version}\n{CONTEXT_TOKENS}\n{self._identity}\n{prefix}"
        return self._state / f"{hashlib.sha256(parts.encode()).hexdigest()[:32]}.kv"

    async def restore(self, saved: Path) -> bool:
        if not await asyncio.to_thread(saved.is_file):
            return False
        answer = await self._client.post("/slots/0?action=restore", json={"filename": saved.name})
        if answer.is_error:
            await asyncio.to_thread(saved.unlink, missing_ok=True)
        else:
            await asyncio.to_thread(saved.touch)
        return not answer.is_error

    async def save(self, saved: Path) -> None:
        """Keep the slot's state; one that cannot be kept is read again next time."""
        draft = saved.with_name(f"draft-{saved.name}")
        answer = await self._client.post("/slots/0?action=save", json={"filename": draft.name})
        if answer.is_error:
            await asyncio.to_thread(draft.unlink, missing_ok=True)
        else:
            _keep_state(draft, saved)

    async def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        response = await self._client.post(path, json=body)
        if response.is_error:
            raise _failure(response.text)
        return _chunk(response.text)


async def _read_ahead(path: Path) -> AsyncIterator[float]:
    """Bring the file into the system's cache, telling how far it is; a file that cannot be read is not our concern."""
    size = await asyncio.to_thread(lambda: path.stat().st_size if path.is_file() else 0)
    for start in range(0, size, READ_AHEAD):
        await asyncio.to_thread(_touch, path, start)
        yield min(1.0, (start + READ_AHEAD) / size)


def _touch(path: Path, start: int) -> None:
    with contextlib.suppress(OSError), path.open("rb") as file:
        file.seek(start)
        left, buffer = READ_AHEAD, bytearray(1 << 20)
        while left > 0 and (read := file.readinto(buffer)):
            left -= read


def _keep_state(draft: Path, saved: Path) -> None:
    """Put a finished draft in its place; of all states the last used few stay."""
    draft.replace(saved)
    by_age = sorted(saved.parent.glob("*.kv"), key=lambda file: file.stat().st_mtime)
    for old in by_age[:-KEPT_STATES]:
        old.unlink(missing_ok=True)


async def _fitting_prompt(llama: _Llama, static: Chat, known: str, history: tuple[Message, ...]) -> str:
    """The prompt with as much of the newest history as fits; the stored history stays whole."""
    room = CONTEXT_TOKENS - OUTPUT_TOKENS
    kept: tuple[Message, ...] | None = fit(
        legal(history), room - await llama.count(await llama.render(static + history_messages((), known)))
    )
    tokens = 0
    while kept is not None:
        prompt = await llama.render(to_answer(static + history_messages(kept, known)))
        tokens = await llama.count(prompt)
        if tokens <= room:
            return prompt
        kept = without_oldest(kept)
    raise ContextTooLong(
        f"the message is too long for the local model: {tokens} tokens, where {room} fit. Send a shorter one.",
        CONTEXT_TOKENS,
    )


def _parameters(xllamacpp: Any, path: Path, state: Path, threads: int, socket: str, key: str) -> Any:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.hostnames = [socket]
    parameters.api_keys = [key]
    parameters.ui = False
    parameters.offline = True
    parameters.verbosity = -1  # llama.cpp would write its log on the person's screen
    parameters.n_ctx = CONTEXT_TOKENS
    parameters.n_batch = BATCH_TOKENS
    parameters.n_parallel = 1
    parameters.n_threads_http = 2
    parameters.sse_ping_interval = 1  # how often a waiting stream looks whether its reader, or the server, is gone
    parameters.cpuparams.n_threads = threads
    parameters.cpuparams_batch.n_threads = threads
    parameters.fit_params = False
    parameters.no_extra_bufts = True  # repacking the weights would double the memory and the time to load
    parameters.warmup = False
    parameters.cache_ram_mib = 0
    parameters.slot_save_path = f"{state}/"
    return parameters


def _check_gguf(path: Path) -> None:
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise ProviderRefused(f"no local model at {path}; get one: {start_command()} local pull") from error
    if magic != b"GGUF":
        raise ProviderRefused(f"{path} is not a GGUF model file: give the path of one")


def _identity(path: Path) -> str:
    try:
        status = path.stat()
    except OSError:
        return str(path)
    return f"{path.resolve()}\n{status.st_size}\n{status.st_mtime_ns}"


def _siblings(cpu: int) -> str:
    try:
        return Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text()
    except OSError:
        return str(cpu)


def _chunk(data: str) -> dict[str, Any]:
    try:
        chunk: dict[str, Any] = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ProviderUnavailable("the local model's answer arrived damaged. Try again.") from error
    return chunk


def _failure(answer: str) -> ProviderError:
    found = object_in(answer)
    found = error if isinstance(error := found.get("error"), dict) else found
    text = str(found.get("message", answer))
    if found.get("type") == "exceed_context_size_error":
        return ContextTooLong(
            "the conversation is too long for the local model. Use /new to start afresh.", CONTEXT_TOKENS
        )
    return ProviderRefused(f"the local model refused the request: {text[:300]}")


def _fraction(chunk: dict[str, Any]) -> float | None:
    progress = chunk.get("prompt_progress") or {}
    total = progress.get("total") or 0
    return progress.get("processed", 0) / total if total else None


def _usage(last: dict[str, Any]) -> Usage:
    timings = last.get("timings") or {}
    cached = int(timings.get("cache_n", 0))
    return Usage(int(timings.get("prompt_n", 0)) + cached, int(timings.get("predicted_n", 0)), cached)
