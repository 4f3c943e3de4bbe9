"""What the Telegram test server holds: people, chats, messages, files and the requests it saw."""

import io
from dataclasses import dataclass, field
from typing import Any, Literal

from PIL import Image

from tests.live.telegram_http import Upload

Fields = dict[str, Any]
"""An object in the form in which Telegram sends it."""


@dataclass(frozen=True)
class File:
    """A file on the server; `size` may be claimed larger than the content is."""

    id: str
    unique_id: str
    kind: str
    path: str
    name: str
    mime: str
    content: bytes
    size: int

    def fields(self) -> Fields:
        return {"file_id": self.id, "file_unique_id": self.unique_id, "file_size": self.size}


@dataclass(eq=False)
class Message:
    """A message as it stands; `fields` are what Telegram would send of it."""

    fields: Fields
    file: File | None = None
    markup: Fields | None = None
    reactions: list[str] = field(default_factory=list)
    edits: int = 0
    deleted: bool = False

    @property
    def id(self) -> int:
        return int(self.fields["message_id"])

    @property
    def chat_id(self) -> int:
        return int(self.fields["chat"]["id"])

    @property
    def text(self) -> str:
        return str(self.fields.get("text", self.fields.get("caption", "")))

    @property
    def entities(self) -> list[Fields]:
        return [*self.fields.get("entities", ()), *self.fields.get("caption_entities", ())]

    @property
    def buttons(self) -> list[Fields]:
        return [button for row in (self.markup or {}).get("inline_keyboard", []) for button in row]

    @property
    def topic(self) -> int | None:
        return self.fields.get("message_thread_id")

    @property
    def reply_to(self) -> int | None:
        message = self.fields.get("reply_to_message")
        return int(message["message_id"]) if message else None

    @property
    def by_bot(self) -> bool:
        return bool(self.fields.get("from", {}).get("is_bot"))


@dataclass(eq=False)
class Chat:
    """`refusal` is what every request about the chat is answered with, as when the person blocked the bot."""

    id: int
    kind: Literal["private", "group", "supergroup"]
    title: str
    username: str = ""
    forum: bool = False
    refusal: tuple[int, str, dict[str, int] | None] | None = None
    messages: dict[int, Message] = field(default_factory=dict)
    topics: dict[int, Message] = field(default_factory=dict)

    def fields(self) -> Fields:
        name = "first_name" if self.kind == "private" else "title"
        fields: Fields = {"id": self.id, name: self.title, "type": self.kind}
        if self.username:
            fields["username"] = self.username
        if self.forum and self.kind == "supergroup":
            fields["is_forum"] = True
        return fields


@dataclass(frozen=True)
class Person:
    """Somebody who writes to the bot; `chat` is their private chat with it."""

    id: int
    first_name: str
    username: str
    chat: Chat

    def fields(self) -> Fields:
        fields: Fields = {"id": self.id, "is_bot": False, "first_name": self.first_name, "language_code": "en"}
        return {**fields, "username": self.username} if self.username else fields


@dataclass(frozen=True)
class Draft:
    """A piece of an answer, shown while it is being written."""

    chat_id: int
    id: int
    text: str
    entities: list[Fields]
    topic: int | None
    can_stop: bool


@dataclass(frozen=True)
class Action:
    """ "typing" and its like."""

    chat_id: int
    action: str
    topic: int | None


@dataclass(eq=False)
class Asked:
    """One request; `at` is seconds on the monotonic clock, and `status` is 0 until it is answered."""

    method: str
    parameters: Fields
    uploads: dict[str, Upload]
    at: float
    status: int = 0


@dataclass(frozen=True)
class Update:
    """An update that waits for the bot; one that is not `checked` was made wrong on purpose."""

    id: int
    fields: Fields
    checked: bool


class Refused(Exception):
    """What a method answers instead of a result."""

    def __init__(self, description: str, code: int = 400, parameters: dict[str, int] | None = None) -> None:
        prefix = "Bad Request: " if code == 400 else ""
        self.code, self.description, self.parameters = code, prefix + description, parameters


def without_reply(message: Message) -> Fields:
    """A message inside another shows no third."""
    return {name: value for name, value in message.fields.items() if name != "reply_to_message"}


def image_size(content: bytes) -> tuple[int, int] | None:
    """Width and height, or None if it is not an image."""
    try:
        with Image.open(io.BytesIO(content)) as image:
            return image.size
    except (OSError, ValueError, Image.DecompressionBombError):
        return None


def thumbnail(content: bytes, side: int) -> tuple[bytes, tuple[int, int]]:
    """A JPEG of at most that many pixels a side."""
    with Image.open(io.BytesIO(content)) as image:
        small = image.convert("RGB")
        small.thumbnail((side, side))
        out = io.BytesIO()
        small.save(out, "JPEG")
    return out.getvalue(), small.size
