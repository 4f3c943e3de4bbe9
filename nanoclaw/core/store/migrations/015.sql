-- What nobody waits for can be collected.
ALTER TABLE outbox ADD COLUMN came TEXT NOT NULL DEFAULT '';  -- when it came by itself; '' for all that must not wait
