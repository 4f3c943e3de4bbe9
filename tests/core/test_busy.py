"""Messages that come while a turn runs, models that are down, and the great stop."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.core.channel import Hints
from nanoclaw.core.conversation import QueuePolicy
from nanoclaw.core.errors import ProviderRefused, ProviderUnavailable
from nanoclaw.core.events import Joined, Notice, Queued
from nanoclaw.core.messages import Attachment, Inbound, ModelRequest, UserMessage
from nanoclaw.core.plugin import Ended, Host, Plugin, Turn, Tx
from nanoclaw.core.router import TOO_LATE
from nanoclaw.core.tool import tool
from nanoclaw.providers.scripted import Hang, ScriptedProvider, call
from tests.program import MAIN, FakeChannel, Gate, HandClock, Program, assert_legal, bare, running

AT_ONCE = QueuePolicy(retry_seconds=(0,))
DOWN = ProviderUnavailable("the model cannot be reached")
KEPT = "I can't reach the model. Your message is kept, and I answer when it is back; /stop drops it."


def leave(program: Program, *texts: str) -> None:
    """Accept messages and begin nothing, as a process does that ends at once."""
    said = [Inbound(MAIN, "me", f"m{number}", UserMessage(text, program.clock())) for number, text in enumerate(texts)]
    program.app.transactions.write_now(lambda tx: [tx.accept(one) for one in said])


def said(program: Program) -> list[str]:
    """What the person said, as the model is sent it."""
    return [item.text for item in program.history if isinstance(item, UserMessage) and item.origin == "person"]


# -- steering


async def test_what_comes_while_tools_run_reaches_the_model_after_them_in_order(tmp_path: Path) -> None:
    gate, channel = Gate(), FakeChannel(hints=Hints(bursts=False))
    with ScriptedProvider(call("wait"), "Done, with both.") as model:
        async with bare(tmp_path, model, tools=gate.tools(), channel=channel) as program:
            await program.say("begin")
            await gate.reached.wait()
            await program.say("and this")
            await program.say("and that")
            gate.open.set()
            assert await program.answer() == "Done, with both."
            await program.app.conversations.idle()
            assert said(program) == ["begin", "and this", "and that"]
            assert model.requests[1].history[-1].text == "and that"
            assert_legal(program.history)
            (joined,) = [event for _, event in program.channel.events if isinstance(event, Joined)]
            waited = tuple(event.external_id for _, event in program.channel.events if isinstance(event, Queued))
            assert joined.external_ids == waited and len(waited) == 2
            assert program.app.inbox.waiting() == []
            assert program.channel.sent.empty()


async def test_a_message_that_waits_reaches_the_model_as_it_was_changed_and_one_that_was_begun_as_it_was(
    tmp_path: Path,
) -> None:
    gate = Gate()
    with ScriptedProvider(call("wait"), "Done.") as model:
        async with bare(tmp_path, model, tools=gate.tools()) as program:
            await program.say("begin")
            await gate.reached.wait()
            await program.say("by bread")
            kept = program.app.inbox
            (begun,), ((_, second),) = kept.open_turns(), kept.waiting()
            first = begun.inbound
            for one, text in ((first, "/stop"), (second, "buy bread")):
                message = one.message._replace(text=text)
                await program.deliver(one._replace(message=message, is_edit=True))
            gate.open.set()
            assert await program.answer() == "Done."
            assert said(program) == ["begin", "buy bread"]
            assert model.requests[1].history[-1].text == "buy bread"


async def test_a_message_that_waits_and_is_withdrawn_never_reaches_the_model_and_one_that_was_begun_stays(
    tmp_path: Path,
) -> None:
    gate = Gate()
    with ScriptedProvider(call("wait"), "Done.") as model:
        async with bare(tmp_path, model, tools=gate.tools()) as program:
            await program.say("begin")
            await gate.reached.wait()
            await program.say("buy bread")
            kept = program.app.inbox
            (begun,), ((_, second),) = kept.open_turns(), kept.waiting()
            for one in (begun.inbound, second, second):
                await program.deliver(one._replace(message=one.message._replace(text=""), is_edit=True))
            assert kept.waiting() == []
            gate.open.set()
            assert await program.answer() == "Done."
            assert said(program) == ["begin"]


@pytest.mark.parametrize("word", ["Stop!", "/stop now"])
async def test_a_message_that_is_changed_to_a_stop_while_it_waits_is_one(tmp_path: Path, word: str) -> None:
    """What is not begun is named as it reads now."""
    gate = Gate()
    with ScriptedProvider(call("wait")) as model:
        async with bare(tmp_path, model, tools=gate.tools()) as program:
            await program.say("begin")
            await gate.reached.wait()
            for text in ("make a file", "by bread"):
                await program.say(text)
            (_, first), (_, second) = program.app.inbox.waiting()
            for one, text in ((second, "buy bread"), (first, word)):
                message = one.message._replace(text=text)
                await program.deliver(one._replace(message=message, is_edit=True))
            assert await program.answer() == "Stopped. Not begun: buy bread."
            await program.app.conversations.idle()
            assert said(program) == ["begin"]
            assert program.app.inbox.waiting() == []


async def test_a_stop_that_an_earlier_process_kept_drops_what_was_said_before_it(tmp_path: Path) -> None:
    """So it is with what comes while `nanoclaw link` alone is there."""
    async with bare(tmp_path, ScriptedProvider()) as program:
        leave(program, "make a file", "stop", "hello")
    with ScriptedProvider("Hi.") as model:
        async with bare(tmp_path, model) as program:
            assert await program.answer() == "Nothing is running. Not begun: make a file."
            assert await program.answer() == "Hi."
            assert said(program) == ["hello"]


async def test_a_message_that_is_changed_to_a_command_while_it_waits_is_carried_out(tmp_path: Path) -> None:
    gate = Gate()
    with ScriptedProvider(call("wait"), "Done.") as model:
        async with bare(tmp_path, model, tools=gate.tools()) as program:
            await program.say("begin")
            await gate.reached.wait()
            await program.say("new")
            ((_, waits),) = program.app.inbox.waiting()
            await program.deliver(waits._replace(message=waits.message._replace(text="/new"), is_edit=True))
            gate.open.set()
            assert await program.answer() == "Done."
            assert (await program.answer()).startswith("A new conversation.")


async def test_after_a_restart_a_message_that_waited_says_what_it_was_changed_to(tmp_path: Path) -> None:
    async with bare(tmp_path, ScriptedProvider(Hang())) as program:
        await program.say("by bread")
        kept = program.app.inbox
        ((_, waits),) = kept.waiting()
        file = Attachment("", "list.txt", "text/plain", "r1", 7)
        changed = waits._replace(message=waits.message._replace(text="buy bread"), attachments=(file,))
        await program.deliver(changed._replace(is_edit=True))
        await program.deliver(changed._replace(external_id="unheard of", is_edit=True))
        assert [one for _, one in kept.waiting()] == [changed]


async def test_an_edit_of_what_the_program_has_answered_is_told_once_to_change_nothing(tmp_path: Path) -> None:
    texts = ("remind me in 20 minutes to stretch", "hello")
    async with running(tmp_path, ScriptedProvider("Hi.")) as program:
        for text in texts:
            said = Inbound(MAIN, "me", text, UserMessage(text, program.clock()))
            await program.deliver(said)
            assert (await program.answer()).startswith(("Job 1, a reminder, is set: ", "Hi."))
            await program.app.conversations.idle()
            for words in (text, "remind me in 30 minutes to stretch", "remind me in 30 minutes to stretch", ""):
                await program.deliver(said._replace(message=said.message._replace(text=words), is_edit=True))
            if text == texts[0]:  # what it undoes may be another's
                assert await program.answer() == TOO_LATE and "/undo" not in TOO_LATE
            assert program.channel.sent.empty()
        assert len(program.rows("SELECT 1 FROM jobs")) == 1


async def test_what_comes_while_the_last_answer_is_written_has_an_answer_of_its_own(tmp_path: Path) -> None:
    with ScriptedProvider("One.", "Two.", "Three.") as model:
        async with bare(tmp_path, model) as program:
            for text in ("first", "second", "third"):
                await program.say(text)
            assert [await program.answer() for _ in range(3)] == ["One.", "Two.", "Three."]


async def test_what_was_written_while_the_program_was_off_is_not_mixed_into_a_turn(tmp_path: Path) -> None:
    clock, gate = HandClock(), Gate()
    with ScriptedProvider(call("wait"), "One.", "Two.") as model:
        async with bare(tmp_path, model, tools=gate.tools(), clock=clock) as program:
            await program.say("first")
            clock.now -= timedelta(minutes=5)
            await program.say("written five minutes ago")
            clock.now += timedelta(minutes=5)
            gate.open.set()
            assert [await program.answer() for _ in range(2)] == ["One.", "Two."]


async def test_with_followup_all_that_came_meanwhile_is_answered_by_one_next_turn(tmp_path: Path) -> None:
    gate = Gate()
    with ScriptedProvider(call("wait"), "One.", "Both.") as model:
        async with bare(tmp_path, model, tools=gate.tools(), settings='[session]\nqueue = "followup"\n') as program:
            await program.say("begin")
            await gate.reached.wait()
            await program.say("and this")
            await program.say("and that")
            gate.open.set()
            assert [await program.answer() for _ in range(2)] == ["One.", "Both."]
            await program.app.conversations.idle()
            assert said(program) == ["begin", "and this", "and that"]
            assert program.channel.sent.empty()


async def test_a_stop_while_messages_have_joined_ends_the_turn_for_all_of_them(tmp_path: Path) -> None:
    gate, hang = Gate(), Hang("now")
    with ScriptedProvider(call("wait"), hang) as model:
        async with bare(tmp_path, model, tools=gate.tools()) as program:
            await program.say("begin")
            await gate.reached.wait()
            await program.say("joins")
            gate.open.set()
            await hang.reached.wait()
            await program.say("waits")
            assert await program.ask("/stop") == "Stopped. Not begun: waits."
            assert program.app.inbox.open_turns() == []
            assert program.app.inbox.waiting() == []
            assert_legal(program.history)


# -- a model that is down


async def test_a_message_is_kept_acknowledged_once_and_answered_when_the_model_is_back(tmp_path: Path) -> None:
    with ScriptedProvider(DOWN, DOWN, DOWN, "Here I am again.") as model:
        async with bare(tmp_path, model, policy=AT_ONCE) as program:
            assert await program.ask("hello?") == KEPT
            assert await program.answer() == "Here I am again."
            assert said(program) == ["hello?"]
            assert program.app.inbox.open_turns() == []


async def test_a_kept_message_is_answered_after_a_restart(tmp_path: Path) -> None:
    with ScriptedProvider(DOWN) as model:
        async with bare(tmp_path, model) as program:
            assert await program.ask("hello?") == KEPT
    with ScriptedProvider(DOWN, "Back.") as model:
        async with bare(tmp_path, model, policy=AT_ONCE) as program:
            assert await program.answer() == "Back."
            assert said(program) == ["hello?"]
            notices = [event.text for _, event in program.channel.events if isinstance(event, Notice)]
            assert "continuing with: “hello?”" in notices


async def test_the_next_message_asks_the_model_at_once_and_is_answered_with_the_kept_one(tmp_path: Path) -> None:
    with ScriptedProvider(DOWN, "Both.") as model:
        async with bare(tmp_path, model) as program:
            assert await program.ask("first") == KEPT
            assert await program.ask("second") == "Both."
            assert said(program) == ["first", "second"]
            assert_legal(program.history)


async def test_a_model_that_goes_away_between_rounds_keeps_what_the_tools_did_and_repeats_none_of_it(
    tmp_path: Path,
) -> None:
    done = []

    async def act() -> str:
        """Acts."""
        done.append(1)
        return "acted"

    with ScriptedProvider(call("act"), DOWN, "All done.") as model:
        async with bare(tmp_path, model, tools=[tool(act)], policy=AT_ONCE) as program:
            assert await program.ask("act") == KEPT
            assert await program.answer() == "All done."
            assert done == [1]


async def test_a_stop_drops_what_waits_for_the_model(tmp_path: Path) -> None:
    with ScriptedProvider(DOWN, "Fine.") as model:
        async with bare(tmp_path, model) as program:
            assert await program.ask("hello?") == KEPT
            assert await program.ask("/stop") == "Nothing is running. Not begun: hello?."
            assert await program.ask("and now?") == "Fine."


async def test_a_new_conversation_says_what_it_leaves_unanswered(tmp_path: Path) -> None:
    with ScriptedProvider(DOWN, "Fine.") as model:
        async with bare(tmp_path, model) as program:
            await program.ask("hello?")
            assert (await program.ask("/new")).endswith("Not answered: hello?.")
            assert await program.ask("and now?") == "Fine."
            assert said(program) == ["and now?"]


async def test_a_refusal_is_told_and_not_waited_for(tmp_path: Path) -> None:
    with ScriptedProvider(ProviderRefused("the key is wrong")) as model:
        async with bare(tmp_path, model) as program:
            assert await program.ask("hello?") == "The model gave no answer: the key is wrong"
            assert program.app.inbox.open_turns() == []


async def test_where_nobody_waits_for_a_late_answer_the_failure_is_told(tmp_path: Path) -> None:
    with ScriptedProvider(DOWN) as model:
        channel = FakeChannel(hints=Hints(bursts=False, stays=False))
        async with bare(tmp_path, model, channel=channel) as program:
            assert await program.ask("hello?") == "The model gave no answer: the model cannot be reached"


@pytest.mark.parametrize("command", ["/help", "/status", "/model", "/history"])
async def test_commands_work_while_the_model_is_down(tmp_path: Path, command: str) -> None:
    with ScriptedProvider(DOWN) as model:
        async with bare(tmp_path, model) as program:
            assert await program.ask("hello?") == KEPT
            assert "went wrong" not in await program.ask(command)


# -- the process is told to end


async def test_a_turn_that_is_left_goes_on_at_the_next_start(tmp_path: Path) -> None:
    async def write() -> str:
        """Writes."""
        return "written"

    hang, tools = Hang("I was going to say"), [tool(write, reach="workspace")]
    with ScriptedProvider(call("write"), hang) as model:
        async with bare(tmp_path, model, tools=tools) as program:
            await program.say("write it")
            await hang.reached.wait()
            await program.app.conversations.close(leave=True)
            assert program.channel.sent.empty()
    with ScriptedProvider("Written.") as model:
        async with bare(tmp_path, model, tools=tools) as program:
            assert (await program.answer()).endswith("\n\nWritten.")
            assert said(program) == ["write it"]
            assert_legal(program.history)


async def test_what_ran_when_the_program_was_told_to_end_is_named_at_the_next_start(tmp_path: Path) -> None:
    gate = Gate()
    with ScriptedProvider(call("wait")) as model:
        async with bare(tmp_path, model, tools=gate.tools()) as program:
            await program.say("wait for it")
            await gate.reached.wait()
            await program.app.conversations.close(leave=True)
    async with bare(tmp_path, ScriptedProvider()) as program:
        assert await program.answer() == (
            "I was interrupted while I worked on “wait for it”. This was running and may have been done in part: "
            "`wait`. I did not repeat it. Shall I go on?"
        )
        assert_legal(program.history)


# -- panic


async def test_panic_stops_everything_and_holds_what_comes_until_resume_over_restarts(tmp_path: Path) -> None:
    hang = Hang("long")
    with ScriptedProvider(hang) as model:
        async with bare(tmp_path, model) as program:
            await program.say("work", chat="other")
            await hang.reached.wait()
            await program.say("/panic")
            texts = {await program.answer(), await program.answer()}
            frozen = "Everything is frozen: nothing is sent or started until /resume, also after a restart."
            assert texts == {"Stopped.", f"{frozen} I stopped what was running (1)."}
            kept = "Everything is frozen by /panic. This is kept until /resume."
            assert await program.ask("are you there?") == kept
    with ScriptedProvider("I am.") as model:
        async with bare(tmp_path, model) as program:
            await program.app.conversations.idle()
            assert (await program.ask("/status")).startswith("Everything is frozen by /panic until /resume.\n")
            assert model.requests == []
            await program.say("/resume")
            assert {await program.answer(), await program.answer()} == {
                "Going on. Waiting messages are sent and answered now.",
                "I am.",
            }
            assert await program.ask("/resume") == "Nothing is frozen."
            assert "frozen" not in await program.ask("/status")


class SlowDisk(ThreadPoolExecutor):
    """Keeps a COMMIT for as long as the loop takes for all that is ready."""

    def submit(self, commit: Any, /, *args: Any, **kwargs: Any) -> Any:
        turned = threading.Event()
        asyncio.get_running_loop().call_later(0.01, turned.set)
        return super().submit(lambda: (turned.wait(0.02), commit()))


async def test_resume_is_carried_out_once_and_what_arrives_beside_it_is_answered_once(tmp_path: Path) -> None:
    """A message that is on disk and just on its way to its conversation does not wait there too."""

    def repeated(request: ModelRequest) -> str:
        return f"Re {request.history[-1].text}"

    with ScriptedProvider(repeated, repeated, repeated) as model:
        async with bare(tmp_path, model) as program:
            program.app.store.committer = SlowDisk(1)
            await program.ask("/panic")
            await asyncio.gather(program.say("first", "a"), program.say("/resume"), program.say("second", "b"))
            said = list[str]()
            while len([one for one in said if one.startswith("Re ")]) < 2:
                said.append(await program.answer())
            assert await program.ask("third") == "Re third"
    assert sorted(one for one in said if "kept until" not in one) == [
        "Going on. Waiting messages are sent and answered now.", "Re first", "Re second",
    ]  # fmt: skip


class Bringing(Plugin):
    """Brings one message, the second time that its work begins, and one about each turn that comes to nothing."""

    name = "bringing"
    _runs = 0

    def __init__(self, host: Host, settings: None) -> None:
        self._host = host

    def _bring(self, tx: Tx) -> None:
        said = UserMessage("news", self._host.now(), self.name)
        tx.deliver(Inbound(MAIN, "", "news", said, role="owner"), self._host.profile("person"))

    async def run(self) -> None:
        self._runs += 1
        if self._runs == 2:
            await self._host.write(self._bring)

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> None:
        if ended.reason == "failed":
            self._bring(tx)


async def test_what_a_plugin_brings_as_it_starts_again_after_resume_is_answered_once(tmp_path: Path) -> None:
    with ScriptedProvider("Heard.") as model:
        async with bare(tmp_path, model, plugins=[Bringing], wakes=True) as program:
            await program.ask("/panic")
            await program.say("/resume")
            assert await program.answer() == "Going on. Waiting messages are sent and answered now."
            assert await program.answer() == "Heard."
            await program.app.conversations.idle()
            assert len(model.requests) == 1 and program.channel.sent.empty()


async def test_what_comes_of_a_turn_that_is_not_taken_up_again_is_answered_once(tmp_path: Path) -> None:
    async def reach() -> str:
        """Reaches far."""
        return "done"

    hang = Hang()
    async with bare(tmp_path, ScriptedProvider(call("reach"), hang), tools=[tool(reach)]) as program:
        await program.say("work")
        await hang.reached.wait()
        program.app.is_gateway = True  # its end leaves the turn to the next start
    with ScriptedProvider("Heard.") as model:
        async with bare(tmp_path, model, tools=[tool(reach)], plugins=[Bringing]) as program:
            assert (await program.answer()).startswith("I was interrupted while I worked on “work”. I had already used")
            assert await program.answer() == "Heard."
            await program.app.conversations.idle()
            assert len(model.requests) == 1 and program.channel.sent.empty()


async def test_panic_holds_what_was_to_be_sent(tmp_path: Path) -> None:
    clock = HandClock()
    with ScriptedProvider("Sent too late.") as model:
        async with bare(tmp_path, model, clock=clock) as program:
            program.channel.broken = lambda outbound: outbound.text == "Sent too late."
            await program.say("hi")
            await program.app.conversations.idle()
            program.channel.broken = lambda outbound: False
            assert (await program.ask("/panic")).startswith("Everything is frozen")
            clock.now += timedelta(hours=1)
            await program.app.delivery.flush("terminal")
            assert program.channel.sent.empty()
            await program.say("/resume")
            assert {await program.answer(), await program.answer()} == {
                "Sent too late.",
                "Going on. Waiting messages are sent and answered now.",
            }
