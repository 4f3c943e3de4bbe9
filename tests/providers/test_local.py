"""Promises of the local provider, kept with a scripted llama.cpp in its model's place."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from nanoclaw.core.errors import ContextTooLong, ProviderError, ProviderRefused, ProviderUnavailable
from nanoclaw.core.events import Event, Notice, TextDelta
from nanoclaw.core.messages import (
    AssistantMessage,
    Limits,
    Message,
    ModelRequest,
    SystemPrompt,
    ToolCall,
    ToolExample,
    ToolResult,
    ToolSpec,
    Usage,
    UserMessage,
)
from nanoclaw.providers.local import Engine, LocalProvider, start_engine

NOW = datetime(2026, 3, 14, 9, 26, tzinfo=UTC)
T = TypeVar("T")
HANG = "(never ends)"


@dataclass
class FakeLlama:
    """Speaks llama.cpp's HTTP; each answer is the list of pieces that one completion streams."""

    state: Path
    answers: list[list[str]] = field(default_factory=list)
    stop_type: str = "eos"
    asked: list[dict[str, Any]] = field(default_factory=list)
    slots: list[str] = field(default_factory=list)
    loads: int = 0
    stops: int = 0
    closed_streams: int = 0

    def start(self, path: Path, state: Path, threads: int) -> Engine:
        assert threads >= 1
        self.loads += 1
        return Engine(httpx.MockTransport(self.handle), "key", "1", self.stop)

    def stop(self) -> None:
        self.stops += 1

    def handle(self, request: httpx.Request) -> httpx.Response:
        assert request.headers["Authorization"] == "Bearer key"
        body = json.loads(request.content)
        match request.url.path:
            case "/apply-template":
                prompt = "".join(f"<{turn['role']}>{turn['content']}\n" for turn in body["messages"])
                return httpx.Response(200, json={"prompt": prompt})
            case "/tokenize":
                return httpx.Response(200, json={"tokens": [0] * (len(body["content"]) // 4)})
            case "/slots/0":
                return self.slot(request.url.params["action"], body["filename"])
            case "/completion":
                self.asked.append(body)
                pieces = self.answers.pop(0) if body["n_predict"] else []
                return httpx.Response(200, content=self.stream(pieces))
        raise AssertionError(request.url)

    def slot(self, action: str, filename: str) -> httpx.Response:
        self.slots.append(action)
        if action == "save":
            (self.state / filename).write_text("state")
        if action == "restore" and (self.state / filename).read_text() != "state":
            return httpx.Response(400, json={"error": {"message": "damaged"}})
        return httpx.Response(200, json={})

    async def stream(self, pieces: list[str]) -> AsyncIterator[bytes]:
        try:
            yield _sse({"content": "", "prompt_progress": {"total": 100, "processed": 50}})
            for piece in pieces:
                if piece == HANG:
                    await asyncio.Event().wait()
                yield _sse({"content": piece})
            timings = {"prompt_n": 7, "cache_n": 100, "predicted_n": 5}
            yield _sse({"content": "", "stop": True, "stop_type": self.stop_type, "timings": timings})
        finally:
            self.closed_streams += 1


def _sse(chunk: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(chunk)}\n\n".encode()


WRITE = ToolSpec(
    "write_file",
    "Write a file.",
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    (ToolExample("Make a.txt", {"path": "a.txt"}),),
)


def asking(text: str, *, memory: str = "", tools: tuple[ToolSpec, ...] = (WRITE,)) -> ModelRequest:
    system = SystemPrompt("# Who you are\n\nA long prompt.", f"# Memory\n\n{memory}" if memory else "")
    return ModelRequest(system, (UserMessage(text, NOW),), tools, Limits(500, 30))


@pytest.fixture
def llama(tmp_path: Path) -> FakeLlama:
    return FakeLlama(tmp_path)


def run(llama: FakeLlama, talk: Callable[[LocalProvider], Coroutine[Any, Any, T]]) -> T:
    async def whole() -> T:
        provider = LocalProvider("local/tiny", Path("tiny.gguf"), llama.state, start=llama.start, clock=lambda: NOW)
        try:
            return await talk(provider)
        finally:
            await provider.aclose()

    return asyncio.run(whole())


def answer(llama: FakeLlama, *pieces: str) -> tuple[AssistantMessage, list[Event]]:
    llama.answers.append(list(pieces))
    events: list[Event] = []
    return run(llama, lambda provider: provider.complete(asking("hello"), events.append)), events


def test_a_reply_is_streamed_and_returned(llama: FakeLlama) -> None:
    message, events = answer(llama, '{"rep', 'ly":"Good ', "morn", 'ing!"}')
    assert message == AssistantMessage("Good morning!", NOW, (), Usage(107, 5, 100), "stop", "local/tiny")
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["Good ", "morn", "ing!"]


def test_a_call_is_returned_and_nothing_streamed(llama: FakeLlama) -> None:
    message, events = answer(llama, '{"tool":"write_file",', '"args":{"path":"a"}}')
    (call,) = message.tool_calls
    assert (call.name, call.arguments, message.finish) == ("write_file", '{"path":"a"}', "tool_calls")
    assert not any(isinstance(event, TextDelta) for event in events)


def test_a_cut_off_call_is_no_call(llama: FakeLlama) -> None:
    llama.stop_type = "limit"
    message, _ = answer(llama, '{"tool":"write_file","args":{"pa')
    assert (message.text, message.tool_calls, message.finish) == ("", (), "length")


def test_the_request_is_constrained_and_greedy(llama: FakeLlama) -> None:
    answer(llama, '{"reply":"hi"}')
    asked = llama.asked[-1]
    assert (asked["temperature"], asked["n_predict"]) == (0, 500)
    assert [option["required"] for option in asked["json_schema"]["anyOf"]] == [["reply"], ["tool", "args"]]


def test_the_short_profile_goes_out_and_not_the_system_prompt(llama: FakeLlama) -> None:
    llama.answers.append(['{"reply":"hi"}'])
    run(llama, lambda provider: provider.complete(asking("hello", memory="- Ada likes tea."), lambda event: None))
    prompt = llama.asked[-1]["prompt"]
    assert "A long prompt." not in prompt
    assert "Ada likes tea." in prompt
    assert prompt.index("write_file(path)") < prompt.index("Ada likes tea.") < prompt.index("hello")


def test_loading_and_the_first_reading_are_told(llama: FakeLlama) -> None:
    _, events = answer(llama, '{"reply":"hi"}')
    notices = [event for event in events if isinstance(event, Notice)]
    assert notices[0] == Notice("Loading local/tiny", 0.0)
    assert notices[1].fraction == 0.5


def test_the_instructions_are_read_once_and_restored_at_the_next_start(llama: FakeLlama) -> None:
    answer(llama, '{"reply":"one"}')
    assert llama.slots == ["save"]
    llama.slots.clear()
    answer(llama, '{"reply":"two"}')
    assert llama.slots == ["restore"]
    assert [asked["n_predict"] for asked in llama.asked] == [0, 500, 500]


def test_a_damaged_state_is_read_anew(llama: FakeLlama) -> None:
    answer(llama, '{"reply":"one"}')
    (saved,) = llama.state.glob("*.kv")
    saved.write_text("torn")
    llama.slots.clear()
    message, _ = answer(llama, '{"reply":"two"}')
    assert message.text == "two"
    assert llama.slots == ["restore", "save"]


def test_other_tools_mean_another_state_and_only_a_few_are_kept(llama: FakeLlama) -> None:
    async def talk(provider: LocalProvider) -> None:
        for number in range(6):
            llama.answers.append(['{"reply":"hi"}'])
            tool = ToolSpec(f"tool{number}", "Does it.", WRITE.parameters)
            await provider.complete(asking("hello", tools=(tool,)), lambda event: None)

    run(llama, talk)
    assert llama.slots == ["save"] * 6
    assert len(list(llama.state.glob("*.kv"))) == 4


def test_a_long_history_is_cut_and_its_newest_part_sent(llama: FakeLlama) -> None:
    old = tuple(
        message
        for number in range(50)
        for message in (UserMessage(f"question {number} {'x' * 500}", NOW), AssistantMessage("y" * 100, NOW))
    )
    request = ModelRequest(SystemPrompt(""), (*old, UserMessage("the last", NOW)), (WRITE,))
    llama.answers.append(['{"reply":"ok"}'])
    run(llama, lambda provider: provider.complete(request, lambda event: None))
    prompt = llama.asked[-1]["prompt"]
    assert "the last" in prompt
    assert "question 49" in prompt
    assert "question 0 " not in prompt
    assert len(prompt) // 4 <= 4096 - 768


def test_one_message_beyond_the_window_is_context_too_long(llama: FakeLlama) -> None:
    with pytest.raises(ContextTooLong, match="too long for the local model"):
        run(llama, lambda provider: provider.complete(asking("x" * 40_000), lambda event: None))


def test_a_turn_of_many_calls_loses_its_oldest_ones_only_in_the_sent_copy(llama: FakeLlama) -> None:
    rounds = tuple(
        message
        for number in range(12)
        for message in (
            AssistantMessage("", NOW, (ToolCall(f"c{number}", "read_file", f'{{"n":{number}}}'),)),
            ToolResult(f"c{number}", "read_file", "z" * 1400, NOW),
        )
    )
    request = ModelRequest(SystemPrompt(""), (UserMessage("read them all", NOW), *rounds), (WRITE,))
    llama.answers.append(['{"reply":"ok"}'])
    run(llama, lambda provider: provider.complete(request, lambda event: None))
    prompt = llama.asked[-1]["prompt"]
    assert "read them all" in prompt
    assert '{"n":11}' in prompt
    assert '{"n":0}' not in prompt


def test_cancelling_ends_the_stream_at_once_and_the_next_turn_goes_on(llama: FakeLlama) -> None:
    async def talk(provider: LocalProvider) -> AssistantMessage:
        llama.answers += [['{"reply":"once upon', HANG], ['{"reply":"hi"}']]
        begun = asyncio.Event()
        task = asyncio.create_task(
            provider.complete(asking("a story"), lambda event: begun.set() if isinstance(event, TextDelta) else None)
        )
        await begun.wait()
        closed = llama.closed_streams
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert llama.closed_streams == closed + 1
        return await provider.complete(asking("hello"), lambda event: None)

    assert run(llama, talk).text == "hi"


def test_two_turns_take_one_model_one_after_the_other(llama: FakeLlama) -> None:
    async def talk(provider: LocalProvider) -> list[AssistantMessage]:
        asks = (provider.complete(asking(text), lambda event: None) for text in ("a", "b"))
        return list(await asyncio.gather(*asks))

    llama.answers += [['{"reply":"1"}'], ['{"reply":"2"}']]
    assert [message.text for message in run(llama, talk)] == ["1", "2"]
    assert (llama.loads, llama.stops) == (1, 1)


async def test_a_model_that_cannot_be_loaded_is_tried_again_by_the_next_turn(llama: FakeLlama) -> None:
    def fail(path: Path, state: Path, threads: int) -> Engine:
        attempts.append(path)
        raise ProviderRefused("no local model")

    attempts: list[Path] = []
    provider = LocalProvider("local/tiny", Path("tiny.gguf"), llama.state, start=fail)
    for _ in range(2):
        with pytest.raises(ProviderRefused):
            await provider.complete(asking("hello"), lambda event: None)
    await provider.aclose()
    assert len(attempts) == 2


def failing(llama: FakeLlama, respond: Callable[[httpx.Request], httpx.Response]) -> None:
    usual = llama.handle

    def handle(request: httpx.Request) -> httpx.Response:
        return respond(request) if request.url.path == "/completion" else usual(request)

    llama.handle = handle  # type: ignore[method-assign]


def broken(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadError("gone")


@pytest.mark.parametrize(
    ("respond", "kind"),
    [
        (broken, ProviderUnavailable),
        (lambda request: httpx.Response(400, json={"error": {"message": "bad grammar"}}), ProviderRefused),
        (lambda request: httpx.Response(500, text="<html>"), ProviderRefused),
        (
            lambda request: httpx.Response(400, json={"error": {"type": "exceed_context_size_error", "message": "n"}}),
            ContextTooLong,
        ),
        (lambda request: httpx.Response(200, content=b'error: {"message":"lost"}\n\n'), ProviderRefused),
        (lambda request: httpx.Response(200, content=b"data: {torn\n\n"), ProviderUnavailable),
    ],
)
def test_every_failure_is_a_provider_error(
    llama: FakeLlama, respond: Callable[[httpx.Request], httpx.Response], kind: type[ProviderError]
) -> None:
    failing(llama, respond)
    with pytest.raises(kind):
        run(llama, lambda provider: provider.complete(asking("hello"), lambda event: None))


def test_a_missing_or_foreign_file_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ProviderRefused, match="nanoclaw local pull"):
        start_engine(tmp_path / "none.gguf", tmp_path, 1)
    text = tmp_path / "text.gguf"
    text.write_text("hello")
    with pytest.raises(ProviderRefused, match="not a GGUF"):
        start_engine(text, tmp_path, 1)


def test_without_the_extra_the_error_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    model = tmp_path / "m.gguf"
    model.write_bytes(b"GGUF....")
    with pytest.raises(ProviderRefused, match=r"install .*\[.*local.*\]"):
        start_engine(model, tmp_path, 1)


def test_two_calls_with_one_id_are_each_shown_with_their_own_result(llama: FakeLlama) -> None:
    history: list[Message] = []
    for number in (1, 2):
        call = ToolCall("same", "write_file", f'{{"path": "{number}.txt"}}')
        history += [UserMessage(f"write {number}", NOW), AssistantMessage("", NOW, (call,))]
        history += [ToolResult("same", "write_file", f"wrote {number}.txt", NOW), AssistantMessage("Done.", NOW)]
    llama.answers.append(['{"reply":"ok"}'])
    asked = asking("x")._replace(history=tuple(history))
    run(llama, lambda provider: provider.complete(asked, lambda event: None))
    prompt = llama.asked[-1]["prompt"]
    assert prompt.index("wrote 1.txt") < prompt.index('"path": "2.txt"') < prompt.index("wrote 2.txt")
    assert prompt.endswith("<user>(Go on.)\n")  # a model answers the user, never itself
