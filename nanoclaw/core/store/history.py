"""Messages of conversations in the store: as JSON, and as a model is shown them, some standing for
older ones; images apart, named by their SHA-256."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from nanoclaw.core.messages import AssistantMessage, Image, Message, Placed, ToolCall, ToolResult, Usage, UserMessage
from nanoclaw.core.plugin import ConversationInfo
from nanoclaw.core.store.db import Store
from nanoclaw.log import logger

LoadImage = Callable[[str], tuple[str, bytes]]
"""By SHA-256, the mime type and the bytes."""


def dump(message: Message) -> str:
    body: dict[str, Any] = {"text": message.text, "at": message.at.isoformat()}
    match message:
        case UserMessage():
            body |= {"kind": "user", "origin": message.origin}
        case AssistantMessage():
            body |= {"kind": "assistant", "finish": message.finish, "model": message.model}
            if message.tool_calls:
                body["calls"] = [call if call.said else call[:3] for call in message.tool_calls]
            if message.usage:
                usage = message.usage
                body["usage"] = [usage.input_tokens, usage.output_tokens, usage.cached_tokens]
            if message.opaque:
                body["opaque"] = message.opaque
        case ToolResult():
            body |= {"kind": "result", "call": message.call_id, "name": message.name, "error": message.is_error}
            body |= {"diff": message.diff} if message.diff else {}
            body |= {"refused": message.refused} if message.refused else {}
    if not isinstance(message, AssistantMessage):
        if message.images:
            body["images"] = [[image.sha256, image.name] for image in message.images]
        if message.outside:
            body["outside"] = message.outside
    return json.dumps(body)


_NO_IMAGES: dict[str, tuple[str, bytes]] = {}


def load(body: dict[str, Any], load_image: LoadImage = _NO_IMAGES.__getitem__) -> Message:
    """Raises KeyError, ValueError or TypeError if the body is not one that `dump` wrote."""
    text, at, kind = body["text"], datetime.fromisoformat(body["at"]), body["kind"]
    if kind == "assistant":
        calls = tuple(ToolCall(*call) for call in body.get("calls", ()))
        usage = Usage(*body["usage"]) if "usage" in body else None
        return AssistantMessage(text, at, calls, usage, body["finish"], body["model"], body.get("opaque", ""))
    images = tuple(Image(*load_image(sha256), name) for sha256, name in body.get("images", ()))
    if kind == "user":
        return UserMessage(text, at, body["origin"], images, body.get("outside", ""))
    if kind == "result":
        outside, diff, refused = body.get("outside", ""), body.get("diff", ""), body.get("refused", "")
        return ToolResult(body["call"], body["name"], text, at, body["error"], images, outside, diff, refused)
    raise ValueError(f"a message of unknown kind {kind!r}")


def first_of(running: str) -> Message | None:
    """The first message of a JSON list of messages; None if there is none."""
    try:
        return load(json.loads(running)[0])
    except (ValueError, KeyError, TypeError, IndexError):
        return None


def with_texts(message: Message, dumped: str) -> Message:
    """A message with the texts of its dumped form, from which words were removed."""
    body = json.loads(dumped)
    if isinstance(message, AssistantMessage):
        calls = tuple(ToolCall(*call) for call in body.get("calls", ()))
        return message._replace(text=body["text"], tool_calls=calls, opaque=body.get("opaque", ""))
    if isinstance(message, ToolResult):
        return message._replace(text=body["text"], diff=body.get("diff", ""))
    return message._replace(text=body["text"])


SHORT = 1_000
"""Characters kept of an old tool result when room is needed."""

OTHER_TEXTS, PICTURE = 10, 6_000
"""Other texts keep so many times more; a picture counts as so many characters."""

NOTE = 80
"""Characters added by the note about what is left out: a shortened text is not shortened again."""


def shortened(message: Message, chars: int = SHORT) -> Message:
    """Leave out the middle of a long text, and the oldest of many pictures; 0: none."""
    most, pictures = chars if isinstance(message, ToolResult) else chars * OTHER_TEXTS, getattr(message, "images", ())
    gone = pictures[: max(0, len(pictures) - most // PICTURE)] if most else ()
    if most and len(message.text) > most:
        end = (most - NOTE) // 2
        left_out = f"\n[... {len(message.text) - 2 * end:,} characters were left out later, to make room ...]\n"
        message = message._replace(text=message.text[:end] + left_out + message.text[-end:])
    if not gone or isinstance(message, AssistantMessage):
        return message
    lines = [f"[image {one.name or 'without a name'} was left out later, to make room]" for one in gone]
    return message._replace(text="\n".join(filter(None, (message.text, *lines))), images=pictures[len(gone) :])


def shortened_upto(placed: Iterable[Placed], upto: int, chars: int) -> list[Placed]:
    """Shorten the long texts up to an id."""
    return [one._replace(message=shortened(one.message, chars)) if 0 < one.id <= upto else one for one in placed]


def of_turn(store: Store, session: int, turn: int, upto: int | None = None) -> list[Message]:
    """The messages of a turn, up to that id, as they were said."""
    sql = "SELECT id, turn, body FROM messages WHERE session = ?1 AND turn = ?2 AND id <= coalesce(?3, id) ORDER BY id"
    return [placed.message for placed in placed_of(store, store.rows(sql, session, turn, upto))]


IS_RESULT = "session = ? AND CASE WHEN json_valid(body) THEN json_extract(body, '$.kind') = 'result' END"


def list_sessions(store: Store) -> list[ConversationInfo]:
    """`messages` are those of the person and the answers, without what was taken back; none where no person wrote."""
    is_a = "CASE WHEN json_valid(body) THEN body ->> 'kind' = {} END"  # as the indexes have it: no message is read
    asked = is_a.format("'user' AND body ->> 'origin' = 'person'")
    answered = is_a.format("'assistant' AND body ->> 'finish' IN ('stop', 'length')")
    of_it = "(SELECT {} FROM messages WHERE session = sessions.id AND {})"
    words = of_it.format("body ->> 'text'", f"context = sessions.context AND {asked} ORDER BY id LIMIT 1")
    questions, answers = (of_it.format("count(*)", f"context > 0 AND {one}") for one in (asked, answered))
    last = "(SELECT max(started) FROM turns WHERE session = sessions.id)"
    what = f"key, context, coalesce({words}, ''), iif({questions}, {questions} + {answers}, 0), coalesce({last}, '')"
    return [ConversationInfo(*row) for row in store.rows(f"SELECT {what} FROM sessions ORDER BY 5 DESC")]


def whole_history(store: Store, key: str) -> list[Message] | None:
    """All that was ever said in a session, older contexts included; None when there is no such session."""
    found = store.rows("SELECT id FROM sessions WHERE key = ?", key)
    if not found:
        return None
    rows = store.rows("SELECT id, turn, body FROM messages WHERE session = ? ORDER BY id", found[0][0])
    return [placed.message for placed in placed_of(store, rows)]


def _instead(
    store: Store, session: int, context: int, with_lines: bool
) -> tuple[list[Placed], int, list[tuple[int, int]]]:
    """Texts that stand for all messages of a context up to an id: a summary, then lines for turns that none was written
    of; and how many characters are left of results up to which ids."""
    where = "FROM compactions WHERE session = ? AND context = ? AND kind = ?"
    short = store.rows(f"SELECT chars, max(upto) {where} AND summary = '' GROUP BY chars", session, context, "short")
    texts, last, upto = list[Placed](), 0, 0
    outside = (
        "SELECT DISTINCT body ->> 'outside' FROM messages WHERE session = ? AND context = ? AND id <= ?"
        " AND instr(body, '\"outside\"') AND json_valid(body) AND body ->> 'outside' <> ''"
    )
    for kind in ("summary", "short") if with_lines else ("summary",):  # a summary takes the place of earlier lines
        sql = f"SELECT id, summary, at, upto {where} AND summary <> '' AND id > ? ORDER BY id DESC LIMIT 1"
        for row in store.rows(sql, session, context, kind, last):
            last, text, at, upto = row
            sources = ", ".join(source for (source,) in store.rows(outside, session, context, upto))
            texts.append(Placed(0, 0, UserMessage(text, datetime.fromisoformat(at), "runtime", (), sources)))
    return texts, upto, short


def shown(store: Store, session: int, context: int, *, with_lines: bool = True) -> list[Placed]:
    """Messages of a context as sent to the model. Without `with_lines` all that no summary replaces."""
    texts, upto, short = _instead(store, session, context, with_lines)
    sql = "SELECT id, turn, body FROM messages WHERE session = ? AND context = ? AND id > ? ORDER BY id"
    found = placed_of(store, store.rows(sql, session, context, upto))
    for chars, last in short:
        found = shortened_upto(found, last, chars)
    return [*texts, *found]


def placed_of(store: Store, rows: Sequence[tuple[int, int, str]]) -> list[Placed]:
    try:
        # one parse of the whole is several times quicker than one of each row
        bodies = json.loads(f"[{','.join([body for _, _, body in rows])}]")
        return [Placed(id_, turn, _message(store, body)) for (id_, turn, _), body in zip(rows, bodies, strict=True)]
    except (KeyError, ValueError, TypeError, AttributeError):
        found = ((id_, turn, _undamaged(store, text)) for id_, turn, text in rows)
        return [Placed(id_, turn, message) for id_, turn, message in found if message]


def _message(store: Store, body: dict[str, Any]) -> Message:
    return load(body, lambda sha256: _image(store, sha256))


def _undamaged(store: Store, text: str) -> Message | None:
    """The message of a row; None if it is unreadable: it stays in the store, and the conversation goes on."""
    try:
        return _message(store, json.loads(text))
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        logger.warning("a message in {} is damaged and was left out: {!r}", store.path, error)
        return None


def _image(store: Store, sha256: str) -> tuple[str, bytes]:
    found = store.rows("SELECT mime, data FROM images WHERE sha256 = ?", sha256)
    if not found:
        raise KeyError(f"image {sha256}")
    mime, data = found[0]
    return mime, data
