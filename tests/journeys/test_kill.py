"""kill -9 at every point of a turn: what was accepted is answered or told, once, and the history stays legal."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from nanoclaw.core.errors import StoreError
from nanoclaw.core.events import TurnEnded
from nanoclaw.core.messages import AssistantMessage
from nanoclaw.core.plugin import Command, Plugin, Said
from nanoclaw.core.runner import Runner
from nanoclaw.core.store.db import Store
from nanoclaw.core.store.inbox import BROKEN_OFF, Inbox, OpenTurn
from nanoclaw.core.store.journal import TurnJournal
from nanoclaw.core.store.sessions import Sessions
from nanoclaw.core.store.tx import Transactions
from nanoclaw.core.tool import tool
from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.journeys.victim import EVERY, PAYS
from tests.program import MAIN, NOON, REPOSITORY, assert_legal, results, running, tools_plugin


def victim(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.journeys.victim", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=100)


WENT_ON = "(I was interrupted in between and went on.)\n\n"


async def reopened(root: Path) -> tuple[list[str], str]:
    """Texts sent to the person after the next start, whose model answers "It is raining.", and all that it saw."""
    model = ScriptedProvider("It is raining.")
    async with running(root, model) as program:
        await program.app.conversations.idle()
        while program.app.outbox.pending("terminal"):  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert_legal(program.history)
        assert program.app.inbox.waiting() == []
        assert program.app.inbox.open_turns() == []
        texts = [program.channel.sent.get_nowait().text for _ in range(program.channel.sent.qsize())]
        return texts, "\n".join(message.text for request in model.requests for message in request.history)


@dataclass(frozen=True)
class Aftermath:
    """Remains of a process killed at one statement, and what the person got in the end."""

    statement: int
    accepted: bool
    cut: OpenTurn | None
    texts: frozenset[str]
    again: tuple[str, ...]
    results: int
    seen: str


@pytest.fixture(scope="module")
def aftermaths(tmp_path_factory: pytest.TempPathFactory) -> list[Aftermath]:
    folder = tmp_path_factory.mktemp("killed")
    ended = victim(str(folder))
    assert ended.returncode == 0, ended.stderr
    return [aftermath(folder / str(number), number) for number in range(0, int(ended.stdout) + 1, EVERY)]


def aftermath(place: Path, statement: int) -> Aftermath:
    log = (place / "log").read_text().splitlines() if (place / "log").exists() else []
    store = Store(place / "home" / "state.db")
    cuts = Inbox(Transactions(store, lambda: NOON)).open_turns()
    store.close()
    sent = {line.removeprefix("sent ") for line in log if line.startswith("sent ")}
    sent_then, seen = asyncio.run(reopened(place / "home"))
    again, _ = asyncio.run(reopened(place / "home"))
    store = Store(place / "home" / "state.db")
    done = len(results(Sessions(Transactions(store, lambda: NOON)).of(MAIN).history))
    store.close()
    accepted = any(line.startswith("accepted") for line in log)
    return Aftermath(
        statement, accepted, cuts[0] if cuts else None, frozenset(sent | set(sent_then)), tuple(again), done, seen
    )


def test_what_was_accepted_is_answered_or_told_wherever_the_process_was_killed(aftermaths: list[Aftermath]) -> None:
    assert len(aftermaths) > 15
    assert [after.statement for after in aftermaths if after.accepted and not after.texts] == []


def test_no_message_has_two_different_ends_and_none_is_told_at_the_start_after(aftermaths: list[Aftermath]) -> None:
    assert [after for after in aftermaths if len(after.texts) > 1 or after.again] == []
    ends = {text for after in aftermaths for text in after.texts}
    assert ends == {"It is raining.", f"{WENT_ON}It is raining.", "Done."}


def test_a_turn_that_touched_nothing_but_the_workspace_goes_on_and_says_so(aftermaths: list[Aftermath]) -> None:
    assert {after.texts for after in aftermaths if after.cut} == {frozenset({f"{WENT_ON}It is raining."})}


def test_the_model_is_told_what_was_under_way_when_the_process_ended(aftermaths: list[Aftermath]) -> None:
    for after in aftermaths:
        if after.cut:
            assert (BROKEN_OFF in after.seen) == bool(after.cut.calls)


async def test_a_turn_that_touched_more_than_the_workspace_is_not_repeated_and_the_person_is_asked(
    tmp_path: Path,
) -> None:
    victim(str(tmp_path), "outside")
    with ScriptedProvider("Then I go on.") as model:
        async with running(tmp_path / "home", model, extra=[PAYS]) as program:
            asked = await program.answer()
            assert asked == (
                "I was interrupted while I worked on “pay the bill”. This was running and may have been done in "
                "part: `pay 5`. I did not repeat it. Shall I go on?"
            )
            assert await program.ask("yes") == "Then I go on."
            assert_legal(program.history)
            assert asked in [text.text for text in program.history if isinstance(text, AssistantMessage)]


async def test_a_turn_that_was_cut_off_twice_is_not_taken_up_a_third_time(tmp_path: Path) -> None:
    victim(str(tmp_path), "twice")
    with ScriptedProvider() as model:
        async with running(tmp_path / "home", model) as program:
            asked = await program.answer()
            assert asked == "I was interrupted while I worked on “first”. I did not repeat it. Shall I go on?"


def test_every_call_before_the_kill_is_in_the_history_with_a_result(aftermaths: list[Aftermath]) -> None:
    seen = {(after.results, tuple(call.split()[0] for call in after.cut.calls)) for after in aftermaths if after.cut}
    first, second = (2, ("write_file", "memory_add")), (2, ("memory_add",))  # the second waits for the first
    assert seen == {(0, ()), first, second, (2, ()), (3, ("read_file",)), (3, ())}


async def test_a_message_that_waited_when_the_process_was_killed_is_answered_at_the_next_start(tmp_path: Path) -> None:
    victim(str(tmp_path), "queue")
    with ScriptedProvider("First it is.", "Second it is.") as model:
        async with running(tmp_path / "home", model) as program:
            assert await program.answer() == f"{WENT_ON}First it is."
            assert await program.answer() == "Second it is."


async def test_a_step_that_could_not_be_saved_stays_in_the_history_as_broken_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ring() -> str:
        """Rings."""
        return "rang"

    def full(*_: object, **__: object) -> None:
        monkeypatch.undo()
        raise StoreError("the disk is full")

    with ScriptedProvider(call("ring"), "It may have rung.") as model:
        async with running(tmp_path, model, extra=[tools_plugin(tool(ring))]) as program:
            monkeypatch.setattr(TurnJournal, "step", full)
            assert await program.ask("ring") == "the disk is full"
            assert [result.text for result in results(program.history)] == [BROKEN_OFF]
            assert await program.ask("did it ring?") == "It may have rung."
            assert_legal(program.history)


async def test_the_reply_to_a_command_that_cannot_be_saved_is_shown_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(Plugin):
        name = "slow"

        def commands(self) -> Iterable[Command]:
            return [Command("slow", "takes time", self._slow)]

        async def _slow(self, said: Said) -> str:
            return "It took time."

    def full(*_: object, **__: object) -> None:
        raise StoreError("the disk is full")

    async with running(tmp_path, extra=[Slow]) as program:
        with monkeypatch.context() as patch:
            patch.setattr(Runner, "end_without_turn", full)
            await program.say("/slow")
            while not program.channel.ended:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert program.channel.ended == [TurnEnded("It took time.", "failed")]
