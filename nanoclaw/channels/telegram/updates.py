"""Reads Telegram's updates: JSON in, Inbound out. No I/O; nothing in an update is trusted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from nanoclaw.channels.fields import (
    Fields,
    Malformed,
    attachment,
    clean_line,
    message_of,
    name_of,
    string,
    table,
    time_of,
)
from nanoclaw.core.channel import Place
from nanoclaw.core.messages import Address, Attachment, Inbound, UserMessage

NAME = "telegram"
KINDS = ("message", "edited_message", "callback_query", "stopped_message_generation")
"""The updates that are asked for."""

_QUOTE_LENGTH, _NOTE_LENGTH = 4096, 1000
_MEDIA = {  # in this order: an animation comes as a document too
    "animation": ("video/mp4", ".mp4"),
    "document": ("application/octet-stream", ""),
    "voice": ("audio/ogg", ".ogg"),
    "audio": ("audio/mpeg", ".mp3"),
    "video": ("video/mp4", ".mp4"),
    "video_note": ("video/mp4", ".mp4"),
}
"""Kinds of files, with the type and the ending of those that do not say theirs."""


@dataclass(frozen=True, slots=True)
class Bot:
    id: int
    username: str


def read(update: Fields, bot: Bot, now: datetime, most_bytes: int) -> Inbound | None:
    """The message in an update, or what one was changed to. None for what nobody said to the assistant: service
    messages, posts of channels, what bots say, commands for another bot; and for the part of an album that changed.
    Raises Malformed.

    Of a photo the largest size of at most `most_bytes` is taken.
    """
    if "message" in update:
        return _message(table(update["message"]), bot, now, most_bytes)
    if "edited_message" in update:
        changed = table(update["edited_message"])
        read = None if changed.get("media_group_id") else _message(changed, bot, now, most_bytes)
        return read._replace(is_edit=True) if read else None
    if "callback_query" in update:
        return _press(table(update["callback_query"]), now)
    if "stopped_message_generation" in update:
        return _stop(update, now)
    return None


def album_of(update: Fields) -> str:
    """The id that the parts of an album share, '' for anything else."""
    return string(table(update.get("message")).get("media_group_id"))


def pressed(update: Fields) -> tuple[int, int, str] | None:
    """The chat and the number of the message below which a button was pressed, and the id of who pressed it."""
    press = table(update.get("callback_query"))
    message, person = table(press.get("message")), str(table(press.get("from")).get("id"))
    chat, number = table(message.get("chat")).get("id"), message.get("message_id")
    return (chat, number, person) if isinstance(chat, int) and isinstance(number, int) else None


def joined(parts: Sequence[Inbound]) -> Inbound:
    """The parts of an album as one message, which has the id of the first."""
    said = dict.fromkeys(part.message.text for part in parts if part.message.text)
    quoting = next((part for part in parts if part.quoted), parts[0])
    return parts[0]._replace(
        message=parts[0].message._replace(
            text="\n".join(said), outside=next((part.message.outside for part in parts if part.message.outside), "")
        ),
        attachments=tuple(attachment for part in parts for attachment in part.attachments),
        quoted=quoting.quoted,
        quote=quoting.quote,
        quote_from=quoting.quote_from,
        is_mention=any(part.is_mention for part in parts),
    )


# --- messages --------------------------------------------------------------------------------------------------------


def _message(message: Fields, bot: Bot, now: datetime, most_bytes: int) -> Inbound | None:
    chat = table(message.get("chat"))
    kind, is_group = chat.get("type"), chat.get("type") in ("group", "supergroup")
    if not isinstance(kind, str):
        raise Malformed("its chat has no type")
    if (kind != "private" and not is_group) or message.get("is_automatic_forward"):
        return None
    speaker = _speaker(message)
    if speaker is None or (is_group and _is_for_another_bot(_words(message)[0], bot)):
        return None
    sender, name = speaker
    text, is_addressed = _said_to(bot, *_words(message))
    is_forwarded = "forward_origin" in message
    notes = [*([text] if text else []), *_notes(message)]
    attachments = tuple(_attachments(message, most_bytes))
    if not notes and not attachments:
        return None
    said = "\n".join([_forwarded(message["forward_origin"], " ".join(notes))] if is_forwarded else notes)
    quoted, quote, quote_from, is_answer = _quoted(message, bot)
    return Inbound(
        Address(NAME, str(_place(message, sender if is_group else ""))),
        sender,
        _external_id(message),
        UserMessage(said, time_of(message.get("date"), now), outside=_others(message)),
        attachments,
        quoted=quoted,
        quote=quote,
        quote_from=quote_from,
        name=name,
        is_group=is_group,
        is_mention=is_group and (is_answer or (is_addressed and not is_forwarded)),
    )


def _press(press: Fields, now: datetime) -> Inbound | None:
    """A button says its text, from who pressed it. One below a message that is nowhere in a chat says nothing."""
    message, text = table(press.get("message")), string(press.get("data"))
    if not message or not text:
        return None
    sender, name = _person(table(press.get("from")))
    is_group = table(message.get("chat")).get("type") != "private"
    return Inbound(
        Address(NAME, str(_place(message, sender if is_group else ""))),
        sender,
        f"cb:{string(press.get('id'))}",
        UserMessage(text, now),
        quoted=_external_id(message),
        quote=_words(message)[0][:_QUOTE_LENGTH],
        name=name,
        is_group=is_group,
        is_mention=is_group,
    )


def _stop(update: Fields, now: datetime) -> Inbound:
    """The button below an answer that is being written, in a private chat: the person's own /stop."""
    stopped = table(update["stopped_message_generation"])
    place = _place({**stopped, "is_topic_message": "message_thread_id" in stopped}, "")
    return Inbound(
        Address(NAME, str(place)), place.chat, f"update:{_number(update, 'update_id')}", UserMessage("/stop", now)
    )


