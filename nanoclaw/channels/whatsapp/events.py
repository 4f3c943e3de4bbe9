"""Reads WhatsApp's webhooks: JSON in, Inbound out. No I/O; nothing in one is trusted but that WhatsApp signed it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from nanoclaw.channels.fields import (
    Fields,
    attachment,
    clean_line,
    identifier,
    mime,
    name_of,
    string,
    table,
    tables,
    time_of,
)
from nanoclaw.core.messages import Address, Attachment, Inbound, UserMessage

NAME = "whatsapp"
_FILES = ("image", "video", "audio", "document", "sticker")
_NOTE_LENGTH = 1_000


def values(delivery: Fields, number_id: str) -> Iterator[Fields]:
    """The changes of a delivery that are about the own number."""
    for entry in tables(delivery.get("entry")):
        for change in tables(entry.get("changes")):
            value = table(change.get("value"))
            if change.get("field") == "messages" and table(value.get("metadata")).get("phone_number_id") == number_id:
                yield value


def message(one: Fields, names: dict[str, str], now: datetime) -> Inbound | None:
    """Read what somebody wrote; `names` are what people call themselves. None for reactions and WhatsApp's news. Raises
    Malformed."""
    sender, id = identifier(one, "from", r"[0-9]{5,20}"), identifier(one, "id", r"[\w.:=+/-]{1,300}")
    context, text, attachments = table(one.get("context")), _said(one), tuple(_attachments(one))
    outside = "a forwarded message" if context.get("forwarded") else ""
    if not text and not attachments:
        return None
    return Inbound(
        Address(NAME, sender),
        sender,
        id,
        UserMessage(text, time_of(one.get("timestamp"), now), outside=outside),
        attachments,
        quoted=string(context.get("id")),
        name=names.get(sender, ""),
    )


def names(value: Fields) -> dict[str, str]:
    contacts = tables(value.get("contacts"))
    return {string(one.get("wa_id")): name_of(table(one.get("profile")).get("name")) for one in contacts}


def failures(value: Fields) -> Iterator[str]:
    """The reasons for which messages did not arrive after all."""
    for status in tables(value.get("statuses")):
        for error in tables(status.get("errors")):
            yield clean_line(string(error.get("title")) or "no reason is given", _NOTE_LENGTH)


def _said(one: Fields) -> str:
    """The words of a message, and in brackets what is neither words nor a file."""
    kind = string(one.get("type"))
    part = table(one.get(kind))
    if kind == "text":
        return string(part.get("body")).strip()
    if kind in _FILES:
        return string(part.get("caption")).strip()
    if kind == "button":
        return string(part.get("text")).strip()
    if kind == "location":
        where = (part.get("name"), part.get("address"), f"{part.get('latitude')} {part.get('longitude')}")
        return f"[location {clean_line(' '.join(filter(None, map(string, where))), _NOTE_LENGTH)}]"
    if kind == "contacts":
        people = tables(one.get("contacts"))
        told = [f"{_name(one)} {' '.join(string(p.get('phone')) for p in tables(one.get('phones')))}" for one in people]
        return f"[contact {clean_line(', '.join(told), _NOTE_LENGTH)}]"
    return ""


def _name(contact: Fields) -> str:
    return string(table(contact.get("name")).get("formatted_name"))


def _attachments(one: Fields) -> Iterator[Attachment]:
    kind = string(one.get("type"))
    if kind not in _FILES:
        return
    file = table(one.get(kind))
    otherwise = f"{kind}.{mime(file.get('mime_type'), 'bin').rpartition('/')[2]}"
    found = attachment(otherwise, *map(file.get, ("id", "filename", "mime_type")))
    yield found._replace(is_voice=kind == "audio" and file.get("voice") is True)
