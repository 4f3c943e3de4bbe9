CREATE TABLE jobs (                        -- what is to happen later; times are UTC
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('reminder', 'task')),
    text TEXT NOT NULL,
    words TEXT NOT NULL,                   -- how the time was asked for
    schedule TEXT NOT NULL CHECK (schedule IN ('at', 'every', 'cron')),
    rule TEXT NOT NULL,                    -- a time, seconds, or a cron expression
    zone TEXT NOT NULL,
    anchor TEXT NOT NULL,                  -- "every" counts from here
    channel TEXT NOT NULL,                 -- the conversation that hears of it
    chat TEXT NOT NULL,
    creator TEXT NOT NULL,
    on_miss TEXT NOT NULL CHECK (on_miss IN ('once', 'skip')),
    state TEXT NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused', 'done', 'removed')),
    next_due TEXT,                         -- NULL: not again
    nag_seconds INTEGER NOT NULL DEFAULT 0,
    nag_times INTEGER NOT NULL DEFAULT 0,
    may_schedule INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0    -- since it last worked
) STRICT;
CREATE INDEX jobs_due ON jobs (next_due) WHERE state = 'active' AND next_due IS NOT NULL;
CREATE TABLE occurrences (
    id INTEGER PRIMARY KEY,
    job INTEGER NOT NULL REFERENCES jobs,
    due TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('planned', 'firing', 'sent', 'acknowledged', 'missed', 'failed')),
    number INTEGER,                        -- what the person calls it while it is open
    fired TEXT,
    late INTEGER NOT NULL DEFAULT 0,       -- seconds
    error TEXT NOT NULL DEFAULT '',
    again TEXT,                            -- when it is sent or tried again
    nags_left INTEGER NOT NULL DEFAULT 0,
    tries INTEGER NOT NULL DEFAULT 0,
    inbox INTEGER REFERENCES inbox,        -- the message to the model that a task is
    outbox INTEGER REFERENCES outbox,      -- the newest message to the person
    UNIQUE (job, due)
) STRICT;
CREATE INDEX occurrences_again ON occurrences (again) WHERE again IS NOT NULL;
CREATE INDEX occurrences_open ON occurrences (number) WHERE number IS NOT NULL;
CREATE INDEX occurrences_of_inbox ON occurrences (inbox) WHERE inbox IS NOT NULL;
CREATE INDEX occurrences_firing ON occurrences (job) WHERE state = 'firing';
CREATE TABLE checklist (                   -- items of HEARTBEAT.md
    key TEXT PRIMARY KEY,                  -- SHA-256 of the item's text
    at TEXT NOT NULL,                      -- when it came up, or was looked at last; UTC
    sha256 TEXT NOT NULL,                  -- of what it watches
    seen TEXT NOT NULL                     -- the beginning of that
) STRICT;
CREATE TABLE alerts (                      -- what heartbeats had to tell
    id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    text TEXT NOT NULL,                    -- '' once it is told
    sha256 TEXT NOT NULL,                  -- of its words
    kind TEXT NOT NULL CHECK (kind IN ('low', 'normal', 'high')),
    fired TEXT                             -- when it was told; NULL: it waits
) STRICT;
