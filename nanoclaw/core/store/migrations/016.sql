-- A turn is dropped without reading all messages: those of an import are some thousands.
CREATE INDEX messages_of_turn ON messages (turn);
CREATE INDEX inbox_of_turn ON inbox (turn) WHERE turn IS NOT NULL;
CREATE INDEX turns_of_inbox ON turns (inbox);
