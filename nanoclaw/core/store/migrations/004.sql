ALTER TABLE outbox ADD COLUMN buttons TEXT NOT NULL DEFAULT '[]';  -- below it, as JSON: [label, text]
ALTER TABLE outbox ADD COLUMN parts TEXT NOT NULL DEFAULT '[]';    -- the platform's ids of what is sent of it
