ALTER TABLE outbox ADD COLUMN buttons TEXT NOT NULL DEFAULT '[]';  -- below it, as JSON: [label, text]
ALTER TABLE outbox ADD COLUMN parts TEXT NOT NULL DEFAULT '[]';    -- the platform's ids of what is sent of it
CREATE TABLE people (                      -- accounts that were linked or let in
    id INTEGER PRIMARY KEY,
    channel TEXT NOT NULL,
    sender TEXT NOT NULL,                  -- the platform's stable id
    role TEXT NOT NULL CHECK (role IN ('owner', 'guest')),
    name TEXT NOT NULL,                    -- how they called themselves then
    at TEXT NOT NULL,
    UNIQUE (channel, sender)
) STRICT;
CREATE TABLE chats (                       -- that an owner has alone with the assistant
    id INTEGER PRIMARY KEY,
    channel TEXT NOT NULL,
    chat TEXT NOT NULL,
    sender TEXT NOT NULL,
    UNIQUE (channel, chat)
) STRICT;
CREATE TABLE links (                       -- the code that makes an account the owner's
    id INTEGER PRIMARY KEY,
    channel TEXT NOT NULL UNIQUE,
    salt TEXT NOT NULL,
    sha256 TEXT NOT NULL,                  -- of code and salt, many times over
    until TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'used', 'exposed')),
    sender TEXT NOT NULL DEFAULT '',       -- whom it has linked
    name TEXT NOT NULL DEFAULT '',
    wrong INTEGER NOT NULL DEFAULT 0,      -- codes that came
    wrong_until TEXT NOT NULL DEFAULT ''   -- so long they count
) STRICT;
CREATE TABLE asking (                      -- strangers who wait to be let in
    id INTEGER PRIMARY KEY,
    channel TEXT NOT NULL,
    sender TEXT NOT NULL,
    name TEXT NOT NULL,
    chat TEXT NOT NULL,
    code TEXT NOT NULL,                    -- no secret: it says which of them is meant
    at TEXT NOT NULL,
    UNIQUE (channel, sender)
) STRICT;
