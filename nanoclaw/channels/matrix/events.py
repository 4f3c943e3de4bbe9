"""Reads the events of a Matrix room. Everything in them comes from others and may have any form."""

from __future__ import annotations

import json
import mimetypes
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from nanoclaw.channels.fields import attachment, mime, string, table, time_of
from nanoclaw.core.messages import Attachment

QUOTE_CHARACTERS = 4_000

_FILES = {"m.image": "picture", "m.file": "file", "m.audio": "audio", "m.video": "video"}
_MXC = re.compile(r"mxc://[^/\s?#]{1,255}/[A-Za-z0-9_.~-]{1,255}")


@dataclass(frozen=True, slots=True)
class RoomMessage:
    """A message as described by its event. `thread` is the event that began its thread, `quoted` the one it answers;
    `mentions` are ids of people."""

    text: str
    attachment: Attachment | None = None
    thread: str = ""
    quoted: str = ""
    mentions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HeldFile:
    """Address of a file, and how it is decrypted if `key` is not ''."""

    mxc: str
    key: str = ""
    iv: str = ""
    sha256: str = ""

    def __str__(self) -> str:
        return json.dumps([self.mxc, self.key, self.iv, self.sha256])

    @classmethod
    def of(cls, ref: str) -> HeldFile:
        """Raises ValueError for what is no such text."""
        parts = json.loads(ref)
        if not isinstance(parts, list) or len(parts) != 4 or not all(isinstance(part, str) for part in parts):
            raise ValueError("not a reference to a file on Matrix")
        return cls(*parts)


def said(content: Mapping[str, Any]) -> RoomMessage | None:
    """Read the content of an `m.room.message`; None for what is not a message of a person: an edit, a notice of
    another bot, a type that is not known. Raises ValueError for a message without the parts it needs."""
    relation = table(content.get("m.relates_to"))
    kind = string(content.get("msgtype"))
    if relation.get("rel_type") == "m.replace" or kind == "m.notice":
        return None
    answers = string(table(relation.get("m.in_reply_to")).get("event_id"))
    thread = string(relation.get("event_id")) if relation.get("rel_type") == "m.thread" else ""
    quoted = "" if thread and relation.get("is_falling_back") is True else answers
    mentions = table(content.get("m.mentions")).get("user_ids")
    named = tuple(one for one in mentions if isinstance(one, str)) if isinstance(mentions, list) else ()
    if kind in _FILES:
        return RoomMessage(_caption(content), _attachment(content, kind), thread, quoted, named)
    if kind not in ("m.text", "m.emote", "m.location"):
        return None
    body = content.get("body")
    if not isinstance(body, str):
        raise ValueError("a message without a text")
    text = without_fallback(string(body)) if answers else string(body)
    if kind == "m.location":
        text = f"{text}\n{string(content.get('geo_uri'))}".strip()
    return RoomMessage(f"* {text}" if kind == "m.emote" else text, None, thread, quoted, named)


def edited(content: Mapping[str, Any]) -> str:
    """The id of the message that the event changes, '' for one that changes none."""
    relation = table(content.get("m.relates_to"))
    return string(relation.get("event_id")) if relation.get("rel_type") == "m.replace" else ""


def text_of(content: Mapping[str, Any]) -> str:
    """The words of an event for a quote, also of the assistant's own and of edited ones."""
    newest = table(content.get("m.new_content")) or content
    body = string(newest.get("body"))
    if table(table(content.get("m.relates_to")).get("m.in_reply_to")):
        body = without_fallback(body)
    return body[:QUOTE_CHARACTERS]


def without_fallback(text: str) -> str:
    """The text of a reply without the quoted lines that some clients put before it."""
    if not text.startswith("> <") and not text.startswith("> * <"):
        return text
    lines = text.split("\n")
    own = next((number for number, line in enumerate(lines) if not line.startswith(">")), len(lines))
    return "\n".join(lines[own:]).lstrip("\n")


def addressed(text: str, names: tuple[str, ...]) -> tuple[bool, str]:
    """Tell whether a text calls one of these, and the text without a name that it begins with: "nano: /status" ->
    (True, "/status"). A name may be an ordinary word: it calls only with an @ before it, or at the beginning with a
    colon or comma behind it."""
    found = [re.escape(name.removeprefix("@")) for name in sorted(names, key=len, reverse=True) if name]
    if not found:
        return False, text
    any_name = f"(?:{'|'.join(found)})(?![\\w.=/@:-]*\\w)"
    if begins := re.match(rf"\s*(?:@{any_name}[:,]?|{any_name}[:,])\s*", text, re.IGNORECASE):
        return True, text[begins.end() :]
    return re.search(rf"(?<![\w@.:/-])@{any_name}", text, re.IGNORECASE) is not None, text


def when(event: Mapping[str, Any], now: datetime) -> datetime:
    """The server's time of an event; `now` for one that no calendar has."""
    at = event.get("origin_server_ts")
    return time_of(at / 1000 if isinstance(at, int | float) else None, now)


def _attachment(content: Mapping[str, Any], kind: str) -> Attachment:
    info, voices = table(content.get("info")), ("org.matrix.msc3245.voice", "org.matrix.msc3245.voice.v2", "m.voice")
    name, is_voice = content.get("filename") or content.get("body"), any(key in content for key in voices)
    said = mime(info.get("mimetype"), "")
    otherwise = ("voice" if is_voice else _FILES[kind]) + (mimetypes.guess_extension(said) or "")
    found = attachment(otherwise, str(_held(content)), name, said, info.get("size"), usual="")
    return found._replace(is_voice=is_voice and kind == "m.audio")


def _held(content: Mapping[str, Any]) -> HeldFile:
    file = table(content.get("file"))
    mxc = string(file.get("url") if file else content.get("url"))
    if not _MXC.fullmatch(mxc):
        raise ValueError("a file without an address on its server")
    if not file:
        return HeldFile(mxc)
    key = string(table(file.get("key")).get("k"))
    iv, sha256 = string(file.get("iv")), string(table(file.get("hashes")).get("sha256"))
    if not (key and iv and sha256):
        raise ValueError("an encrypted file without its key")
    return HeldFile(mxc, key, iv, sha256)


def _caption(content: Mapping[str, Any]) -> str:
    """The words beside a file: its body, where the name stands elsewhere."""
    name, body = string(content.get("filename")), string(content.get("body"))
    return body if name and body != name else ""
