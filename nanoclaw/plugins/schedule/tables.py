"""The tables of the schedule, and names that other modules share; nothing dear is imported here."""

from __future__ import annotations

CHANNEL, REHEARSAL = "job", "rehearsal"
"""Channels of the conversations in which tasks run, whose chat is the job's number, and in which jobs are played."""

BY_CODE = "request-"  # begins the id of a call that code makes in the model's place; the language follows
EVERYWHERE = frozenset({"person", "job", "heartbeat", "helper"})  # they see all jobs; other profiles those of their own

CHANGED, REMOVED = "job change", "job removal"
"""Kinds of effects that made no job; one that did is a "job". Jobs made and removed can be undone."""

MIGRATIONS = (
    """
    CREATE TABLE IF NOT EXISTS jobs (           -- what is to happen later; times are UTC
        id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL CHECK (kind IN ('reminder', 'task')),
        text TEXT NOT NULL,
        words TEXT NOT NULL,                    -- how the time was asked for
        schedule TEXT NOT NULL CHECK (schedule IN ('at', 'every', 'cron')),
        rule TEXT NOT NULL,                     -- a time, seconds, days such as 14d, or a cron expression
        zone TEXT NOT NULL,
        anchor TEXT NOT NULL,                   -- "every" counts from here
        channel TEXT NOT NULL,                  -- the conversation that hears of it
        chat TEXT NOT NULL,
        creator TEXT NOT NULL,
        on_miss TEXT NOT NULL CHECK (on_miss IN ('once', 'skip')),
        state TEXT NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused', 'done', 'removed')),
        next_due TEXT,                          -- NULL: not again
        nag_seconds INTEGER NOT NULL DEFAULT 0,
        nag_times INTEGER NOT NULL DEFAULT 0,
        may_schedule INTEGER NOT NULL DEFAULT 0,
        failures INTEGER NOT NULL DEFAULT 0     -- since it last worked
    ) STRICT;
    CREATE INDEX IF NOT EXISTS jobs_due ON jobs (next_due) WHERE state = 'active' AND next_due IS NOT NULL;
    CREATE TABLE IF NOT EXISTS occurrences (
        id INTEGER PRIMARY KEY,
        job INTEGER NOT NULL REFERENCES jobs,
        due TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('planned', 'firing', 'sent', 'acknowledged', 'missed', 'failed')),
        number INTEGER,                         -- what the person calls it while it is open
        fired TEXT,
        late INTEGER NOT NULL DEFAULT 0,        -- seconds
        error TEXT NOT NULL DEFAULT '',
        again TEXT,                             -- when it is sent or tried again
        nags_left INTEGER NOT NULL DEFAULT 0,
        tries INTEGER NOT NULL DEFAULT 0,
        inbox INTEGER REFERENCES inbox,         -- the message to the model that a task is
        outbox INTEGER REFERENCES outbox,       -- the newest message to the person
        UNIQUE (job, due)
    ) STRICT;
    CREATE INDEX IF NOT EXISTS occurrences_again ON occurrences (again) WHERE again IS NOT NULL;
    CREATE INDEX IF NOT EXISTS occurrences_open ON occurrences (number) WHERE number IS NOT NULL;
    CREATE INDEX IF NOT EXISTS occurrences_of_inbox ON occurrences (inbox) WHERE inbox IS NOT NULL;
    CREATE INDEX IF NOT EXISTS occurrences_firing ON occurrences (job) WHERE state = 'firing';
    """,
    "ALTER TABLE jobs ADD COLUMN removed_from TEXT",  # its state before it was removed
    "ALTER TABLE jobs ADD COLUMN plans INTEGER NOT NULL DEFAULT 0",  # a task that acts only once its plan is approved
    "ALTER TABLE occurrences ADD COLUMN took TEXT NOT NULL DEFAULT ''",  # of a task: its time and cost, in words
)

MARKS = (
    *("jobs.kind", "jobs.schedule", "jobs.rule", "jobs.zone", "jobs.anchor", "jobs.channel", "jobs.chat"),
    *("jobs.creator", "jobs.on_miss", "jobs.state", "jobs.next_due", "jobs.removed_from"),
    *("occurrences.due", "occurrences.state", "occurrences.fired", "occurrences.again", "occurrences.took"),
)
