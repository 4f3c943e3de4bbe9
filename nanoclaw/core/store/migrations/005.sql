CREATE TABLE plugins (                     -- the format of each one's own tables
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL
) STRICT;
ALTER TABLE turns ADD COLUMN took_effect TEXT NOT NULL DEFAULT '[]';  -- ids of its calls that changed something, as JSON
CREATE TABLE asks (                        -- calls that wait for the owner's yes, and what was answered
    id INTEGER PRIMARY KEY,
    turn INTEGER REFERENCES turns ON DELETE CASCADE,
    call TEXT NOT NULL,                    -- the call's id
    sha256 TEXT NOT NULL,                  -- of its name and arguments: the yes is to exactly these
    question TEXT NOT NULL,
    channel TEXT NOT NULL,                 -- where it was asked
    chat TEXT NOT NULL,
    asked TEXT NOT NULL,
    expires TEXT NOT NULL,
    answer TEXT NOT NULL DEFAULT '',       -- '' while it waits
    by TEXT NOT NULL DEFAULT '',           -- who answered
    outbox INTEGER                         -- the message that asks
) STRICT;
