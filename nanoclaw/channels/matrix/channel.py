"""The Matrix channel: one sync after the other for what comes, one event for each thing that goes out."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nanoclaw.channels.bot import file_to_send
from nanoclaw.channels.fields import table
from nanoclaw.channels.live import LiveAnswers
from nanoclaw.channels.matrix.account import MOST_WAITING, Account, Folder, SyncProgress
from nanoclaw.channels.matrix.events import HeldFile
from nanoclaw.channels.matrix.settings import MatrixSettings
from nanoclaw.channels.matrix.signing import cross_sign
from nanoclaw.channels.matrix.timeline import Timeline
from nanoclaw.channels.newest import mark_of
from nanoclaw.core.channel import ChannelHost, Deliver, Hints, Place
from nanoclaw.core.errors import ChannelError, ConfigError, Undeliverable, Unreachable
from nanoclaw.core.events import Event
from nanoclaw.core.messages import Address, Attachment, Inbound, Outbound
from nanoclaw.escapes import one_line
from nanoclaw.log import logger
from nanoclaw.markdown.html import to_html

if TYPE_CHECKING:
    from nanoclaw.channels.matrix.client import Client, SignedOut

POLL_SECONDS = 30.0
TIMELINE_EVENTS = 100
LENGTH = 10_000
"""Bytes of one message: an event holds 65,536 with the text twice, once as HTML, and a third more when encrypted."""

LIVE_SECONDS = 2.0
"""Between two edits of an answer that grows: homeservers limit how fast one may write."""

TYPING_SECONDS = 12.0
READY_SECONDS = 20.0
UPLOAD_SECONDS = 300.0
WRONG_PASSWORD_SECONDS = 300.0
MOST_INVITATIONS = 1_000
MOST_ENTERED = 20
"""Rooms of strangers that are entered at once while the owner's code is awaited."""

_UNNAMED = "transaction "
"""Before what stands for the id of a message that the server has not confirmed."""

REMARK_SECONDS = 60.0
INVITATION_SECONDS = 600.0
"""After so long an invitation is retried that could not be accepted."""