def _words(message: Fields) -> tuple[str, list[Fields]]:
    """The text, or the caption, with its entities."""
    kind, marks = ("text", "entities") if message.get("text") else ("caption", "caption_entities")
    entities = message.get(marks)
    return string(message.get(kind)), [table(one) for one in entities] if isinstance(entities, list) else []


def _said_to(bot: Bot, text: str, entities: list[Fields]) -> tuple[str, bool]:
    """The text without the bot's name at its beginning (`/stop@name`, `@name, hello`), and whether it names the bot."""
    name = bot.username.lower()
    is_addressed = any(_names(bot, text, entity) for entity in entities)
    if (command := re.match(r"(/\w+)@(\w+)", text)) and command[2].lower() == name:
        return command[1] + text[command.end() :], True
    if (called := re.match(r"@(\w+)[,:]?\s+(?=\S)", text)) and called[1].lower() == name:
        return text[called.end() :], True
    return text, is_addressed


def _is_for_another_bot(text: str, bot: Bot) -> bool:
    command = re.match(r"/\w+@(\w+)", text)
    return bool(command and command[1].lower() != bot.username.lower())


def _names(bot: Bot, text: str, entity: Fields) -> bool:
    match entity.get("type"):
        case "text_mention":
            return bool(table(entity.get("user")).get("id") == bot.id)
        case "mention" | "bot_command":
            start, length = entity.get("offset"), entity.get("length")
            if not isinstance(start, int) or not isinstance(length, int) or start < 0:
                return False
            marked = text.encode("utf-16-le")[start * 2 : (start + length) * 2].decode("utf-16-le", "replace")
            return marked.rpartition("@")[2].lower() == bot.username.lower() and "@" in marked
    return False


def _quoted(message: Fields, bot: Bot) -> tuple[str, str, str, bool]:
    """The id and the text of the message that this one answers, whose words these are where they are of others, and
    whether that was the bot's."""
    chosen = string(table(message.get("quote")).get("text"))[:_QUOTE_LENGTH]
    answered = table(message.get("reply_to_message"))
    is_topic = "forum_topic_created" in answered  # all that is said in a topic "answers" its beginning
    if not answered or is_topic or not isinstance(answered.get("message_id"), int):
        return "", chosen, "a message elsewhere" if chosen else "", False
    external_id = _external_id({"chat": message.get("chat"), **answered})
    is_bots = table(answered.get("from")).get("id") == bot.id
    kind = next((f"[{kind}]" for kind in _QUOTED_KINDS if answered.get(kind)), "")
    by = "" if is_bots else _others(answered)
    if not by and not is_bots and (author := table(answered.get("sender_chat")) or table(answered.get("from"))):
        is_own = author.get("id") == (table(message.get("sender_chat")) or table(message.get("from"))).get("id")
        by = "" if is_own else _author(author)
    return external_id, chosen or f"{kind} {_words(answered)[0]}".strip()[:_QUOTE_LENGTH], by, is_bots


_QUOTED_KINDS = ("photo", "voice", "audio", "video", "video_note", "sticker", "document")
"""Kinds of a quoted message besides text; the file itself does not come along."""


def _forwarded(origin: Any, text: str) -> str:
    """Marked, so that neither a model nor a command takes it for the person's own words."""
    names = [string(table(origin).get("sender_user_name")), *map(_name, _origins(origin))]
    name = next(filter(None, map(name_of, names)), "")
    name = name.replace("[", "(").replace("]", ")")
    return f"[forwarded from {name}] {text}".rstrip() if name else f"[forwarded] {text}".rstrip()


def _others(message: Fields) -> str:
    """Whose words a message has that somebody else only hands on, '' for the sender's own."""
    if by := table(message.get("via_bot")):
        return _author(by)
    if "forward_origin" not in message:
        return ""
    return next(map(_author, filter(None, _origins(message["forward_origin"]))), "a forwarded message")


