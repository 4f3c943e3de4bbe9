"""What goes out is kept until the platform has it: retry times, order, giving up."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nanoclaw.core.delivery import Outbox
from nanoclaw.core.messages import Address, Outbound
from nanoclaw.core.store.db import Store, Transaction, Transactions
from nanoclaw.start.opening import open_store
from tests.program import HandClock

NOW = datetime(2026, 3, 6, 12, 0, tzinfo=UTC)
MAIN = Address("terminal", "main")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(tmp_path / "state.db")) as opened:
        yield opened


@pytest.fixture
def outbox(store: Store) -> Outbox:
    return Outbox(Transactions(store, lambda: NOW), lambda: 1.0)


def add(store: Store, outbound: Outbound) -> None:
    with store.transaction() as db:
        Transaction(db, NOW).send(outbound)


@pytest.mark.parametrize("factor", [0.8, 1.0, 1.2])
async def test_a_failed_delivery_is_tried_after_5_s_25_s_2_min_and_10_min_and_then_has_failed(
    store: Store, factor: float
) -> None:
    clock = HandClock(NOW)
    outbox = Outbox(Transactions(store, clock), lambda: factor)
    add(store, Outbound(MAIN, "hello"))
    pauses = []
    while rows := outbox.pending("terminal"):
        pauses.append((rows[0].due - clock.now).total_seconds())
        clock.now = rows[0].due
        await outbox.try_again(rows[0], "down")
    assert pauses == pytest.approx([0, 5 * factor, 25 * factor, 120 * factor, 600 * factor])
    assert store.db.execute("SELECT state, attempts, error FROM outbox").fetchall() == [("failed", 5, "down")]


async def test_rows_come_back_in_order_with_everything_they_had(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db")
    outbox = Outbox(Transactions(store, lambda: NOW), lambda: 1.0)
    rows = [Outbound(Address("terminal", f"chat {number % 2}"), f"text {number} 🎉") for number in range(6)]
    rows.append(Outbound(MAIN, "with files", ("/a b.png", "ü.txt"), "m-1"))
    for row in rows:
        add(store, row)
    add(store, Outbound(Address("telegram", "1"), "elsewhere"))
    await outbox.try_again(outbox.pending("terminal")[0], "down")
    store.close()
    store = open_store(tmp_path / "state.db")
    pending = Outbox(Transactions(store, lambda: NOW), lambda: 1.0).pending("terminal")
    assert [row.outbound._replace(key="") for row in pending] == rows
    assert len({row.outbound.key for row in pending}) == len(rows)
    assert pending[0].due == NOW + timedelta(seconds=5)
    store.close()


async def test_what_was_said_is_found_by_the_platforms_id(store: Store, outbox: Outbox) -> None:
    group = Address("chat", "-5/topic/anna")
    for address, text in ((group, "long"), (Address("chat", "-55"), "elsewhere"), (group, "pending"), (group, "newer")):
        add(store, Outbound(address, text))
    rows = outbox.pending("chat")
    await outbox.delivered(rows[0], "11 12")
    await outbox.delivered(rows[1], "11")
    await outbox.partly(rows[2], ["13"])
    await outbox.delivered(rows[3], "1")
    found = {
        id_: outbox.sent(Address("chat", "-5//bob"), id_, MAIN)[0] for id_ in ("11", "12", "13", "1", "2", "", "%")
    }
    assert found == {"11": "long", "12": "long", "13": "pending", "1": "newer", "2": "", "": "", "%": ""}
    assert outbox.sent(Address("chat", "-55"), "11", MAIN)[0] == "elsewhere"
    assert outbox.sent(Address("mail", "-5"), "11", MAIN) == ("", "")
