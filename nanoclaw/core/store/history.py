"""Reading conversations from the store: sessions, turns, and messages with their rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from nanoclaw.core.messages import Message, UserMessage
from nanoclaw.core.plugin import ConversationInfo
from nanoclaw.core.store import codec
from nanoclaw.core.store.compactions import Placed, shortened_upto
from nanoclaw.core.store.db import Store


def of_turn(store: Store, session: int, turn: int, upto: int | None = None) -> list[Message]:
    """The messages of a turn, up to that id, as they were said."""
    sql = "SELECT id, turn, body FROM messages WHERE session = ?1 AND turn = ?2 AND id <= coalesce(?3, id) ORDER BY id"
    return [placed.message for placed in placed_of(store, store.rows(sql, session, turn, upto))]


IS_RESULT = "session = ? AND CASE WHEN json_valid(body) THEN json_extract(body, '$.kind') = 'result' END"


def list_sessions(store: Store) -> list[ConversationInfo]:
    """`messages` are those of the person and the answers, without what was taken back."""
    rows = store.rows(
        "SELECT key, sessions.context, coalesce((SELECT body ->> 'text' FROM messages AS m WHERE session = sessions.id"
        " AND m.context = sessions.context AND json_valid(body) AND body ->> 'kind' = 'user'"
        " AND body ->> 'origin' <> 'runtime' ORDER BY id LIMIT 1), ''), count(CASE WHEN messages.context > 0 AND"
        " json_valid(body) AND json_extract(body, '$.kind', '$.origin', '$.finish') IN ('[\"user\",\"person\",null]',"
        """ '["assistant",null,"stop"]', '["assistant",null,"length"]') THEN 1 END), coalesce(max(started), '')"""
        " FROM sessions LEFT JOIN messages ON messages.session = sessions.id LEFT JOIN turns ON turns.id = turn"
        " GROUP BY sessions.id ORDER BY 5 DESC"
    )
    return [ConversationInfo(*row) for row in rows]


def whole_history(store: Store, key: str) -> list[Message] | None:
    """All that was ever said in a session, older contexts included; None when there is no such session."""
    found = store.rows("SELECT id FROM sessions WHERE key = ?", key)
    if not found:
        return None
    rows = store.rows("SELECT id, turn, body FROM messages WHERE session = ? ORDER BY id", found[0][0])
    return [placed.message for placed in placed_of(store, rows)]


def _instead(
    store: Store, session: int, context: int, with_lines: bool
) -> tuple[list[UserMessage], int, list[tuple[int, int]]]:
    """Texts that stand for all messages of a context up to an id: a summary, then lines for turns that none was written
    of; and how many characters are left of results up to which ids."""
    where = "FROM compactions WHERE session = ? AND context = ? AND kind = ?"
    short = store.rows(f"SELECT chars, max(upto) {where} AND summary = '' GROUP BY chars", session, context, "short")
    texts, last, upto = list[UserMessage](), 0, 0
    outside = (
        "SELECT DISTINCT body ->> 'outside' FROM messages WHERE session = ? AND context = ? AND id <= ?"
        " AND instr(body, '\"outside\"') AND json_valid(body) AND body ->> 'outside' <> ''"
    )
    for kind in ("summary", "short") if with_lines else ("summary",):  # a summary takes the place of earlier lines
        sql = f"SELECT id, summary, at, upto {where} AND summary <> '' AND id > ? ORDER BY id DESC LIMIT 1"
        for row in store.rows(sql, session, context, kind, last):
            last, text, at, upto = row
            sources = ", ".join(source for (source,) in store.rows(outside, session, context, upto))
            texts.append(UserMessage(text, datetime.fromisoformat(at), "runtime", (), sources))
    return texts, upto, short


def shown(store: Store, session: int, context: int, *, with_lines: bool = True) -> list[Placed]:
    """Messages of a context as sent to the model. Without `with_lines` all that no summary replaces."""
    texts, upto, short = _instead(store, session, context, with_lines)
    sql = "SELECT id, turn, body FROM messages WHERE session = ? AND context = ? AND id > ? ORDER BY id"
    found = placed_of(store, store.rows(sql, session, context, upto))
    for chars, last in short:
        found = shortened_upto(found, last, chars)
    return [*(Placed(0, 0, text) for text in texts), *found]


def placed_of(store: Store, rows: Sequence[tuple[int, int, str]]) -> list[Placed]:
    try:
        # one parse of the whole is several times quicker than one of each row
        bodies = json.loads(f"[{','.join(body for _, _, body in rows)}]")
        return [Placed(id_, turn, _message(store, body)) for (id_, turn, _), body in zip(rows, bodies, strict=True)]
    except (KeyError, ValueError, TypeError, AttributeError):
        found = ((id_, turn, _undamaged(store, text)) for id_, turn, text in rows)
        return [Placed(id_, turn, message) for id_, turn, message in found if message]


def _message(store: Store, body: dict[str, Any]) -> Message:
    return codec.load(body, lambda sha256: _image(store, sha256))


def _undamaged(store: Store, text: str) -> Message | None:
    """The message of a row; None if it is unreadable: it stays in the store, and the conversation goes on."""
    try:
        return _message(store, json.loads(text))
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        from nanoclaw.log import logger

        logger.warning("a message in {} is damaged and was left out: {!r}", store.path, error)
        return None


def _image(store: Store, sha256: str) -> tuple[str, bytes]:
    found = store.rows("SELECT mime, data FROM images WHERE sha256 = ?", sha256)
    if not found:
        raise KeyError(f"image {sha256}")
    mime, data = found[0]
    return mime, data
