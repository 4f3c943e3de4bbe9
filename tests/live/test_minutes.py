"""Real minutes on the wall clock, real processes: reminders due while nothing runs, while it runs, and at a kill."""

import signal
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nanoclaw.core.messages import Address
from nanoclaw.core.store.db import Transactions
from nanoclaw.plugins.schedule.jobs import Job, insert
from nanoclaw.start.opening import open_store, read_store
from tests.journeys.command import Home, Running

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

MAIN = Address("terminal", "main")


def now() -> datetime:
    return datetime.now(UTC)


def remind(home: Home, text: str, due: datetime) -> None:
    home.root.mkdir(exist_ok=True)
    store = open_store(home.root / "state.db", beside=True)
    job = Job("reminder", text, "then", "at", due.isoformat(), "UTC", due, MAIN, "me", due)
    Transactions(store, now).write_now(lambda tx: insert(tx, job))
    store.close()


def sent(home: Home) -> list[tuple[str, float]]:
    """Each reminder that was sent, and how many seconds after its time that was."""
    with closing(read_store(home.root / "state.db")) as store:
        sql = (
            "SELECT jobs.text, occurrences.due, outbox.due FROM occurrences JOIN jobs ON jobs.id = job"
            " JOIN outbox ON outbox.id = outbox WHERE occurrences.state = 'sent' ORDER BY occurrences.due"
        )
        times = [(text, *map(datetime.fromisoformat, dues)) for text, *dues in store.rows(sql)]
        return [(text, (out - due).total_seconds()) for text, due, out in times]


def wait_until(when: datetime) -> None:
    time.sleep(max(0.0, (when - now()).total_seconds()))


def test_two_missed_minutes_and_one_on_time_over_kills_at_the_due_second(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.configure("http://127.0.0.1:9/v1")
    begin = now().replace(microsecond=0)
    for text, seconds in (("first", 20), ("second", 70), ("third", 150), ("fourth", 180)):
        remind(home, text, begin + timedelta(seconds=seconds))
    with closing(Running(home, "gateway")) as gateway:
        gateway.expect("serves")
        gateway.process.send_signal(signal.SIGTERM)
        gateway.ended()
    wait_until(begin + timedelta(seconds=135))  # nothing ran at the first two
    with closing(Running(home, "gateway")) as gateway:
        gateway.expect("serves")
        wait_until(begin + timedelta(seconds=149.98))
        gateway.process.kill()  # about as the third is due
    with closing(Running(home, "gateway")) as gateway:
        gateway.expect("serves")
        wait_until(begin + timedelta(seconds=182))
    texts = home.run("sessions", "show").out
    assert [text for text, _ in sent(home)] == ["first", "second", "third", "fourth"]
    late = dict(sent(home))
    assert late["first"] > 110
    assert late["second"] > 60
    assert late["third"] < 15
    assert late["fourth"] < 1
    assert texts.count("1 min late") == 2
    for text in late:
        assert texts.count(f": {text}\n") + texts.count(f": {text} ") + texts.count(f": {text}") >= 1
