"""New mail is news by itself: told once, with the digest; on a real IMAP server, pymap."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from nanoclaw.plugins.attention import plugin
from nanoclaw.providers.scripted import ScriptedProvider
from tests.channels.mail_server import PASSWORD
from tests.plugins.attention.test_attention import EVENING, HOURS, looked
from tests.plugins.mailbox.test_mailbox import SETTINGS, port, put
from tests.program import HandClock, Program, running

__all__ = ["port"]


@asynccontextmanager
async def watching(root: Path, port: int, clock: HandClock) -> AsyncIterator[Program]:
    """The program, as it serves, with a clock that is read at once."""
    settings = HOURS + SETTINGS.format(port, PASSWORD, 1)
    async with running(root, ScriptedProvider("Hello."), settings=settings, clock=clock, wakes=True) as made:
        assert await made.ask("Hi") == "Hello."  # so that it is known where the person is
        yield made


@pytest.fixture(autouse=True)
def looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "LOOK_SECONDS", 0.01)


async def until_looked(made: Program, mark: str = "") -> str:
    """The mark of the newest look, once it is another one."""
    while (found := made.rows("SELECT mark || at FROM attention_mail")) in ([], [(mark,)]):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return str(found[0][0])


async def test_new_mail_comes_with_the_digest_once(tmp_path: Path, port: int) -> None:
    clock = HandClock()
    async with watching(tmp_path, port, clock) as made:
        mark = await until_looked(made)  # what is there already is no news
        put(port, "Lunch?")
        put(port, "Invoice")
        clock.now = EVENING - timedelta(seconds=90)
        mark = await until_looked(made, mark)
        assert await looked(made) == []
        assert "New in your mailbox: 2" in await made.ask("/inbox")
        clock.now = EVENING
        made.app.delivery.wake()
        (told,) = await looked(made)
        assert told.startswith("New in your mailbox: 2\n[INBOX/") and "Lunch?" in told and "Invoice" in told
        assert getattr(made.history[-2], "outside", "") == "mailbox"
        clock.now = EVENING + timedelta(hours=20)  # the machine slept over the next hour
        await until_looked(made, mark)
        assert await looked(made) == []


async def test_mail_of_the_hours_that_the_machine_slept_comes_when_it_wakes(tmp_path: Path, port: int) -> None:
    clock = HandClock()
    async with watching(tmp_path, port, clock) as made:
        mark = await until_looked(made)
        put(port, "Lunch?")
        clock.now = EVENING + timedelta(hours=3)
        await until_looked(made, mark)
        assert "Lunch?" in (await looked(made))[0]


async def test_a_server_that_is_gone_is_told_and_nothing_is_lost(tmp_path: Path, port: int) -> None:
    clock = HandClock()
    async with watching(tmp_path, port, clock) as made:
        mark = await until_looked(made)
        put(port, "Lunch?")
        box = made.public("mailbox").box()
        box._login, kept = (box._login[0], 9, *box._login[2:]), box._login
        clock.now = EVENING
        mark = await until_looked(made, mark)
        assert (await looked(made))[0].startswith("New mail could not be looked for: 127.0.0.1:9 cannot be reached")
        box._login = kept
        clock.now = EVENING + timedelta(hours=14)
        await until_looked(made, mark)
        assert "Lunch?" in (await looked(made))[0]
