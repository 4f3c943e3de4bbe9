"""kill -9 at every point of a turn: what was accepted is answered or told, once, and the history stays legal."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from nanoclaw.messages import AssistantMessage
from nanoclaw.providers.scripted import ScriptedProvider
from nanoclaw.store.db import Store
from nanoclaw.store.inbox import Inbox, Interrupted
from nanoclaw.store.outbox import Outbox
from nanoclaw.store.sessions import Sessions
from tests.agent.house import MAIN, NOON, REPOSITORY, assert_legal, house, results


def victim(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.journeys.victim", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60)


async def reopened(root: Path) -> list[str]:
    """What the person is sent after the next start, by way of a model that answers "Recovered."."""
    model = ScriptedProvider("Recovered.")
    async with house(root, model) as home:
        await home.assistant.idle()
        while Outbox(home.store, home.clock, lambda: 1.0).pending("terminal"):  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert_legal(home.history)
        assert Inbox(home.store, home.clock).waiting() == []
        assert Inbox(home.store, home.clock).interrupted() == []
        return [home.channel.sent.get_nowait().text for _ in range(home.channel.sent.qsize())]


@dataclass(frozen=True)
class Aftermath:
    """What was left by a process killed at one statement, and what the person got in the end."""

    statement: int
    accepted: bool
    cut: Interrupted | None
    texts: frozenset[str]
    again: tuple[str, ...]
    results: int


@pytest.fixture(scope="module")
def aftermaths(tmp_path_factory: pytest.TempPathFactory) -> list[Aftermath]:
    folder = tmp_path_factory.mktemp("killed")
    ended = victim(str(folder))
    assert ended.returncode == 0, ended.stderr
    return [aftermath(folder / str(number), number) for number in range(int(ended.stdout) + 1)]


def aftermath(place: Path, statement: int) -> Aftermath:
    log = (place / "log").read_text().splitlines() if (place / "log").exists() else []
    store = Store(place / "home" / "state.db")
    cuts = Inbox(store, lambda: NOON).interrupted()
    store.close()
    sent = {line.removeprefix("sent ") for line in log if line.startswith("sent ")}
    texts = sent | set(asyncio.run(reopened(place / "home")))
    again = asyncio.run(reopened(place / "home"))
    store = Store(place / "home" / "state.db")
    done = len(results(Sessions(store, lambda: NOON).of(MAIN).history))
    store.close()
    accepted = any(line.startswith("accepted") for line in log)
    return Aftermath(statement, accepted, cuts[0] if cuts else None, frozenset(texts), tuple(again), done)


def test_what_was_accepted_is_answered_or_told_wherever_the_process_was_killed(aftermaths: list[Aftermath]) -> None:
    assert len(aftermaths) > 30
    assert [after.statement for after in aftermaths if after.accepted and not after.texts] == []


def test_no_message_has_two_different_ends_and_none_is_told_at_the_start_after(aftermaths: list[Aftermath]) -> None:
    assert [after for after in aftermaths if len(after.texts) > 1 or after.again] == []
    ends = {text[:17] for after in aftermaths for text in after.texts}
    assert ends == {"Recovered.", "I was interrupted", "Done."}


def test_an_interrupted_turn_is_told_in_a_sentence_that_names_what_was_running(aftermaths: list[Aftermath]) -> None:
    for after in aftermaths:
        if after.cut:
            (told,) = after.texts
            assert told.startswith("I was interrupted while I worked on “write it down”.")
            assert all(call.split()[0] in told for call in after.cut.calls)


def test_the_steps_before_the_kill_are_in_the_history(aftermaths: list[Aftermath]) -> None:
    seen = {(after.results, tuple(call.split()[0] for call in after.cut.calls)) for after in aftermaths if after.cut}
    assert seen == {(0, ()), (0, ("write_file", "memory_add")), (2, ()), (2, ("read_file",)), (3, ())}


def test_a_message_that_waited_when_the_process_was_killed_is_answered_at_the_next_start(tmp_path: Path) -> None:
    victim(str(tmp_path), "queue")

    async def story() -> None:
        with ScriptedProvider("Second it is.") as model:
            async with house(tmp_path / "home", model) as home:
                assert "interrupted while I worked on “first”" in await home.answer()
                assert await home.answer() == "Second it is."
                assert [item.text for item in home.history if isinstance(item, AssistantMessage)] == ["Second it is."]

    asyncio.run(story())
