"""What the program sends by itself enters the history of its chat: at once, or after the turn that runs there."""

from pathlib import Path

from nanoclaw.core.errors import ProviderUnavailable
from nanoclaw.core.messages import AssistantMessage, Message, Outbound, UserMessage
from nanoclaw.providers.scripted import Hang, ScriptedProvider, call
from tests.program import MAIN, Gate, Program, assert_legal, bare

NEWS = Outbound(MAIN, "The parcel is here.")
WHY = "A reminder came due."


def send(program: Program, outbound: Outbound = NEWS, remark: str = WHY) -> None:
    program.app.transactions.write_now(lambda tx: tx.send(outbound, remark))


def told(history: tuple[Message, ...]) -> list[str]:
    """What was said, in order, without the runtime metadata of messages."""
    return [one.text for one in history if isinstance(one, AssistantMessage) or getattr(one, "origin", "") == "person"]


async def test_what_is_sent_while_nothing_runs_is_in_the_history_with_its_reason(tmp_path: Path) -> None:
    with ScriptedProvider("You mean the parcel.") as model:
        async with bare(tmp_path, model) as program:
            send(program)
            assert await program.answer() == NEWS.text
            remark, said = program.history
            assert isinstance(remark, UserMessage) and remark.origin == "runtime"
            assert f"{WHY} Sent to the person as follows:" in remark.text
            assert said.text == NEWS.text
            await program.ask("yes")
    assert [message.text for message in model.requests[0].history][1] == NEWS.text


async def test_what_is_sent_during_a_turn_goes_out_at_once_and_enters_the_history_after_it(tmp_path: Path) -> None:
    gate = Gate()
    with ScriptedProvider(call("wait"), "Done.", "Well.") as model:
        async with bare(tmp_path, model, tools=gate.tools()) as program:
            await program.say("begin")
            await gate.reached.wait()
            send(program)
            assert await program.answer() == NEWS.text
            assert NEWS.text not in told(program.history)
            gate.open.set()
            assert await program.answer() == "Done."
            await program.app.conversations.idle()
            assert told(program.history) == ["begin", "", "Done.", NEWS.text]
            assert_legal(program.history)
            await program.ask("and?")
    assert model.requests[2].history[: len(model.requests[1].history)] == model.requests[1].history


async def test_what_was_sent_during_a_turn_enters_the_history_also_after_a_restart(tmp_path: Path) -> None:
    hang = Hang("I was going to say")
    async with bare(tmp_path, ScriptedProvider(hang)) as program:
        await program.say("begin")
        await hang.reached.wait()
        send(program)
        assert await program.answer() == NEWS.text
        await program.app.conversations.close(leave=True)
    with ScriptedProvider("Said.") as model:
        async with bare(tmp_path, model) as program:
            assert (await program.answer()).endswith("Said.")
            await program.app.conversations.idle()
            assert told(program.history) == ["begin", "Said.", NEWS.text]
            assert program.rows("SELECT * FROM untold") == []


async def test_what_was_sent_while_a_turn_waited_that_is_stopped_then_stands_before_the_next_message(
    tmp_path: Path,
) -> None:
    with ScriptedProvider(ProviderUnavailable("down"), "Well.") as model:
        async with bare(tmp_path, model) as program:
            await program.ask("hello?")
            send(program)
            assert await program.answer() == NEWS.text
            await program.ask("/stop")
            await program.ask("yes")
            assert told(program.history) == ["hello?", NEWS.text, "yes", "Well."]
    assert NEWS.text in told(model.requests[1].history)


async def test_what_is_sent_is_taken_back_with_all_that_its_transaction_wrote(tmp_path: Path) -> None:
    async with bare(tmp_path, ScriptedProvider()) as program:
        try:
            with program.app.transactions.open() as tx:
                tx.send(NEWS, WHY)
                raise RuntimeError
        except RuntimeError:
            pass
        assert list(program.history) == []
        assert program.rows("SELECT * FROM outbox") == []
        send(program)
        assert [message.text for message in program.history][1:] == [NEWS.text]
