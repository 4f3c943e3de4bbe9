"""The people, chats, messages and files behind the Telegram test server, and the person's side of it."""

import asyncio
import json
import random
import time
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, TypeVar

from tests.live import telegram_text
from tests.live.telegram_chats import (
    Action,
    Asked,
    Chat,
    Draft,
    Fields,
    File,
    Message,
    Person,
    Refused,
    Update,
    image_size,
    thumbnail,
    without_reply,
)
from tests.live.telegram_http import Upload
from tests.live.telegram_schema import update_kinds, wrong_object

ONLY_WHEN_ASKED = frozenset({"chat_member", "message_reaction", "message_reaction_count"})
ORDINARY = [kind for kind in update_kinds() if kind not in ONLY_WHEN_ASKED]

FOLDERS = {"photo": "photos", "voice": "voice", "audio": "music", "video": "videos", "document": "documents"}

T = TypeVar("T")


class World:
    """What was asked, sent and shown is in the attributes; all calls belong to the server's loop."""

    def __init__(self, username: str, privacy: bool) -> None:
        self.me: Fields = {"id": 7352041968, "is_bot": True, "first_name": "Nano", "username": username}
        self.privacy = privacy
        self.webhook = ""
        self.now: Callable[[], float] = time.time
        self.log: list[Asked] = []
        self.posted: list[Message] = []
        self.drafts: list[Draft] = []
        self.actions: list[Action] = []
        self.commands: dict[str, list[Fields]] = {}
        self.callbacks: dict[str, Fields | None] = {}
        self.chats: dict[int, Chat] = {}
        self.files: dict[str, File] = {}
        self.shown: dict[int, Draft] = {}
        self.updates: list[Update] = []
        self.allowed = ORDINARY
        self.changed = asyncio.Event()
        self._next_update = random.randint(100_000_000, 900_000_000)
        self._heard: set[Message] = set()

    # The person's side

    def person(self, id: int, first_name: str, username: str = "") -> Person:
        """Somebody who has started the bot."""
        chat = self.chats[id] = Chat(id, "private", first_name, username)
        return Person(id, first_name, username, chat)

    def group(self, id: int, title: str, *, forum: bool = False) -> Chat:
        """A group; one whose id begins with -100 is a supergroup, and only that can be a forum with topics."""
        supergroup = str(id).startswith("-100")
        if id >= 0 or (forum and not supergroup):
            raise ValueError(f"{id}: a group's id is negative, a forum's begins with -100")
        chat = self.chats[id] = Chat(id, "supergroup" if supergroup else "group", title, forum=forum)
        return chat

    def topic(self, chat: Chat, name: str, person: Person) -> int:
        """Opens a topic; the service message that says so is an update too."""
        created = {"forum_topic_created": {"name": name, "icon_color": 7322096}, "is_topic_message": True}
        message = self.new(chat, person.fields(), created)
        message.fields["message_thread_id"] = message.id
        chat.topics[message.id] = message
        self.update("message", message.fields)
        return message.id

    def say(
        self,
        person: Person,
        text: str,
        chat: Chat | None = None,
        *,
        reply_to: Message | None = None,
        topic: int | None = None,
        entities: list[Fields] | None = None,
    ) -> Message:
        """A person writes, in their private chat if no other is given; mentions and commands are found in the text."""
        marked = telegram_text.found(text) if entities is None else entities
        return self._said(person, chat, {"text": text, **({"entities": marked} if marked else {})}, reply_to, topic)

    def photo(
        self, person: Person, content: bytes, caption: str = "", chat: Chat | None = None, **more: Any
    ) -> Message:
        """An image, also in a small size; `more` is as for `say`."""
        return self.attach(person, "photo", content, caption=caption, chat=chat, **more)

    def voice(self, person: Person, content: bytes, seconds: int = 3, chat: Chat | None = None, **more: Any) -> Message:
        """A voice message."""
        return self.attach(person, "voice", content, mime="audio/ogg", duration=seconds, chat=chat, **more)

    def document(self, person: Person, content: bytes, name: str, mime: str, caption: str = "", **more: Any) -> Message:
        """A file; `size=` claims another size than the content has."""
        return self.attach(person, "document", content, name=name, mime=mime, caption=caption, **more)

    def album(
        self, person: Person, contents: list[bytes], caption: str = "", chat: Chat | None = None
    ) -> list[Message]:
        """Photos that were sent together: one message each, the first with the caption."""
        group = str(random.getrandbits(60))
        return [
            self.photo(person, content, "" if index else caption, chat, media_group_id=group)
            for index, content in enumerate(contents)
        ]

    def attach(
        self,
        person: Person,
        kind: str,
        content: bytes,
        *,
        name: str = "",
        mime: str = "application/octet-stream",
        caption: str = "",
        size: int | None = None,
        chat: Chat | None = None,
        reply_to: Message | None = None,
        topic: int | None = None,
        **more: Any,
    ) -> Message:
        """A message with a file of any kind ("audio", "video", "animation" ...); `more` are fields of the file."""
        group = {"media_group_id": more.pop("media_group_id")} if "media_group_id" in more else {}
        file = self.store(kind, Upload(name, mime, content), size)
        marked = telegram_text.found(caption)
        said = {"caption": caption, **({"caption_entities": marked} if marked else {})} if caption else {}
        return self._said(person, chat, {**self.media(file, more), **said, **group}, reply_to, topic, file)

    def edit(self, message: Message, text: str) -> None:
        """The person changes what they wrote."""
        name = "text" if "text" in message.fields else "caption"
        entities = "entities" if name == "text" else "caption_entities"
        message.fields |= {name: text, "edit_date": int(self.now())}
        message.fields.pop(entities, None)
        if marked := telegram_text.found(text):
            message.fields[entities] = marked
        self.update("edited_message", message.fields)

    def press(self, message: Message, button: str, person: Person) -> str:
        """Presses the button with this text or these data; returns the callback's id, a key of `callbacks`."""
        pressed = next((one for one in message.buttons if button in (one["text"], one.get("callback_data"))), None)
        if not pressed or "callback_data" not in pressed:
            raise AssertionError(f"no button {button!r} in {message.buttons}")
        id = str(random.getrandbits(62))
        self.callbacks[id] = None
        gone = {"chat": message.fields["chat"], "message_id": message.id, "date": 0}
        seen = gone if message.deleted else message.fields
        fields = {"id": id, "from": person.fields(), "message": seen, "chat_instance": str(message.chat_id * 7919)}
        self.update("callback_query", {**fields, "data": pressed["callback_data"]})
        return id

    def react(self, message: Message, person: Person, emoji: str) -> None:
        """Reaches a bot that asked for such updates."""
        old = [{"type": "emoji", "emoji": one} for one in message.reactions]
        message.reactions = [emoji]
        fields = {"chat": message.fields["chat"], "message_id": message.id, "user": person.fields()}
        changed = {"date": int(self.now()), "old_reaction": old, "new_reaction": [{"type": "emoji", "emoji": emoji}]}
        self.update("message_reaction", {**fields, **changed})

    def stop(self, chat: Chat) -> None:
        """Presses the button that stops the draft on show."""
        draft = self.shown.pop(chat.id)
        if not draft.can_stop:
            raise AssertionError("this draft has no button to stop it")
        topic = {"message_thread_id": draft.topic} if draft.topic else {}
        self.update("stopped_message_generation", {"chat": chat.fields(), "draft_id": draft.id, **topic})

    def raw(self, update: Fields) -> int:
        """Any update, however wrong, unchecked; returns its id."""
        return self.queue({"update_id": self._next_update, **update}, checked=False)

    def block(self, chat: Chat) -> None:
        """The person blocks the bot, or the group removes it."""
        reason = (
            "bot was blocked by the user" if chat.kind == "private" else f"bot was kicked from the {chat.kind} chat"
        )
        chat.refusal = (403, f"Forbidden: {reason}", None)

    def upgrade(self, chat: Chat, id: int) -> Chat:
        """A group becomes a supergroup under another id; the old one answers where it went."""
        chat.refusal = (400, "group chat was upgraded to a supergroup chat", {"migrate_to_chat_id": id})
        return self.group(id, chat.title)

    # What the bot did

    def sent(self, chat: Chat | Person) -> list[Message]:
        """What the bot posted, as it stands; without what it deleted."""
        home = chat.chat if isinstance(chat, Person) else chat
        return [message for message in home.messages.values() if message.by_bot and not message.deleted]

    def draft(self, chat: Chat | Person) -> Draft | None:
        """The draft on show."""
        return self.shown.get(chat.id)

    def asked(self, method: str) -> list[Asked]:
        """The requests of one method."""
        return [one for one in self.log if one.method == method]

    async def next(self, chat: Chat | Person | None = None, seconds: float = 60) -> Message:
        """Waits for the bot's next message that was not returned before, in one chat or in any."""

        def unheard() -> Message | None:
            fresh = (one for one in self.posted if one not in self._heard)
            return next((one for one in fresh if chat is None or one.chat_id == chat.id), None)

        message = await self.until(unheard, seconds)
        assert message
        self._heard.add(message)
        return message

    async def until(self, condition: Callable[[], T], seconds: float = 60) -> T:
        """Waits until the condition holds; it is asked again after every request. Returns what it gave."""
        try:
            async with asyncio.timeout(seconds):
                while not (given := condition()):
                    await self.changed.wait()
                return given
        except TimeoutError:
            last = "".join(f"\n  {one.method} {one.parameters} -> {one.status}" for one in self.log[-8:])
            raise AssertionError(f"it did not come in {seconds} s; the last requests:{last or ' none'}") from None

    # What lies behind both sides

    def update(self, kind: str, fields: Fields) -> None:
        update = {"update_id": self._next_update, kind: json.loads(json.dumps(fields))}
        if wrong := wrong_object("Update", update):
            raise AssertionError(f"a wrong update: {wrong}")
        if kind in self.allowed:
            self.queue(update, checked=True)

    def queue(self, update: Fields, checked: bool) -> int:
        id = int(update["update_id"])
        self.updates.append(Update(id, update, checked))
        self._next_update = max(self._next_update, id) + 1
        self.notify()
        return id

    def confirm(self, offset: int) -> None:
        if offset < 0:
            self.updates = self.updates[offset:]
        else:
            self.updates = [update for update in self.updates if update.id >= offset]

    @property
    def unconfirmed(self) -> list[int]:
        """The ids of the updates that the bot has not confirmed."""
        return [update.id for update in self.updates]

    def new(self, chat: Chat, author: Fields, fields: Fields, file: File | None = None) -> Message:
        head = {"message_id": max(chat.messages, default=0) + 1, "from": author, "chat": chat.fields()}
        message = Message({**head, "date": int(self.now()), **fields}, file)
        chat.messages[message.id] = message
        return message

    def _said(
        self,
        person: Person,
        chat: Chat | None,
        fields: Fields,
        reply_to: Message | None,
        topic: int | None,
        file: File | None = None,
    ) -> Message:
        chat = chat or person.chat
        answered = {"reply_to_message": without_reply(reply_to)} if reply_to else {}
        message = self.new(chat, person.fields(), {**self.topic_fields(chat, topic), **answered, **fields}, file)
        if not self.privacy or chat.kind == "private" or self._for_bot(message, reply_to):
            self.update("message", message.fields)
        return message

    def _for_bot(self, message: Message, reply_to: Message | None) -> bool:
        kinds = {entity["type"] for entity in message.entities}
        mentioned = f"@{self.me['username']}".lower() in message.text.lower()
        return mentioned or "bot_command" in kinds or bool(reply_to and reply_to.by_bot)

    def topic_fields(self, chat: Chat, topic: int | None) -> Fields:
        if topic is None:
            return {}
        if topic not in chat.topics:
            raise Refused("message thread not found")
        fields: Fields = {"message_thread_id": topic, "is_topic_message": True}
        # in a forum every message answers the one that opened its topic, unless it answers another
        return {**fields, "reply_to_message": chat.topics[topic].fields} if chat.kind == "supergroup" else fields

    def store(self, kind: str, upload: Upload, size: int | None = None) -> File:
        suffix = {"photo": ".jpg", "voice": ".oga"}.get(kind, PurePath(upload.name).suffix)
        path = f"{FOLDERS.get(kind, kind)}/file_{len(self.files)}{suffix}"
        letters = "".join(random.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-", k=56))
        size = len(upload.content) if size is None else size
        file = File(
            f"AgACAgIAAxkB{letters}", f"AQAD{letters[-12:]}", kind, path, upload.name, upload.mime, upload.content, size
        )
        self.files[file.id] = file
        return file

    def media(self, file: File, more: Fields) -> Fields:
        """The fields of a message that show a file."""
        if file.kind == "photo":
            size = image_size(file.content)
            if not size:
                raise Refused("IMAGE_PROCESS_FAILED")
            if sum(size) > 10_000 or max(size) > 20 * min(size):
                raise Refused("PHOTO_INVALID_DIMENSIONS")
            content, (width, height) = thumbnail(file.content, 90)
            small = self.store("photo", Upload("", "image/jpeg", content))
            first = {**small.fields(), "width": width, "height": height}
            return {"photo": [first, {**file.fields(), "width": size[0], "height": size[1]}]}
        fields = {**file.fields(), "mime_type": file.mime, **more}
        if file.kind not in ("document", "sticker"):
            fields.setdefault("duration", 0)
        if file.kind in ("video", "animation"):
            fields = {"width": 640, "height": 360, **fields}
        if file.name and file.kind != "voice":
            fields["file_name"] = file.name
        return {file.kind: fields}

    def notify(self) -> None:
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()
