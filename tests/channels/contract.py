"""What every chat app must do: one suite of tests, over a `Service` that stands between it and a channel.

A test file has a class of its own: `class TestDiscord(Contract): service = staticmethod(serving)`.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest

from nanoclaw.channels import table as chat_apps
from nanoclaw.core.conversation import QueuePolicy
from nanoclaw.core.errors import ChannelError
from nanoclaw.core.messages import Address, ModelRequest, Outbound, UserMessage
from nanoclaw.providers.scripted import Hang, ScriptedProvider, Step, call
from tests.program import NOON, HandClock, Program, config_of, running
from tests.virtual_time import skip

SECONDS = 100.0
"""Until which what is expected must be there."""

BACK = timedelta(seconds=5)
"""After an outage everything is out within, by the program's clock."""

ANNA, BOB = "Anna", "Bob"


class Shown(NamedTuple):
    """A message of the assistant's as its person sees it now."""

    id: str
    text: str
    files: tuple[bytes, ...] = ()
    buttons: tuple[str, ...] = ()


class Service(Protocol):
    """A platform on this machine, seen from the people on it: Anna, Bob, and others by any name, each in a chat alone
    with the assistant. `settings` is the channel's table in config.toml, `broken` one with the wrong `secret`. It
    `keeps` what is said while the program is off; `edits` and `buttons` are what it has."""

    name: str
    secret: str
    keeps: bool
    edits: bool
    buttons: bool

    @property
    def settings(self) -> str: ...

    @property
    def broken(self) -> str: ...

    async def ready(self) -> None:
        """Wait until the assistant listens."""
        ...

    def id_of(self, who: str) -> str:
        """The platform's id of a person, who is there from then on."""
        ...

    async def write(self, who: str, text: str, *, answers: str = "", file: tuple[str, bytes] | None = None) -> str:
        """Somebody writes to the assistant, in answer to a message of its; the message's id."""
        ...

    async def edit(self, who: str, id: str, text: str) -> None: ...

    async def press(self, who: str, shown: Shown, label: str) -> None: ...

    def shown(self, who: str) -> list[Shown]:
        """What somebody sees of the assistant, in order."""
        ...

    async def changed(self) -> None:
        """Wait until something is shown, or changes."""
        ...

    async def repeat(self) -> None:
        """The platform tells once more what it told last."""
        ...

    async def garble(self) -> None:
        """The platform tells something that nobody can read."""
        ...

    async def leave(self) -> None:
        """It is out of reach; what people write meanwhile, they write."""
        ...

    async def come_back(self) -> None: ...


class Scene:
    """A program that serves the platform, and its people."""

    def __init__(self, service: Service, program: Program, model: ScriptedProvider, clock: HandClock) -> None:
        self.service, self.program, self.model, self.clock = service, program, model, clock

    async def says(self, who: str, text: str, **more: Any) -> str:
        return await self.service.write(who, text, **more)

    async def sees(self, who: str, words: str) -> Shown:
        """The message with these words, once it is there."""
        shown = self.service.shown
        found = await self.until(
            lambda: next((one for one in shown(who) if words in one.text), None), f"{who} sees {words!r}"
        )
        assert isinstance(found, Shown)
        return found

    async def until(self, condition: Callable[[], Any], what: str = "") -> Any:
        try:
            async with asyncio.timeout(SECONDS):
                while not (found := condition()):
                    await self.service.changed()
                return found
        except TimeoutError:
            seen = {who: self.service.shown(who) for who in (ANNA, BOB)}
            raise AssertionError(f"it did not come about that {what}; seen: {seen}") from None

    async def answer(self, who: str, text: str, words: str) -> Shown:
        await self.says(who, text)
        return await self.sees(who, words)

    async def rests(self) -> None:
        """Everything that was taken in is done."""
        await self.program.app.conversations.idle()
        await self.program.app.delivery.flush(self.service.name)

    async def tries(self) -> None:
        """Try to send what waits, until the program has seen that nothing can be sent. A channel that waits for its
        connection, as Matrix and XMPP do for 20 s, has waited long enough."""
        delivery = self.program.app.delivery
        while not delivery._lines[self.service.name].is_down:
            trying = asyncio.create_task(delivery.flush(self.service.name))
            if not (await asyncio.wait({trying}, timeout=0.1))[0]:
                skip(20)
            await trying

    def asked(self) -> list[str]:
        """What the model was asked by people."""
        return [words for request in self.model.requests for words in said_in(request)[-1:]]

    @property
    def annas(self) -> Address:
        chats = self.program.public("access").accounts.owners_chats()
        (address,) = (one for one in chats if one.channel == self.service.name)
        assert isinstance(address, Address)
        return address

    def send(self, *texts: str, files: tuple[str, ...] = ()) -> None:
        sent = [Outbound(self.annas, text, files) for text in texts]
        self.program.app.transactions.write_now(lambda tx: [tx.send(one, "A test sends it.") for one in sent])