def _origins(origin: Any) -> Iterator[Fields]:
    return (table(table(origin).get(key)) for key in ("sender_user", "sender_chat", "chat"))


def _author(author: Fields) -> str:
    name, number = name_of(_name(author)) or string(author.get("username")), author.get("id")
    return message_of(name, f"telegram:{number}") if isinstance(number, int) else "a message of somebody"


# --- who and where ---------------------------------------------------------------------------------------------------


def _place(message: Fields, person: str) -> Place:
    thread = str(_number(message, "message_thread_id")) if message.get("is_topic_message") else ""
    return Place(str(_number(table(message.get("chat")), "id")), thread, person)


def _external_id(message: Fields) -> str:
    return f"{_number(table(message.get('chat')), 'id')}:{_number(message, 'message_id')}"


def _speaker(message: Fields) -> tuple[str, str] | None:
    """The stable id and the name of who said it; None for bots, the own one included. Who speaks as a group or channel
    is that group or channel."""
    if group := table(message.get("sender_chat")):
        return _person(group)
    speaker = table(message.get("from"))
    return None if speaker.get("is_bot") else _person(speaker)


def _person(person: Fields) -> tuple[str, str]:
    return str(_number(person, "id")), name_of(_name(person))


def _name(person: Fields) -> str:
    return " ".join(string(person.get(key)) for key in ("first_name", "last_name", "title")).strip()


# --- what came with it -----------------------------------------------------------------------------------------------


def _attachments(message: Fields, most_bytes: int) -> Iterator[Attachment]:
    number = message.get("message_id")
    sizes = message.get("photo")
    if isinstance(sizes, list) and sizes:
        photo = _best([table(size) for size in sizes], most_bytes)
        yield _attachment(photo, f"photo-{number}.jpg", "image/jpeg")
    sticker = table(message.get("sticker"))
    if sticker and not sticker.get("is_animated") and not sticker.get("is_video"):
        yield _attachment(sticker, f"sticker-{number}.webp", "image/webp")
    for kind, (usual, suffix) in _MEDIA.items():
        if file := table(message.get(kind)):
            named = f"{kind.replace('_', '-')}-{number}{suffix}"
            yield _attachment(file, named, usual)._replace(is_voice=kind == "voice")
            return


def _attachment(file: Fields, otherwise: str, usual: str) -> Attachment:
    given = map(file.get, ("file_id", "file_name", "mime_type", "file_size"))
    return attachment(otherwise, *given, usual=usual)


def _best(sizes: list[Fields], most_bytes: int) -> Fields:
    """The largest that may be taken, else the smallest."""

    def bytes_of(size: Fields) -> int:
        count = size.get("file_size")
        return count if isinstance(count, int) else 0

    def pixels_of(size: Fields) -> int:
        width, height = size.get("width"), size.get("height")
        return width * height if isinstance(width, int) and isinstance(height, int) else 0

    sizes = sorted(sizes, key=lambda size: (pixels_of(size), bytes_of(size)))
    return next((size for size in reversed(sizes) if bytes_of(size) <= most_bytes), sizes[0])


def _notes(message: Fields) -> Iterator[str]:
    """Descriptions of what is neither text nor a file."""
    place, venue = table(message.get("location")), table(message.get("venue"))
    if place:
        what = [string(venue.get("title")), string(venue.get("address")), f"{_degrees(place)}"]
        yield _note("location", ", ".join(filter(None, what)))
    if contact := table(message.get("contact")):
        yield _note("contact", ", ".join(filter(None, [_name(contact), string(contact.get("phone_number"))])))
    if poll := table(message.get("poll")):
        yield _note("poll", f"{string(poll.get('question'))} {' / '.join(_texts(poll.get('options')))}")
    if todo := table(message.get("checklist")):
        yield _note("checklist", f"{string(todo.get('title'))}: {' / '.join(_texts(todo.get('tasks')))}")
    if dice := table(message.get("dice")):
        yield _note("dice", f"{string(dice.get('emoji'))} {dice.get('value')}")
    if sticker := table(message.get("sticker")):
        yield _note("sticker", string(sticker.get("emoji")))
    if message.get("story"):
        yield _note("story", "")


def _note(kind: str, what: str) -> str:
    return f"[{kind} {clean_line(what, _NOTE_LENGTH)}".rstrip() + "]"


def _degrees(place: Fields) -> str:
    latitude, longitude = place.get("latitude"), place.get("longitude")
    is_known = isinstance(latitude, int | float) and isinstance(longitude, int | float)
    return f"{latitude:.5f} {longitude:.5f}" if is_known else ""


def _texts(values: Any) -> list[str]:
    return [string(table(value).get("text")) for value in values] if isinstance(values, list) else []


# --- values of any type ----------------------------------------------------------------------------------------------


def _number(fields: Fields, key: str) -> int:
    value = fields.get(key)
    if not isinstance(value, int):
        raise Malformed(f"{key!r} is missing or no number")
    return value
