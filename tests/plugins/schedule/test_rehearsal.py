"""A job is played at another time, and nothing is left of it but what it cost."""

from datetime import timedelta
from pathlib import Path

import pytest

from nanoclaw.core.errors import ProviderRefused
from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.plugins.schedule.clockwork import Clockwork, job
from tests.program import NOON, Program, running

LEFT = ("inbox", "turns", "messages", "sessions", "jobs", "occurrences", "ledger")


def kept(program: Program) -> dict[str, list[tuple[object, ...]]]:
    """Rows of all that a turn could leave, but of the commands that asked for it."""
    rows = {table: program.rows(f"SELECT * FROM {table}") for table in LEFT}
    return rows | {"inbox": program.rows("SELECT * FROM inbox WHERE channel <> 'terminal'")}


async def test_a_rehearsed_task_has_its_own_clock_acts_not_and_leaves_nothing(tmp_path: Path) -> None:
    model = ScriptedProvider(call("cron", {"action": "remove", "id": 1}), "The report is written.")
    async with running(tmp_path, model) as program:
        Clockwork(program).add(job("write the report", NOON + timedelta(days=2), kind="task"))
        before = kept(program)
        said = await program.ask("/rehearse 1 tomorrow at 9")
        assert "as if it were Sat 7 Mar 2026, 09:00 Europe/Berlin (nothing is sent or changed):" in said
        assert "The report is written.\n\nNot done, as this is a rehearsal:\n- cron action='remove', id=1" in said
        assert "2 model calls" in said
        assert "Current Time: 2026-03-07 09:00" in model.requests[0].history[0].text
        assert kept(program) == before
        assert len(program.rows("SELECT 1 FROM usage WHERE turn IS NULL")) == 2


@pytest.mark.parametrize("arguments", ["[" * 100_000, "nonsense", "[1]", '{"id": NaN}'])
async def test_a_rehearsed_task_may_call_with_nonsense(tmp_path: Path, arguments: str) -> None:
    async with running(tmp_path, ScriptedProvider(call("cron", arguments), "Done with it.")) as program:
        Clockwork(program).add(job("write", NOON + timedelta(days=2), kind="task"))
        assert "Done with it." in await program.ask("/rehearse 1")


async def test_a_rehearsal_without_an_answer_says_why(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(ProviderRefused("no quota"))) as program:
        Clockwork(program).add(job("write", NOON + timedelta(days=2), kind="task"))
        said = await program.ask("/rehearse 1")
        assert "(It failed: The model gave no answer: no quota" in said
        assert "model call" not in said


async def test_a_rehearsed_reminder_costs_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as program:
        Clockwork(program).add(job("pills", NOON + timedelta(days=2)))
        said = await program.ask("/cron rehearse 1")
        assert "Reminder 1: pills\n\nNo model is called: it costs nothing." in said
        assert await program.ask("/rehearse 7") == "There is no job 7. /jobs lists them."
