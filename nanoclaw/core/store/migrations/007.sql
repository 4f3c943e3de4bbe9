ALTER TABLE models ADD COLUMN calls_tools INTEGER;   -- 0: it is asked for JSON instead
ALTER TABLE models ADD COLUMN takes_schema INTEGER;  -- 0: nothing holds that JSON to its form
