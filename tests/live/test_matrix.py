"""The Matrix channel against Synapse, through run, send, show and fetch; another client plays the person."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.channels.matrix.channel import Matrix
from nanoclaw.channels.matrix.settings import MatrixSettings
from nanoclaw.core.channel import ChannelAccess, ChannelHost, Place
from nanoclaw.core.errors import ChannelError, Undeliverable
from nanoclaw.core.events import TextDelta, TurnBegan, TurnEnded
from nanoclaw.core.messages import Address, Inbound, Outbound
from tests.live.matrix_person import PASSWORD, Person, folder, homeserver, new_name, person, register

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]

PICTURE = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d4944415478da63fcffff3f030005fe02fe"
    "a7353d810000000049454e44ae426082"
)
SECONDS = 40.0


@pytest.fixture(scope="module")
def server() -> str:
    return homeserver()


class Assistant:
    """The channel as the program runs it, with a list in place of everything behind `deliver`."""

    def __init__(self, channel: Matrix) -> None:
        self.channel = channel
        self.heard: list[Inbound] = []
        self._news = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self.channel.run(self._deliver))

    async def stop(self) -> None:
        assert self._task
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def ended(self) -> BaseException | None:
        assert self._task
        await asyncio.wait([self._task], timeout=SECONDS)
        return self._task.exception()

    async def _deliver(self, inbound: Inbound) -> None:
        async with self._news:
            if all(inbound.external_id != one.external_id for one in self.heard):  # as the inbox does
                self.heard.append(inbound)
            self._news.notify_all()

    async def send(self, outbound: Outbound) -> str:
        """As delivery does it: again after the time that was asked for."""
        while True:
            try:
                return await self.channel.send(outbound)
            except ChannelError as error:
                if error.retry_after is None:
                    raise
                await asyncio.sleep(error.retry_after)

    async def hears(self, *texts: str) -> list[Inbound]:
        """Wait until so many messages have come; they must be these."""
        async with asyncio.timeout(SECONDS), self._news:
            await self._news.wait_for(lambda: len(self.heard) >= len(texts))
        assert [one.message.text for one in self.heard] == list(texts)
        return self.heard


class _Knows(ChannelAccess):
    def __init__(self, knows: Callable[[str], bool]) -> None:
        self._knows = knows

    def is_known(self, sender: str) -> bool:
        return self._knows(sender)


def make(server: str, user: str, folder: Path, knows: Callable[[str], bool], password: str = PASSWORD) -> Assistant:
    def now() -> datetime:
        return datetime.now(UTC)

    return Assistant(Matrix(MatrixSettings(server, user, password), ChannelHost(folder, now, access=_Knows(knows))))


@asynccontextmanager
async def running(
    server: str, folder: Path, knows: Callable[[str], bool] = lambda sender: True, user: str = ""
) -> AsyncIterator[tuple[Assistant, str]]:
    user = user or register(server, new_name("bot"))
    assistant = make(server, user, folder, knows)
    assistant.start()
    try:
        yield assistant, user
    finally:
        await assistant.stop()


@asynccontextmanager
async def both(
    server: str, tmp_path: Path, *, encrypted: bool = False
) -> AsyncIterator[tuple[Assistant, str, Person, str]]:
    """Assistant, its id, a person and their private room."""
    async with running(server, tmp_path / "bot") as (assistant, bot), person(server, folder(tmp_path, "anna")) as anna:
        room = await anna.room(bot, encrypted=encrypted, is_direct=True)
        await anna.joined(room, bot)
        yield assistant, bot, anna, room


def to(room: str, text: str, key: str = "1.0", *, reply_to: str = "", thread: str = "", person: str = "") -> Outbound:
    return Outbound(Address("matrix", str(Place(room, thread, person))), text, reply_to=reply_to, key=key)


@pytest.mark.parametrize("encrypted", [False, True])
async def test_a_message_that_is_sent_again_is_shown_once(server: str, tmp_path: Path, encrypted: bool) -> None:
    async with both(server, tmp_path, encrypted=encrypted) as (assistant, bot, anna, room):
        first = await assistant.send(to(room, "one", "7.0"))
        assert await assistant.send(to(room, "one", "7.0")) == first
        await assistant.send(to(room, "two", "7.1"))
        await anna.hears(room, bot, "one", "two")


@pytest.mark.parametrize("encrypted", [False, True])
async def test_an_answer_grows_by_edits_and_ends_as_one_message(server: str, tmp_path: Path, encrypted: bool) -> None:
    async with both(server, tmp_path, encrypted=encrypted) as (assistant, bot, anna, room):
        asked = await anna.say(room, "tell me")
        await assistant.hears("tell me")
        address = Address("matrix", room)
        assistant.channel.show(address, TurnBegan(asked))
        assistant.channel.show(address, TextDelta("Once upon"))
        await anna.hears(room, bot, "Once upon")
        assert any(bot in users for where, users in anna.typing if where == room)
        assistant.channel.show(address, TextDelta(" a time"))
        await anna.hears(room, bot, "Once upon a time")
        assistant.channel.show(address, TurnEnded("Once upon a time.", "answered"))
        sent = await assistant.send(to(room, "Once upon a time.", "3.0", reply_to=asked))
        await anna.hears(room, bot, "Once upon a time.")
        events = anna.messages(room, bot)
        assert events[0]["event_id"] == sent
        assert {event["content"]["m.relates_to"]["event_id"] for event in events[1:]} == {sent}
        await anna.until(lambda: anna.typing[-1] == (room, ()))


@pytest.mark.parametrize("encrypted", [False, True])
async def test_files_go_both_ways(server: str, tmp_path: Path, encrypted: bool) -> None:
    async with both(server, tmp_path, encrypted=encrypted) as (assistant, bot, anna, room):
        await anna.show(room, PICTURE, "image/png", "../../x.png")
        await anna.show(room, b"Ogg" * 100, "audio/ogg", "voice.ogg", **{"org.matrix.msc3245.voice": {}})
        picture, voice = (one.attachments[0] for one in await assistant.hears("", ""))
        assert (picture.name, picture.mime, picture.size, picture.is_voice) == (
            "x.png",
            "image/png",
            len(PICTURE),
            False,
        )
        assert await assistant.channel.fetch(picture, 1_000) == PICTURE
        assert (voice.name, voice.is_voice) == ("voice.ogg", True)
        assert await assistant.channel.fetch(voice, 1_000) == b"Ogg" * 100
        with pytest.raises(ChannelError, match="larger than"):
            await assistant.channel.fetch(picture, 10)
        with pytest.raises(ChannelError, match="larger than"):  # also where the size that was told is a lie
            await assistant.channel.fetch(picture._replace(size=None), 10)
        path = folder(tmp_path, "out") / "report.txt"
        path.write_text("words")
        sent = await assistant.send(Outbound(Address("matrix", room), "Here **it** is", (str(path),), key="4.0"))
        await anna.hears(room, bot, "Here **it** is")
        (event,) = anna.messages(room, bot)
        content = event["content"]
        assert (event["event_id"], content["msgtype"], content["filename"]) == (sent, "m.file", "report.txt")
        assert ("file" in content) is encrypted
        assert await _downloaded(anna, content) == b"words"


async def _downloaded(anna: Person, content: dict[str, Any]) -> bytes:
    from nio.crypto.attachments import decrypt_attachment

    file = content.get("file")
    answer = await anna.client.download(file["url"] if file else content["url"])
    if not file:
        return bytes(answer.body)
    return bytes(decrypt_attachment(answer.body, file["key"]["k"], file["hashes"]["sha256"], file["iv"]))


@pytest.mark.parametrize("encrypted", [False, True])
async def test_the_longest_message_is_shown_also_as_an_edit(server: str, tmp_path: Path, encrypted: bool) -> None:
    """Without its HTML where both together are more than an event holds."""
    async with both(server, tmp_path, encrypted=encrypted) as (assistant, bot, anna, room):
        words = "**😀** " * (assistant.channel.hints.length // 9)
        shown = await assistant.send(to(room, "short"))
        for text in (words, words[:-9]):
            assert await assistant.channel.write(room, text, shown) == shown
            await anna.hears(room, bot, text)
        await assistant.send(to(room, words, "2.0"))
        await anna.hears(room, bot, words[:-9], words)
        newest = anna.messages(room, bot)[-1]["content"]
        assert ("formatted_body" in newest) is not encrypted


async def test_what_was_said_before_the_very_first_start_is_left_alone(server: str, tmp_path: Path) -> None:
    bot = register(server, new_name("bot"))
    async with person(server, folder(tmp_path, "anna")) as anna, person(server, folder(tmp_path, "x"), bot) as before:
        room = await anna.room(bot)
        await before.client.join(room)
        await anna.joined(room, bot)
        await anna.say(room, "long ago")
        async with running(server, tmp_path / "bot", user=bot) as (assistant, _):
            await assistant.send(to(room, "here I am"))
            await anna.say(room, "now")
            await assistant.hears("now")


async def test_words_that_come_with_an_invitation_are_heard(server: str, tmp_path: Path) -> None:
    async with running(server, tmp_path / "bot") as (assistant, bot), person(server, folder(tmp_path, "anna")) as anna:
        await assistant.stop()
        room = await anna.room()
        await anna.say(room, "not for you")
        await anna.client.room_invite(room, bot)
        await anna.say(room, "hello")
        async with running(server, tmp_path / "bot", user=bot) as (again, _):
            await again.hears("hello")


def _joined(somebody: Person, room: str) -> set[str]:
    return {user for user, member in somebody.client.rooms[room].users.items() if not member.invited}


async def test_a_thread_is_a_conversation_of_its_own(server: str, tmp_path: Path) -> None:
    async with both(server, tmp_path) as (assistant, bot, anna, room):
        root = await anna.say(room, "about the trip")
        relation = {"rel_type": "m.thread", "event_id": root, "is_falling_back": True}
        asked = await anna.say(room, "when?", **{"m.relates_to": {**relation, "m.in_reply_to": {"event_id": root}}})
        _, heard = await assistant.hears("about the trip", "when?")
        assert heard.address == Address("matrix", str(Place(room, root)))
        assert heard.quoted == ""
        await assistant.send(to(room, "on Monday", "1.0", reply_to=asked, thread=root))
        await anna.hears(room, bot, "on Monday")
        relation = anna.messages(room, bot)[0]["content"]["m.relates_to"]
        assert (relation["rel_type"], relation["event_id"]) == ("m.thread", root)


async def test_a_quote_is_fetched_also_of_what_was_said_long_before(server: str, tmp_path: Path) -> None:
    async with both(server, tmp_path, encrypted=True) as (assistant, bot, anna, room):
        old = await anna.say(room, "the code is 7")
        await assistant.hears("the code is 7")
        await assistant.stop()
        async with running(server, tmp_path / "bot", user=bot) as (again, _):
            body = f"> <{anna.id}> the code is 7\n\nthis one"
            await anna.say(room, body, **{"m.relates_to": {"m.in_reply_to": {"event_id": old}}})
            (heard,) = await again.hears("this one")
            assert (heard.quoted, heard.quote) == (old, "the code is 7")


async def test_a_room_that_it_left_cannot_be_written_to(server: str, tmp_path: Path) -> None:
    async with both(server, tmp_path) as (assistant, bot, anna, room):
        await anna.client.room_kick(room, bot)
        await anna.until(lambda: bot not in _joined(anna, room))
        other = await anna.room(bot)
        await anna.joined(other, bot)
        with pytest.raises(Undeliverable, match="not in the room"):
            await assistant.send(to(room, "hello?"))
        await assistant.send(to(other, "here"))
        await anna.hears(other, bot, "here")


async def test_the_device_is_signed_by_keys_that_others_can_see(server: str, tmp_path: Path) -> None:
    """As another user sees it, also after a restart and after the login was revoked."""
    async with both(server, tmp_path) as (assistant, bot, anna, room):
        first = await _signed_devices(anna, bot)
        assert len(first) == 1
        await assistant.stop()
        saved = json.loads((tmp_path / "bot" / "account.json").read_text())
        async with running(server, tmp_path / "bot", user=bot) as (again, _):
            await again.send(to(room, "the same device"))
            assert await _signed_devices(anna, bot) == first
            await _log_out(server, saved["token"])
            error = await again.ended()
            assert isinstance(error, ChannelError)
            assert "no longer takes" in str(error)
            again.start()
            await again.send(to(room, "a new device", "2.0"))
            second = await _signed_devices(anna, bot)
            assert len(second) == 1
            assert not second & first
            await anna.hears(room, bot, "the same device", "a new device")


async def _log_out(server: str, token: str) -> None:
    from aiohttp import ClientSession

    async with (
        ClientSession() as session,
        session.post(
            f"{server}/_matrix/client/v3/logout", headers={"Authorization": f"Bearer {token}"}, json={}
        ) as answer,
    ):
        assert answer.status == 200


async def _signed_devices(anna: Person, user: str) -> set[str]:
    """Devices of a user that are signed by the user's self-signing key, which the master key has signed."""
    import aiohttp
    import vodozemac
    from nio import Api

    headers = {"Authorization": f"Bearer {anna.client.access_token}"}
    url = f"{anna.client.homeserver}/_matrix/client/v3/keys/query"
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, json={"device_keys": {user: []}}, headers=headers) as answer,
    ):
        found = await answer.json()

    def is_signed(value: dict[str, Any], key: str) -> bool:
        signature = value.get("signatures", {}).get(user, {}).get(f"ed25519:{key}")
        if signature is None:
            return False
        bare = {name: part for name, part in value.items() if name not in ("signatures", "unsigned")}
        vodozemac.Ed25519PublicKey.from_base64(key).verify_signature(
            Api.to_canonical_json(bare).encode(), vodozemac.Ed25519Signature.from_base64(signature)
        )
        return True

    (master,) = found["master_keys"][user]["keys"].values()
    (signer,) = found["self_signing_keys"][user]["keys"].values()
    assert is_signed(found["self_signing_keys"][user], master)
    return {device for device, keys in found["device_keys"][user].items() if is_signed(keys, signer)}


