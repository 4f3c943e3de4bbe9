"""A person on Matrix for the live tests: an account of its own on the test server, and a client that plays it."""

import asyncio
import hashlib
import hmac
import io
import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parent / "servers" / "matrix.sh"
SECRET = b"nanoclaw-live"
SERVER = "localhost"
PASSWORD = "pass-of-the-tests"
SECONDS = 40.0  # until which what is expected must be there


def homeserver() -> str:
    """Start the server if it does not run yet; its address. Skips the test where it cannot be installed."""
    try:
        started = subprocess.run([SCRIPT, "start"], capture_output=True, text=True, timeout=600)
    except (OSError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"Synapse cannot be started: {error}")
    if started.returncode:
        pytest.skip(f"Synapse cannot be started: {started.stderr[-500:]}")
    return started.stdout.split()[-1]


def register(server: str, name: str) -> str:
    """A new account with PASSWORD; its whole id."""
    nonce = _get(f"{server}/_synapse/admin/v1/register")["nonce"]
    parts = (nonce.encode(), name.encode(), PASSWORD.encode(), b"notadmin")
    mac = hmac.new(SECRET, b"\0".join(parts), hashlib.sha1).hexdigest()
    body = {"nonce": nonce, "username": name, "password": PASSWORD, "admin": False, "mac": mac}
    return str(_get(f"{server}/_synapse/admin/v1/register", body)["user_id"])


def new_name(kind: str) -> str:
    return f"{kind}-{os.urandom(4).hex()}"


def _get(url: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


@dataclass
class Person:
    """What somebody sees and does. `seen` are the events of all rooms in order, in plain."""

    client: Any
    seen: list[dict[str, Any]] = field(default_factory=list)
    undecrypted: list[Any] = field(default_factory=list)
    typing: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    @property
    def id(self) -> str:
        return str(self.client.user_id)

    async def room(self, *others: str, encrypted: bool = False, name: str = "", is_direct: bool = False) -> str:
        state = [{"type": "m.room.encryption", "content": {"algorithm": "m.megolm.v1.aes-sha2"}}] if encrypted else []
        made = await self.client.room_create(invite=others, is_direct=is_direct, name=name or None, initial_state=state)
        return str(_good(made).room_id)

    async def joined(self, room: str, user: str) -> None:
        """Wait until somebody is in the room."""
        await self.until(lambda: room in self.client.rooms and user in _members(self.client.rooms[room]))

    async def say(self, room: str, text: str, **more: Any) -> str:
        return await self.send(room, {"msgtype": "m.text", "body": text, **more})

    async def send(self, room: str, content: dict[str, Any]) -> str:
        await self.poll(0)
        sent = await self.client.room_send(room, "m.room.message", content, ignore_unverified_devices=True)
        return str(_good(sent).event_id)

    async def show(self, room: str, data: bytes, mime: str, name: str, **more: Any) -> str:
        """Send a file as clients do, encrypted where the room is."""
        await self.poll(0)
        secret = self.client.rooms[room].encrypted
        answer, key = await self.client.upload(io.BytesIO(data), mime, name, secret, filesize=len(data))
        uri = _good(answer).content_uri
        where = {"file": {**key, "url": uri}} if secret else {"url": uri}
        kind = {"image": "m.image", "audio": "m.audio"}.get(mime.partition("/")[0], "m.file")
        info = {"mimetype": mime, "size": len(data)}
        return await self.send(room, {"msgtype": kind, "body": name, "info": info, **where, **more})

    def texts(self, room: str, sender: str) -> list[str]:
        """What somebody's messages in a room say now, with their edits, without those that were deleted."""
        shown: dict[str, str] = {}
        for event in self.seen:
            content = event.get("content", {})
            if event.get("room_id") != room:
                continue
            if event["type"] == "m.room.redaction":
                shown.pop(event.get("redacts") or content.get("redacts", ""), None)
            elif event["type"] == "m.room.message" and event["sender"] == sender:
                relation = content.get("m.relates_to", {})
                if relation.get("rel_type") == "m.replace":
                    shown[relation["event_id"]] = content["m.new_content"]["body"]
                else:
                    shown[event["event_id"]] = content["body"]
        return list(shown.values())

    def messages(self, room: str, sender: str) -> list[dict[str, Any]]:
        return [
            event
            for event in self.seen
            if event.get("room_id") == room and event["sender"] == sender and event["type"] == "m.room.message"
        ]

    async def hears(self, room: str, sender: str, *texts: str) -> None:
        """Wait until the messages of somebody in a room are these, no more and no fewer."""
        try:
            await self.until(lambda: self.texts(room, sender) == list(texts))
        except TimeoutError:
            raise AssertionError(f"expected {texts}, heard {self.texts(room, sender)}") from None

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(SECONDS):
            while not condition():
                await self.poll(1000)

    async def poll(self, milliseconds: int) -> None:
        client = self.client
        news = _good(await client.sync(milliseconds, full_state=not client.next_batch))
        for room_id, info in news.rooms.join.items():
            for event in info.timeline.events:
                if type(event).__name__ == "MegolmEvent":
                    self.undecrypted.append(event)
                else:
                    self.seen.append({**event.source, "room_id": room_id})
            for event in info.ephemeral:
                if hasattr(event, "users"):
                    self.typing.append((room_id, tuple(event.users)))
        if client.should_upload_keys:
            _good(await client.keys_upload())
        if client.should_query_keys:
            _good(await client.keys_query())
        if client.should_claim_keys:
            _good(await client.keys_claim(client.get_users_for_key_claiming()))
        await client.send_to_device_messages()


@asynccontextmanager
async def person(server: str, folder: Path, name: str = "") -> AsyncIterator[Person]:
    """A new account, or another device of one, signed in; `folder` is for its keys."""
    from nio import AsyncClient, AsyncClientConfig

    user = name or register(server, new_name("anna"))
    client = AsyncClient(server, user, store_path=str(folder), config=AsyncClientConfig(encryption_enabled=True))
    try:
        _good(await client.login(PASSWORD, device_name="phone"))
        somebody = Person(client)
        await somebody.poll(0)
        yield somebody
    finally:
        await client.close()
        if client.store:
            client.store.database.close()


def _members(room: Any) -> set[str]:
    return {user for user, member in room.users.items() if not member.invited}


def _good(answer: Any) -> Any:
    assert "Error" not in type(answer).__name__, answer
    return answer


def folder(tmp_path: Path, name: str) -> Path:
    made = tmp_path / name
    made.mkdir(exist_ok=True)
    return made
