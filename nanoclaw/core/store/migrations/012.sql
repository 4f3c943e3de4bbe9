-- Texts are shortened more or less.
ALTER TABLE compactions ADD COLUMN chars INTEGER NOT NULL DEFAULT 1000;  -- of a tool's result up to there that are left
