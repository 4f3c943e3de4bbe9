"""The Telegram channel: one long poll for what comes, one request for each thing that goes out."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from nanoclaw.channels.bot import BotChannel, log_skipped
from nanoclaw.channels.fields import Fields, Malformed
from nanoclaw.channels.newest import remember
from nanoclaw.channels.telegram import updates
from nanoclaw.channels.telegram.api import UNKNOWN_TOKEN, Api, Refusal
from nanoclaw.channels.telegram.menu import CommandMenu
from nanoclaw.channels.telegram.settings import TelegramSettings
from nanoclaw.channels.web_api import UnknownToken, too_large
from nanoclaw.core.channel import ChannelHost, Deliver, Hints, Place
from nanoclaw.core.errors import ChannelError, Undeliverable
from nanoclaw.core.events import Event, Queued, Settled, TurnBegan
from nanoclaw.core.messages import Address, Attachment, Button, Inbound, Outbound
from nanoclaw.log import logger
from nanoclaw.markdown.text import to_telegram

POLL_SECONDS = 30
"""Seconds that Telegram may keep a poll open that has nothing to tell."""

POLL_GRACE_SECONDS = 10
"""A poll that is open so much longer is dead."""

ALBUM_SECONDS = 0.5
"""Seconds within which all parts of an album arrive."""

PAUSE_SECONDS = 1.0
"""Between two changes of what is shown in a private chat. Telegram wants no more than one message in a second."""

GROUP_PAUSE_SECONDS = 3.0
"""The same in a group, where it wants no more than 20 in a minute."""

DRAFT_SECONDS = 20.0
"""Age at which a draft is shown again: after 30 s it fades."""

SEEN = {"type": "emoji", "emoji": "👀"}
"""The reaction to a message that has to wait."""

ROW_CHARACTERS = 36
"""Characters of the labels of buttons in one row: more are cut off on a phone."""

_BUTTON_BYTES = 64
_PHOTO_BYTES = 10_000_000
_SHOWN_AS = {
    **dict.fromkeys((".jpg", ".jpeg", ".png", ".webp"), "photo"),
    **dict.fromkeys((".ogg", ".oga", ".opus"), "voice"),
}
_DISPENSABLE = {
    "entities": ("entit",),
    "caption_entities": ("entit",),
    "message_thread_id": ("thread not found", "topic_deleted"),
}
"""Parameters that a message can do without, and the words by which Telegram refuses them."""


@dataclass(frozen=True, slots=True)
class _Draft:
    """A draft on show: its number, which message it answers, what was asked for, and when by the clock that only goes
    forward."""

    id: int
    answered: str
    asked: Mapping[str, Any] = field(default_factory=dict)
    at: float = 0.0


class Telegram(BotChannel):
    """One bot. Posts of channels and what other bots say are not delivered."""

    _api: Api

    def __init__(self, settings: TelegramSettings, host: ChannelHost) -> None:
        """Take photos in the largest size of at most `host.most_bytes`."""
        self.name = updates.NAME
        hints = Hints(
            length=4096,
            units="utf-16",
            markup="markdown",
            caption=1024,
            file_bytes=50_000_000,
            edits=True,
            threads=True,
            buttons=True,
        )
        self.alive: datetime | None = None
        super().__init__(Api(settings.token, settings.api_base), hints)
        self._clock, self._most_bytes = host.clock, host.most_bytes
        self._menu = CommandMenu(self._api, host)
        self._offset = 0
        self._newest: dict[str, str] = {}  # in each chat, the id of what was said last
        self._asked: dict[str, str] = {}  # in groups, by the id of a message with buttons, for whom they are
        self._moved: dict[int, int] = {}  # groups that were given a new id
        self._answering: dict[str, str] = {}  # in each chat, the id of the message at work on
        self._drafts: dict[str, _Draft] = {}  # what is shown in a chat
        self._draft_ids = itertools.count(int(host.clock().timestamp()) % 2**30 + 1)
        self._draftless: set[str] = set()  # chats where Telegram takes no drafts

    # --- in ----------------------------------------------------------------------------------------------------------

    async def run(self, deliver: Deliver) -> None:
        """Poll until cancelled. What was delivered is acknowledged by the next poll, never before."""
        bot = await self._who()
        await self._menu.publish()
        waited: frozenset[str] = frozenset()  # albums that had their time to become complete
        async with self._listening():
            while True:
                batch = await self._poll(0 if waited else POLL_SECONDS)
                waited = await self._take(batch, bot, deliver, waited)
                await self._menu.publish()
                if waited:
                    await asyncio.sleep(ALBUM_SECONDS)

    async def login(self) -> str:
        return (await self._who()).username

    async def fetch(self, attachment: Attachment, most: int) -> bytes:
        """Telegram keeps files for an hour or more after they were asked for, and gives a bot 20 MB at most."""
        if (attachment.size or 0) > most:
            raise too_large(most)
        try:
            file = await self._api.call("getFile", file_id=attachment.ref)
        except Refusal as refusal:
            said = "the file is larger than 20 MB, the most that Telegram lets a bot have."
            raise Undeliverable(said if "too big" in refusal.description else str(refusal)) from None
        path = file.get("file_path") if isinstance(file, dict) else None
        if not isinstance(path, str):
            raise Undeliverable("Telegram no longer has the file.")
        return await self._api.download(path, most)

    async def _who(self) -> updates.Bot:
        try:
            me = await self._api.call("getMe")
        except Refusal:
            raise UnknownToken(UNKNOWN_TOKEN) from None
        if not isinstance(me, dict) or not isinstance(me.get("id"), int):
            raise ChannelError("what answers is not Telegram's Bot API. Check channels.telegram.api_base.")
        return updates.Bot(me["id"], str(me.get("username", "")))

    async def _poll(self, seconds: int) -> list[Fields]:
        """Updates after the last one that was delivered, in order. Raises ChannelError."""
        try:
            batch = await self._api.call(
                "getUpdates",
                seconds=seconds + POLL_GRACE_SECONDS,
                offset=self._offset or None,
                timeout=seconds,
                allowed_updates=updates.KINDS,
            )
        except Refusal as refusal:
            if refusal.code == 409 and "webhook" in refusal.description:
                await self._remove_webhook()
                return []
            raise
        self.alive = self._clock()
        given = batch if isinstance(batch, list) else [batch]
        numbered = [one for one in given if isinstance(one, dict) and isinstance(one.get("update_id"), int)]
        if len(numbered) < len(given):
            log_skipped("Telegram", "it has no number")
        if given and not numbered:
            raise ChannelError("Telegram sent nothing that can be acknowledged.")
        return sorted(numbered, key=lambda update: int(update["update_id"]))

    async def _take(
        self, batch: Sequence[Fields], bot: updates.Bot, deliver: Deliver, waited: frozenset[str]
    ) -> frozenset[str]:
        """Deliver what is complete, in order within a chat, whose disk no other chat waits for. Returns the albums that
        may have parts to come: then all from the first of them on is to be asked for again."""
        taken, offset = set[str](), self._offset
        coming, chats = frozenset[str](), dict[str, list[tuple[Fields, Inbound | None]]]()
        for update in batch:
            album = updates.album_of(update)
            if album and album not in waited:
                coming = frozenset(filter(None, map(updates.album_of, batch)))
                break
            parts = [update]
            if album:
                parts = [] if album in taken else [one for one in batch if updates.album_of(one) == album]
                taken.add(album)
            read = [inbound for part in parts if (inbound := self._read(part, bot))]
            whole = (updates.joined(read) if len(read) > 1 else read[0]) if read else None
            chats.setdefault(whole.address.chat if whole else "", []).append((update, whole))
            offset = int(update["update_id"]) + 1
        ended = await asyncio.gather(*(self._hand_in(each, deliver) for each in chats.values()), return_exceptions=True)
        for error in filter(None, ended):
            raise error  # all of it comes again, and what was taken in is known
        self._offset = offset
        return coming

    def _read(self, update: Fields, bot: updates.Bot) -> Inbound | None:
        try:
            return updates.read(update, bot, self._clock(), self._most_bytes)
        except Exception as error:  # whatever is wrong with it, the others are delivered
            log_skipped("Telegram", str(error) if isinstance(error, Malformed) else type(error).__name__)
            return None

    async def _hand_in(self, of_chat: Sequence[tuple[Fields, Inbound | None]], deliver: Deliver) -> None:
        for update, inbound in of_chat:
            if inbound:
                if not inbound.is_edit:
                    remember(self._newest, inbound.address.chat, inbound.external_id)
                await deliver(inbound)
            await self._answer_press(update)

    async def _answer_press(self, update: Fields) -> None:
        """The button stops turning, and goes with those beside it: what it said need not be said twice. In a group it
        stays for the person whom it is for when somebody else presses it."""
        press = update.get("callback_query")
        if isinstance(press, dict) and isinstance(press.get("id"), str):
            with suppress(ChannelError):  # it stops by itself
                await self._api.call("answerCallbackQuery", seconds=POLL_GRACE_SECONDS, callback_query_id=press["id"])
        if below := updates.pressed(update):
            chat, message, person = below
            if chat < 0 and self._asked.get(f"{chat}:{message}") != person:
                return
            with suppress(ChannelError):  # they are gone already, or their message is
                await self._api.call(
                    "editMessageReplyMarkup", seconds=POLL_GRACE_SECONDS, chat_id=chat, message_id=message
                )

    async def _remove_webhook(self) -> None:
        logger.warning("Telegram sent this bot's messages to a webhook; it is removed, so that they come here")
        await self._api.call("deleteWebhook", drop_pending_updates=False)

    # --- out ---------------------------------------------------------------------------------------------------------

    async def send(self, outbound: Outbound) -> str:
        """Returns CHAT:MESSAGE, the form in which messages that come are numbered, too. When a connection breaks before
        Telegram's answer has come, nobody can tell whether the message arrived: sent again, it may be there twice."""
        place, chat = Place.of(outbound.address.chat), outbound.address.chat
        shown = await self._live.hand_over(outbound)
        more = {**self._answering_to(place, outbound.reply_to), "reply_markup": _keyboard(outbound.buttons)}
        if outbound.files:
            sent = await self._send_file(Path(outbound.files[0]), outbound.text, more)
        else:
            sent = await self._send_text(outbound.text, more, shown)
        self._drafts.pop(chat, None)
        if outbound.buttons and place.person:
            remember(self._asked, sent, place.person)
        return sent

    def show(self, address: Address, event: Event) -> None:
        chat = address.chat
        match event:
            case TurnBegan(reply_to):
                self._answering[chat] = reply_to
            case Queued(id) if number := _message_number(id):
                self._live.beside(chat, self._change(chat, number, "setMessageReaction", reaction=[SEEN]))
            case Settled(id) if number := _message_number(id):
                self._live.beside(chat, self._change(chat, number, "editMessageReplyMarkup"))
        self._live.show(address, event)

    async def _change(self, chat: str, number: int | None, method: str, **more: Any) -> None:
        where = self._where(Place.of(chat))["chat_id"]
        await self._ask(method, chat_id=where, message_id=number, **more)

    def pause_seconds(self, chat: str) -> float:
        return GROUP_PAUSE_SECONDS if _is_group(Place.of(chat)) else PAUSE_SECONDS

    async def typing(self, chat: str) -> None:
        draft = self._draft(chat)
        if draft and time.monotonic() - draft.at > DRAFT_SECONDS:
            await self._show_draft(chat, draft)
        await self._ask("sendChatAction", action="typing", **self._where(Place.of(chat)))

    async def write(self, chat: str, text: str, before: str) -> str:
        """Show a draft, which fades by itself, in private chats; a message elsewhere."""
        place = Place.of(chat)
        answered = self._answering.get(chat, "")
        if not before and not _is_group(place) and chat not in self._draftless:
            draft = self._draft(chat) or _Draft(next(self._draft_ids), answered)
            try:
                await self._show_draft(chat, replace(draft, asked={**_rendered(text), **self._where(place)}))
                return ""
            except Undeliverable:
                self._draftless.add(chat)
        return await self._send_text(text, self._answering_to(place, "" if before else answered), before)

    async def erase(self, chat: str, id: str) -> None:
        await self._change(chat, _message_number(id), "deleteMessage")

    async def stay(self, chat: str, id: str, text: str) -> None:
        """A draft fades: what it said stays as a message."""
        if id:
            return
        await self._send_text(text, self._answering_to(Place.of(chat), self._answering.get(chat, "")))
        self._drafts.pop(chat, None)

    def _draft(self, chat: str) -> _Draft | None:
        """The one of the answer that is being written."""
        draft = self._drafts.get(chat)
        return draft if draft and draft.answered == self._answering.get(chat, "") else None

    async def _show_draft(self, chat: str, draft: _Draft) -> None:
        await self._ask("sendMessageDraft", draft_id=draft.id, can_stop=True, **draft.asked)
        self._drafts[chat] = replace(draft, at=time.monotonic())

    async def _send_text(self, text: str, more: dict[str, Any], shown: str = "") -> str:
        """Send a text in place of the message `shown`, if there is one that can be changed."""
        said = {**_rendered(text), "link_preview_options": {"is_disabled": True}}
        if number := _message_number(shown):
            kept = {name: more[name] for name in ("chat_id", "reply_markup") if name in more}
            try:
                return _id_of(await self._ask("editMessageText", message_id=number, **said, **kept))
            except Undeliverable as refused:
                if "not modified" in str(refused):
                    return shown
        return _id_of(await self._ask("sendMessage", **said, **more))

    async def _send_file(self, path: Path, caption: str, more: dict[str, Any]) -> str:
        """Send a file as a photo or voice note, else as a document. Raises Undeliverable for one that is gone."""
        text = _rendered(caption)
        said = {"caption": text["text"], "caption_entities": text["entities"]}
        try:
            kind = _kind_of(path)
            if kind != "document":
                try:
                    return _id_of(await self._ask(f"send{kind.title()}", file=(kind, path), **said, **more))
                except Undeliverable:  # too long and thin for a photo, or a person who wants no voice messages
                    pass
            return _id_of(await self._ask("sendDocument", file=("document", path), **said, **more))
        except OSError as error:
            raise Undeliverable(f"the file {path.name} cannot be read: {error.strerror}.") from error

    async def _ask(self, method: str, **parameters: Any) -> Any:
        """The result, if need be without what Telegram refuses. Raises Undeliverable, ChannelError."""
        while True:
            try:
                return await self._api.call(method, **parameters)
            except Refusal as refusal:
                mended = self._mended(parameters, refusal)
                if mended is None:
                    raise Undeliverable(str(refusal)) from refusal
                parameters = mended

    def _mended(self, parameters: dict[str, Any], refusal: Refusal) -> dict[str, Any] | None:
        """Parameters to ask with instead, None for no others; each change can happen only once."""
        chat = parameters.get("chat_id")
        if refusal.moved_to and isinstance(chat, int) and chat not in self._moved:
            logger.info("the Telegram group {} has moved to {}", chat, refusal.moved_to)
            self._moved[chat] = refusal.moved_to
            return {**parameters, "chat_id": refusal.moved_to}
        said = refusal.description.lower()
        for name, words in _DISPENSABLE.items():
            if parameters.get(name) and any(word in said for word in words):
                return {**parameters, name: None}
        return None

    def _where(self, place: Place) -> dict[str, Any]:
        try:
            chat = int(place.chat)
        except ValueError:
            raise Undeliverable(f"{place.chat!r} is not a Telegram chat: chat ids are numbers.") from None
        thread = int(place.thread) if place.thread.isdecimal() else None
        return {"chat_id": self._moved.get(chat, chat), "message_thread_id": thread}

    def _answering_to(self, place: Place, reply_to: str) -> dict[str, Any]:
        """Parameters for the place, and for the message answered where it could be taken for an answer to another."""
        is_far, number = _is_group(place) or self._newest.get(str(place)) != reply_to, _message_number(reply_to)
        quoting = {"message_id": number, "allow_sending_without_reply": True} if number and is_far else None
        return {**self._where(place), "reply_parameters": quoting}


