"""Rehearsals: what a job would send, played at another time, with nothing sent or changed."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from nanoclaw import time_words
from nanoclaw.core.errors import ScheduleError
from nanoclaw.core.messages import Address, AssistantMessage, Inbound, ToolCall, UserMessage
from nanoclaw.core.plugin import Ended, Host, Said, Turn, Tx
from nanoclaw.plugins.schedule.commands import number
from nanoclaw.plugins.schedule.job_service import JobService, time_refusals
from nanoclaw.plugins.schedule.jobs import Firing, Job
from nanoclaw.plugins.schedule.reminders import compose
from nanoclaw.plugins.schedule.tables import REHEARSAL
from nanoclaw.plugins.schedule.tasks import cost, prompt
from nanoclaw.silence_token import spoken
from nanoclaw.tool_schema import ArgumentsError, parse


class Rehearsals:
    """Plays jobs, and hears how their turns end."""

    def __init__(self, host: Host, service: JobService) -> None:
        self._host, self._service = host, service
        self._waiting: dict[str, asyncio.Future[tuple[bool, str]]] = {}  # if it was answered, and a report

    async def rehearse(self, said: Said) -> str:
        """The text that a job would send, of "3" or "3 --at Mon 08:00". Raises ScheduleError also for no answer."""
        id_, _, at = said.argument.strip().partition(" ")
        job, now = self._service.job(number(id_)), self._host.now()
        when = _moment(job, at.strip().removeprefix("--at").strip(), now).astimezone(now.tzinfo)
        if job.kind == "reminder":
            text = compose([Firing(job, when, timedelta())])
            return f"{_head(job, when)}\n\n{text}\n\nNo model is called: it costs nothing."
        is_answered, report = await self._play(job, when, now)
        text = f"{_head(job, when)}\n\n{report}"
        if not is_answered:
            raise ScheduleError(text)
        return text

    async def _play(self, job: Job, when: datetime, now: datetime) -> tuple[bool, str]:
        id_ = f"{job.id}/{now.timestamp()}"
        message = UserMessage(prompt(job, when, timedelta()), when, "job")
        inbound = Inbound(Address(REHEARSAL, str(job.id)), REHEARSAL, id_, message, role="owner")
        profile = self._host.profile("job")._replace(can_ask=False, acts=False, keeps=False)
        self._waiting[id_] = asyncio.get_running_loop().create_future()
        try:
            await self._host.write(lambda tx: tx.deliver(inbound, profile))
            return await self._waiting[id_]
        finally:
            del self._waiting[id_]

    def end(self, ended: Ended, turn: Turn, tx: Tx) -> None:
        """Hand the outcome of a rehearsed turn to whoever waits for it, once nothing of it is left."""
        waiting = self._waiting.get(turn.external_id)
        if waiting is None or waiting.done():
            return
        tools = self._host.tools(turn.profile)
        changing = [call for call in turn.calls if call.name in tools and tools[call.name].reach != "none"]
        refused = [f"- {call}" for call in dict.fromkeys(_shown(call) for call in changing)]
        blocked = ["Not done, as this is a rehearsal:", *refused, ""] if refused else []
        is_answered, asked = ended.reason == "answered", sum(isinstance(one, AssistantMessage) for one in turn.history)
        calls = f"{asked + 1} model call{'s' * (asked > 0)}, {cost(self._host, turn)}."
        was_heard = is_answered or asked or any(turn.usage)
        said = spoken(ended.text) or "(Nothing: it kept silent.)"
        said = said if is_answered else f"(It failed: {ended.text})"
        report = "\n".join([said, *(["", *blocked, calls] if was_heard else [])])
        tx.after(lambda: None if waiting.done() else waiting.set_result((is_answered, report)))


def _shown(call: ToolCall) -> str:
    """A call as a person reads it."""
    try:
        arguments = parse(call.arguments)
    except ArgumentsError:  # it would not have run
        return call.name
    return f"{call.name} {', '.join(f'{key}={value!r}' for key, value in arguments.items())}"


def _moment(job: Job, at: str, now: datetime) -> datetime:
    """When it is played: `at` in words, or its next time. Raises ScheduleError."""
    if not at:
        return job.next_due or now
    with time_refusals():
        heard = time_words.read(at, now, job.zone)
    if isinstance(heard, time_words.Unclear):
        raise ScheduleError(heard.question)
    return time_words.upcoming(heard, now)


def _head(job: Job, when: datetime) -> str:
    there = time_words.in_words(when, when, job.zone).rpartition(",")[0]
    return f"To {job.target}, as if it were {there} (nothing is sent or changed):"
