"""Tasks: jobs that are a turn of their own, whose outcome goes to the person who asked for it."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta

from nanoclaw import time_words
from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.messages import Address, Inbound, Outbound, Role, UserMessage
from nanoclaw.core.plugin import Ended, Host, Turn, Tx
from nanoclaw.plugins.schedule import jobs as rows
from nanoclaw.plugins.schedule.jobs import Due, Job, Jobs, JobState, Occurrence
from nanoclaw.plugins.schedule.tables import CHANNEL
from nanoclaw.silence_token import spoken

BACK_OFF = tuple(timedelta(seconds=seconds) for seconds in (30, 60, 300, 900, 3600))  # after each failure in a row
TELL_AT, PAUSE_AT = 2, 10


def begin(tx: Tx, due: Due, jobs: Jobs, host: Host, now: datetime) -> None:
    """Start a task, unless the one before still runs or it has to wait after a failure."""
    job = due.job
    if due.occurrence is None:
        if jobs.is_running(job.id):
            rows.miss(tx, due, now, "the one before was still running")
            return
        last = jobs.last_try(job.id) if job.failures else None
        if last and due.due < last + _pause_after(job.failures):
            rows.miss(tx, due, now, f"it waits after {job.failures} failures")
            return
    plan = host.get("plan")
    if job.plans and plan is None:  # a guard that is not there must not be passed
        if row := rows.begin(tx, due):
            told = _tell(tx, job, f"{job.name} was not begun: it is to show a plan first, and the plugin plan is off.")
            rows.end_task(tx, job, row, "active" if due.next_due else "done", "the plugin plan is off", outbox=told)
        return
    if external_id := rows.claim(tx, due):
        access = host.get("access")
        role: Role = access.role_for(job.creator, job.target) if access else "owner"
        message = UserMessage(prompt(job, due.due, now - due.due), now, "job")
        place = Address(CHANNEL, str(job.id))
        inbox = tx.deliver(Inbound(place, CHANNEL, external_id, message, role=role), host.profile("job"))
        assert inbox is not None
        if job.plans:
            plan.begin(tx, place)
        rows.claimed(tx, due, external_id, inbox, now)


def prompt(job: Job, due: datetime, late: timedelta) -> str:
    """The message that the model gets when a task is due."""
    lateness = time_words.was_due(due, late, job.zone)
    return (
        f"[CRON:{job.id}] {job.text}\n\n(A task that the person asked for earlier"
        f"{'; it ' + lateness if lateness else ''}. Nobody is there to answer questions; your answer is sent to the "
        "person. With nothing to say, answer NO_REPLY.)"
    )


def cost(host: Host, turn: Turn) -> str:
    """The cost of a turn, in words."""
    model = ""
    with suppress(NanoclawError):  # it failed, as this model cannot be asked
        model = host.model_of(turn).name
    return host.models.cost_in_words(model, turn.usage)


def end(tx: Tx, job: Job, occurrence: Occurrence, ended: Ended, turn: Turn, host: Host, *, touched: bool) -> None:
    """End a task with its turn: its answer goes to the person, or why there is none. `touched` when the turn may have
    changed more than the workspace, so that it is not retried by itself."""
    seconds = (turn.now() - (occurrence.fired or turn.now())).total_seconds()
    took = f"{seconds:,.0f} s, {cost(host, turn)}"
    if ended.reason != "answered":
        reason = "It was stopped." if ended.reason == "cancelled" else ended.text
        fail(tx, job, occurrence, reason, turn.now(), is_final=touched or ended.reason != "failed", took=took)
        return
    said, late = spoken(ended.text), timedelta(seconds=occurrence.late)
    lateness = time_words.was_due(occurrence.due, late, job.zone)
    files = ended.outbound.files if ended.outbound else ()
    outbox = _tell(tx, job, f"{said}\n({lateness})" if said and lateness else said, files, ", ".join(turn.outside))
    rows.end_task(tx, job, occurrence.id, "active" if job.next_due else "done", outbox=outbox, took=took)


def fail(
    tx: Tx, job: Job, occurrence: Occurrence, reason: str, now: datetime, *, is_final: bool = True, took: str = ""
) -> None:
    """End a task that came to nothing. The person gets its text and the reason at the first time in a row; then one
    word at the second, and one when it is paused. `is_final`: it is not retried before its next time."""
    failures = job.failures + 1
    again = None if is_final or failures >= PAUSE_AT else now + _pause_after(failures)
    state: JobState = "active" if again or job.next_due else "done"
    text = ""
    if failures >= PAUSE_AT:
        state = "paused"
        text = f"{job.name} has failed {failures} times and is paused. {reason} /jobs resume {job.id} continues it."
    elif failures == 1:
        then = f" I try again in {_pause_after(1).seconds} s." if again else ""
        text = f"{job.name} did not work. {reason}{then}\nIt was: {job.text}"
    elif failures == TELL_AT:
        text = f"{job.name} failed again. {reason} I go on trying, at longer and longer intervals."
    rows.end_task(tx, job, occurrence.id, state, reason, again, _tell(tx, job, text), took)


def _tell(tx: Tx, job: Job, text: str, files: tuple[str, ...] = (), outside: str = "") -> int | None:
    if not (text or files):
        return None
    return tx.send(Outbound(job.target, text, files, outside=outside), f"From task {job.id} ({job.text[:80]}).")


def _pause_after(failures: int) -> timedelta:
    return BACK_OFF[min(failures, len(BACK_OFF)) - 1]