async def test_a_device_that_comes_later_can_read_what_is_said_then(server: str, tmp_path: Path) -> None:
    async with both(server, tmp_path, encrypted=True) as (assistant, bot, anna, room):
        await assistant.send(to(room, "one"))
        await anna.hears(room, bot, "one")
        async with person(server, folder(tmp_path, "laptop"), anna.id) as laptop:
            await laptop.say(room, "from the laptop")
            await assistant.hears("from the laptop")
            await assistant.send(to(room, "two", "2.0"))
            await laptop.until(lambda: "two" in laptop.texts(room, bot))
            await anna.hears(room, bot, "one", "two")


async def test_a_message_whose_key_comes_late_is_delivered_then(server: str, tmp_path: Path) -> None:
    """The key is held back until after a restart of the assistant."""
    async with both(server, tmp_path, encrypted=True) as (assistant, bot, anna, room):
        await anna.say(room, "first")
        await assistant.hears("first")
        release = _hold_keys(anna)
        anna.client.invalidate_outbound_session(room)
        await anna.say(room, "secret")
        await anna.say(room, "also secret")
        other = await anna.room(bot)
        await anna.joined(other, bot)  # so the two have been seen
        await assistant.stop()
        async with running(server, tmp_path / "bot", user=bot) as (again, _):
            await again.send(to(other, "back"))
            assert again.heard == []
            await release()
            await again.hears("secret", "also secret")


def _hold_keys(anna: Person) -> Callable[[], Coroutine[None, None, None]]:
    """From now on the keys of rooms are not sent before the returned function is called."""
    from nio import ShareGroupSessionResponse

    held: list[tuple[Any, ...]] = []
    send = anna.client._send

    async def hold(kind: Any, method: str, path: str, data: Any = None, response_data: Any = None, **more: Any) -> Any:
        if kind is ShareGroupSessionResponse:
            held.append((kind, method, path, data, response_data))
            return kind(*response_data)
        return await send(kind, method, path, data, response_data, **more)

    async def release() -> None:
        for request in held:
            await send(*request)

    anna.client._send = hold
    return release
