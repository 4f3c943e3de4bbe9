"""A connection to a homeserver: nio's client, which says what went wrong and which no stranger's event can stop.

Imported inside functions only: nio takes half a second and 40 MB.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from aiohttp import ClientConnectorError, ClientError
from nio import (
    AsyncClient,
    AsyncClientConfig,
    ErrorResponse,
    Event,
    InviteEvent,
    LocalProtocolError,
    MegolmEvent,
    MessageDirection,
    SyncResponse,
    ToDeviceEvent,
)
from nio.api import ReceiptType
from nio.exceptions import EncryptionError

from nanoclaw.channels.web_api import too_large
from nanoclaw.core.errors import ChannelError, ChannelUnavailable, Undeliverable, Unreachable
from nanoclaw.escapes import one_line

Remark = Callable[[str, str], None]
"""Takes a kind and a line for the log."""

REQUEST_SECONDS = 60.0
SEND_SECONDS = 10.0
PAGE_EVENTS = 100
LIMITED_SECONDS = 5.0
"""Seconds to wait when the server limits the rate and does not say how long."""

_HOPELESS = {
    "M_FORBIDDEN": "the assistant may not do that there",
    "M_NOT_FOUND": "there is no such room or message",
    "M_TOO_LARGE": "it is too large for the homeserver",
    "M_BAD_JSON": "the homeserver rejects it",
    "M_INVALID_PARAM": "the homeserver rejects it",
    "M_UNSUPPORTED_ROOM_VERSION": "the homeserver does not know that kind of room",
}


class SignedOut(ChannelError):
    """The login is no longer valid; with `is_soft` the same device may log in again."""

    def __init__(self, is_soft: bool) -> None:
        super().__init__("the homeserver no longer accepts the assistant's login.")
        self.is_soft = is_soft


class TooLarge(Undeliverable):
    """The event or file is larger than the homeserver takes."""


class Client(AsyncClient):  # type: ignore[misc]  # nio has no types
    def __init__(self, homeserver: str, user: str, device: str, folder: Path, remark: Remark) -> None:
        logging.getLogger("nio").setLevel(logging.CRITICAL)  # what matters is told by this channel
        config = AsyncClientConfig(
            encryption_enabled=True,
            max_limit_exceeded=0,
            max_timeouts=0,
            request_timeout=REQUEST_SECONDS,
        )
        super().__init__(homeserver, user, device_id=device, store_path=str(folder), config=config)
        self._sharing, self._remark = asyncio.Lock(), remark
        self._entered: set[str] = set()

    async def close(self) -> None:
        await super().close()
        if self.store:
            self.store.database.close()

    async def _done(self, request: Awaitable[Any], seconds: float | None = None) -> Any:
        """The answer of a request. Raises ChannelError."""
        with reached(self.homeserver):
            async with asyncio.timeout(seconds):
                return checked(await request)

    # --- in --------------------------------------------------------------------------------------------------------

    async def poll(self, since: str, seconds: float, events: int, *, full: bool) -> SyncResponse:
        """News since then, waited for some seconds; with `full` the state of all rooms too."""
        choice = {
            "room": {"timeline": {"limit": events}, "ephemeral": {"types": []}},
            "presence": {"types": []},
            "account_data": {"types": []},
        }
        limit = REQUEST_SECONDS * 5 if full else REQUEST_SECONDS
        return await self._done(self.sync(int(seconds * 1000), choice, since or None, full or None), limit)

    async def earlier(self, room_id: str, start: str, end: str) -> Any:
        """A page of a room's history: `chunk` are events, the newest first, and `end` is where the next one starts."""
        return await self._done(self.room_messages(room_id, start, end or None, MessageDirection.back, PAGE_EVENTS))

    async def event(self, room_id: str, event_id: str) -> Any:
        event = (await self._done(self.room_get_event(room_id, event_id))).event
        if isinstance(event, MegolmEvent):
            event.room_id = room_id
            return self.decrypted(event) or event
        return event

    async def accept(self, room_id: str) -> None:
        await self._done(self.join(room_id))
        self._entered.add(room_id)

    async def leave(self, room_id: str) -> None:
        """Leave a room, and have it gone from the list of rooms."""
        await self._done(self.room_leave(room_id))
        await self._done(self.room_forget(room_id))
        self.left(room_id)

    def left(self, room_id: str) -> None:
        self.rooms.pop(room_id, None)
        self._entered.discard(room_id)

    def decrypted(self, event: MegolmEvent) -> Event | None:
        """The event in plain, None while its key is not there."""
        if not self.olm.inbound_group_store.get(event.room_id, event.sender_key, event.session_id):
            return None
        try:
            return self.decrypt_event(event)
        except EncryptionError:
            return None
        except Exception as error:
            self._skipped(error)
            return None

    async def keep_keys(self) -> None:
        """Tell the server and other devices what encryption needs between two polls. Only a lost connection and an
        invalid login raise: without these requests messages still come and go."""
        with reached(self.homeserver):
            answers = list(await self.send_to_device_messages())
            if self.should_upload_keys:
                answers.append(await self.keys_upload())
            await self._query_keys()
            if self.should_claim_keys:
                answers.append(await self.keys_claim(self.get_users_for_key_claiming()))
        for answer in answers:
            try:
                checked(answer)
            except SignedOut:
                raise
            except ChannelError as error:
                self._remark("encryption", f"the homeserver rejected an encryption key: {error}")

    async def _query_keys(self) -> None:
        """One user at a time, so that keys of one that make no sense do not hide those of others."""
        for user in sorted(self.users_for_key_query):
            self.olm.users_for_key_query = {user}
            try:
                checked(await self.keys_query())
            except (ClientError, OSError, TimeoutError, ChannelError):
                raise
            except Exception as error:
                self._skipped(error)
        if self.olm:
            self.olm.users_for_key_query = set()

    def _skipped(self, error: Exception) -> None:
        self._remark("event", f"skipped an event that cannot be read: {type(error).__name__}")

    # nio handles one sync as a whole; what follows keeps one bad event from losing the others

    async def create_matrix_response(
        self, response_class: Any, transport_response: Any, data: Any = None, save_to: Any = None
    ) -> Any:
        try:
            return await super().create_matrix_response(response_class, transport_response, data, save_to)
        except (ClientError, OSError, TimeoutError):
            raise
        except Exception as error:
            if response_class is not SyncResponse:
                raise
            self._skipped(error)
            answer = SyncResponse.from_dict(_without_bad(await self.parse_body(transport_response)))
            answer.transport_response = transport_response
            return answer

    def _handle_decrypt_to_device(self, to_device_event: Any) -> Any:
        try:
            return super()._handle_decrypt_to_device(to_device_event)
        except Exception as error:
            return self._skipped(error)

    def _handle_timeline_event(self, *arguments: Any) -> Any:
        try:
            return super()._handle_timeline_event(*arguments)
        except Exception as error:
            return self._skipped(error)

    # --- out -------------------------------------------------------------------------------------------------------

    async def say(self, room_id: str, content: dict[str, Any], transaction: str, kind: str = "m.room.message") -> str:
        """Send an event, encrypted where the room is; its id. The server takes one transaction once."""
        with reached(self.homeserver):
            room = self.room(room_id)
            if room.encrypted:
                async with self._sharing:
                    await self._share_keys(room)
            async with asyncio.timeout(SEND_SECONDS):  # another try does not say it twice
                answer = checked(await self.room_send(room_id, kind, content, transaction, True))
        return str(answer.event_id)

    async def redact(self, room_id: str, event_id: str) -> None:
        await self._done(self.room_redact(room_id, event_id, tx_id=f"redact-{event_id}"))

    async def typing(self, room_id: str, seconds: float) -> None:
        """Show for this long that the assistant is typing; 0 ends it."""
        await self._done(self.room_typing(room_id, seconds > 0, int(seconds * 1000)))

    async def mark_read(self, room_id: str, event_id: str, thread: str) -> None:
        await self._done(self.update_receipt_marker(room_id, event_id, ReceiptType.read, thread))

    async def store_file(self, room_id: str, data: bytes, mime: str, name: str, seconds: float) -> dict[str, Any]:
        """Upload a file for a room, encrypted where the room is; the part of its event that says where it is."""
        is_secret = self.room(room_id).encrypted
        with reached(self.homeserver):
            async with asyncio.timeout(seconds):
                answer, key = await self.upload(
                    io.BytesIO(data), mime, None if is_secret else name, is_secret, filesize=len(data)
                )
        uri = checked(answer).content_uri
        return {"file": {**key, "url": uri}} if is_secret else {"url": uri}

    def room(self, room_id: str) -> Any:
        """Raises Undeliverable if the assistant is not in the room, ChannelError until the first sync with it."""
        room = self.rooms.get(room_id)
        if room is None and room_id in self._entered:
            raise ChannelError(f"the assistant has just entered the room {room_id}.", 1)
        if room is None:
            raise Undeliverable(f"the assistant is not in the room {room_id}: invite it again.")
        return room

    async def _share_keys(self, room: Any) -> None:
        """Make sure that every device in the room can read what is said next. nio itself continues without those that
        it could not reach."""
        if not room.members_synced:
            checked(await self.joined_members(room.room_id))
        await self._query_keys()
        if not self.olm.should_share_group_session(room.room_id):
            return
        if missing := self.get_missing_sessions(room.room_id):
            checked(await self.keys_claim(missing))
        checked(await self.share_group_session(room.room_id, ignore_unverified_devices=True))
        session = self.olm.outbound_group_sessions[room.room_id]
        wanted = {
            (user, device.id)
            for user in room.users
            for device in self.device_store.active_user_devices(user)
            if device.id != self.device_id and self.olm.session_store.get(device.curve25519)
        }
        if wanted - session.users_shared_with - session.users_ignored:
            del self.olm.outbound_group_sessions[room.room_id]
            raise ChannelError("the homeserver rejected the keys of an encrypted message.")

    # --- requests that nio does not know ---------------------------------------------------------------------------

    async def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """One request below /_matrix/client/v3; status and answer."""
        with reached(self.homeserver):
            data = None if body is None else json.dumps(body)
            response = await self.send(method, f"/_matrix/client/v3/{path}", data, self._headers())
            return response.status, await self.parse_body(response)

    async def see_login(self) -> None:
        """Raises SignedOut if the login is not valid, ChannelError for what is not a homeserver."""
        status, answer = await self.ask("GET", "account/whoami")
        if answer.get("errcode") in ("M_UNKNOWN_TOKEN", "M_MISSING_TOKEN"):
            raise SignedOut(bool(answer.get("soft_logout")))
        if status != 200:
            raise ChannelError(f"the homeserver answered {answer.get('errcode') or status}.")

    async def download(self, mxc: str, most: int) -> bytes:
        """The bytes of a file. Raises Undeliverable for more than `most` or one that is gone, else ChannelError."""
        where = "/".join(quote(part, safe="") for part in mxc.removeprefix("mxc://").split("/"))
        for path in (f"/_matrix/client/v1/media/download/{where}", f"/_matrix/media/v3/download/{where}"):
            with reached(self.homeserver):
                asked = self.send("GET", path, None, self._headers(), timeout=REQUEST_SECONDS * 5)
                with closing(await asked) as response:
                    if response.status == 200:
                        return await _bounded(response, most)
                    answer = await self.parse_body(response)
            if answer.get("errcode") != "M_UNRECOGNIZED":  # a server older than authenticated media
                break
        if answer.get("errcode") == "M_UNKNOWN_TOKEN":
            raise SignedOut(bool(answer.get("soft_logout")))
        if response.status in (403, 404):
            raise Undeliverable("the homeserver does not have the file any more.")
        raise ChannelError("the homeserver does not give the file now.")

    def _headers(self) -> dict[str, str]:
        return {"Content-Type": "application/json", "Authorization": f"Bearer {self.access_token}"}


