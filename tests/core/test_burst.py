"""One thought, one turn: what a person sends in a burst, and what they add before anything of the answer was shown."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from nanoclaw.core.channel import Hints
from nanoclaw.core.events import Joined
from nanoclaw.core.messages import Address, AssistantMessage, Inbound, ModelRequest, UserMessage
from nanoclaw.core.plugin import Command, Draft, Host, Plugin, Said, Turn, Tx
from nanoclaw.core.provider import OnEvent
from nanoclaw.providers.scripted import Hang, Say, ScriptedProvider, call
from tests.program import MAIN, NOON, FakeChannel, Gate, HandClock, Program, assert_legal, bare
from tests.virtual_time import passed, virtual_time


def chat_app() -> FakeChannel:
    """A channel in which lines that follow each other are collected."""
    return FakeChannel(hints=Hints())


def said(program: Program) -> list[str]:
    return [item.text for item in program.history if isinstance(item, UserMessage) and item.origin == "person"]


# -- collecting


@virtual_time
async def test_a_pause_ends_the_burst(tmp_path: Path) -> None:
    with ScriptedProvider("One.", "Two.") as model:
        async with bare(tmp_path, model, channel=chat_app()) as program:
            await program.say("first")
            await asyncio.sleep(0.9)
            await program.say("second")
            assert [await program.answer(), await program.answer()] == ["One.", "Two."]


@virtual_time
async def test_who_never_stops_is_answered_after_five_seconds_all_the_same(tmp_path: Path) -> None:
    hang = Hang("I begin")
    with ScriptedProvider(hang, "The rest.") as model:
        async with bare(tmp_path, model, channel=chat_app()) as program:
            begun = asyncio.create_task(hang.reached.wait())
            count = 0
            while not begun.done():
                await program.say(f"line {count}")
                await asyncio.sleep(0.5)
                count += 1
            assert passed() == pytest.approx(5.0, abs=0.51)
            assert 10 <= len(said(program)) <= 11
            assert (await program.ask("/stop")).startswith("Stopped.")
            assert await program.ask("and now?") == "The rest."


@virtual_time
async def test_in_the_terminal_nobody_waits(tmp_path: Path) -> None:
    async with bare(tmp_path, ScriptedProvider("At once.")) as program:
        assert await program.ask("hello") == "At once."
        assert passed() == 0


class Lately(Plugin):
    """A command that takes its turn in the queue."""

    name = "lately"

    def commands(self) -> list[Command]:
        return [Command("lately", "waits for its turn", self._lately, waits=True)]

    async def _lately(self, said: Said) -> str:
        return f"after {passed():.1f} s"


@virtual_time
async def test_a_command_waits_for_no_burst_and_is_part_of_none(tmp_path: Path) -> None:
    with ScriptedProvider("First alone.", "Second.") as model:
        async with bare(tmp_path, model, channel=chat_app(), plugins=[Lately]) as program:
            assert await program.ask("/status") and passed() == 0
            assert await program.ask("/lately") == "after 0.0 s"
            await program.say("first")
            await program.say("/lately")
            await program.say("second")
            assert await program.answer() == "First alone."
            assert await program.answer() == "after 0.8 s"
            assert await program.answer() == "Second."


@virtual_time
async def test_what_no_person_wrote_waits_for_no_burst(tmp_path: Path) -> None:
    async with bare(tmp_path, ScriptedProvider("Done."), channel=chat_app()) as program:
        task = Inbound(MAIN, "", "job-1", UserMessage("water the plants", program.clock(), "job"), role="owner")
        program.app.transactions.write_now(lambda tx: tx.deliver(task))
        assert await program.answer() == "Done."
        assert passed() == 0


class Rooms(Plugin):
    """Lets owner and guest into one chat."""

    name = "rooms"

    def on_message(self, inbound: Inbound, tx: Tx) -> Inbound:
        return inbound._replace(role="owner" if inbound.sender == "me" else "guest")


@virtual_time
async def test_what_a_guest_says_is_no_part_of_the_owners_turn(tmp_path: Path) -> None:
    room = FakeChannel("room", Hints())
    address = Address("room", "1")
    with ScriptedProvider("For you.", "For the guest.") as model:
        async with bare(tmp_path, model, others=[room], plugins=[Rooms]) as program:
            await program.write_from(address, "me", "what is in my notes?")
            await program.write_from(address, "eve", "and all the rest of them?")
            assert [(await room.sent.get()).text for _ in range(2)] == ["For you.", "For the guest."]
    assert "rest of them" not in model.requests[0].history[-1].text


@virtual_time
async def test_a_stop_while_lines_are_collected_drops_them_for_good(tmp_path: Path) -> None:
    async with bare(tmp_path, ScriptedProvider(), channel=chat_app()) as program:
        await program.say("first")
        await program.say("second")
        await asyncio.sleep(0.1)
        assert await program.ask("/stop") == "Stopped. Not begun: second."
        await program.app.conversations.idle()
        assert program.history == ()
        assert program.app.inbox.waiting() == []
    async with bare(tmp_path, ScriptedProvider()) as program:
        await program.app.conversations.idle()
        assert program.channel.sent.empty()


@virtual_time
async def test_lines_that_were_being_collected_when_the_program_ended_are_answered_at_the_next_start(
    tmp_path: Path,
) -> None:
    async with bare(tmp_path, ScriptedProvider(), channel=chat_app()) as program:
        await program.say("first")
        await asyncio.sleep(0.1)
        await program.app.conversations.close(leave=True)
    with ScriptedProvider("Here I am.") as model:
        async with bare(tmp_path, model, channel=chat_app()) as program:
            assert await program.answer() == "Here I am."
            assert said(program) == ["first"]


# -- a further line before anything of the answer was shown


@virtual_time
async def test_a_further_line_joins_the_request_which_is_made_again_with_both(tmp_path: Path) -> None:
    hang = Hang()
    with ScriptedProvider(hang, "Both.") as model:
        async with bare(tmp_path, model) as program:
            await program.say("first")
            await hang.reached.wait()
            await program.say("second")
            assert await program.answer() == "Both."
            assert said(program) == ["first", "second"]
            first, second = model.requests
            assert second.history[: len(first.history)] == first.history, "the prefix is cached"
            assert second.history[-1].text == "second"
            assert_legal(program.history)
            assert [type(event) for _, event in program.channel.events].count(Joined) == 1
            assert program.rows("SELECT count(*) FROM usage") == [(2,)], "what the first one cost is booked"
            assert program.app.inbox.open_turns() == [] and program.app.inbox.waiting() == []
            assert program.rows("SELECT count(*) FROM turns") == [(1,)]


@virtual_time
async def test_a_further_line_joins_also_where_its_platform_tells_whole_seconds(tmp_path: Path) -> None:
    clock, hang = HandClock(NOON + timedelta(milliseconds=400)), Hang()
    with ScriptedProvider(hang, "Both.") as model:
        async with bare(tmp_path, model, channel=chat_app(), clock=clock) as program:
            await program.say("first")
            await hang.reached.wait()
            said = UserMessage("second", NOON)  # half a second after the first
            await program.deliver(Inbound(MAIN, "me", "second", said))
            assert await program.answer() == "Both."


@virtual_time
@pytest.mark.parametrize("steps", range(5))
async def test_lines_at_any_moment_of_making_a_request_again_join_and_stop_nothing(tmp_path: Path, steps: int) -> None:
    hang = Hang()
    async with bare(tmp_path, ScriptedProvider(hang, "All.", "All.")) as program:
        await program.say("first")
        await hang.reached.wait()
        await program.say("second")
        for _ in range(steps):
            await asyncio.sleep(0)
        await program.say("third")
        assert await program.answer() == "All."
        assert said(program) == ["first", "second", "third"]


@virtual_time
async def test_once_something_was_shown_a_further_line_has_an_answer_of_its_own(tmp_path: Path) -> None:
    hang = Hang("I was going to say")
    with ScriptedProvider(hang, "Second.") as model:
        async with bare(tmp_path, model) as program:
            await program.say("first")
            await hang.reached.wait()
            await program.say("second")
            await asyncio.sleep(1)
            assert len(model.requests) == 1
            assert await program.ask("/stop") == "Stopped. Not begun: second."
            assert await program.ask("third") == "Second."


@virtual_time
async def test_once_a_tool_has_begun_a_further_line_comes_after_its_result(tmp_path: Path) -> None:
    gate = Gate()
    hang = Hang()
    with ScriptedProvider(call("wait"), hang, "Done.") as model:
        async with bare(tmp_path, model, tools=gate.tools()) as program:
            await program.say("begin")
            await gate.reached.wait()
            await program.say("and this")
            gate.open.set()
            await hang.reached.wait()
            assert [message.text for message in model.requests[1].history[-3:]][::2] == ["waited", "and this"]
            await program.say("too late")
            await asyncio.sleep(1)
            assert len(model.requests) == 2, "a tool has begun: nothing is asked again"
            await program.ask("/stop")
            assert await program.ask("and now?") == "Done."


@virtual_time
async def test_a_line_that_comes_while_files_of_the_first_are_fetched_is_in_the_first_request(tmp_path: Path) -> None:
    class Slow(Plugin):
        name = "slow"

        async def before_turn(self, draft: Draft, turn: Turn) -> None:
            await asyncio.sleep(3)

    with ScriptedProvider("Both.") as model:
        async with bare(tmp_path, model, plugins=[Slow]) as program:
            await program.say("first")
            await asyncio.sleep(1)
            await program.say("second")
            assert await program.answer() == "Both."
            assert said(program) == ["first", "second"]
            assert len(model.requests) == 1


@virtual_time
async def test_a_stop_ends_a_request_that_is_just_being_made_again(tmp_path: Path) -> None:
    hang = Hang()
    with ScriptedProvider(hang) as model:
        async with bare(tmp_path, model) as program:
            await program.say("first")
            await hang.reached.wait()
            await program.say("second")
            await program.say("/stop")
            assert (await program.answer()).startswith("Stopped.")
            await program.app.conversations.idle()
            assert len(model.requests) == 1
            assert program.app.inbox.open_turns() == [] and program.app.inbox.waiting() == []
            assert_legal(program.history)


@virtual_time
async def test_a_line_with_followup_interrupts_nothing(tmp_path: Path) -> None:
    hang = Hang()
    with ScriptedProvider(hang, "Later.") as model:
        async with bare(tmp_path, model, settings='[session]\nqueue = "followup"\n') as program:
            await program.say("first")
            await hang.reached.wait()
            await program.say("second")
            await asyncio.sleep(1)
            assert len(model.requests) == 1
            await program.ask("/stop")
            assert await program.ask("third") == "Later."


class SmallModel(ScriptedProvider):
    """One that answers the last of several questions only, as those that run in the process do."""

    cuts_history = True

    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        await asyncio.sleep(30)
        return await super().complete(request, on_event)


@virtual_time
async def test_a_small_model_is_asked_one_question_after_the_other(tmp_path: Path) -> None:
    """But what is said within a moment is one thought with it, too."""
    clock = HandClock()
    with SmallModel("Twelve.", "Paris.", "Lima and Tokyo.") as model:
        async with bare(tmp_path, model, channel=chat_app(), clock=clock) as program:
            for seconds, text in ((0, "5 + 7?"), (9, "Capital of France?"), (9, "Of Peru?"), (1, "And of Japan?")):
                clock.now += timedelta(seconds=seconds)
                await program.say(text)
                await asyncio.sleep(seconds or 1)
            assert [await program.answer() for _ in range(3)] == ["Twelve.", "Paris.", "Lima and Tokyo."]
    assert [request.history[-1].text for request in model.requests] == [
        "5 + 7?", "Capital of France?", "And of Japan?",
    ]  # fmt: skip


# -- one answer for all that a turn took in


@virtual_time
async def test_the_model_is_told_that_its_one_answer_covers_all_that_the_turn_took_in(tmp_path: Path) -> None:
    """Three questions: the second while a tool runs, the third before anything of the answer was shown."""
    gate, first = Gate(), Say("Paris, it is the capital.", calls=(("wait", {}),))
    with ScriptedProvider(first, "Paris. Sunny. Two.", "Next.") as model:
        async with bare(tmp_path, model, tools=gate.tools(), channel=chat_app()) as program:
            await program.say("what is the capital of France?")
            await gate.reached.wait()
            await program.say("and the weather there?")
            await program.say("how many airports?")
            gate.open.set()
            assert await program.answer() == "Paris. Sunny. Two."
            assert program.app.inbox.waiting() == [] and program.app.inbox.open_turns() == []
            assert program.channel.sent.empty()
            told = [message.text for message in model.requests[1].history if "no answer yet" in message.text]
            assert len(told) == 1, "said once, with the last of them"
            assert "This and the 2 before it have no answer yet: your last message answers them all" in told[0]
            assert "Text beside tool calls is not sent." in told[0]
            assert await program.ask("thanks") == "Next."
    assert "no answer yet" not in model.requests[0].history[0].text + model.requests[2].history[-2].text


@virtual_time
async def test_of_a_burst_the_model_is_told_with_its_last_line(tmp_path: Path) -> None:
    with ScriptedProvider("Five answers.") as model:
        async with bare(tmp_path, model, channel=chat_app()) as program:
            for number in range(5):
                await program.say(f"line {number}")
                await asyncio.sleep(0.3)
            assert await program.answer() == "Five answers."
    remarks = [message.text for message in model.requests[0].history if "no answer yet" in message.text]
    assert len(remarks) == 1 and "This and the 4 before it" in remarks[0]


# -- a command that asks the model in its place


@virtual_time
async def test_a_slow_command_that_asks_the_model_something_is_carried_out_once(tmp_path: Path) -> None:
    class Asking(Plugin):
        name = "asking"

        def __init__(self, host: Host, settings: None) -> None:
            self._host = host
            self.public = self._said = list[str]()

        def commands(self) -> list[Command]:
            return [Command("asking", "asks in other words", self._ask)]

        async def _ask(self, said: Said) -> UserMessage:
            self._said.append(said.argument)
            return UserMessage(f"In other words: {said.argument}", self._host.now())

    with ScriptedProvider("Well.") as model:
        async with bare(tmp_path, model, plugins=[Asking]) as program:
            assert await program.ask("/asking why") == "Well."
            assert program.public("asking") == ["why"]
            assert said(program) == ["In other words: why"]
