"""A job's rehearsal: what it would send, with nothing sent or changed. What the model takes for it is money all the
same: held by the budget, and on record."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from nanoclaw.core.config import Config
from nanoclaw.core.errors import ScheduleError
from nanoclaw.core.messages import Address, Limits
from nanoclaw.core.parts import all_tools, cleaner, context_builder, cron_desk, note_search, person_clock
from nanoclaw.core.store.db import Store
from nanoclaw.core.store.models import ModelFacts
from nanoclaw.core.store.usage import Call, record
from nanoclaw.core.workspace import Workspace
from nanoclaw.plugins.budget.budget import Budget
from nanoclaw.plugins.rules.pins import Pins
from nanoclaw.plugins.schedule import rehearse as words
from nanoclaw.plugins.schedule.jobs import CHANNEL
from nanoclaw.plugins.schedule.rehearsal import rehearse
from nanoclaw.plugins.schedule.schedule import prompt
from nanoclaw.providers.choose import Models, choose_model, price_in_words


async def rehearse_job(
    config: Config, store: Store, budget: Budget, argument: str, running: Models | None = None
) -> str:
    """What a job would send; `argument` is such as "3", or "3 --at Mon 08:00". The model of the process that is
    `running` plays it, so that one in memory is not loaded twice. Raises ConfigError, and ScheduleError also where it
    comes to no answer."""
    number, at = words.asked(argument)
    job, now = cron_desk(config, store).job(number), person_clock(config)
    moment = words.moment(job, at, now())
    if job.kind == "reminder":
        return words.of_reminder(job, moment)

    def book(call: Call) -> None:
        with store.transaction() as db:
            record(db, [call], now())

    models = running or Models(config, await choose_model(config), False, ModelFacts(store))
    then = replace(now, fixed=moment.astimezone(now().tzinfo))
    notes = note_search(config, then)
    tools = all_tools(config, Workspace(config.workspace_path), then, notes=notes)
    try:
        played = await rehearse(
            prompt(job, moment, timedelta()),
            Address(CHANNEL, str(job.id)),
            builder=context_builder(config, tools, then, notes, Pins(store, then)),
            tools=tools,
            redact=cleaner(config),
            provider=models.provider(""),
            clock=then,
            rounds=config.limits.rounds,
            limits=Limits(config.model.output_tokens, config.model.timeout_seconds),
            book=book,
            budget=budget,
        )
    finally:
        notes.close()
        if not running:
            await models.aclose()
    cost = price_in_words(config, played.model, played.usage)
    failed = "" if played.ended.reason == "answered" else played.ended.answer
    said = words.of_task(job, moment, played.ended.answer, failed, played.refused, played.requests, cost)
    if failed:
        raise ScheduleError(said)
    return said