class Matrix:
    """One account on one homeserver. A room of two is a private chat, a larger one a group.

    Devices are trusted on first use: what is said in an encrypted room can be read by every device of its members.
    It passes on edits of the latest messages; deleted ones count as they were; notices of other
    bots are left alone. Matrix knows no albums: each file is a message of its own.
    """

    name = "matrix"

    def __init__(self, settings: MatrixSettings, host: ChannelHost) -> None:
        """`host.folder` holds the keys and the login; the password is needed until there is one. Raises ConfigError for
        what is missing."""
        homeserver, user, password = settings
        if not re.fullmatch(r"https?://[^/\s]+/?", homeserver):
            raise ConfigError(
                f"channels.matrix.homeserver must be an address such as https://matrix.example.org, not {homeserver!r}."
            )
        if not re.fullmatch(r"@[^:\s]+:\S+", user):
            raise ConfigError(f"channels.matrix.user must be a whole id such as @bot:example.org, not {user!r}.")
        self._homeserver, self._user, self._password = homeserver.rstrip("/"), user, password
        self._folder, self._clock = Folder(host.folder), host.clock
        self._access, self._redact = host.access, host.redact
        if not password and not self._folder.has_login(user):
            raise ConfigError(
                f"the first login of {user} needs its password: set NANOCLAW_MATRIX_PASSWORD, "
                "also as a line of secrets.env."
            )
        self._client: Client | None = None
        self._ready, self._is_over = asyncio.Event(), False
        self.alive: datetime | None = None
        self._progress = SyncProgress()
        self._timeline = Timeline(self.name, user, host.clock, self._remark)
        self._remarked: dict[str, datetime] = {}
        self._tried: dict[str, datetime] = {}
        self._typing: set[str] = set()
        self.hints = Hints(
            length=LENGTH,
            units="bytes",
            markup="markdown",
            caption=LENGTH,
            file_bytes=host.most_bytes,
            edits=True,
            threads=True,
        )
        self._live = LiveAnswers(self, self.hints)

    def serves(self, outbound: Outbound) -> bool:
        return True

    # --- in ----------------------------------------------------------------------------------------------------------

    async def run(self, deliver: Deliver) -> None:
        from nanoclaw.channels.matrix.client import Client, SignedOut

        self._folder.make()
        self._progress = self._folder.progress(self._user)
        account = self._folder.account(self._user)
        self._client = client = Client(self._homeserver, self._user, account.device, self._folder.path, self._remark)
        try:
            account = await self._logged_in(client, account)
            self._redact.add(account.token, *account.seeds.as_text().values())
            await self._receive(client, account, deliver)
        except SignedOut as error:
            raise self._signed_out(error) from None
        except asyncio.CancelledError:
            self._is_over = True
            raise
        finally:
            self._ready.clear()
            self._client = None
            await client.close()

    async def check(self) -> str:
        """The user that it is logged in as, if need be with the password. Raises ChannelError."""
        from nanoclaw.channels.matrix.client import SignedOut

        self._folder.make()
        try:
            await self._look()
        except SignedOut as error:
            told = self._signed_out(error)
            if not self._password:
                raise told from None
            await self._look()
        return self._user

    async def _look(self) -> None:
        from nanoclaw.channels.matrix.client import Client

        account = self._folder.account(self._user)
        client = Client(self._homeserver, self._user, account.device, self._folder.path, self._remark)
        try:
            await self._logged_in(client, account)
            await client.see_login()
        finally:
            await client.close()

    def _signed_out(self, error: SignedOut) -> ChannelError:
        """Forget a login that the server no longer takes; what is said of that."""
        account = self._folder.account(self._user)
        self._folder.keep_account(replace(account, device=account.device if error.is_soft else "", token=""))
        if self._password:
            return ChannelError(f"{error} It logs in again with the password.")
        return ChannelError(f"{error} Set NANOCLAW_MATRIX_PASSWORD to log in again.", 60)

    async def _logged_in(self, client: Client, account: Account) -> Account:
        """Log in with what was kept, or for the first time with the password."""
        from nanoclaw.channels.matrix.client import checked, reached

        if account.token:
            client.restore_login(account.user, account.device, account.token)
            return account
        if not self._password:
            raise ChannelError(f"the login of {self._user} needs its password: set NANOCLAW_MATRIX_PASSWORD.", 60)
        with reached(self._homeserver):
            answer = await client.login(self._password, device_name="nanoclaw")
        code = getattr(answer, "status_code", None)
        if code in ("M_FORBIDDEN", "M_USER_DEACTIVATED"):
            raise ChannelError(
                f"the homeserver refuses {self._user} with this password: check channels.matrix.user and "
                "NANOCLAW_MATRIX_PASSWORD.",
                WRONG_PASSWORD_SECONDS,
            )
        checked(answer)
        if answer.user_id != self._user:
            raise ChannelError(
                f"the homeserver calls this user {answer.user_id}: write that as channels.matrix.user.", 60
            )
        account = replace(account, device=answer.device_id, token=answer.access_token)
        self._folder.keep_account(account)
        self._folder.forget_others(account.device)
        return account

    async def _receive(self, client: Client, account: Account, deliver: Deliver) -> None:
        is_first, is_new = True, self.alive is None
        while True:
            since, pause = self._progress.since, 0.0 if is_first else POLL_SECONDS
            news = await client.poll(since, pause, TIMELINE_EVENTS, full=is_first)
            self.alive = self._clock()
            self._recognize(news)
            await client.keep_keys()
            for room_id in news.rooms.leave:
                client.left(room_id)
            read: list[Inbound] = []
            if is_first:
                if why := await cross_sign(client.ask, account.user, account.device, account.seeds, self._password):
                    self._remark("signing", f"other Matrix clients see this device as not verified: {why}.")
                if is_new:
                    await self._erase_growing(client)
                async for inbound in self._timeline.left_over(client, self._progress.undecrypted):
                    await deliver(inbound)
            self._ready.set()
            if since:  # at the very first start there are only old messages
                async for inbound in self._timeline.new(client, news, since):
                    await deliver(inbound)
                    read.append(inbound)
            await self._answer_invitations(client, news)
            self._keep_progress(news)
            await self._mark_read(client, read)
            is_first = False

    async def _answer_invitations(self, client: Client, news: Any) -> None:
        """Accept those of known people; the others stay, as their senders may become known. While the owner's code is
        awaited those of others are accepted, too, and left again if it was not they who wrote it."""
        waiting, before = dict(self._progress.invitations), dict(self._progress.invitations)
        for room_id in (*news.rooms.join, *news.rooms.leave):
            waiting.pop(room_id, None)
        for room_id in news.rooms.invite:
            if inviter := client.invited_rooms[room_id].inviter:
                waiting[room_id] = inviter
            client.invited_rooms.pop(room_id)
        is_linking = self._access.awaits_code()
        for room_id, inviter in list(waiting.items()):
            is_known = self._access.is_known(inviter)
            if not is_known and not is_linking:
                if before.get(room_id) != inviter:
                    self._remark(
                        "stranger", f"ignored an invitation from {one_line(inviter, 100)}, who is not known here."
                    )
                    await self._access.invited_by(inviter)
            elif self._may_try(room_id) and await self._accept(client, room_id, inviter):
                del waiting[room_id]
                if not is_known:
                    self._progress = replace(self._progress, entered=(*self._progress.entered, (room_id, inviter)))
        self._progress = replace(self._progress, invitations=tuple(waiting.items())[-MOST_INVITATIONS:])
        await self._leave_strangers(client, is_linking=is_linking)

    async def _leave_strangers(self, client: Client, *, is_linking: bool) -> None:
        """Leave rooms that were entered for a code that nobody there wrote; while it is awaited the oldest of many."""
        from nanoclaw.channels.matrix.client import SignedOut

        strangers = [one for one in self._progress.entered if not self._access.is_known(one[1])]
        left = set[tuple[str, str]]()
        for room_id, inviter in strangers[:-MOST_ENTERED] if is_linking else strangers:
            try:
                await client.leave(room_id)
            except SignedOut:
                raise
            except ChannelError as error:
                self._remark("leaving", f"a room of {one_line(inviter, 100)} could not be left: {error}")
                if not isinstance(error, Undeliverable):
                    continue
            left.add((room_id, inviter))
        kept = tuple(one for one in strangers if one not in left)
        if kept != self._progress.entered:
            self._progress = replace(self._progress, entered=kept)

    async def _accept(self, client: Client, room_id: str, inviter: str) -> bool:
        """Join the room; True when the invitation needs nothing more."""
        from nanoclaw.channels.matrix.client import SignedOut

        try:
            await client.accept(room_id)
        except SignedOut:
            raise
        except ChannelError as error:
            self._remark("invitation", f"an invitation from {inviter} could not be accepted: {error}")
            return isinstance(error, Undeliverable)
        return True

    def _may_try(self, room_id: str) -> bool:
        now, before = self._clock(), self._tried.get(room_id)
        if before and now - before < timedelta(seconds=INVITATION_SECONDS):
            return False
        self._tried[room_id] = now
        return True

    def _keep_progress(self, news: Any) -> None:
        """Everything up to here is stored, so the next start continues from here."""
        before = self._progress
        self._progress = replace(before, since=news.next_batch, undecrypted=self._timeline.undecrypted)
        if self._progress != before:
            self._folder.keep_progress(self._user, self._progress)

    async def _mark_read(self, client: Client, read: Sequence[Inbound]) -> None:
        """Show known people how far the assistant has read."""
        newest = {
            inbound.address.chat: inbound
            for inbound in read
            if not inbound.is_edit and self._access.is_known(inbound.sender)
        }
        for inbound in newest.values():
            place = Place.of(inbound.address.chat)
            with suppress(ChannelError):
                await client.mark_read(place.chat, inbound.external_id, place.thread or "main")

    def _remark(self, kind: str, text: str) -> None:
        """Write a line to the log, at most one of each kind per minute."""
        now = self._clock()
        last = self._remarked.get(kind)
        if last is None or (now - last).total_seconds() >= REMARK_SECONDS:
            self._remarked[kind] = now
            logger.warning("matrix: {}", text)

    # --- files -------------------------------------------------------------------------------------------------------

    async def fetch(self, attachment: Attachment, most: int) -> bytes:
        """The file, of at most `most` bytes. Raises Undeliverable for one that is larger or gone, else ChannelError"""
        try:
            held = HeldFile.of(attachment.ref)
        except ValueError as error:
            raise Undeliverable(f"it is not known where {attachment.name} is on Matrix.") from error
        client = await self._connected()
        data = await client.download(held.mxc, most)
        return await asyncio.to_thread(_decrypted, data, held, attachment.name) if held.key else data

    # --- out ---------------------------------------------------------------------------------------------------------

    async def send(self, outbound: Outbound) -> str:
        client, place = await self._connected(), Place.of(outbound.address.chat)
        shown = await self._live.hand_over(outbound)
        files, text = outbound.files, outbound.text
        content = await self._file(client, place, Path(files[0]), text) if files else _words(text)
        content = _edit(content, shown) if shown else _related(content, place, outbound.reply_to)
        sent = await self._say(client, place.chat, content, mark_of(outbound) if outbound.key else uuid.uuid4().hex)
        if shown:  # who answers an edited message names the first event
            sent = shown
            self._grows(place.chat, shown, False)
        self._timeline.remember(sent, self._user, outbound.text)
        if place.chat in self._typing:
            self._typing.discard(place.chat)
            with suppress(ChannelError):
                await client.typing(place.chat, 0)
        return sent

    def show(self, address: Address, event: Event) -> None:
        self._live.show(address, event)

    def pause_seconds(self, chat: str) -> float:
        return LIVE_SECONDS

    async def typing(self, chat: str) -> None:
        client, room_id = await self._connected(), Place.of(chat).chat
        self._typing.add(room_id)
        await client.typing(room_id, TYPING_SECONDS)

    async def write(self, chat: str, text: str, before: str) -> str:
        """Show Markdown in place of the message `before`, or as a new one; the id of what is shown."""
        client, place = await self._connected(), Place.of(chat)
        words, transaction = _words(text), uuid.uuid4().hex
        content = _edit(words, before) if before else _related(words, place, "")
        if not before:
            self._grows(place.chat, f"{_UNNAMED}{transaction}", True)
        try:
            sent = await self._say(client, place.chat, content, transaction)
        except Undeliverable:
            self._grows(place.chat, f"{_UNNAMED}{transaction}", False)
            raise
        if not before:
            self._named(place.chat, transaction, sent)
        self._timeline.remember(before or sent, self._user, text)
        return before or sent

    async def erase(self, chat: str, id: str) -> None:
        client, room_id = await self._connected(), Place.of(chat).chat
        await client.redact(room_id, id)
        self._grows(room_id, id, False)

    async def stay(self, chat: str, id: str, text: str) -> None:
        self._grows(Place.of(chat).chat, id, False)

    def _grows(self, room_id: str, event_id: str, does: bool) -> None:
        """Save which answers are unfinished, in case this process ends before they do."""
        others = tuple(one for one in self._progress.growing if one != (room_id, event_id))[-MOST_WAITING:]
        self._progress = replace(self._progress, growing=(*others, (room_id, event_id)) if does else others)
        self._folder.keep_progress(self._user, self._progress)

    def _named(self, room_id: str, transaction: str, event_id: str) -> None:
        """An answer that grows has its id. Its transaction was kept before it was sent: who is killed right after that
        finds it nevertheless."""
        unnamed = (room_id, f"{_UNNAMED}{transaction}")
        if unnamed in self._progress.growing:
            named = tuple((room_id, event_id) if one == unnamed else one for one in self._progress.growing)
            self._progress = replace(self._progress, growing=named)
            self._folder.keep_progress(self._user, self._progress)

    def _recognize(self, news: Any) -> None:
        """The ids of own messages, which the server tells with their transactions."""
        if not any(event_id.startswith(_UNNAMED) for _, event_id in self._progress.growing):
            return
        for room_id, info in news.rooms.join.items():
            for event in info.timeline.events:
                source = table(event.source)
                transaction = table(source.get("unsigned")).get("transaction_id")
                self._named(room_id, str(transaction), str(source.get("event_id")))

    async def _erase_growing(self, client: Client) -> None:
        """Delete the unfinished answer of an earlier process: it comes again."""
        growing, self._progress = self._progress.growing, replace(self._progress, growing=())
        for room_id, event_id in growing:
            if not event_id.startswith(_UNNAMED):
                with suppress(ChannelError):
                    await client.redact(room_id, event_id)

    async def _say(self, client: Client, room_id: str, content: dict[str, Any], transaction: str) -> str:
        """Send a message, without its HTML where the whole is too long; its id."""
        from nanoclaw.channels.matrix.client import TooLarge

        try:
            return await client.say(room_id, content, transaction)
        except TooLarge:
            plain = _without_html(content)
            if plain == content:
                raise
            return await client.say(room_id, plain, f"{transaction}-plain")

    async def _file(self, client: Client, place: Place, path: Path, caption: str) -> dict[str, Any]:
        """Upload a file; the content of its event. Raises Undeliverable."""
        data, mime = await asyncio.to_thread(file_to_send, path)
        kind = {"image": "m.image", "audio": "m.audio", "video": "m.video"}.get(mime.partition("/")[0], "m.file")
        where = await client.store_file(place.chat, data, mime, path.name, UPLOAD_SECONDS)
        words: dict[str, Any] = _words(caption) if caption else {"body": path.name}
        if mime == "audio/ogg":
            words["org.matrix.msc3245.voice"] = {}
        return {**words, "msgtype": kind, "filename": path.name, "info": {"mimetype": mime, "size": len(data)}, **where}

    async def _connected(self) -> Client:
        """The client, once the rooms are known. Raises ChannelError if that takes too long."""
        if not self._is_over:
            with suppress(TimeoutError):
                async with asyncio.timeout(READY_SECONDS):
                    await self._ready.wait()
        if self._client is None or not self._ready.is_set():
            raise Unreachable("there is no connection to Matrix at the moment.")
        return self._client


