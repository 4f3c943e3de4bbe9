"""The ticking loop: everything fires once, on time, or late and told so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.messages import AssistantMessage
from nanoclaw.providers.base import Provider
from nanoclaw.providers.scripted import ScriptedProvider
from nanoclaw.store.jobs import Job
from tests.agent.house import BERLIN, MAIN, NOON, House, assert_legal, house
from tests.schedule.dial import Dial, story


def job(text: str, due: datetime, **values: Any) -> Job:
    """A reminder for once, unless told otherwise."""
    utc = due.astimezone(UTC)
    made = Job("reminder", text, "as asked", "at", utc.isoformat(), "Europe/Berlin", utc, MAIN, "me", utc)
    return replace(made, **values)


@asynccontextmanager
async def ticking(root: Path, dial: Dial, *providers: Provider, **options: Any) -> AsyncIterator[House]:
    """A house whose schedule runs on the dial."""
    waking = {"sleep": dial.sleep, "monotonic": dial.monotonic, **options.pop("waking", {})}
    async with house(root, *providers, clock=dial, waking=waking, **options) as home:
        running = asyncio.create_task(home.schedule.run())
        try:
            yield home
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


def sent(home: House) -> list[str]:
    return [home.channel.sent.get_nowait().text for _ in range(home.channel.sent.qsize())]


@story
async def test_a_reminder_is_sent_on_time_without_a_model_and_is_remembered(tmp_path: Path) -> None:
    dial = Dial()
    async with ticking(tmp_path, dial) as home:
        home.jobs.add(job("Call Anna", NOON + timedelta(minutes=20)))
        await dial.pass_(minutes=19, seconds=59)
        assert sent(home) == []
        await dial.pass_(seconds=1)
        assert sent(home) == ["Reminder 1: Call Anna\n(“done 1” or “snooze 1 30m” answers it.)"]
        await dial.pass_(days=2)
        assert sent(home) == []
        assert [m.text for m in home.history if isinstance(m, AssistantMessage)][0].startswith("Reminder 1: Call Anna")
        assert_legal(home.history)
