"""Reads what signal-cli tells: JSON in, Inbound out. No I/O; nothing in an event is trusted."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime

from nanoclaw.channels.fields import (
    Fields,
    Malformed,
    attachment,
    file_name,
    identifier,
    message_of,
    name_of,
    size,
    string,
    table,
    tables,
    time_of,
)
from nanoclaw.core.channel import Place
from nanoclaw.core.messages import Address, Attachment, Inbound, UserMessage

NAME = "signal"
GROUP = "group:"
"""Before the id of a group, in addresses."""

_MENTION = "\ufffc"
_QUOTE_LENGTH = 4_000


def message(envelope: Fields, me: Collection[str], first: Mapping[str, str], now: datetime) -> Inbound | None:
    """Read what somebody wrote. `me` are the number and the id of the account; `first` is the first timestamp of a
    message that was edited, by the latest. None for what is not said to the assistant: receipts, typing, what the
    account's other devices send. Raises Malformed."""
    edit = table(envelope.get("editMessage"))
    data = table(edit.get("dataMessage")) or table(envelope.get("dataMessage"))
    if not data or data.get("reaction") or data.get("remoteDelete"):
        return None
    sender = string(envelope.get("sourceUuid")) or identifier(envelope, "sourceNumber", r"\+\d{5,20}")
    if sender in me or string(envelope.get("sourceNumber")) in me:
        return None
    stamp = timestamp(edit, "targetSentTimestamp") if edit else timestamp(data, "timestamp")
    group, quote = string(table(data.get("groupInfo")).get("groupId")), table(data.get("quote"))
    text, is_named = _said(data, me)
    author = string(quote.get("authorUuid")) or string(quote.get("authorNumber"))
    is_answer = bool(quote) and not {author, string(quote.get("authorNumber"))}.isdisjoint(me)
    attachments = tuple(_attachments(data, f"{GROUP}{group}" if group else sender))
    if not text and not attachments:
        return None
    return Inbound(
        Address(NAME, str(Place(f"{GROUP}{group}", "", sender) if group else Place(sender))),
        sender,
        f"{sender}/{first.get(stamp, stamp)}",
        UserMessage(text, time_of(int(stamp) / 1000, now)),
        attachments,
        quoted=timestamp(quote, "id") if quote else "",
        quote=string(quote.get("text"))[:_QUOTE_LENGTH],
        quote_from=message_of("", f"{NAME}:{author}") if quote and not is_answer and author != sender else "",
        name=name_of(envelope.get("sourceName")),
        is_group=bool(group),
        is_mention=bool(group) and (is_named or is_answer),
        is_edit=bool(edit),
    )


def timestamp(fields: Fields, key: str) -> str:
    """The milliseconds by which Signal tells the messages of somebody apart. Raises Malformed."""
    value = fields.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 10**15:
        raise Malformed(f"{key!r} is missing or no time")
    return str(value)


def _said(data: Fields, me: Collection[str]) -> tuple[str, bool]:
    """The text with names in the place of mentions, without the own one at its beginning; and whether it names it."""
    text, is_named = string(data.get("message")), False
    mentions = sorted(tables(data.get("mentions")), key=lambda one: size(one.get("start")) or 0, reverse=True)
    for one in mentions:
        is_own = not {string(one.get("uuid")), string(one.get("number"))}.isdisjoint(me)
        name = name_of(one.get("name"))
        before, mark, after = text.rpartition(_MENTION)
        is_named |= is_own
        text = f"{before}{'' if is_own and not before.strip() else f'@{name}' if mark else ''}{after}"
    return text.strip(), is_named


def _attachments(data: Fields, where: str) -> Iterator[Attachment]:
    for one in tables(data.get("attachments")):
        file = attachment(file_name(string(one.get("id"))), *map(one.get, ("id", "filename", "contentType", "size")))
        is_voice = file.mime.startswith("audio/") and not one.get("filename")
        yield file._replace(ref=f"{file.ref} {where}", is_voice=is_voice)
