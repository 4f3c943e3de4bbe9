CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,              -- channel:chat
    context INTEGER NOT NULL DEFAULT 1,    -- counts up with /new; only the newest one's messages are sent
    memory TEXT,                           -- what this context began with: see core/prompt_snapshot.py
    model TEXT NOT NULL DEFAULT ''         -- chosen with /model, '' = as configured
) STRICT;
CREATE TABLE inbox (
    id INTEGER PRIMARY KEY,
    channel TEXT NOT NULL,
    chat TEXT NOT NULL,
    external_id TEXT NOT NULL,
    body TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('new', 'running', 'done')),
    received TEXT NOT NULL,
    UNIQUE (channel, external_id)
) STRICT;
CREATE INDEX inbox_open ON inbox (id) WHERE state <> 'done';
CREATE TABLE turns (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions,
    inbox INTEGER NOT NULL REFERENCES inbox,
    started TEXT NOT NULL,
    ended TEXT,
    reason TEXT,
    running TEXT NOT NULL DEFAULT '[]',    -- the answer whose calls are under way, as JSON
    manifest TEXT NOT NULL DEFAULT '',     -- what its requests were made of, without the text
    model TEXT NOT NULL DEFAULT '',
    input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    cached_tokens INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE messages (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions,
    context INTEGER NOT NULL,
    turn INTEGER NOT NULL REFERENCES turns,
    body TEXT NOT NULL
) STRICT;
CREATE INDEX messages_of_context ON messages (session, context, id);
CREATE TABLE images (
    sha256 TEXT PRIMARY KEY,
    mime TEXT NOT NULL,
    data BLOB NOT NULL
) STRICT;
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY,
    inbox INTEGER REFERENCES inbox,
    channel TEXT NOT NULL,
    chat TEXT NOT NULL,
    text TEXT NOT NULL,
    files TEXT NOT NULL DEFAULT '[]',
    reply_to TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'failed')),
    attempts INTEGER NOT NULL DEFAULT 0,
    due TEXT NOT NULL,
    platform_id TEXT NOT NULL DEFAULT '',
    error TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX outbox_pending ON outbox (channel, id) WHERE state = 'pending';
CREATE TABLE usage (                       -- one row for each request to a model
    id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,                      -- as the person's clock showed it, with its offset
    session INTEGER REFERENCES sessions,
    turn INTEGER REFERENCES turns,
    origin TEXT NOT NULL,
    model TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,        -- a part of input_tokens
    estimated INTEGER NOT NULL,            -- input_tokens by our own count, 0 where none was made
    is_reported INTEGER NOT NULL           -- 0: the provider told nothing, all of it is our own count
) STRICT;
CREATE INDEX usage_of_model ON usage (model, id);
