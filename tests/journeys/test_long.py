"""Long conversations with the command itself: overflow, /compact, a kill while it is under way."""

import asyncio
import json

import pytest

from nanoclaw.core.messages import Message
from nanoclaw.core.store.db import Transactions
from nanoclaw.core.store.sessions import Sessions
from nanoclaw.providers.scripted import ScriptedProvider
from nanoclaw.start.opening import read_store
from tests.journeys.command import Home
from tests.model_server import Asked, ModelServer, Scripted, call_delta, delta, events, failing, says
from tests.program import MAIN, NOON, running

FLUSH, SUMMARY = "keep what will matter on another day", "Write the summary that replaces everything"
TURNS = 6
SUMMED_UP = "Standing instructions: none\nOpen tasks:\n- call the plumber\nFacts: none"

OVERFLOW = failing(
    400,
    {
        "error": {
            "message": "This model's maximum context length is 16000 tokens. However, your messages resulted in 16400 "
            "tokens. Please reduce the length of the messages.",
            "type": "invalid_request_error",
            "code": "context_length_exceeded",
        }
    },
)


def notes(text: str) -> Scripted:
    return events(call_delta(0, "c1", "memory_add", json.dumps({"text": text})), delta("tool_calls"))


def told(asked: Asked) -> list[str]:
    return [json.dumps(message) for message in asked.json["messages"]]


@pytest.fixture
def long_home(home: Home) -> Home:
    """A home in which much was said already."""
    return talked(home, 80)


@pytest.fixture
def longer_home(home: Home) -> Home:
    """One in which more was said than stays word for word."""
    return talked(home, 800)


def talked(home: Home, times: int) -> Home:
    async def story() -> None:
        async with running(home.root, ScriptedProvider(*["ok"] * TURNS)) as talking:
            for number in range(TURNS):
                await talking.ask(f"message {number} about K-7731-{number} " + "and the garden and the house " * times)

    asyncio.run(story())
    return home


def stored(home: Home) -> list[Message]:
    """The request that the model would be sent."""
    store = read_store(home.root / "state.db")
    try:
        return Sessions(Transactions(store, lambda: NOON)).of(MAIN).history
    finally:
        store.close()


def test_an_overflow_in_the_providers_words_is_met_with_one_compaction_and_the_answer(
    long_home: Home, server: ModelServer
) -> None:
    server.script(OVERFLOW, notes("The plumber comes on Monday"), says(SUMMED_UP), says("Here I am."))
    assert long_home.run("-m", "Are you there?").out.strip() == "Here I am."
    refused, flush, summary, again = server.asked[-4:]
    assert FLUSH in told(flush)[-1]
    assert SUMMARY in told(summary)[-1]
    for asked in (flush, summary):
        assert told(asked)[:-1] == told(refused)[: len(told(asked)) - 1]
        assert asked.json["tools"] == refused.json["tools"]
    assert len(again.body) < len(refused.body)
    assert "call the plumber" in "".join(told(again))
    assert "K-7731-0" in "".join(told(again)), "an identifier that the summary lacks is added by code"
    (note,) = (long_home.workspace / "memory").glob("*.md")
    assert "The plumber comes on Monday" in note.read_text()
    shown = long_home.run("sessions", "show", "main").out
    assert all(f"K-7731-{number}" in shown for number in range(TURNS))
    assert "call the plumber" not in shown
    assert "(window: 16,000 tokens, learned from an error)" in long_home.run("-m", "/model").out
    assert "learned from an error is forgotten" in long_home.run("-m", "/model openai/scripted").out
    assert "learned" not in long_home.run("-m", "/model").out
    assert "This conversation now uses openai/scripted." in long_home.run("-m", "/model openai/scripted").out


def test_compact_holds_in_the_next_process_and_history_shows_all(longer_home: Home, server: ModelServer) -> None:
    server.script(says("nothing"), says(SUMMED_UP))
    assert "are now a summary" in longer_home.run("-m", "/compact the house").out
    assert "Above all keep what concerns: the house" in told(server.asked[-1])[-1]
    server.script(says("Still here."), says("And now."))
    longer_home.run("-m", "Are you there?")
    first = server.asked[-1]
    longer_home.run("-m", "And now?")
    assert told(server.asked[-1])[: len(told(first))] == told(first)
    assert "call the plumber" in told(first)[1]
    assert "message 0" not in "".join(told(first))
    assert "message 0" in longer_home.run("-m", "/history").out


def test_a_model_that_is_asked_for_json_reads_what_to_keep_and_what_to_sum_up_and_the_summary(
    longer_home: Home, server: ModelServer
) -> None:
    longer_home.configure(server.base, more='tool_mode = "json"\n')
    note = {"tool": "memory_add", "args": {"text": "The plumber comes on Monday"}}
    server.script(says(json.dumps(note)), says(json.dumps({"reply": SUMMED_UP})), says('{"reply":"Still here."}'))
    assert "are now a summary" in longer_home.run("-m", "/compact the house").out
    flush, summary = server.asked[-2:]
    assert FLUSH in told(flush)[-1]
    assert SUMMARY in told(summary)[-1] and "Above all keep what concerns: the house" in told(summary)[-1]
    (kept,) = (longer_home.workspace / "memory").glob("*.md")
    assert "The plumber comes on Monday" in kept.read_text()
    assert longer_home.run("-m", "Are you there?").out.strip() == "Still here."
    assert "call the plumber" in "".join(told(server.asked[-1]))


def test_a_kill_between_the_notes_and_the_swap_leaves_the_conversation_as_it_was(
    longer_home: Home, server: ModelServer
) -> None:
    before = stored(longer_home)
    server.script(notes("The plumber comes on Monday"), events(delta(content="Half a summ"), done=False, hang=True))
    running = longer_home.start("-m", "/compact")
    server.wait_for(2)
    running.kill()
    running.communicate()
    assert stored(longer_home) == before
    (note,) = (longer_home.workspace / "memory").glob("*.md")
    assert "The plumber comes on Monday" in note.read_text()
    server.script(says("nothing"), says(SUMMED_UP), says("Still here."))
    assert "Still here." in longer_home.run("-m", "Are you there?").out, (
        "the command that was cut off is carried out first"
    )
    assert "call the plumber" in stored(longer_home)[0].text
