-- Questions of which a yes may be extended to others, and whose turn it is.
ALTER TABLE asks ADD COLUMN exact TEXT NOT NULL DEFAULT '';         -- shown before it is answered
ALTER TABLE asks ADD COLUMN scope TEXT NOT NULL DEFAULT '';         -- JSON of what a yes may be extended to
ALTER TABLE asks ADD COLUMN sender TEXT NOT NULL DEFAULT '';        -- of the turn
ALTER TABLE asks ADD COLUMN conversation TEXT NOT NULL DEFAULT '';  -- of the turn, as JSON
