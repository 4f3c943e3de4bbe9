"""The scripted provider keeps its own promises."""

import asyncio

import pytest

from nanoclaw.core.errors import ProviderError, ProviderUnavailable
from nanoclaw.core.events import ReasoningDelta, TextDelta
from nanoclaw.core.messages import ModelRequest, ToolCall
from nanoclaw.providers.scripted import Hang, Say, ScriptedProvider, call
from tests.providers.conftest import Heard, request


def test_it_answers_in_order_and_remembers_what_was_asked(heard: Heard) -> None:
    asked = request()
    with ScriptedProvider("one", Say("two", reasoning="hm"), lambda asked: str(len(asked.history))) as provider:
        answers = [asyncio.run(provider.complete(asked, heard)).text for _ in range(3)]
    assert answers == ["one", "two", "1"] and provider.requests == [asked] * 3
    assert heard.events == [TextDelta("one"), ReasoningDelta("hm"), TextDelta("two"), TextDelta("1")]


def test_it_calls_tools_with_objects_or_raw_text(heard: Heard) -> None:
    provider = ScriptedProvider(call("read_file", {"path": "ü"}), Say(calls=(("a", "{broken", "x"), ("b", {}))))
    first = asyncio.run(provider.complete(request(), heard))
    assert (first.tool_calls, first.finish) == ((ToolCall("call_1_1", "read_file", '{"path": "ü"}'),), "tool_calls")
    second = asyncio.run(provider.complete(request(), heard))
    assert second.tool_calls == (ToolCall("x", "a", "{broken"), ToolCall("call_2_2", "b", "{}"))


def test_it_raises_what_the_script_says(heard: Heard) -> None:
    provider = ScriptedProvider(ProviderUnavailable("busy"))
    with pytest.raises(ProviderUnavailable, match="busy"):
        asyncio.run(provider.complete(request(), heard))


def test_steps_left_over_fail() -> None:
    unused = "1 of 1 scripted steps were not used, next: 'unused'"
    with pytest.raises(AssertionError, match=unused), ScriptedProvider("unused"):
        pass


def test_a_failure_inside_is_not_hidden_by_steps_left_over() -> None:
    with pytest.raises(ZeroDivisionError), ScriptedProvider("unused"):
        raise ZeroDivisionError


def test_a_script_that_runs_out_says_so(heard: Heard) -> None:
    with pytest.raises(ProviderError, match="the script has 0 steps and was asked for one more"):
        asyncio.run(ScriptedProvider().complete(request(), heard))


def test_it_hangs_until_it_is_cancelled(heard: Heard) -> None:
    async def run() -> None:
        hang = Hang("Hel")
        task = asyncio.create_task(ScriptedProvider(hang).complete(request(), heard))
        await hang.reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert heard.text == "Hel"


def test_a_function_may_raise(heard: Heard) -> None:
    def fail(asked: ModelRequest) -> str:
        raise ProviderUnavailable("later")

    with pytest.raises(ProviderUnavailable):
        asyncio.run(ScriptedProvider(fail).complete(request(), heard))
