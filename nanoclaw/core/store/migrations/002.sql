ALTER TABLE inbox ADD COLUMN turn INTEGER REFERENCES turns;       -- the turn that took it up
ALTER TABLE inbox ADD COLUMN told TEXT NOT NULL DEFAULT '';       -- since when it waits for a model, as was said
ALTER TABLE turns ADD COLUMN resumed INTEGER NOT NULL DEFAULT 0;  -- how often it went on after a crash
CREATE INDEX turns_open ON turns (id) WHERE ended IS NULL;
CREATE TABLE compactions (                 -- what a model is shown in place of a context's older messages
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions,
    context INTEGER NOT NULL,
    at TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('summary', 'short')),
    upto INTEGER NOT NULL REFERENCES messages,  -- the last message that it stands for, or that is shown shortened
    summary TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE TABLE ledger (                      -- what tools did
    id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    address TEXT NOT NULL,                 -- channel:chat
    turn INTEGER REFERENCES turns,
    tool TEXT NOT NULL,
    kind TEXT NOT NULL,                    -- file, note, fact, command …
    target TEXT NOT NULL,                  -- a path in the workspace, a command
    text TEXT NOT NULL,                    -- in words
    state TEXT NOT NULL CHECK (state IN ('begun', 'done', 'failed', 'undone')),
    before TEXT,                           -- SHA-256 of what was there, '' for nothing, NULL: not undoable
    after TEXT,
    told INTEGER NOT NULL DEFAULT 0        -- 1: the model knows that it was undone
) STRICT;
CREATE INDEX ledger_untold ON ledger (id) WHERE state = 'undone' AND told = 0;
CREATE TABLE flags (                       -- switches that outlive the process
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    at TEXT NOT NULL
) STRICT;
CREATE TABLE models (                      -- what was learned of each
    name TEXT PRIMARY KEY,
    window_tokens INTEGER,
    sees_images INTEGER
) STRICT;
ALTER TABLE usage ADD COLUMN is_local INTEGER NOT NULL DEFAULT 0;  -- 1: answered on the person's own machine
DROP INDEX usage_of_model;                 -- a page of the journal for each request, and nothing that needs it
