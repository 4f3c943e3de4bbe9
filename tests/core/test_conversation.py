"""One message's path: commands, lanes, delivery, and the errors that must not stop the next message."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nanoclaw.core import commands
from nanoclaw.core.commands import COMMANDS
from nanoclaw.core.messages import Address, Outbound, UserMessage
from nanoclaw.core.tool import tool
from nanoclaw.providers.scripted import Hang, ScriptedProvider, call
from tests.core.house import HandClock, house

OTHER = Address("terminal", "other")


# -- commands


def test_help_lists_every_command_without_asking_the_model(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, ScriptedProvider()) as home:
            answer = await home.ask("/help")
            assert all(f"/{name}" in answer for name in COMMANDS)
            assert home.history == ()

    asyncio.run(story())


def test_new_starts_over_and_keeps_the_old_conversation_in_the_store(tmp_path: Path) -> None:
    async def story() -> None:
        with ScriptedProvider("One.", "Two.") as model:
            async with house(tmp_path, model) as home:
                await home.ask("first")
                assert "new conversation" in await home.ask("/new")
                await home.ask("second")
                assert "first" not in [message.text for message in model.requests[1].history]
                from nanoclaw.core.store.sessions import whole_history

                whole = whole_history(home.store, "terminal:main")
                assert whole is not None
                assert "first" in [message.text for message in whole]

    asyncio.run(story())


def test_model_shows_and_chooses_per_conversation_and_over_restarts(tmp_path: Path) -> None:
    async def story() -> None:
        big = ScriptedProvider("From the big one.", model="scripted/big")
        async with house(tmp_path, ScriptedProvider("From the small one."), big) as home:
            assert "scripted/model" in await home.ask("/model")
            assert "there is no model 'scripted/typo'" in await home.ask("/model scripted/typo")
            assert "scripted/big" in await home.ask("/model scripted/big")
            assert await home.ask("hi", chat="other") == "From the small one."
        async with house(tmp_path, ScriptedProvider(), big) as home:
            assert await home.ask("hi") == "From the big one."

    asyncio.run(story())


def test_a_chosen_model_that_has_gone_is_told_and_can_be_changed(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, ScriptedProvider(), ScriptedProvider(model="scripted/big")) as home:
            await home.ask("/model scripted/big")
        with ScriptedProvider("Back.") as model:
            async with house(tmp_path, model) as home:
                assert "there is no model 'scripted/big'" in await home.ask("hi")
                assert home.channel.ended[-1].reason == "failed"
                assert "scripted/model" in await home.ask("/model scripted/model")
                assert await home.ask("hi") == "Back."

    asyncio.run(story())


def test_status_names_the_model_and_counts_messages(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, ScriptedProvider("Hi.")) as home:
            await home.ask("hi")
            answer = await home.ask("/status")
            assert "Model: scripted/model" in answer
            assert "Messages: 2" in answer

    asyncio.run(story())


@pytest.mark.parametrize(
    ("text", "answer"),
    [("/stat", "Did you mean /status?"), ("/weather", "no command /weather"), ("/help@mybot", "`/new`")],
)
def test_commands_that_do_not_exist_are_answered_by_the_program(tmp_path: Path, text: str, answer: str) -> None:
    async def story() -> None:
        async with house(tmp_path, ScriptedProvider()) as home:
            assert answer in await home.ask(text)

    asyncio.run(story())


@pytest.mark.parametrize(
    "text", ["/etc/hosts is odd, why?", "/", "//x", "/ help", "a /help", "/123", "/tmp/a.txt", "/-"]
)
def test_a_path_at_the_start_is_a_message_for_the_model(tmp_path: Path, text: str) -> None:
    assert commands.parse(text) is None


@pytest.mark.parametrize("text", ["/NOTE Oslo", "/Note Oslo", "/note@bot Oslo"])
def test_the_case_of_a_commands_name_does_not_matter(tmp_path: Path, text: str) -> None:
    async def story() -> None:
        async with house(tmp_path, ScriptedProvider()) as home:
            assert "Oslo" in await home.ask(text)

    asyncio.run(story())


def test_a_command_that_changes_the_conversation_keeps_its_place_in_the_queue_and_others_go_ahead(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        go = asyncio.Event()

        async def wait() -> str:
            """Waits for the story."""
            await go.wait()
            return "waited"

        with ScriptedProvider(call("wait"), "One.") as model:
            async with house(tmp_path, model, tools=[tool(wait)]) as home:
                await home.say("first")
                await home.say("/new")
                await home.say("/status")
                assert "Messages: " in await home.answer()
                go.set()
                assert await home.answer() == "One."
                assert (await home.answer()).startswith("A new conversation.")

    asyncio.run(story())


# -- lanes


def test_a_slow_chat_delays_no_other(tmp_path: Path) -> None:
    async def story() -> None:
        slow = Hang()
        with ScriptedProvider(slow, "Quick.") as model:
            async with house(tmp_path, model) as home:
                await home.say("slow", chat="slow")
                await slow.reached.wait()
                assert await home.ask("quick", chat="quick") == "Quick."

    asyncio.run(story())


def test_messages_of_one_chat_are_answered_in_order(tmp_path: Path) -> None:
    async def story() -> None:
        with ScriptedProvider(*(f"answer {number}" for number in range(20))) as model:
            async with house(tmp_path, model) as home:
                for number in range(20):
                    await home.say(f"question {number}")
                assert [await home.answer() for _ in range(20)] == [f"answer {number}" for number in range(20)]

    asyncio.run(story())


def test_a_message_that_comes_twice_is_answered_once(tmp_path: Path) -> None:
    async def story() -> None:
        from nanoclaw.core.messages import Inbound

        with ScriptedProvider("Once.", "Next.") as model:
            async with house(tmp_path, model) as home:
                same = Inbound(Address("terminal", "main"), "me", "update-1", UserMessage("hi", home.clock()))
                for _ in range(5):
                    await home.assistant.deliver(same)
                assert await home.answer() == "Once."
                assert await home.ask("next") == "Next."

    asyncio.run(story())


@pytest.mark.parametrize("error", [RuntimeError("a defect"), KeyError("x"), RecursionError()])
def test_a_defect_in_one_message_is_told_in_a_sentence_and_the_next_message_goes_on(
    tmp_path: Path, error: Exception
) -> None:
    async def story() -> None:
        with ScriptedProvider(error, "Next.") as model:
            async with house(tmp_path, model) as home:
                answer = await home.ask("hi")
                assert f"({type(error).__name__})" in answer
                assert "Traceback" not in answer
                assert await home.ask("next") == "Next."

    asyncio.run(story())


def test_a_message_that_is_no_whole_unicode_is_answered(tmp_path: Path) -> None:
    async def story() -> None:
        broken = "half a smile \ud83d and bytes \udcff"
        hang = Hang(broken)
        with ScriptedProvider(broken, hang) as model:
            async with house(tmp_path, model) as home:
                assert (await home.ask(broken)).startswith("half a smile")
                await home.say(broken)
                await hang.reached.wait()
                await home.say(broken)
                assert "half a smile" in await home.ask("/stop")
                assert not (await home.ask(f"/{broken}")).startswith("Something went wrong")

    asyncio.run(story())


# -- delivery


def test_an_answer_says_which_message_it_belongs_to(tmp_path: Path) -> None:
    async def story() -> None:
        from nanoclaw.core.messages import Inbound

        async with house(tmp_path, ScriptedProvider("Hi.")) as home:
            for identity, text in (("m-1", "hi"), ("m-2", "/help"), ("m-3", "/stop")):
                message = UserMessage(text, home.clock())
                await home.assistant.deliver(Inbound(Address("terminal", "main"), "me", identity, message))
                assert (await home.channel.sent.get()).reply_to == identity

    asyncio.run(story())


def test_what_cannot_be_delivered_is_tried_again_when_due_and_nothing_overtakes_it(tmp_path: Path) -> None:
    async def story() -> None:
        from datetime import timedelta

        clock = HandClock()
        with ScriptedProvider("One.", "Two.", "Three.") as model:
            async with house(tmp_path, model, clock=clock) as home:
                failed = asyncio.Event()

                def broken(outbound: Outbound) -> bool:
                    if outbound.address == OTHER:
                        return False
                    failed.set()
                    return True

                home.channel.broken = broken
                await home.say("one")
                await failed.wait()
                await home.say("two")
                await home.assistant.idle()
                assert await home.ask("three", chat="other") == "Three."
                home.channel.broken = lambda outbound: False
                clock.now += timedelta(seconds=6)
                home.delivery.wake("terminal")
                assert [await home.answer(), await home.answer()] == ["One.", "Two."]

    asyncio.run(story())


def test_waiting_for_a_retry_costs_no_work(tmp_path: Path) -> None:
    async def story() -> None:
        looks = 0

        class Counting(HandClock):
            def __call__(self) -> object:  # type: ignore[override]
                nonlocal looks
                looks += 1
                return super().__call__()

        with ScriptedProvider("One.", "Two.") as model:
            async with house(tmp_path, model, clock=Counting()) as home:  # type: ignore[arg-type]
                home.channel.broken = lambda outbound: True
                await home.say("one")
                await home.say("two")
                await home.assistant.idle()
                for _ in range(20):
                    await asyncio.sleep(0)
                before = looks
                for _ in range(200):
                    await asyncio.sleep(0)
                assert looks - before < 5

    asyncio.run(story())


def test_a_message_is_given_up_after_five_attempts_and_the_next_one_goes_out(tmp_path: Path) -> None:
    async def story() -> None:
        from datetime import timedelta

        clock = HandClock()
        with ScriptedProvider("One.", "Two.") as model:
            async with house(tmp_path, model, clock=clock) as home:
                tried: asyncio.Queue[Outbound] = asyncio.Queue()

                def broken(outbound: Outbound) -> bool:
                    tried.put_nowait(outbound)
                    return outbound.text == "One."

                home.channel.broken = broken
                await home.say("one")
                for pause in (5, 25, 120, 600):
                    await tried.get()
                    while home.store.rows("SELECT due FROM outbox")[0][0] <= clock.now.isoformat():  # noqa: ASYNC110
                        await asyncio.sleep(0)
                    clock.now += timedelta(seconds=pause)
                    home.delivery.wake("terminal")
                await tried.get()
                assert await home.ask("two") == "Two."
                states = home.store.db.execute("SELECT state, attempts FROM outbox ORDER BY id").fetchall()
                assert states[0] == ("failed", 5)

    asyncio.run(story())
