-- What was sent while a turn ran may have been written from others' text.
ALTER TABLE untold ADD COLUMN outside TEXT NOT NULL DEFAULT '';     -- its sources
