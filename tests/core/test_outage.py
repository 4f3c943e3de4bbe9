"""Slow sends, outages and refusals: who else waits for them, what counts as an attempt, and who is told."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random

import pytest

from nanoclaw.beneath.paths import Reach
from nanoclaw.core.channel import MAIN, Hints
from nanoclaw.core.channel_registry import OFFLINE_SECONDS, Channels
from nanoclaw.core.delivery import BEHIND, IN_A_ROW, RETRY_SECONDS, SENDERS, Delivery, Outbox, counts
from nanoclaw.core.errors import ChannelError, ChannelUnavailable, StoreError, Undeliverable, Unreachable
from nanoclaw.core.messages import Address, Outbound
from nanoclaw.core.plugin import Later
from nanoclaw.core.store.db import PANIC, Flags, Transaction, Transactions
from nanoclaw.start.opening import open_store
from tests.program import NOON, AtOnce, FakeChannel
from tests.virtual_time import passed, virtual_time

DAY = 86_400.0


def clock() -> datetime:
    return NOON + timedelta(seconds=passed())


def chat(number: int) -> Address:
    return Address("chat", str(number))


class Platform(FakeChannel):
    """Notes when it took what. Sending takes `seconds` for some chats; `trouble` is raised in its place."""

    def __init__(self, name: str = "chat") -> None:
        super().__init__(name, Hints(length=4000))
        self.taken: list[tuple[float, str]] = []
        self.tries = 0
        self.seconds: dict[Address, float] = {}
        self.trouble: Callable[[Outbound], Exception | None] = lambda outbound: None

    async def send(self, outbound: Outbound) -> str:
        self.tries += 1
        await asyncio.sleep(self.seconds.get(outbound.address, 0.0))
        if error := self.trouble(outbound):
            raise error
        self.taken.append((passed(), outbound.text))
        return f"p{len(self.taken)}"

    @property
    def texts(self) -> list[str]:
        return [text for _, text in self.taken]


class Post:
    """An outbox with a chat app and another, at work."""

    def __init__(self, root: Path) -> None:
        self.store = open_store(root / "state.db")
        self.store.committer = AtOnce()
        self.ahead = 0.0
        self.transactions = Transactions(self.store, self.clock, self)
        self.outbox = Outbox(self.transactions, lambda: 1.0)
        self.chat, self.mail = Platform(), Platform("mail")
        self.mine = [Address("mail", "me"), chat(1)]
        self.channels = Channels([self.chat, self.mail], clock)
        self.flags, self.later, self.away = Flags(self.store, clock), set[str](), set[Address]()
        self.chat.serves = lambda outbound: outbound.address not in self.away  # type: ignore[method-assign]
        self.delivery = Delivery(
            self.outbox, self.channels, self.flags, self.transactions, Reach(root), self.owners_chats, self.judge
        )

    def clock(self) -> datetime:
        return clock() + timedelta(seconds=self.ahead)

    def judge(self, outbound: Outbound, why: str, tx: Transaction) -> Outbound | Later | str:
        return Later(self.clock()) if outbound.text in self.later else outbound

    def owners_chats(self) -> list[Address]:
        return self.mine

    def enter(self, *_: object) -> None: ...
    def committed(self, tx: Transaction) -> None:
        self.delivery.committed(tx)

    def freeze(self) -> None:
        if self.flags.get(PANIC) is None:
            self.flags.set(PANIC, str(self.outbox.last()))

    def thaw(self) -> None:
        self.flags.clear(PANIC)
        self.delivery.wake()

    def arrive(self) -> None:
        self.away.clear()
        self.delivery.wake()

    def send(self, address: Address, text: str, at: datetime | None = None) -> None:
        self.transactions.write_now(lambda tx: tx.send(Outbound(address, text, at=at)))

    def states(self) -> dict[str, int]:
        return counts(self.store)


@asynccontextmanager
async def post(root: Path) -> AsyncIterator[Post]:
    made = Post(root)
    running = asyncio.create_task(made.delivery.run())
    try:
        yield made
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        made.store.close()


# -- slow sends


@virtual_time
async def test_a_send_that_hangs_delays_no_other_chat_and_keeps_the_order_of_its_own(tmp_path: Path) -> None:
    async with post(tmp_path) as office:
        office.chat.seconds[chat(1)] = 28.5
        for text in ("a1", "a2"):
            office.send(chat(1), text)
        for number in range(2, 20):
            office.send(chat(number), f"b{number}")
        await asyncio.sleep(1)
        assert office.chat.texts == [f"b{number}" for number in range(2, 20)]
        assert {at for at, _ in office.chat.taken} == {0.0}
        await asyncio.sleep(60)
        assert office.chat.taken[-2:] == [(28.5, "a1"), (57.0, "a2")]


@virtual_time
async def test_a_few_are_sent_at_once_the_oldest_first(tmp_path: Path) -> None:
    async with post(tmp_path) as office:
        for number in range(3 * SENDERS):
            office.chat.seconds[chat(number)] = 1.0
            office.send(chat(number), f"{number}")
        await asyncio.sleep(0.5)
        assert office.chat.tries == SENDERS
        await asyncio.sleep(5)
        assert sorted(office.chat.taken, key=lambda one: int(one[1])) == [
            (1.0 + number // SENDERS, str(number)) for number in range(3 * SENDERS)
        ]


@virtual_time
async def test_a_channel_takes_nothing_in_while_much_of_it_waits_to_be_sent(tmp_path: Path) -> None:
    async with post(tmp_path) as office:
        await office.delivery.catch_up("chat")
        assert passed() == 0
        for number in range(BEHIND + 2 * SENDERS):
            office.chat.seconds[chat(number)] = 1.0
            office.send(chat(number), "hello")
        await asyncio.sleep(0.5)
        await office.delivery.catch_up("mail")
        assert passed() == 0.5
        await office.delivery.catch_up("chat")
        assert passed() == 2.0


@virtual_time
async def test_who_asked_to_be_left_alone_is_not_waited_for_so_that_a_stop_is_heard(tmp_path: Path) -> None:
    async with post(tmp_path) as office:
        office.chat.trouble = lambda outbound: ChannelError("too many requests", retry_after=100)
        for number in range(2 * BEHIND):
            office.send(chat(number), "hello")
        await asyncio.sleep(1)
        await office.delivery.catch_up("chat")
        assert passed() == 1


@virtual_time
async def test_a_chat_that_is_to_be_left_alone_delays_no_other_and_keeps_its_order(tmp_path: Path) -> None:
    async with post(tmp_path) as office:
        office.chat.trouble = lambda outbound: (
            ChannelError("too many", retry_after=30) if outbound.address == chat(1) and passed() < 30 else None
        )
        for text in ("a1", "a2"):
            office.send(chat(1), text)
        for number in range(20):
            office.send(chat(2 + number % 2), f"b{number}")
            await asyncio.sleep(1)
        assert office.chat.taken == [(float(number), f"b{number}") for number in range(20)]
        await asyncio.sleep(20)
        assert office.chat.taken[20:] == [(30.0, "a1"), (30.0, "a2")]


@virtual_time
async def test_a_platform_that_asks_to_wait_in_several_chats_in_a_row_is_left_alone(tmp_path: Path) -> None:
    async with post(tmp_path) as office:
        office.chat.trouble = lambda outbound: ChannelError("flood", retry_after=60) if passed() < 60 else None
        for number in range(30):
            office.send(chat(number), f"{number}")
            await asyncio.sleep(1)
        assert office.chat.tries == IN_A_ROW
        await asyncio.sleep(35)
        assert sorted(office.chat.texts, key=int) == [str(number) for number in range(30)]
        assert office.store.rows("SELECT max(attempts) FROM outbox") == [(0,)]


@virtual_time
async def test_threads_of_one_chat_are_one_chat_that_is_left_alone(tmp_path: Path) -> None:
    async with post(tmp_path) as office:
        office.chat.trouble = lambda outbound: (
            ChannelError("flood", retry_after=60) if outbound.address.chat.startswith("-9") else None
        )
        for thread in range(5):
            office.send(Address("chat", f"-9/{thread}"), "to a group")
        await asyncio.sleep(1)
        office.send(chat(1), "hello")
        await asyncio.sleep(1)
        assert office.chat.taken == [(1.0, "hello")]


# -- outages


@virtual_time
@pytest.mark.parametrize(
    ("seconds", "trouble"),
    [
        *((seconds, Unreachable("no route")) for seconds in (40, 900, 14_400)),
        *((seconds, ChannelUnavailable("502")) for seconds in (40, 900)),
    ],
)
async def test_after_an_outage_all_that_waits_goes_out_within_five_seconds_oldest_first(
    tmp_path: Path, seconds: float, trouble: Exception
) -> None:
    async with post(tmp_path) as office:
        office.chat.trouble = lambda outbound: trouble
        for number in range(30):
            office.send(chat(number % 3), f"{number}")
            await asyncio.sleep(seconds / 30)
        await asyncio.sleep(1.3)
        began, office.chat.trouble = passed(), lambda outbound: None
        await asyncio.sleep(5)
        assert office.states() == {"delivered": 30}
        assert max(at for at, _ in office.chat.taken) - began <= 5
        for number in range(3):
            own = [text for text in office.chat.texts if int(text) % 3 == number]
            assert own == sorted(own, key=int)
        assert office.chat.texts[0] == "0" or not isinstance(trouble, Unreachable)
        assert office.chat.tries <= seconds / 2 + 50, "one message is tried for all"
        assert office.store.rows("SELECT max(attempts) FROM outbox") == [(0,)]


@virtual_time
async def test_what_was_put_off_before_an_outage_goes_out_after_it_too(tmp_path: Path) -> None:
    async with post(tmp_path) as office:
        office.chat.trouble = lambda outbound: ChannelError("not now")
        office.send(chat(1), "a reminder")
        await asyncio.sleep(200)  # the fourth attempt is ten minutes away
        office.chat.trouble = lambda outbound: Unreachable("no route")
        office.send(chat(2), "news")
        await asyncio.sleep(60)
        began, office.chat.trouble = passed(), lambda outbound: None
        await asyncio.sleep(5)
        assert office.states() == {"delivered": 2}
        assert max(at for at, _ in office.chat.taken) - began <= 5


@virtual_time
async def test_a_message_that_alone_gets_no_answer_is_given_up_at_last_and_delays_no_other(tmp_path: Path) -> None:
    async with post(tmp_path) as office:
        office.chat.trouble = lambda outbound: ChannelUnavailable("500") if outbound.text == "poison" else None
        office.send(chat(1), "poison")
        office.send(chat(1), "behind it")
        for number in range(100):
            office.send(chat(2), f"{number}")
            await asyncio.sleep(10)
        assert office.chat.texts.count("behind it") == 1
        assert office.states()["failed"] == 1
        assert office.mail.texts == ["Could not be delivered to chat:1: “poison” (500)."]
        late = [at - 10.0 * int(text) for at, text in office.chat.taken if text != "behind it"]
        assert max(late) <= 2 * OFFLINE_SECONDS
        assert late.count(0.0) >= 95


@virtual_time
async def test_what_is_for_a_certain_time_says_how_late_an_outage_made_it(tmp_path: Path) -> None:
    async with post(tmp_path) as office:
        office.send(chat(1), "Tea!", clock())
        await asyncio.sleep(1)
        office.chat.trouble = lambda outbound: Unreachable("no route")
        office.send(chat(1), "Water!", clock())
        office.send(chat(1), "No time.")
        await asyncio.sleep(20 * 60)
        office.chat.trouble = lambda outbound: None
        await asyncio.sleep(5)
        assert office.chat.texts == ["Tea!", "Water!\n(was due 12:00, 20 min late)", "No time."]


# -- what is given up


@virtual_time
async def test_what_is_given_up_for_good_is_told_to_the_owner_elsewhere_once(tmp_path: Path) -> None:
    async with post(tmp_path) as office:
        office.chat.trouble = lambda outbound: Undeliverable("Forbidden: bot was blocked by the user.")
        office.send(chat(1), "Take the pizza out!")
        office.send(chat(1), "The pizza burns!")
        await asyncio.sleep(1)
        said = "Could not be delivered to chat:1: “Take the pizza out!” (Forbidden: bot was blocked by the user)."
        assert office.mail.texts == [said]
        await asyncio.sleep(3600)
        office.send(chat(1), "The pizza is coal.")
        await asyncio.sleep(1)
        assert len(office.mail.texts) == 2


@virtual_time
async def test_where_the_owner_is_nowhere_else_it_waits_in_the_terminal_and_is_not_told_of_itself(
    tmp_path: Path,
) -> None:
    async with post(tmp_path) as office:
        office.mine = [chat(1)]
        office.chat.trouble = lambda outbound: Undeliverable("chat not found")
        office.send(chat(1), "hello")
        await asyncio.sleep(1)
        sql = "SELECT text FROM outbox WHERE channel = 'terminal' AND chat = ?"
        assert office.store.rows(sql, MAIN.chat) == [("Could not be delivered to chat:1: “hello” (chat not found).",)]
        assert office.states() == {"failed": 1, "pending": 1}


@virtual_time
async def test_the_owner_is_told_in_another_chat_of_the_same_app_and_where_that_one_refuses_in_the_next(
    tmp_path: Path,
) -> None:
    async with post(tmp_path) as office:
        office.mine = [chat(1), Address("mail", "me"), chat(2)]
        office.mail.trouble = lambda outbound: Undeliverable("no such mailbox")
        office.chat.trouble = lambda outbound: Undeliverable("blocked") if outbound.address == chat(1) else None
        office.send(chat(1), "hello")
        await asyncio.sleep(1)
        assert office.chat.texts == ["Could not be delivered to chat:1: “hello” (blocked)."]
        assert office.states() == {"failed": 2, "delivered": 1}


@virtual_time
async def test_the_owner_is_told_on_a_channel_that_can_be_reached_before_one_that_cannot(tmp_path: Path) -> None:
    async with post(tmp_path) as office:
        office.mine = [Address("mail", "me"), chat(1)]
        office.mail.trouble = lambda outbound: Unreachable("no route")
        office.send(Address("mail", "me"), "good morning")
        await asyncio.sleep(1)
        office.chat.trouble = lambda outbound: Undeliverable("blocked") if outbound.address == chat(2) else None
        office.send(chat(2), "hello")
        await asyncio.sleep(1)
        assert office.chat.texts == ["Could not be delivered to chat:2: “hello” (blocked)."]
        office.chat.trouble = lambda outbound: Undeliverable("blocked")
        office.send(chat(1), "good night")
        await asyncio.sleep(1)
        office.mail.trouble = lambda outbound: None
        await asyncio.sleep(5)
        assert office.mail.texts == ["good morning", "Could not be delivered to chat:1: “good night” (blocked)."]


# -- what was just written


@virtual_time
async def test_what_is_written_as_the_clock_is_set_back_goes_out_when_that_has_caught_up(tmp_path: Path) -> None:
    async with post(tmp_path) as office:
        office.send(chat(1), "one")
        await asyncio.sleep(1)
        office.send(chat(1), "two")
        office.ahead = -2.0
        await asyncio.sleep(1)
        office.send(chat(1), "three")
        await asyncio.sleep(2)
        assert office.chat.taken == [(0.0, "one"), (3.0, "two"), (3.0, "three")]


@virtual_time
async def test_what_is_frozen_or_left_alone_before_it_is_begun_waits(tmp_path: Path) -> None:
    async with post(tmp_path) as office:
        office.send(chat(1), "one")
        await asyncio.sleep(1)
        office.send(chat(1), "two")
        office.freeze()
        await asyncio.sleep(1)
        office.thaw()
        await asyncio.sleep(1)
        office.send(chat(1), "three")
        office.away.add(chat(1))
        await asyncio.sleep(1)
        office.arrive()
        await asyncio.sleep(1)
        assert office.chat.taken == [(0.0, "one"), (2.0, "two"), (4.0, "three")]


@virtual_time
@pytest.mark.parametrize("seed", range(5, 11))
async def test_whatever_happens_meanwhile_all_goes_out_once_or_is_given_up(tmp_path: Path, seed: int) -> None:
    async with post(tmp_path) as office:
        chance, kept = Random(seed), list[str]()
        errors = (ConnectionError(), Unreachable("no route"), ChannelUnavailable("502"), ChannelError("", 5))

        def write(tx: Transaction, texts: list[str]) -> None:
            for text in texts:
                tx.send(Outbound(chat(int(text) % chance.choice((3, 12))), text))

        def be_full(is_full: bool) -> None:
            office.store.db.execute(f"PRAGMA query_only = {is_full}")

        happens: list[tuple[int, Callable[[], object]]] = [
            (4, lambda: setattr(office, "ahead", office.ahead - chance.choice((0.001, 2)))),
            (4, lambda: setattr(office.chat, "trouble", lambda _: chance.choice((None, None, *errors)))),
            (4, lambda: setattr(office.chat, "trouble", lambda _: None)),
            (4, lambda: office.chat.seconds.update({chat(chance.randrange(3)): chance.choice((0, 5))})),
            (2, lambda: office.later.update(kept[-2:])),
            (4, office.later.clear),
            (2, office.freeze),
            (4, office.thaw),
            (2, lambda: office.away.add(chat(chance.randrange(3)))),
            (4, office.arrive),
            (2, lambda: be_full(True)),
            (4, lambda: be_full(False)),
        ]
        for number in range(0, 500, 5):
            texts = [str(number + more) for more in range(chance.choice((1, 1, 1, 2, 5)))]
            with suppress(StoreError):
                office.transactions.write_now(partial(write, texts=texts))
                kept += texts
            with suppress(StoreError):
                chance.choices([act for _, act in happens], [weight for weight, _ in happens])[0]()
            if chance.random() < 0.7:
                await asyncio.sleep(chance.choice((0, 0, 0.5, 10, 700)))
        be_full(False)
        office.later.clear()
        office.chat.trouble = lambda _: None
        if office.away or office.flags.get(PANIC):
            office.thaw()
            office.arrive()
        await asyncio.sleep(DAY)
        rows = office.store.rows("SELECT text, state, attempts FROM outbox WHERE channel = 'chat'")
        assert sorted(text for text, *_ in rows if not text.startswith("Could")) == sorted(kept)
        assert sorted(text for text, state, _ in rows if state == "delivered") == sorted(office.chat.texts)
        assert {tries for *_, state, tries in rows if state != "delivered"} <= {1 + len(RETRY_SECONDS)}
