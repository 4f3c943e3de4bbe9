-- The list of conversations counts what was asked and answered, and reads no message for it.
CREATE INDEX messages_asked ON messages (session, context, id)
    WHERE CASE WHEN json_valid(body) THEN body ->> 'kind' = 'user' AND body ->> 'origin' = 'person' END;
CREATE INDEX messages_answered ON messages (session, context)
    WHERE CASE WHEN json_valid(body) THEN body ->> 'kind' = 'assistant' AND body ->> 'finish' IN ('stop', 'length') END;
CREATE INDEX turns_of_session ON turns (session, started);