_NO_PREVIEWS: dict[str, Any] = {"m.url_previews": [], "com.beeper.linkpreviews": []}
"""Asks for no previews of links (MSC4095): a homeserver that fetches one tells its host what a model wrote into it."""


def _words(markdown: str) -> dict[str, Any]:
    """The content of a message that says this; with HTML where that shows more than the text."""
    content: dict[str, Any] = {"msgtype": "m.text", "body": markdown, **_NO_PREVIEWS}
    shown = to_html(markdown)
    if shown.removeprefix("<p>").removesuffix("</p>").replace("<br />", "") == escape(markdown, quote=False):
        return content
    return {**content, "format": "org.matrix.custom.html", "formatted_body": shown}


def _edit(content: Mapping[str, Any], before: str) -> dict[str, Any]:
    """The content that replaces the message `before`; clients that know no edits see a new message's beginning."""
    return {
        "msgtype": content["msgtype"],
        "body": f"* {content['body'][:200]}",
        "m.new_content": {**content, "m.mentions": {}},
        "m.relates_to": {"rel_type": "m.replace", "event_id": before},
        "m.mentions": {},
    }


def _related(content: Mapping[str, Any], place: Place, reply_to: str) -> dict[str, Any]:
    """The content in its thread; in a group it answers, and calls, whom it is for."""
    relation: dict[str, Any] = {}
    if place.thread:
        relation = {
            "rel_type": "m.thread",
            "event_id": place.thread,
            "is_falling_back": True,
            "m.in_reply_to": {"event_id": reply_to or place.thread},
        }
    elif place.person and reply_to:
        relation = {"m.in_reply_to": {"event_id": reply_to}}
    mentions = {"user_ids": [place.person]} if place.person and reply_to else {}
    return {**content, "m.mentions": mentions, **({"m.relates_to": relation} if relation else {})}


def _without_html(content: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _without_html(value) if name == "m.new_content" else value
        for name, value in content.items()
        if name not in ("format", "formatted_body")
    }


def _decrypted(data: bytes, held: HeldFile, name: str) -> bytes:
    from nio.crypto.attachments import decrypt_attachment
    from nio.exceptions import EncryptionError

    try:
        return bytes(decrypt_attachment(data, held.key, held.sha256, held.iv))
    except (EncryptionError, ValueError) as error:
        raise Undeliverable(f"{name} cannot be decrypted: it is not what its sender encrypted.") from error
