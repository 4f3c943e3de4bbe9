CREATE TABLE untold (                      -- sent while a turn ran: the conversation's history is told after it
    outbox INTEGER PRIMARY KEY REFERENCES outbox ON DELETE CASCADE,
    conversation TEXT NOT NULL,            -- channel:chat
    remark TEXT NOT NULL
) STRICT;
ALTER TABLE turns ADD COLUMN retries TEXT NOT NULL DEFAULT '[]';  -- plugins that had the model answer anew, as JSON
ALTER TABLE asks ADD COLUMN about TEXT NOT NULL DEFAULT '';  -- the address where the question came up, as JSON