def _is_group(place: Place) -> bool:
    return place.chat.startswith("-")


def _kind_of(path: Path) -> str:
    kind = _SHOWN_AS.get(path.suffix.lower(), "document")
    return "document" if kind == "photo" and path.stat().st_size > _PHOTO_BYTES else kind


def _message_number(id: str) -> int | None:
    """The second half of CHAT:MESSAGE; None for anything else, such as a button that was pressed."""
    chat, _, number = id.partition(":")
    return int(number) if number.isdecimal() and chat.removeprefix("-").isdecimal() else None


def _id_of(sent: Any) -> str:
    try:
        return f"{sent['chat']['id']}:{sent['message_id']}"
    except (TypeError, KeyError):
        raise ChannelError("Telegram accepted a message without giving its number.") from None


def _keyboard(buttons: Sequence[Button]) -> dict[str, Any] | None:
    """As many in a row as can be read side by side. A button whose text is too long for Telegram is left out."""
    rows: list[list[dict[str, str]]] = []
    for button in buttons:
        if not 0 < len(button.text.encode()) <= _BUTTON_BYTES:
            continue
        if not rows or sum(len(one["text"]) for one in rows[-1]) + len(button.label) > ROW_CHARACTERS:
            rows.append([])
        rows[-1].append({"text": button.label, "callback_data": button.text})
    return {"inline_keyboard": rows} if rows else None


def _rendered(text: str) -> dict[str, Any]:
    plain, entities = to_telegram(text)
    return {"text": plain, "entities": entities}