def checked(response: Any) -> Any:
    """The answer of a request; nio returns errors as values. Raises ChannelError."""
    if not isinstance(response, ErrorResponse):
        return response
    code, status = response.status_code, getattr(response.transport_response, "status", None)
    if code in ("M_UNKNOWN_TOKEN", "M_MISSING_TOKEN"):
        raise SignedOut(response.soft_logout)
    if code == "M_LIMIT_EXCEEDED" or status == 429:
        seconds = (response.retry_after_ms or 0) / 1000 or LIMITED_SECONDS
        raise ChannelError("the homeserver limits how fast the assistant may write.", seconds)
    if code == "M_TOO_LARGE":
        raise TooLarge(f"{_HOPELESS[code]}.")
    if code in _HOPELESS:
        raise Undeliverable(f"{_HOPELESS[code]} ({one_line(response.message, 200)}).")
    refusal = ChannelUnavailable if isinstance(status, int) and status >= 500 else ChannelError
    raise refusal(f"the homeserver answered {code or status}: {one_line(str(response.message), 200)}.")


@contextmanager
def reached(homeserver: str) -> Iterator[None]:
    """Turn the errors of a lost connection into a ChannelError."""
    try:
        yield
    except (ClientError, OSError, TimeoutError) as error:
        why = "it took too long" if isinstance(error, TimeoutError) else one_line(str(error), 200)
        kind = Unreachable if isinstance(error, ClientConnectorError) else ChannelUnavailable
        raise kind(f"{homeserver} cannot be reached: {why or type(error).__name__}.") from error
    except (LocalProtocolError, EncryptionError) as error:
        raise ChannelError(f"encryption is not ready: {one_line(str(error), 200)}.") from error


async def _bounded(response: Any, most: int) -> bytes:
    if (response.content_length or 0) > most:
        raise too_large(most)
    received = io.BytesIO()
    async for piece in response.content.iter_chunked(65_536):
        received.write(piece)
        if received.tell() > most:
            raise too_large(most)
    return received.getvalue()


def _without_bad(value: Any, parse: Any = Event.parse_event) -> Any:
    """A sync's answer without the events that nio cannot read."""
    if not isinstance(value, dict):
        return value
    return {
        name: [one for one in part if _is_readable(one, parse)]
        if name == "events" and isinstance(part, list)
        else _without_bad(part, _PARSERS.get(name, parse))
        for name, part in value.items()
    }


_PARSERS = {"invite_state": InviteEvent.parse_event, "to_device": ToDeviceEvent.parse_event}


def _is_readable(event: Any, parse: Any) -> bool:
    try:
        parse(event)
    except Exception:
        return False
    return True
