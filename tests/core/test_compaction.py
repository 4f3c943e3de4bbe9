"""Making room: what stays, what is summed up, and that nothing is lost when it fails."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanoclaw.core.compaction import BEGIN, END, FLUSH, SUMMARY, _cut_before, _cut_within
from nanoclaw.core.errors import ContextTooLong, ProviderError, ProviderRefused, ProviderUnavailable
from nanoclaw.core.events import Notice
from nanoclaw.core.identifiers import identifiers
from nanoclaw.core.messages import AssistantMessage, Message, ModelRequest, ToolCall, ToolResult, UserMessage
from nanoclaw.core.provider import OnEvent, chat_messages, chat_tools
from nanoclaw.core.store.sessions import Placed, session_of, whole_history
from nanoclaw.core.token_estimate import estimate_message, estimate_request
from nanoclaw.core.tool import Tool, tool
from nanoclaw.plugins.schedule.job_service import Wish
from nanoclaw.providers.scripted import Answer, Hang, Say, ScriptedProvider, call
from tests.core.house import MAIN, NOON, HandClock, House, assert_legal, house, results

WINDOW = 16_000
SUMMED_UP = "Standing instructions: none\nOpen tasks: none\nDone: much\nFacts: none"


class Model(ScriptedProvider):
    """Refuses what is longer than its window, and answers by what it is told: with notes, a summary, or the next step
    of its script ("ok" when there is none left)."""

    def __init__(
        self, *steps: Answer, window: int = WINDOW, notes: Answer = "nothing", summary: Answer | Callable[[], Answer]
    ) -> None:
        super().__init__()
        self.script, self.window, self.notes, self.summary = list(steps), window, notes, summary
        self.named: int | None = window
        self.weight = 1

    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        if tokens_of(request) * self.weight > self.window:
            self.requests.append(request)
            raise ContextTooLong("The conversation is longer than the model can read.", self.named)
        self.add([self._step(request)])
        return await super().complete(request, on_event)

    def _step(self, request: ModelRequest) -> Answer:
        told = request.history[-1].text
        if told.startswith(FLUSH):
            return self.notes
        if is_summary(request):
            return self.summary() if callable(self.summary) else self.summary
        return self.script.pop(0) if self.script else "ok"

    def asked(self, kind: str) -> list[ModelRequest]:
        return [request for request in self.requests if kind == kind_of(request)]


def tokens_of(request: ModelRequest) -> int:
    return estimate_request(request.system.text, request.tools, request.history)


def is_summary(request: ModelRequest) -> bool:
    return request.history[-1].text.startswith(SUMMARY[:80])


def kind_of(request: ModelRequest) -> str:
    if request.history[-1].text.startswith(FLUSH):
        return "flush"
    return "summary" if is_summary(request) else "talk"


def wordy(name: str, tokens: int = 1_500) -> str:
    """A message of about so many tokens."""
    return f"{name} " + "of the garden and the house " * (tokens // 6)


@asynccontextmanager
async def home_of(root: Path, model: Model, *, window: int | None = WINDOW, **options: Any) -> AsyncIterator[House]:
    async with house(root, model, **{"window_of": lambda name: window, **options}) as home:
        yield home


async def talk(home: House, turns: int, tokens: int = 1_500) -> None:
    for number in range(turns):
        await home.ask(wordy(f"message {number}", tokens))


def notices(home: House) -> list[str]:
    return [event.text for _, event in home.channel.events if isinstance(event, Notice)]


def texts(history: tuple[Message, ...]) -> list[str]:
    return [message.text for message in history]


def wire(request: ModelRequest) -> list[str]:
    """What is sent, message by message, as bytes would be compared."""
    return [json.dumps(message) for message in chat_messages(request)]


# --- the way it goes -------------------------------------------------------------------------------------------------


def test_a_conversation_longer_than_the_window_goes_on_with_a_summary_and_its_newest_part(tmp_path: Path) -> None:
    model = Model(summary=SUMMED_UP)

    async def story() -> None:
        async with home_of(tmp_path, model) as home:
            for number in range(12):
                assert await home.ask(wordy(f"message {number}")) == "ok"
                assert_legal(home.history)
            summary, *tail = home.history
            assert summary.text.startswith(BEGIN)
            assert SUMMED_UP in summary.text
            said = whole_history(home.store, str(MAIN)) or []
            assert tail == said[-len(tail) :], "the newest part is as it was said, word for word"
            assert isinstance(tail[0], UserMessage), "it begins where a turn begins"
            assert len([m for m in said if isinstance(m, UserMessage) and m.origin == "person"]) == 12
            assert any("is now a summary" in text for text in notices(home))

    asyncio.run(story())
    assert all(tokens_of(request) <= WINDOW for request in model.requests)
    assert len(model.asked("flush")) == len(model.asked("summary")) >= 1


def test_a_conversation_that_fits_is_sent_as_it_is(tmp_path: Path) -> None:
    model = Model(summary=SUMMED_UP)

    async def story() -> None:
        async with home_of(tmp_path, model) as home:
            await talk(home, 4, 500)

    asyncio.run(story())
    assert [kind_of(request) for request in model.requests] == ["talk"] * 4


def test_the_requests_that_note_and_sum_up_begin_with_the_bytes_of_the_conversation(tmp_path: Path) -> None:
    model = Model(summary=SUMMED_UP)

    async def story() -> None:
        async with home_of(tmp_path, model) as home:
            await talk(home, 8)

    asyncio.run(story())
    at = next(number for number, request in enumerate(model.requests) if kind_of(request) == "flush")
    before, flush, summary = model.requests[at - 1 : at + 2]
    for request in (flush, summary):
        *shared, instruction = wire(request)
        assert shared == wire(before)[: len(shared)]
        assert len(shared) > 3
        assert "This conversation has grown long" in instruction
        assert chat_tools(request.tools) == chat_tools(before.tools)
    assert flush.limits.output_tokens == WINDOW // 8


def test_after_it_requests_begin_alike_again(tmp_path: Path) -> None:
    model = Model(summary=SUMMED_UP)

    async def story() -> None:
        async with home_of(tmp_path, model) as home:
            await talk(home, 7)
            while len(model.asked("summary")) == 0:
                await talk(home, 1)
            await talk(home, 2, 100)

    asyncio.run(story())
    first, second, third = model.requests[-3:]
    assert wire(third)[: len(wire(second))] == wire(second)
    assert wire(second)[: len(wire(first))] == wire(first)


def test_what_is_worth_keeping_is_in_todays_note_before_the_older_part_goes(tmp_path: Path) -> None:
    noted = Path("workspace/memory/2026-03-06.md")
    seen: list[bool] = []

    def summary() -> Answer:
        seen.append("Lotte moves to Ghent" in (tmp_path / noted).read_text())
        return SUMMED_UP

    model = Model(
        notes=Say(
            "noting",
            (("memory_add", {"text": "Lotte moves to Ghent"}), ("write_file", {"path": "x.txt", "content": "no"})),
        ),
        summary=summary,
    )

    async def story() -> None:
        async with home_of(tmp_path, model) as home:
            await talk(home, 8)
            assert "noting" not in texts(home.history)
            assert "Lotte moves to Ghent" in await home.ask("/receipts")

    asyncio.run(story())
    assert seen == [True]
    assert not (tmp_path / "workspace" / "x.txt").exists(), "only memory_add is run"


def test_the_request_after_it_has_the_new_system_message_and_the_next_turn_the_same(tmp_path: Path) -> None:
    model = Model(call("memory_add", {"text": "The cat is called Minka", "kind": "fact"}), summary=SUMMED_UP)

    async def story() -> None:
        async with home_of(tmp_path, model) as home:
            while not model.asked("summary"):
                await talk(home, 1)
            await talk(home, 1, 50)

    asyncio.run(story())
    at = next(number for number, request in enumerate(model.requests) if is_summary(request))
    before, after, next_turn = model.requests[at], model.requests[at + 1], model.requests[at + 2]
    assert "Minka" not in before.system.text
    assert "Minka" in after.system.text
    assert next_turn.system == after.system


def test_a_new_context_begins_notes_are_recalled_and_files_read_anew(tmp_path: Path) -> None:
    model = Model(summary=SUMMED_UP)

    async def story() -> None:
        async with home_of(tmp_path, model) as home:
            await talk(home, 3)
            await home.ask("/memory")
            (home.workspace / "MEMORY.md").write_text("- The cat is called Minka.\n")
            await talk(home, 6)

    asyncio.run(story())
    assert "Minka" in model.requests[-1].system.text


@st.composite
def placed_turns(draw: st.DrawFn) -> list[Placed]:
    """Turns of any length, whose steps have any number of calls, after a summary or not."""
    placed = [Placed(0, 0, UserMessage("summary", NOON, "runtime"))] if draw(st.booleans()) else []
    for turn in range(1, draw(st.integers(1, 5)) + 1):
        messages: list[Message] = [UserMessage("meta", NOON, "runtime"), UserMessage("said", NOON)]
        for calls in draw(st.lists(st.integers(0, 3), max_size=4)):
            messages.append(AssistantMessage("", NOON, tuple(ToolCall(str(n), "look", "{}") for n in range(calls))))
            messages += [ToolResult(str(n), "look", "seen", NOON) for n in range(calls)]
        placed += [Placed(len(placed) + at + 1, turn, message) for at, message in enumerate(messages)]
    return placed


@given(placed_turns(), st.data(), st.floats(0, 300), st.floats(0, 300))
def test_whatever_was_said_no_call_is_split_from_its_result(
    placed: list[Placed], data: st.DataObject, tail: float, newest: float
) -> None:
    sizes = data.draw(st.lists(st.floats(1, 100), min_size=len(placed), max_size=len(placed)))
    for cut in (_cut_before(placed, sizes, tail, newest), _cut_within(placed, sizes, tail)):
        if cut:
            assert_legal(one.message for one in placed[:cut])
            assert_legal(one.message for one in placed[cut:])
    cut = _cut_before(placed, sizes, tail, newest)
    if cut and sum(sizes[cut:]) > tail:
        is_newest_turn = len({one.turn for one in placed[cut:]}) == 1 and placed[cut].turn != placed[cut - 1].turn
        is_last_step = not any(isinstance(one.message, AssistantMessage) for one in placed[cut + 1 :])
        assert is_newest_turn or is_last_step, "what stays is longer than wanted only where it cannot be divided"


# --- what survives ---------------------------------------------------------------------------------------------------

FACTS = (
    "K-7731-B",
    "/srv/photos/2019",
    "lotte@example.org",
    "https://example.org/t/88",
    "2026-04-17",
    "4.350,00",
    "invoice_12.pdf",
)


def test_two_compactions_keep_identifiers_open_tasks_and_instructions_whatever_the_model_leaves_out(
    tmp_path: Path,
) -> None:
    first = (
        "Standing instructions:\n- Never send mail to the landlord\nOpen tasks:\n- Renew the passport at the town hall"
    )
    summaries = iter([f"{first}\nFacts: {FACTS[0]}", "They talked.", "They talked on."])
    model = Model(summary=lambda: next(summaries))

    async def story() -> None:
        async with home_of(tmp_path, model) as home:
            await home.ask(f"Note these: {', '.join(FACTS)}. " + wordy("and"))
            while len(model.asked("summary")) < 3:
                await talk(home, 1)
            text = home.history[0].text
            for fact in FACTS:
                assert fact in text
            assert text.count(END) == 1
            assert "Never send mail to the landlord" in text
            assert "Renew the passport at the town hall" in text
            assert text.count("Renew the passport") == 1

    asyncio.run(story())


def test_what_the_person_said_from_now_on_is_kept_though_no_summary_has_it(tmp_path: Path) -> None:
    model = Model(summary=lambda: "They talked.")

    async def story() -> None:
        async with home_of(tmp_path, model) as home:
            await home.ask("A fine day. From now on never mention elephants. " + wordy("and"))
            while len(model.asked("summary")) < 3:
                await talk(home, 1)
            assert home.history[0].text.count("- From now on never mention elephants.\n") == 1

    asyncio.run(story())


def test_an_open_task_that_the_next_summary_calls_done_is_not_carried_on(tmp_path: Path) -> None:
    summaries = iter(
        ["Open tasks:\n- Renew the passport at the town hall", "Done:\n- The passport is renewed, town hall, Monday"]
    )
    model = Model(summary=lambda: next(summaries))

    async def story() -> None:
        async with home_of(tmp_path, model) as home:
            while len(model.asked("summary")) < 2:
                await talk(home, 1)
            assert "Renew the passport" not in home.history[0].text
            assert home.history[0].text.count(END) == 1

    asyncio.run(story())


def test_identifiers_are_numbers_dates_ids_paths_names_of_files_addresses_and_links() -> None:
    text = f"Please look at {' and '.join(FACTS)}, by Monday (or so) at 14:30; call +49 30 1234."
    assert identifiers(text) == [*FACTS, "14:30", "+49", "30", "1234"]
    assert identifiers("Nothing of that kind, is there? - No! e.g. this or that...") == ["e.g"]


# --- results of tools ------------------------------------------------------------------------------------------------


def reader(size: int = 12_000) -> Tool:
    async def look(name: str) -> str:
        """Gives a long text."""
        return f"<{name}> " + "x y " * (size // 4) + f" </{name}>"

    return tool(look, effect="none")


async def look_at(home: House, model: Model, *names: str) -> None:
    for name in names:
        model.script += [call("look", {"name": name}), f"saw {name}"]
        await home.ask(f"look at {name}")


def test_old_results_are_shortened_first_and_stay_so_while_the_last_three_turns_are_whole(tmp_path: Path) -> None:
    model = Model(summary=SUMMED_UP)

    async def story() -> None:
        async with home_of(tmp_path, model, tools=[reader(8_000)], window=28_000) as home:
            names = "abcdefgh"
            shortened_at = None
            for at, name in enumerate(names):
                await look_at(home, model, name)
                short = ["left out later" in result.text for result in results(home.history)]
                if any(short) and shortened_at is None:
                    shortened_at = at
                    assert short == [True] * (at - 2) + [False] * 3
                    assert all(len(r.text) < 3_100 for r in results(home.history)[: at - 2])
                    assert results(home.history)[0].text.startswith("<a>")
                    assert results(home.history)[0].text.endswith("</a>")
                    before = home.history
                elif shortened_at is not None:
                    assert home.history[: len(before)] == before, "not anew at each turn"
                    break
            assert shortened_at is not None
            whole = results(whole_history(home.store, str(MAIN)) or [])
            assert all(len(result.text) > 8_000 for result in whole), "the store has them whole"

    model.window = 28_000
    asyncio.run(story())
    assert not model.asked("summary")


def test_what_was_shortened_is_so_after_a_restart(tmp_path: Path) -> None:
    model = Model(summary=SUMMED_UP, window=28_000)

    async def story() -> tuple[Message, ...]:
        async with home_of(tmp_path, model, tools=[reader(8_000)], window=28_000) as home:
            while not any("left out later" in result.text for result in results(home.history)):
                await look_at(home, model, "a")
            return home.history

    async def again() -> tuple[Message, ...]:
        async with home_of(tmp_path, model, tools=[reader(8_000)], window=28_000) as home:
            return home.history

    assert asyncio.run(story()) == asyncio.run(again())


# --- overflow --------------------------------------------------------------------------------------------------------


def test_an_overflow_is_met_with_one_compaction_and_answered(tmp_path: Path) -> None:
    model = Model(summary=SUMMED_UP)
    learned: dict[str, int] = {}

    async def story() -> None:
        options: dict[str, Any] = {"window_of": learned.get, "learned_window": learned.__setitem__}
        async with home_of(tmp_path, model, **options) as home:
            while not learned:
                assert await home.ask(wordy("message")) == "ok"
            overflowed = [kind_of(request) for request in model.requests][-4:]
            assert overflowed == ["talk", "flush", "summary", "talk"]
            assert learned == {model.model: WINDOW}
            before = len(model.requests)
            while len(model.asked("summary")) < 2:
                assert await home.ask(wordy("message")) == "ok"
            assert all(tokens_of(request) <= WINDOW for request in model.requests[before:]), "it overflows but once"

    asyncio.run(story())


def test_a_window_that_the_model_does_not_name_is_learned_from_what_was_too_long(tmp_path: Path) -> None:
    model = Model(summary=SUMMED_UP)
    model.named = None
    learned: dict[str, int] = {}

    async def story() -> None:
        options: dict[str, Any] = {"window_of": learned.get, "learned_window": learned.__setitem__}
        async with home_of(tmp_path, model, **options) as home:
            while not learned:
                assert await home.ask(wordy("message")) == "ok"
            assert WINDOW < learned[model.model] < WINDOW + 2_500
            await talk(home, 10)
            assert_legal(home.history)

    asyncio.run(story())


def test_a_model_that_counts_twice_as_many_tokens_is_answered_to_all_the_same(tmp_path: Path) -> None:
    model = Model(summary=SUMMED_UP, window=28_000)
    model.weight = 2

    async def story() -> None:
        async with home_of(tmp_path, model, tools=[reader(5_000)], window=28_000) as home:
            for name in "abcdef":
                model.script += [call("look", {"name": name}), f"saw {name}"]
                assert await home.ask(f"look at {name}") == f"saw {name}"

    asyncio.run(story())


def test_a_smaller_window_that_nobody_knows_is_found_part_by_part(tmp_path: Path) -> None:
    large, small = Model(summary=SUMMED_UP, window=100_000), Model(summary=SUMMED_UP)
    small._model, small.named = "scripted/small", None
    learned: dict[str, int] = {}

    async def story() -> None:
        options: dict[str, Any] = {"window_of": learned.get, "learned_window": learned.__setitem__}
        async with house(tmp_path, large, small, **options) as home:
            await talk(home, 20)
            await home.ask("/model scripted/small")
            assert await home.ask("go on") == "ok"
            assert_legal(home.history)

    asyncio.run(story())


def test_an_overflow_in_the_midst_of_a_turn_keeps_what_the_turn_did(tmp_path: Path) -> None:
    names = [f"n{number}" for number in range(6)]
    model = Model(summary=SUMMED_UP)

    async def story() -> None:
        async with home_of(tmp_path, model, tools=[reader(1_500)]) as home:
            await talk(home, 4)
            model.script += [*(call("look", {"name": name}) for name in names), "I saw them all."]
            assert await home.ask("Look at all six, for the tax office, file T-99.") == "I saw them all."
            assert_legal(home.history)
            assert [result.name for result in results(home.history)] == ["look"] * 6
            assert any(message.text == "Look at all six, for the tax office, file T-99." for message in home.history)

    asyncio.run(story())
    assert len(model.asked("summary")) == 1


def test_a_turn_that_alone_outgrows_the_window_goes_on_with_the_persons_words(tmp_path: Path) -> None:
    names = [f"n{number}" for number in range(14)]
    model = Model(summary=SUMMED_UP)

    async def story() -> None:
        async with home_of(tmp_path, model, tools=[reader(9_000)]) as home:
            model.script += [*(call("look", {"name": name}) for name in names), "I saw them all."]
            assert await home.ask("Look at all, for the tax office, file T-99.") == "I saw them all."
            assert_legal(home.history)

    asyncio.run(story())
    for request in model.asked("talk"):
        assert any("Look at all, for the tax office, file T-99." in message.text for message in request.history)
        assert_legal(request.history)


def test_a_task_that_outgrows_the_window_goes_on_with_its_own_short_prompt(tmp_path: Path) -> None:
    names, clock = [f"n{number}" for number in range(14)], HandClock()
    model = Model(summary=SUMMED_UP)

    async def story() -> None:
        async with home_of(tmp_path, model, tools=[reader(9_000)], clock=clock, waking={}) as home:
            (home.workspace / "SOUL.md").write_text("Dry and exact.")
            home.desk.add(Wish("in 20 minutes", "Look at all of them.", kind="task"), MAIN, "me")
            clock.now += timedelta(minutes=20)
            model.script += [*(call("look", {"name": name}) for name in names), "I saw them all."]
            await home.schedule.tick(clock.now)
            assert await home.answer() == "I saw them all."

    asyncio.run(story())
    assert model.asked("summary")
    assert not any("Dry and exact." in request.system.text for request in model.requests)


def test_a_model_with_a_smaller_window_takes_over_a_long_conversation(tmp_path: Path) -> None:
    large, small = Model(summary=SUMMED_UP, window=100_000), Model(summary=SUMMED_UP)
    small._model = "scripted/small"

    async def story() -> None:
        windows = {large.model: 100_000, small.model: WINDOW}
        async with house(tmp_path, large, small, window_of=windows.get) as home:
            await talk(home, 20)
            assert not large.asked("summary")
            await home.ask("/model scripted/small")
            assert await home.ask("go on") == "ok"

    asyncio.run(story())
    assert len(small.asked("summary")) > 1
    assert all(tokens_of(request) <= WINDOW for request in small.requests)


# --- when it fails ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failing", [ProviderUnavailable("the model is down"), ProviderRefused("no credit")])
@pytest.mark.parametrize("at", ["notes", "summary"])
def test_a_model_that_fails_costs_nothing_and_is_told_once(tmp_path: Path, failing: ProviderError, at: str) -> None:
    model = Model(summary=SUMMED_UP, window=26_000)
    setattr(model, at, failing)

    async def story() -> None:
        async with home_of(tmp_path, model, tools=[reader(6_000)], window=26_000) as home:
            await look_at(home, model, "a", "b")
            await talk(home, 10, 1_200)
            await talk(home, 9, 300)
            assert len(model.asked("flush")) > 1
            assert not home.history[0].text.startswith(BEGIN)
            said = whole_history(home.store, str(MAIN)) or []
            assert [type(message) for message in home.history] == [type(message) for message in said]
            assert all("left out later" in result.text for result in results(home.history))
            told = [text for text in notices(home) if "could not be summed up" in text]
            assert len(told) == 1
            assert str(failing) in told[0]

    asyncio.run(story())
    assert model.asked("flush")


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "  \n ",
        Say("half a summ", finish="length"),
        Say("I can't", finish="refusal"),
        call("memory_add", {"text": "x"}),
        wordy("too long", 9_000),
    ],
)
def test_a_summary_that_is_none_is_asked_for_again_and_then_not_used(tmp_path: Path, bad: Answer) -> None:
    model = Model(summary=bad)

    async def story() -> None:
        async with home_of(tmp_path, model) as home:
            await talk(home, 6)
            history = home.history
            assert (await home.ask("/compact")).startswith("This conversation could not be summed up: it ")
            assert home.history == history
            good = iter([bad, SUMMED_UP])
            model.summary = lambda: next(good)
            assert "are now a summary" in await home.ask("/compact")

    asyncio.run(story())
    first, second = model.asked("summary")[-2:]
    assert "Your last try could not be used" not in first.history[-1].text
    assert "Your last try could not be used: it " in second.history[-1].text


def test_a_request_that_cannot_be_made_shorter_ends_in_an_honest_sentence(tmp_path: Path) -> None:
    model = Model(summary=SUMMED_UP)

    async def story() -> None:
        async with home_of(tmp_path, model) as home:
            answer = await home.ask(wordy("one message alone", 20_000))
            assert answer == "The model gave no answer: The conversation is longer than the model can read."
            await home.ask("/new")
            assert await home.ask("hello") == "ok"

    asyncio.run(story())


@pytest.mark.parametrize("at", ["notes", "summary"])
def test_a_stop_ends_it_and_leaves_the_conversation_as_it_was(tmp_path: Path, at: str) -> None:
    model, hang = Model(summary=SUMMED_UP), Hang("half a summary")
    setattr(model, at, hang)

    async def story() -> None:
        async with home_of(tmp_path, model) as home:
            await talk(home, 4)
            history = home.history
            await home.say("/compact")
            await hang.reached.wait()
            await home.say("/stop")
            async with asyncio.timeout(20):
                assert (await home.answer()).startswith("Stopped.")
            assert [ended.reason for ended in home.channel.ended][-1] == "cancelled"  # so a terminal waits no more
            assert home.history == history

    asyncio.run(story())


@pytest.mark.parametrize("at", ["notes", "summary"])
def test_a_stop_in_the_midst_of_a_turn_ends_it_too(tmp_path: Path, at: str) -> None:
    model, hang = Model(summary=SUMMED_UP), Hang("half a summary")
    setattr(model, at, hang)

    async def story() -> None:
        async with home_of(tmp_path, model) as home:
            reached = asyncio.create_task(hang.reached.wait())
            while not reached.done():
                await home.say(wordy("message"))
                await asyncio.wait(
                    [reached, asyncio.create_task(home.assistant.idle())], return_when=asyncio.FIRST_COMPLETED
                )
            while not home.channel.sent.empty():
                home.channel.sent.get_nowait()
            await home.say("/stop")
            async with asyncio.timeout(20):
                assert await home.answer() == "Stopped."
            assert not home.history[0].text.startswith(BEGIN)
            assert not any("half a summary" in text for text in texts(home.history))
            assert_legal(home.history)

    asyncio.run(story())


def test_summing_up_that_fails_is_not_tried_again_at_once(tmp_path: Path) -> None:
    model = Model(summary="")

    async def story() -> None:
        async with home_of(tmp_path, model) as home:
            while not model.asked("flush"):
                await talk(home, 1)
            await talk(home, 2, 100)
            assert len(model.asked("flush")) == 1
            model.summary = SUMMED_UP
            while not home.history[0].text.startswith(BEGIN):
                await talk(home, 1, 100)

    asyncio.run(story())


def test_a_model_that_will_not_stop_calling_tools_is_asked_without_any(tmp_path: Path) -> None:
    answers: Iterator[Answer] = iter([call("look"), call("look"), SUMMED_UP])
    model = Model(summary=lambda: next(answers))

    async def story() -> None:
        async with home_of(tmp_path, model) as home:
            await talk(home, 5)
            assert "are now a summary" in await home.ask("/compact")

    asyncio.run(story())
    assert [bool(request.tools) for request in model.asked("summary")] == [True, True, False]


# --- by hand ---------------------------------------------------------------------------------------------------------


def test_compact_sums_up_by_hand_with_a_focus_and_history_still_shows_all(tmp_path: Path) -> None:
    model = Model(summary=SUMMED_UP, window=100_000)

    async def story() -> None:
        async with home_of(tmp_path, model, window=None) as home:
            for number in range(6):
                await home.ask(wordy(f"message number {number}", 6_000))
            said = await home.ask("/compact the garden plan")
            assert re.match(r"\d+ messages \(≈ [\d,]+ tokens\) are now a summary", said), said
            assert home.history[0].text.startswith(BEGIN)
            assert "message number 0" not in "".join(texts(home.history))
            shown = await home.ask("/history")
            assert [f"you: message number {number}" in shown for number in range(6)] == [True] * 6
            assert BEGIN not in shown

    asyncio.run(story())
    (request,) = model.asked("summary")
    assert request.history[-1].text.endswith("Above all keep what concerns: the garden plan")
    assert model.asked("flush")[0].limits.output_tokens == 4_000


def test_compact_of_a_conversation_of_one_turn_says_that_there_is_nothing_to_sum_up(tmp_path: Path) -> None:
    model = Model(summary=SUMMED_UP)

    async def story() -> None:
        async with home_of(tmp_path, model) as home:
            assert await home.ask("/compact") == "There is nothing to sum up yet: nothing was said."
            await home.ask(wordy("hello", 5_000))
            assert (
                await home.ask("/compact") == "There is nothing to sum up yet: the newest turn always stays as it is."
            )

    asyncio.run(story())
    assert not model.asked("flush")


def test_compact_leaves_the_newest_20_000_tokens_as_they_were_said(tmp_path: Path) -> None:
    model = Model(summary=SUMMED_UP, window=200_000)

    async def story() -> None:
        async with home_of(tmp_path, model, window=200_000) as home:
            for number in range(9):
                await home.ask(wordy(f"message number {number}", 5_000))
            before = home.history
            assert "are now a summary" in await home.ask("/compact")
            summary, *tail = home.history
            assert summary.text.startswith(BEGIN)
            assert tuple(tail) == before[-len(tail) :]
            assert 14_000 < sum(map(estimate_message, tail)) <= 20_000
            text = (
                "There is nothing to sum up yet: everything since the last summary is within the newest 20,000 tokens"
            )
            assert await home.ask("/compact") == f"{text}, which stay word by word."

    asyncio.run(story())
    assert len(model.asked("summary")) == 1


def test_compact_of_a_short_conversation_says_that_all_of_it_stays_and_asks_no_model(tmp_path: Path) -> None:
    model = Model(summary=SUMMED_UP)

    async def story() -> None:
        async with home_of(tmp_path, model, window=None) as home:
            await talk(home, 2, 20)
            text = "There is nothing to sum up yet: everything since the beginning is within the newest 20,000 tokens"
            assert await home.ask("/compact hello") == f"{text}, which stay word by word."

    asyncio.run(story())
    assert [kind_of(request) for request in model.requests] == ["talk"] * 2


def test_history_is_shown_in_pages(tmp_path: Path) -> None:
    async def story() -> None:
        async with home_of(tmp_path, Model(summary=SUMMED_UP)) as home:
            assert await home.ask("/history") == "Nothing was said yet."
            for number in range(25):
                await home.ask(f"message number {number}.")
            newest, before = await home.ask("/history"), await home.ask("/history 2")
            assert "number 24." in newest
            assert "number 4." not in newest
            assert "number 4." in before
            assert await home.ask("/history 3") == "/history takes a page from 1 (the newest) to 2."

    asyncio.run(story())


# --- on disk ---------------------------------------------------------------------------------------------------------


def test_a_restart_goes_on_with_the_summary_and_the_same_bytes(tmp_path: Path) -> None:
    model = Model(summary=SUMMED_UP)

    async def story() -> tuple[Message, ...]:
        async with home_of(tmp_path, model) as home:
            await talk(home, 8)
            return home.history

    async def again() -> tuple[Message, ...]:
        async with home_of(tmp_path, model) as home:
            opening, history = session_of(home.store, str(MAIN))
            before = home.history
            assert tuple(history) == before
            assert opening
            await home.ask("and on")
            return before

    history = asyncio.run(story())
    last = model.requests[-1]
    assert asyncio.run(again()) == history
    assert wire(model.requests[-1])[: len(wire(last))] == wire(last)


def test_what_is_forgotten_is_gone_from_summaries_too(tmp_path: Path) -> None:
    from nanoclaw.plugins.forget.scrub import scrub
    from nanoclaw.plugins.memory.words import words_of

    model = Model(summary="Facts: the code of the safe is pelican-42", window=100_000)

    async def story() -> None:
        async with home_of(tmp_path, model, window=None) as home:
            for number in range(6):
                await home.ask(wordy(f"message number {number}", 6_000))
            await home.ask("/compact")
            assert "pelican-42" in home.history[0].text
            words = words_of((), ["pelican-42"])
            scrub(home.store, words)
            home.sessions.forget(words, MAIN)
            assert "pelican-42" not in "".join(texts(home.history))

    asyncio.run(story())
    assert b"pelican-42" not in (tmp_path / "state.db").read_bytes()


def test_a_summary_of_talk_about_what_is_forgotten_is_looked_at_closely(tmp_path: Path) -> None:
    from nanoclaw.plugins.forget.scrub import scrub
    from nanoclaw.plugins.memory.words import words_of

    model = Model(summary="Facts: asked about the pelican, it opens with the seven; the garden is fine", window=100_000)

    async def story() -> None:
        async with home_of(tmp_path, model, window=None) as home:
            await home.ask("The safe of aunt Lotte opens with pelican seven four")
            for number in range(6):
                await home.ask(wordy(f"message number {number}", 6_000))
            await home.ask("/compact")
            words = words_of(["The safe of aunt Lotte opens with pelican seven four"])
            scrub(home.store, words)
            home.sessions.forget(words, MAIN)
            assert "pelican" not in home.history[0].text
            assert "the garden is fine" in home.history[0].text

    asyncio.run(story())


def test_flush_and_summary_are_in_the_account(tmp_path: Path) -> None:
    model = Model(summary=SUMMED_UP)

    async def story() -> None:
        async with home_of(tmp_path, model) as home:
            await talk(home, 8)
            await home.ask("/compact")
            ((count,),) = home.store.rows("SELECT count(*) FROM usage")
            assert count == len(model.requests)

    asyncio.run(story())
    assert len(model.asked("summary")) == 2


def test_a_new_conversation_begins_without_the_summary(tmp_path: Path) -> None:
    model = Model(summary=SUMMED_UP, window=100_000)

    async def story() -> None:
        async with home_of(tmp_path, model, window=None) as home:
            for number in range(6):
                await home.ask(wordy(f"message number {number}", 6_000))
            await home.ask("/compact")
            await home.ask("/new")
            assert home.history == ()
            await home.ask("hello")
            assert not any(BEGIN in text for text in texts(home.history))

    asyncio.run(story())
