-- state.db as format 2 was, with a conversation, a pin and a line of the ledger in it.
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    context INTEGER NOT NULL DEFAULT 1,
    memory TEXT,
    model TEXT NOT NULL DEFAULT ''
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
    running TEXT NOT NULL DEFAULT '[]',
    manifest TEXT NOT NULL DEFAULT '',
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
CREATE TABLE usage (
    id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    session INTEGER REFERENCES sessions,
    turn INTEGER REFERENCES turns,
    origin TEXT NOT NULL,
    model TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    estimated INTEGER NOT NULL,
    is_reported INTEGER NOT NULL
) STRICT;
ALTER TABLE inbox ADD COLUMN turn INTEGER REFERENCES turns;
ALTER TABLE inbox ADD COLUMN told TEXT NOT NULL DEFAULT '';
ALTER TABLE turns ADD COLUMN resumed INTEGER NOT NULL DEFAULT 0;
CREATE INDEX turns_open ON turns (id) WHERE ended IS NULL;
CREATE TABLE compactions (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions,
    context INTEGER NOT NULL,
    at TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('summary', 'short')),
    upto INTEGER NOT NULL REFERENCES messages,
    summary TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE TABLE pins (
    id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    text TEXT NOT NULL
) STRICT;
CREATE TABLE ledger (
    id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    address TEXT NOT NULL,
    turn INTEGER REFERENCES turns,
    tool TEXT NOT NULL,
    kind TEXT NOT NULL,
    target TEXT NOT NULL,
    text TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('begun', 'done', 'failed', 'undone')),
    before TEXT,
    after TEXT,
    told INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX ledger_untold ON ledger (id) WHERE state = 'undone' AND told = 0;
CREATE TABLE flags (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    at TEXT NOT NULL
) STRICT;
CREATE TABLE models (
    name TEXT PRIMARY KEY,
    window_tokens INTEGER,
    sees_images INTEGER
) STRICT;
ALTER TABLE usage ADD COLUMN is_local INTEGER NOT NULL DEFAULT 0;
CREATE TABLE reservations (
    id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    origin TEXT NOT NULL,
    usd REAL NOT NULL
) STRICT;
INSERT INTO sessions (id, key, context, memory, model) VALUES (1, 'terminal:main', 2, '{}', 'ollama/x');
INSERT INTO inbox (id, channel, chat, external_id, body, state, received) VALUES (1, 'terminal', 'main', 'a', '{"sender": "me", "text": "hi", "origin": "person", "at": "2026-03-06T12:00:00+00:00", "attachments": []}', 'done', '2026-03-06T12:00:00+00:00');
INSERT INTO inbox (id, channel, chat, external_id, body, state, received) VALUES (2, 'terminal', 'main', 'b', '{"sender": "me", "text": "and more", "origin": "person", "at": "2026-03-06T12:01:00+00:00", "attachments": []}', 'new', '2026-03-06T12:01:00+00:00');
INSERT INTO turns (id, session, inbox, started, ended, reason) VALUES (1, 1, 1, '2026-03-06T12:00:00+00:00', '2026-03-06T12:00:09+00:00', 'answered');
UPDATE inbox SET turn = 1 WHERE id = 1;
INSERT INTO messages (session, context, turn, body) VALUES (1, 2, 1, '{"text": "hi", "at": "2026-03-06T12:00:00+00:00", "kind": "user", "origin": "person"}');
INSERT INTO messages (session, context, turn, body) VALUES (1, 2, 1, '{"text": "Hello.", "at": "2026-03-06T12:00:09+00:00", "kind": "assistant", "finish": "stop", "model": ""}');
INSERT INTO outbox (inbox, channel, chat, text, due) VALUES (1, 'terminal', 'main', 'Hello.', '2026-03-06T12:00:09+00:00');
INSERT INTO pins (at, text) VALUES ('2026-03-06T12:00:09+00:00', 'be brief');
INSERT INTO ledger (at, address, turn, tool, kind, target, text, state) VALUES ('2026-03-06T12:00:09+00:00', 'terminal:main', 1, 'exec', 'command', 'ls', 'ran `ls`', 'done');
INSERT INTO flags VALUES ('panic', '1', '2026-03-06T12:00:09+00:00');
PRAGMA user_version = 2;
