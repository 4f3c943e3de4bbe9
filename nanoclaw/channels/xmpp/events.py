"""Reads XMPP's stanzas: XML in, Inbound out. No I/O; nothing in a stanza is trusted."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from urllib.parse import unquote, urlsplit
from xml.etree.ElementTree import Element

from nanoclaw.channels.fields import Malformed, file_name, message_of, name_of, string
from nanoclaw.core.channel import Place
from nanoclaw.core.messages import Address, Attachment, Inbound, UserMessage

NAME = "xmpp"
CLIENT, ROOM = "{jabber:client}", "{http://jabber.org/protocol/muc#user}"
REPLY, FALLBACK = "{urn:xmpp:reply:0}", "{urn:xmpp:fallback:0}"
_ID_LENGTH, _QUOTE_LENGTH = 500, 4_000
_VOICE = ("audio/mp4", "audio/ogg", "audio/opus", "audio/aac", "audio/amr")
"""Kinds of what clients record; XMPP does not say what is spoken and what is a song."""


def message(
    xml: Element, room: Mapping[str, str] | None, me: str, own: Mapping[str, str], now: datetime
) -> Inbound | None:
    """Read what somebody wrote. `room` has the addresses of those whom it shows to the assistant, `me` is its name
    there; `own` are the ids of its messages, by those that rooms gave them. None for what is not said to the assistant.
    Raises Malformed."""
    kind, source = xml.get("type", "normal"), string(xml.get("from"))
    chat, _, nick = source.partition("/")
    is_group = kind == "groupchat"
    if kind not in ("chat", "normal", "groupchat") or is_group != (room is not None):
        return None  # an error, news; or whispered in a room, which vouches for nobody there
    text, quote = _said(xml)
    attachments = tuple(_attachments(xml))
    if text in {one.ref for one in attachments}:
        text = ""
    if (not text and not attachments) or (is_group and not nick):
        return None
    sender = chat = chat.lower()
    nick = nick if is_group else string(xml.findtext("{http://jabber.org/protocol/nick}nick"))
    to, is_named = attribute(xml, f"{REPLY}reply", "to"), False
    if room is not None:
        sender = room.get(nick) or f"{chat}/{nick}"
        text, is_named = _addressed(text, me)
    quoted = attribute(xml, f"{REPLY}reply", "id")
    is_others = is_group and to not in ("", source) and quoted not in own
    return Inbound(
        Address(NAME, str(Place(chat, "", sender if is_group else ""))),
        sender,
        identity(xml, source if is_group else chat),
        UserMessage(text, _time(xml, now)),
        attachments,
        quoted=own.get(quoted, quoted),
        quote=quote[:_QUOTE_LENGTH],
        quote_from=message_of(to.partition("/")[2], f"{NAME}:{to}") if is_others else "",
        name=name_of(nick or chat.partition("@")[0]),
        is_group=is_group,
        is_mention=is_group and (is_named or quoted in own),
        is_edit=_replaced(xml) != "",
    )


def identity(xml: Element, source: str) -> str:
    """A message among others: by its sender's id of it, or of the one that it corrects. Raises Malformed."""
    id = _replaced(xml) or string(xml.get("id")) or stanza_id(xml, source.partition("/")[0])
    if not id or len(id) > _ID_LENGTH:
        raise Malformed("a message has no usable id")
    return f"{source}/{id}"


def attribute(xml: Element, path: str, name: str) -> str:
    """An attribute of the first element there; '' for none."""
    found = xml.find(path)
    return "" if found is None else string(found.get(name))


def stanza_id(xml: Element, by: str) -> str:
    """The id that a room, or the own server, gave to a message; '' for none."""
    return attribute(xml, f"{{urn:xmpp:sid:0}}stanza-id[@by='{by}']", "id") if "'" not in by else ""


def is_encrypted(xml: Element) -> bool:
    """True for what only other clients of the account can read: what is beside it says no more than that."""
    return any(one.tag.endswith(("}encrypted", "}encryption")) for one in xml)


def invitation(xml: Element, domain: str) -> tuple[str, str] | None:
    """The room of an invitation, and who invites. What a room says of that counts on the own `domain` alone: any other
    can say whatever it likes."""
    source = string(xml.get("from")).partition("/")[0].lower()
    direct, told = attribute(xml, "{jabber:x:conference}x", "jid"), attribute(xml, f"{ROOM}x/{ROOM}invite", "from")
    if told and source.partition("@")[2].endswith(f".{domain}"):
        return source, told.partition("/")[0].lower()
    return (direct.lower(), source) if direct and not told else None


def since(xml: Element) -> str:
    """When a message was said that comes late; '' for one that comes at once."""
    return attribute(xml, "{urn:xmpp:delay}delay", "stamp")


def _replaced(xml: Element) -> str:
    return attribute(xml, "{urn:xmpp:message-correct:0}replace", "id")


def _said(xml: Element) -> tuple[str, str]:
    """The text, and the message that it answers, where clients that know no answers are shown that as its beginning."""
    text = string(xml.findtext(f"{CLIENT}body"))
    part = xml.find(f"{FALLBACK}fallback[@for='{REPLY.strip('{}')}']/{FALLBACK}body")
    if part is None:
        return text.strip(), ""
    try:
        start, end = int(part.get("start", "0")), int(part.get("end", str(len(text))))
    except ValueError:
        raise Malformed("a quotation has no place") from None
    quoted = re.sub(r"^> ?", "", text[max(0, start) : max(0, end)].strip(), flags=re.MULTILINE)
    return (text[: max(0, start)] + text[max(0, end) :]).strip(), quoted


def _addressed(text: str, nick: str) -> tuple[str, bool]:
    """The text without the own name at its beginning; and whether it names it."""
    name = rf"(?<!\w)@?{re.escape(nick)}(?!\w)"
    return re.sub(rf"^{name}\s*[,:]?\s*", "", text, flags=re.IGNORECASE), bool(re.search(name, text, re.IGNORECASE))


def _time(xml: Element, now: datetime) -> datetime:
    try:
        return min(now, datetime.fromisoformat(since(xml)).astimezone(now.tzinfo))
    except (ValueError, OverflowError):
        return now


def _attachments(xml: Element) -> Iterator[Attachment]:
    for one in xml.iterfind("{jabber:x:oob}x"):
        url = string(one.findtext("{jabber:x:oob}url")).strip()
        if not url.startswith(("https://", "http://")):
            raise Malformed("a file is encrypted, or not on the web")
        name = file_name(unquote(urlsplit(url).path)) or "file"
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        yield Attachment("", name, kind, url, None, kind in _VOICE)
