ALTER TABLE outbox ADD COLUMN at TEXT NOT NULL DEFAULT '';  -- the time that it is for
