-- Questions with more answers than yes and no. `by` is '' while one is open, then owner, time or nobody.
ALTER TABLE asks ADD COLUMN options TEXT NOT NULL DEFAULT '[]';   -- a JSON list of words; [] is yes or no
ALTER TABLE asks ADD COLUMN otherwise TEXT NOT NULL DEFAULT 'no'; -- the answer where the owner gives none
ALTER TABLE asks ADD COLUMN is_free INTEGER NOT NULL DEFAULT 0;   -- 1: the owner's own words are an answer too
UPDATE asks SET by = 'owner' WHERE answer != '';
