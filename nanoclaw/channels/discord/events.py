"""Reads Discord's events: JSON in, Inbound out. No I/O; nothing in an event is trusted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from functools import partial

from nanoclaw.channels.fields import (
    Fields,
    attachment,
    clean_line,
    file_name,
    identifier,
    message_of,
    name_of,
    string,
    table,
    tables,
)
from nanoclaw.core.channel import Place
from nanoclaw.core.messages import Address, Attachment, Inbound, UserMessage

NAME = "discord"
_MESSAGES = (0, 19)
"""Kinds of messages that somebody wrote: an ordinary one, a reply. All others are Discord's own news."""
_FORWARD, VOICE = 1, 1 << 13
_QUOTE_LENGTH, _NOTE_LENGTH = 4_000, 1_000


def message(event: Fields, bot: str, parent: str, now: datetime) -> Inbound | None:
    """Read what somebody wrote. `parent` is the channel whose thread it was said in, '' for no thread. None for what
    nobody said to the assistant: what bots say, and Discord's news. Raises Malformed."""
    author = table(event.get("author"))
    if event.get("type", 0) not in _MESSAGES or author.get("bot") or event.get("webhook_id"):
        return None
    sender, channel, is_group = snowflake(author, "id"), snowflake(event, "channel_id"), bool(event.get("guild_id"))
    answered = table(event.get("referenced_message"))
    is_answer = table(answered.get("author")).get("id") == bot
    quoted, quote, quote_from = _quoted(event, answered, sender, is_answer)
    text, is_named = _said(event, bot)
    forwarded = [table(one.get("message")) for one in tables(event.get("message_snapshots"))]
    attachments = tuple(_attachments([event, *forwarded]))
    notes = [text, *(f"[forwarded] {string(one.get('content'))}" for one in forwarded), *_notes(event)]
    said = "\n".join(filter(None, (one.rstrip() for one in notes)))
    if not said and not attachments:
        return None
    return Inbound(
        Address(NAME, str(_place(channel, parent, sender if is_group else ""))),
        sender,
        snowflake(event, "id"),
        UserMessage(said, _time(event.get("timestamp"), now), outside="a forwarded message" if forwarded else ""),
        attachments,
        quoted=quoted,
        quote=quote,
        quote_from=quote_from,
        name=_name(event),
        is_group=is_group,
        is_mention=is_group and (is_answer or is_named),
    )


def press(event: Fields, parent: str, now: datetime) -> Inbound | None:
    """A button says its text, from who pressed it. None for what else can be done with a bot. Raises Malformed."""
    text, below = string(table(event.get("data")).get("custom_id")), table(event.get("message"))
    if event.get("type") != 3 or not text:
        return None
    is_group = bool(event.get("guild_id"))
    person = table(table(event.get("member")).get("user")) or table(event.get("user"))
    sender = snowflake(person, "id")
    return Inbound(
        Address(NAME, str(_place(snowflake(event, "channel_id"), parent, sender if is_group else ""))),
        sender,
        f"press:{snowflake(event, 'id')}",
        UserMessage(text, now),
        quoted=snowflake(below, "id"),
        quote=string(below.get("content"))[:_QUOTE_LENGTH],
        name=_name({**event, "author": person}),
        is_group=is_group,
        is_mention=is_group,
    )


snowflake = partial(identifier, form=r"[0-9]{1,20}")
"""An id, which Discord writes as the text of a number."""


def _place(channel: str, parent: str, person: str) -> Place:
    return Place(parent, channel, person) if parent else Place(channel, "", person)


def _said(event: Fields, bot: str) -> tuple[str, bool]:
    """The text with names in the place of ids, without the bot's at its beginning; and whether it names the bot."""
    people = {
        string(one.get("id")): string(one.get("global_name")) or string(one.get("username")) for one in _named(event)
    }
    text = re.sub(rf"^\s*<@!?{bot}>[,:]?\s*", "", string(event.get("content")))
    names = {id: name_of(name) for id, name in people.items()}
    return re.sub(r"<@!?(\d+)>", lambda one: f"@{names.get(one[1]) or one[1]}", text), bot in people


def _named(event: Fields) -> list[Fields]:
    return tables(event.get("mentions"))


def _quoted(event: Fields, answered: Fields, sender: str, is_answer: bool) -> tuple[str, str, str]:
    """The id and the text of the message that this one answers, and whose words these are where they are of others."""
    reference = table(event.get("message_reference"))
    if not answered or reference.get("type", 0) == _FORWARD:
        return "", "", ""
    author = table(answered.get("author"))
    files = " ".join(f"[{file_name(string(one.get('filename')))}]" for one in tables(answered.get("attachments")))
    by = "" if is_answer or author.get("id") == sender else message_of(_name(answered), f"discord:{author.get('id')}")
    text = f"{files} {string(answered.get('content'))}".strip()
    return snowflake(answered, "id"), text[:_QUOTE_LENGTH], by


def _name(event: Fields) -> str:
    author, member = table(event.get("author")), table(event.get("member"))
    names = (member.get("nick"), author.get("global_name"), author.get("username"))
    return next((found for name in names if (found := name_of(name))), "")


def _time(value: object, now: datetime) -> datetime:
    try:
        return datetime.fromisoformat(str(value)).astimezone(now.tzinfo)
    except (ValueError, OverflowError):
        return now


def _attachments(messages: list[Fields]) -> Iterator[Attachment]:
    for one in messages:
        flags = one.get("flags")
        is_voice = isinstance(flags, int) and bool(flags & VOICE)
        for file in tables(one.get("attachments")):
            otherwise = f"file-{string(file.get('id'))[:20]}"
            given = attachment(otherwise, *map(file.get, ("url", "filename", "content_type", "size")))
            yield given._replace(is_voice=is_voice and given.mime.startswith("audio/"))


def _notes(event: Fields) -> Iterator[str]:
    """Descriptions of parts that are neither text nor files."""
    for sticker in tables(event.get("sticker_items")):
        yield f"[sticker {name_of(sticker.get('name'))}]"
    if poll := table(event.get("poll")):
        answers = (string(table(one.get("poll_media")).get("text")) for one in tables(poll.get("answers")))
        asked = f"{string(table(poll.get('question')).get('text'))} {' / '.join(answers)}"
        yield f"[poll {clean_line(asked, _NOTE_LENGTH)}]"