def said_in(request: ModelRequest) -> list[str]:
    return [one.text for one in request.history if isinstance(one, UserMessage) and one.origin == "person"]


@asynccontextmanager
async def scene(
    service: Service,
    root: Path,
    *steps: Step,
    linked: bool = True,
    rules: str = "",
    burst: float = 0,
    model: Any = None,
    **more: Any,
) -> AsyncIterator[Scene]:
    """The program at work, with Anna as its owner if she is `linked`."""
    scripted = model or ScriptedProvider(*steps)
    policy = QueuePolicy(burst_seconds=burst, burst_most_seconds=5 * burst)
    settings = f"{service.settings}\n{rules}\n"
    clock = HandClock()
    async with running(root, scripted, settings=settings, gateway=True, policy=policy, clock=clock, **more) as program:
        made = Scene(service, program, scripted, clock)
        await service.ready()
        if linked and not senders(program, service.name):
            await made.answer(ANNA, new_code(program, service.name), "You are linked as Anna")
        yield made
        await made.rests()


def senders(program: Program, channel: str) -> list[str]:
    """The ids of a chat app's accounts that are linked."""
    return [one.sender for one in program.public("access").accounts.all() if one.channel == channel]


def new_code(program: Program, channel: str) -> str:
    accounts = program.public("access").accounts
    return str(program.app.transactions.write_now(lambda tx: accounts.new_link(tx, channel)))


class Echo(ScriptedProvider):
    """A model that says what it was told, whoever said it."""

    async def complete(self, request: ModelRequest, on_event: Any) -> Any:
        self.add([f"I heard {' and '.join(said_in(request)[-1:])}."])
        return await super().complete(request, on_event)


FENCED = "Here it is:\n\n```python\n" + "".join(f"line_{n} = {n}\n" for n in range(4_000)) + "```\n\nThat was all."


class Contract:
    """The tests. `service` opens a platform."""

    service: Callable[[], AbstractAsyncContextManager[Service]]

    async def test_a_stranger_hears_nothing_and_the_code_makes_an_owner(self, tmp_path: Path) -> None:
        async with self.service() as there, scene(there, tmp_path, "Hello Anna.", linked=False) as here:
            await here.says(BOB, "let me in")
            await here.says(BOB, "ABCD-2345")
            code = new_code(here.program, there.name)
            assert "You are linked as Anna" in (await here.answer(ANNA, code, "linked")).text
            await here.answer(ANNA, "hello", "Hello Anna.")
            assert there.shown(BOB) == []
            assert senders(here.program, there.name) == [there.id_of(ANNA)]

    async def test_lines_that_follow_each_other_are_one_turn(self, tmp_path: Path) -> None:
        async with self.service() as there, scene(there, tmp_path, "All three.", burst=0.5) as here:
            if not here.program.app.channels.collects(here.annas):
                pytest.skip("its messages are whole letters")
            for text in ("look", "at", "this"):
                await here.says(ANNA, text)
            await here.sees(ANNA, "All three.")
            assert said_in(here.model.requests[0])[-3:] == ["look", "at", "this"]

    async def test_what_was_not_begun_is_read_as_it_was_changed(self, tmp_path: Path) -> None:
        async with self.service() as there, scene(there, tmp_path, "With oats?", burst=0.5) as here:
            if not there.edits:
                pytest.skip("nobody can change what they wrote")
            id = await here.says(ANNA, "by milk")
            await there.edit(ANNA, id, "buy milk")
            await here.sees(ANNA, "With oats?")
            assert here.asked() == ["buy milk"]

    async def test_an_answer_names_what_it_answers(self, tmp_path: Path) -> None:
        async with self.service() as there, scene(there, tmp_path, "At nine.", "The early one.") as here:
            first = await here.answer(ANNA, "when?", "At nine.")
            await here.says(ANNA, "which is that?", answers=first.id)
            await here.sees(ANNA, "The early one.")
            assert "At nine." in str(here.model.requests[-1].history[-3:])

    async def test_a_file_comes_in_and_goes_out(self, tmp_path: Path) -> None:
        async with self.service() as there, scene(there, tmp_path, "I have it.") as here:
            await here.says(ANNA, "keep this", file=("plan.txt", b"dig, sow, wait"))
            await here.sees(ANNA, "I have it.")
            kept = [one for one in here.program.workspace.rglob("*.txt") if one.read_bytes() == b"dig, sow, wait"]
            assert len(kept) == 1
            here.send("Here it is.", files=(str(kept[0]),))
            await here.sees(ANNA, "Here it is.")
            await here.until(lambda: [one for one in there.shown(ANNA) if one.files == (b"dig, sow, wait",)], "a file")

    @pytest.mark.parametrize("presses", [True, False], ids=["by a button", "in words"])
    async def test_a_question_is_answered(self, tmp_path: Path, presses: bool) -> None:
        asks = call("question", {"text": "Which hotel?", "options": ["Astoria", "Bristol"]})
        async with self.service() as there, scene(there, tmp_path, asks, "Bristol it is.") as here:
            question = await here.answer(ANNA, "book one", "Which hotel?")
            if presses and not there.buttons:
                assert "Bristol" in question.text
                pytest.skip("it has no buttons")
            if presses:
                await there.press(ANNA, question, "Bristol")
            else:
                await here.says(ANNA, "2")
            await here.sees(ANNA, "Bristol it is.")
            await here.until(lambda: not any(one.buttons for one in there.shown(ANNA)), "no button is left")

    async def test_a_stop_ends_what_runs_at_once(self, tmp_path: Path) -> None:
        hang = Hang("I think")
        async with self.service() as there, scene(there, tmp_path, hang, "Here again.") as here:
            await here.says(ANNA, "a long story")
            await hang.reached.wait()
            await here.answer(ANNA, "/stop", "Stopped")
            await here.answer(ANNA, "still there?", "Here again.")

    async def test_what_could_not_be_sent_goes_out_in_order_once_it_can(self, tmp_path: Path) -> None:
        texts = [f"number {n}." for n in range(20)]
        async with self.service() as there, scene(there, tmp_path, "And you?") as here:
            await there.leave()
            here.send(*texts)
            await here.tries()
            await there.come_back()
            here.clock.now += BACK
            here.program.app.delivery.wake()
            await here.sees(ANNA, texts[-1])
            shown = re.findall(r"number \d+\.", "\n".join(one.text for one in there.shown(ANNA)))
            assert shown == texts
            assert here.program.rows("SELECT count(*) FROM outbox WHERE attempts > 0")[0][0] == 0
            await here.answer(ANNA, "hello", "And you?")

    async def test_what_was_said_while_the_program_was_off_is_answered_once(self, tmp_path: Path) -> None:
        async with self.service() as there:
            async with scene(there, tmp_path, "First.") as here:
                await here.answer(ANNA, "one", "First.")
            if not there.keeps:
                pytest.skip("it keeps nothing")
            await here.says(ANNA, "two")
            async with scene(there, tmp_path, "Second.") as here:
                await here.sees(ANNA, "Second.")
                await here.rests()
                assert here.asked() == ["two"]

    async def test_what_comes_twice_is_answered_once(self, tmp_path: Path) -> None:
        async with self.service() as there, scene(there, tmp_path, "Once.", "Next.") as here:
            await here.answer(ANNA, "tell me", "Once.")
            await there.repeat()
            await here.answer(ANNA, "and then?", "Next.")
            assert here.asked() == ["tell me", "and then?"]

    async def test_what_cannot_be_read_is_left_out_and_the_next_message_answered(self, tmp_path: Path) -> None:
        async with self.service() as there, scene(there, tmp_path, "Still here.") as here:
            await there.garble()
            await here.answer(ANNA, "still there?", "Still here.")

    async def test_a_long_answer_comes_in_pieces_each_with_its_fences_closed(self, tmp_path: Path) -> None:
        async with self.service() as there, scene(there, tmp_path, FENCED) as here:
            await here.says(ANNA, "the program, please")
            await here.sees(ANNA, "That was all.")
            shown = "\n".join(one.text for one in there.shown(ANNA))
            assert re.findall(r"line_(\d+) = \1\b", shown) == [str(n) for n in range(4_000)]
            for one in there.shown(ANNA):
                assert one.text.count("```") % 2 == 0

    async def test_many_chats_at_once_are_each_answered(self, tmp_path: Path) -> None:
        await self.flood(tmp_path, chats=6, messages=4)

    @pytest.mark.live
    async def test_a_flood_of_fifty_chats_with_twenty_messages_each_is_answered(self, tmp_path: Path) -> None:
        await self.flood(tmp_path, chats=50, messages=20)

    async def flood(self, root: Path, *, chats: int, messages: int) -> None:
        async with self.service() as there:
            people = [f"Person {n}" for n in range(chats)]
            allowed = ", ".join(f'"{there.id_of(one)}"' for one in people)
            rules = f"allow_from = [{allowed}]"
            async with scene(there, root, rules=rules, model=Echo(), linked=False, seconds=400) as here:
                for number in range(messages):
                    for one in people:
                        await here.says(one, f"word {number} of {one}")
                for one in people:
                    await here.sees(one, f"word {messages - 1} of {one}.")
                await here.rests()
                heard = Counter(said_in(request)[-1] for request in here.model.requests)
                assert max(heard.values()) == 1

    async def test_a_secret_that_is_wrong_for_hours_costs_no_message(self, tmp_path: Path) -> None:
        async with self.service() as there:
            if there.name in ("matrix", "xmpp"):
                pytest.skip("a session is needed to send, which a wrong secret does not get")
            async with scene(there, tmp_path):
                pass
            model, clock = ScriptedProvider(), HandClock()
            async with running(tmp_path, model, settings=there.broken, gateway=True, clock=clock) as program:
                delivery, hours = program.app.delivery, 0
                Scene(there, program, model, clock).send("Kept for you.")
                while hours < 6 and not delivery._lines[there.name].is_down:  # while it is no attempt counts
                    await delivery.flush(there.name)
                    clock.now, hours = clock.now + timedelta(hours=1), hours + 1
            async with scene(there, tmp_path) as here:
                here.clock.now = clock.now
                here.program.app.delivery.wake()
                await here.sees(ANNA, "Kept for you.")

    async def test_a_wrong_secret_is_told_in_a_sentence_without_it(self, tmp_path: Path) -> None:
        async with self.service() as there:
            config = config_of(tmp_path, there.broken)
            with pytest.raises(ChannelError, match=f"NANOCLAW_{there.name.upper()}") as told:
                await chat_apps.login(config, chat_apps.tables(config)[there.name], lambda: NOON)
            assert there.secret not in str(told.value)
            assert str(told.value).endswith(".")
