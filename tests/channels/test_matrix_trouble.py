"""The Matrix channel when the homeserver refuses, falls silent, or passes on what strangers made up."""

import asyncio
import json
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.channels.matrix import client
from nanoclaw.channels.matrix.channel import Matrix
from nanoclaw.channels.matrix.events import HeldFile
from nanoclaw.channels.matrix.settings import MatrixSettings
from nanoclaw.core.channel import ChannelAccess, ChannelHost
from nanoclaw.core.errors import ChannelError, ChannelUnavailable, Undeliverable
from nanoclaw.core.events import TextDelta, TurnBegan, TurnEnded
from nanoclaw.core.messages import Address, Attachment, Inbound, Outbound
from tests.channels.homeserver import (
    ANNA,
    BOT,
    ROOM,
    TOKEN,
    Homeserver,
    event,
    homeserver,
    invitation,
    member,
    room,
    text,
)
from tests.channels.test_matrix import UNFETCHED
from tests.virtual_time import skip

NOW = datetime(2026, 3, 6, 12, tzinfo=UTC)
UNKNOWN_TOKEN = (401, {"errcode": "M_UNKNOWN_TOKEN", "error": "Invalid access token passed."})


class Knows(ChannelAccess):
    """Whom the owner has let in; and who asked for that by an invitation."""

    def __init__(self, *people: str) -> None:
        self.people, self.is_linking, self.asked = set(people), False, list[str]()

    def is_known(self, sender: str) -> bool:
        return sender in self.people

    def awaits_code(self) -> bool:
        return self.is_linking

    async def invited_by(self, sender: str) -> None:
        self.asked.append(sender)


def make(server: Homeserver, folder: Path, password: str = "right", knows: tuple[str, ...] = (ANNA,)) -> Matrix:
    host = ChannelHost(folder, lambda: NOW, 1_000, access=Knows(*knows))
    return Matrix(MatrixSettings(server.url, BOT, password), host)


async def ignore(inbound: Inbound) -> None:
    pass


@asynccontextmanager
async def running(
    server: Homeserver, channel: Matrix, deliver: Callable[[Inbound], Awaitable[None]] = ignore
) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(channel.run(deliver))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def heard(server: Homeserver, folder: Path) -> list[Inbound]:
    """Messages that are delivered until there is no more news."""
    said: list[Inbound] = []

    async def note(inbound: Inbound) -> None:
        said.append(inbound)

    syncs = len(server.paths("/sync")) + len(server.news) + 1
    async with running(server, make(server, folder), note) as task:
        waiting = asyncio.create_task(server.until("/sync", syncs))
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
    return said


def stores(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("*.db*")]


def to(words: str, room_id: str = ROOM) -> Outbound:
    return Outbound(Address("matrix", room_id), words, key="1.0")


async def test_a_wrong_password_says_what_to_do_and_is_not_tried_again_soon(tmp_path: Path) -> None:
    async with homeserver() as server:
        server.refusals["/login"] = [(403, {"errcode": "M_FORBIDDEN", "error": "Invalid username or password"})]
        with pytest.raises(ChannelError, match="NANOCLAW_MATRIX_PASSWORD") as raised:
            await make(server, tmp_path, "canary-password").run(ignore)
        assert raised.value.retry_after == 300
        assert "canary-password" not in str(raised.value)


async def test_a_login_is_kept_where_only_the_owner_can_read_it(tmp_path: Path) -> None:
    async with homeserver() as server:
        server.news = [{}]
        assert await heard(server, tmp_path / "matrix") == []
        assert stat.S_IMODE((tmp_path / "matrix").stat().st_mode) == 0o700
        for name in ("account.json", "sync.json"):
            assert stat.S_IMODE((tmp_path / "matrix" / name).stat().st_mode) == 0o600
        server.news = [{}]
        await heard(server, tmp_path / "matrix")
        assert len(server.paths("/login")) == 1


async def test_a_login_that_was_revoked_is_made_anew_with_the_password(tmp_path: Path) -> None:
    async with homeserver() as server:
        server.news = [{}]
        await heard(server, tmp_path)
        server.refusals["/sync"] = [UNKNOWN_TOKEN]
        with pytest.raises(ChannelError, match="logs in again with the password"):
            await make(server, tmp_path).run(ignore)
        server.news = [{}]
        await heard(server, tmp_path)
        assert len(server.paths("/login")) == 2
        assert "device_id" not in server.bodies("/login")[1]


async def test_the_keys_of_an_earlier_login_are_deleted(tmp_path: Path) -> None:
    async with homeserver() as server:
        server.news = [{}]
        await heard(server, tmp_path)
        mine = tmp_path / f"{BOT}_DEV.db"
        kept = mine.stat().st_ino
        (tmp_path / f"{BOT}_OLD.db").write_bytes(b"keys")
        (tmp_path / f"{BOT}_OLD.db-journal").write_bytes(b"keys")
        server.refusals["/sync"] = [UNKNOWN_TOKEN]
        with pytest.raises(ChannelError):
            await make(server, tmp_path).run(ignore)
        server.news = [{}]
        await heard(server, tmp_path)
        assert stores(tmp_path) == [mine.name]
        assert mine.stat().st_ino == kept


async def test_a_login_that_only_ran_out_keeps_its_device(tmp_path: Path) -> None:
    async with homeserver() as server:
        server.news = [{}]
        await heard(server, tmp_path)
        status, said = UNKNOWN_TOKEN
        server.refusals["/sync"] = [(status, {**said, "soft_logout": True})]
        with pytest.raises(ChannelError):
            await make(server, tmp_path).run(ignore)
        server.news = [{}]
        await heard(server, tmp_path)
        assert server.bodies("/login")[1]["device_id"] == "DEV"


async def test_without_the_password_a_revoked_login_says_what_to_do(tmp_path: Path) -> None:
    async with homeserver() as server:
        server.news = [{}]
        await heard(server, tmp_path)
        server.refusals["/sync"] = [UNKNOWN_TOKEN]
        channel = make(server, tmp_path, "")
        for _ in range(2):
            with pytest.raises(ChannelError, match=r"[sS]et NANOCLAW_MATRIX_PASSWORD") as raised:
                await channel.run(ignore)
            assert TOKEN not in str(raised.value)


async def test_a_server_that_falls_silent_is_noticed(tmp_path: Path) -> None:
    async with homeserver() as server:
        server.news = [{}]
        channel = make(server, tmp_path)
        running = asyncio.create_task(channel.run(ignore))
        await server.until("/sync", 2)
        skip(5 * client.REQUEST_SECONDS)
        with pytest.raises(ChannelError, match="took too long"):
            await running
        assert channel.alive == NOW


async def test_a_server_that_is_not_there_is_a_channel_error(tmp_path: Path) -> None:
    async with homeserver() as server:
        channel = make(server, tmp_path)
    with pytest.raises(ChannelError, match="cannot be reached"):
        await channel.run(ignore)
    assert channel.alive is None


@pytest.mark.parametrize(
    ("status", "said", "kind", "wait"),
    [
        (429, {"errcode": "M_LIMIT_EXCEEDED", "error": "slow", "retry_after_ms": 2_500}, ChannelError, 2.5),
        (429, {}, ChannelError, 5.0),
        (403, {"errcode": "M_FORBIDDEN", "error": "no rights"}, Undeliverable, None),
        (413, {"errcode": "M_TOO_LARGE", "error": "too long"}, Undeliverable, None),
        (502, {}, ChannelUnavailable, None),
        (500, {"errcode": "M_UNKNOWN", "error": "broken"}, ChannelUnavailable, None),
    ],
)
async def test_a_refusal_to_send_is_worth_another_try_or_not(
    tmp_path: Path, status: int, said: dict[str, Any], kind: type[ChannelError], wait: float | None
) -> None:
    async with homeserver() as server:
        server.news = [room()]
        channel = make(server, tmp_path)
        async with running(server, channel):
            server.refusals["/send/"] = [(status, said)]
            with pytest.raises(kind) as raised:
                await channel.send(to("hello"))
            assert type(raised.value) is kind or issubclass(type(raised.value), Undeliverable)
            assert isinstance(raised.value, Undeliverable) is (kind is Undeliverable)
            assert raised.value.retry_after == wait
            assert await channel.send(to("hello")) == "$sent2"
            first, second = server.paths("/send/")
            assert first == second  # the same transaction


async def test_html_is_left_out_where_the_whole_is_too_large(tmp_path: Path) -> None:
    async with homeserver() as server:
        server.news = [room()]
        channel = make(server, tmp_path)
        async with running(server, channel):
            server.refusals["/send/"] = [(413, {"errcode": "M_TOO_LARGE", "error": "too long"})]
            await channel.send(to("**bold**"))
            first, second = server.bodies("/send/")
            assert "formatted_body" in first
            assert second == {"msgtype": "m.text", "body": "**bold**", "m.mentions": {}, **UNFETCHED}


async def test_nothing_is_sent_once_the_program_ends(tmp_path: Path) -> None:
    async with homeserver() as server:
        server.news = [room()]
        channel = make(server, tmp_path)
        async with running(server, channel):
            await server.until("/sync", 2)
        with pytest.raises(ChannelError, match="no connection"):
            await channel.send(to("hello"))
        assert server.paths("/send/") == []


async def test_malformed_events_are_skipped_and_the_others_heard(tmp_path: Path) -> None:
    async with homeserver() as server:
        odd: list[Any] = [
            5,
            None,
            {"type": "m.room.message"},
            event(10, {"msgtype": "m.text"}),
            event(11, {"msgtype": 7, "body": "x"}),
            text(12, ["no", "text"]),
            event(13, {"msgtype": "m.image", "body": "x", "url": "http://evil.example/x"}),
            event(14, {"membership": "join", "displayname": {"a": 1}}, kind="m.room.member", state_key=ANNA),
            event(15, {"membership": ["join"]}, kind="m.room.member", state_key=BOT, unsigned={"prev_content": 5}),
            event(16, {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": 7}, kind="m.room.encrypted"),
            text(17, "x", unsigned={"redacted_because": 5}),
            event(18, {"msgtype": "m.text", "body": "\ud800", "m.relates_to": {"m.in_reply_to": {"event_id": ["$x"]}}}),
            {**text(19, "the future"), "origin_server_ts": 10**17},
        ]
        to_device = {"type": "m.room.encrypted", "sender": ANNA}
        olm = {"algorithm": "m.olm.v1.curve25519-aes-sha2", "sender_key": "x"}
        server.news = [
            room(),
            {
                **room(text(9, "first"), *odd, text(20, "last")),
                "to_device": {"events": [5, {**to_device, "content": {**olm, "ciphertext": {"k": 5}}}, to_device]},
            },
        ]
        assert [one.message.text for one in await heard(server, tmp_path)] == ["first", "\ufffd", "the future", "last"]


async def test_what_a_message_was_changed_to_is_told_when_its_author_did_it(tmp_path: Path) -> None:
    def change(number: int, body: str, of: int, **more: Any) -> dict[str, Any]:
        new = {"msgtype": "m.text", "body": body}
        relation = {"rel_type": "m.replace", "event_id": f"$e{of}"}
        return event(number, {**new, "body": f"* {body}", "m.new_content": new, "m.relates_to": relation}, **more)

    async with homeserver() as server:
        news = [text(4, "Wen is it?"), change(5, "When is it?", 4), change(6, "Never.", 4, sender="@mo:localhost")]
        server.news = [room(), room(*news, change(7, "What?", 99), text(8, "Yes"))]
        said = await heard(server, tmp_path)
        assert [(one.external_id, one.message.text, one.is_edit) for one in said] == [
            ("$e4", "Wen is it?", False),
            ("$e4", "When is it?", True),
            ("$e8", "Yes", False),
        ]
        assert said[1].address == said[0].address


async def test_a_message_of_a_group_may_come_to_mention_the_assistant(tmp_path: Path) -> None:
    new = {"msgtype": "m.text", "body": f"{BOT}: hello"}
    relation = {"rel_type": "m.replace", "event_id": "$e4"}
    change = event(5, {**new, "body": f"* {BOT}: hello", "m.new_content": new, "m.relates_to": relation})
    async with homeserver() as server:
        server.news = [room(state=(member(3, "@mo:localhost"),)), room(text(4, "hello all"), change)]
        said = await heard(server, tmp_path)
        assert [(one.message.text, one.is_mention) for one in said] == [("hello all", False), ("hello", True)]


async def test_a_key_made_to_break_decryption_stops_nothing(tmp_path: Path) -> None:
    """A stranger may send any key to a device; here one that its library cannot even parse."""
    async with homeserver() as server:
        server.news = [room()]
        await heard(server, tmp_path)
        own = server.bodies("/keys/upload")[0]["device_keys"]["keys"]["curve25519:DEV"]
        olm = {"algorithm": "m.olm.v1.curve25519-aes-sha2", "sender_key": "AAAA"}
        poison = [
            {"type": "m.room.encrypted", "sender": "@mo:evil", "content": {**olm, "ciphertext": {own: broken}}}
            for broken in ({"type": 0, "body": "AAAA"}, {"type": 1, "body": "!"}, {"type": 0, "body": "é"})
        ]
        server.news = [{**room(text(9, "still here")), "to_device": {"events": poison}}]
        assert [one.message.text for one in await heard(server, tmp_path)] == ["still here"]


async def test_messages_are_told_again_until_they_are_stored(tmp_path: Path) -> None:
    async with homeserver() as server:
        server.news = [room()]
        await heard(server, tmp_path)
        server.news = [room(text(9, "one"), text(10, "two"))]

        async def full(inbound: Inbound) -> None:
            if inbound.message.text == "two":
                raise OSError("the disk is full")

        with pytest.raises(OSError, match="full"):
            await make(server, tmp_path).run(full)
        server.news = [room(text(9, "one"), text(10, "two"))]
        assert [one.external_id for one in await heard(server, tmp_path)] == ["$e9", "$e10"]
        since = [query.get("since") for _, path, query, _ in server.asked if path.endswith("/sync")]
        assert since == [None, "s1", "s1", "s1", "s4"]


async def test_a_gap_that_the_server_does_not_show_stops_nothing(tmp_path: Path) -> None:
    async with homeserver() as server:
        server.refusals["/messages"] = [(403, {"errcode": "M_FORBIDDEN", "error": "You aren't a member of the room"})]
        server.news = [room(), room(text(9, "after the gap"), limited=True)]
        assert [one.message.text for one in await heard(server, tmp_path)] == ["after the gap"]


async def test_a_thousand_invitations_of_strangers_cost_nothing(tmp_path: Path, log: list[str]) -> None:
    async with homeserver() as server:
        many: dict[str, Any] = {}
        for number in range(1_200):
            many |= invitation(number, f"@stranger{number}:evil")
        server.news = [room(), {"rooms": {"invite": many}}, {"rooms": {"invite": invitation(5_000, ANNA)}}]
        await heard(server, tmp_path)
        assert server.paths("/join") == ["/_matrix/client/v3/join/!invited5000:localhost"]
        assert len(json.loads((tmp_path / "sync.json").read_text())["invitations"]) == 1_000
        assert sum("not known here" in line for line in log) == 1


async def test_a_strangers_invitation_asks_and_is_accepted_once_they_are_let_in(tmp_path: Path) -> None:
    async with homeserver() as server:
        knows = Knows(ANNA)
        channel = Matrix(MatrixSettings(server.url, BOT, "right"), ChannelHost(tmp_path, lambda: NOW, access=knows))
        server.news = [{"rooms": {"invite": invitation(1, "@sue:x")}}, {}]
        async with running(server, channel):
            await server.until("/sync", 3)
            assert (server.paths("/join"), knows.asked) == ([], ["@sue:x"])
        knows.people.add("@sue:x")
        server.news = [{}]
        async with running(server, channel):
            await server.until("/join/!invited1:localhost")


async def test_a_room_of_a_stranger_that_was_entered_while_a_code_was_awaited_is_left(tmp_path: Path) -> None:
    """But not that of the owner, who wrote the code there, and those of known people."""
    async with homeserver() as server:
        knows = Knows(ANNA)
        knows.is_linking = True
        channel = Matrix(MatrixSettings(server.url, BOT, "right"), ChannelHost(tmp_path, lambda: NOW, access=knows))
        many = invitation(1, "@mallory:evil") | invitation(2, "@owner:x") | invitation(3, ANNA)
        server.news = [{"rooms": {"invite": many}}, {}]
        async with running(server, channel):
            await server.until("/sync", 3)
            assert len(server.paths("/join")) == 3 and server.paths("/leave") == []
        knows.people.add("@owner:x")
        knows.is_linking = False
        server.news = [{}, {}]
        async with running(server, channel):
            await server.until("/forget")
        assert server.paths("/leave") == ["/_matrix/client/v3/rooms/!invited1:localhost/leave"]
        assert server.paths("/forget") == ["/_matrix/client/v3/rooms/!invited1:localhost/forget"]


async def test_an_invitation_that_stays_is_told_once(tmp_path: Path, log: list[str]) -> None:
    async with homeserver() as server:
        now = NOW
        channel = Matrix(MatrixSettings(server.url, BOT, "right"), ChannelHost(tmp_path, lambda: now))
        for _ in range(2):
            server.news = [{"rooms": {"invite": invitation(1, "@stranger:evil")}}, {}] if not server.asked else [{}, {}]
            async with running(server, channel):
                await server.until("/sync", len(server.paths("/sync")) + 3)
            now += timedelta(minutes=2)
        assert sum("not known here" in line for line in log) == 1


async def test_the_first_message_of_a_thread_says_what_it_is_about(tmp_path: Path) -> None:
    thread = {
        "rel_type": "m.thread",
        "event_id": "$e10",
        "is_falling_back": True,
        "m.in_reply_to": {"event_id": "$e10"},
    }
    reply = {"rel_type": "m.thread", "event_id": "$e10", "m.in_reply_to": {"event_id": "$e11"}}

    def within(number: int, words: str, relation: dict[str, Any] = thread) -> dict[str, Any]:
        return event(number, {"msgtype": "m.text", "body": words, "m.relates_to": relation})

    async with homeserver() as server:
        server.news = [
            room(),
            room(text(10, "The boiler")),
            room(within(11, "Explain"), within(12, "More"), within(13, "This", reply)),
        ]
        said = await heard(server, tmp_path)
    assert [one.quote for one in said] == ["", "The boiler", "", "Explain"]


async def test_what_a_stopped_turn_said_stays_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nanoclaw.channels.matrix.channel.LIVE_SECONDS", 0.01)
    async with homeserver() as server:
        server.news = [room()]
        channel, place = make(server, tmp_path), Address("matrix", ROOM)
        async with running(server, channel):
            channel.show(place, TurnBegan("$e1"))
            channel.show(place, TextDelta("A heron stands"))
            await server.until("/send/m.", 1)
            channel.show(place, TurnEnded("Stopped.", "cancelled"))
            await channel.send(Outbound(place, "Stopped.", reply_to="$e1", key="1.0"))
        assert [body["body"] for body in server.bodies("/send/m.")] == ["A heron stands", "Stopped."]
        server.news = [room()]
        await heard(server, tmp_path)
        assert not server.paths("/redact/")


async def test_a_login_can_be_looked_at_without_running(tmp_path: Path) -> None:
    """It is made once, kept, and made anew when it was revoked and there is a password."""
    async with homeserver() as server:
        assert await make(server, tmp_path).check() == BOT
        assert await make(server, tmp_path, password="").check() == BOT
        assert len(server.paths("/login")) == 1
        server.refusals["/whoami"] = [UNKNOWN_TOKEN]
        assert await make(server, tmp_path).check() == BOT
        assert len(server.paths("/login")) == 2
        server.refusals["/whoami"] = [UNKNOWN_TOKEN, (404, {})]
        no_password = make(server, tmp_path, password="")
        with pytest.raises(ChannelError, match="Set NANOCLAW_MATRIX_PASSWORD"):
            await no_password.check()
        server.refusals["/login"] = [(403, {"errcode": "M_FORBIDDEN", "error": "no"})]
        with pytest.raises(ChannelError, match="refuses @nano:localhost with this password"):
            await make(server, tmp_path, password="wrong").check()
        assert not server.paths("/sync")


async def test_an_invitation_that_fails_is_tried_again_later(tmp_path: Path) -> None:
    async with homeserver() as server:
        server.refusals["/join/"] = [(502, {}), (404, {"errcode": "M_NOT_FOUND", "error": "gone"})]
        now = NOW
        host = ChannelHost(tmp_path, lambda: now, access=Knows(ANNA))
        channel = Matrix(MatrixSettings(server.url, BOT, "right"), host)
        server.news = [{"rooms": {"invite": invitation(1, ANNA)}}, {}]
        async with running(server, channel):
            await server.until("/sync", 3)
            assert len(server.paths("/join/")) == 1
        now += timedelta(minutes=11)
        server.news = [{}, {}]
        async with running(server, channel):
            await server.until("/sync", 6)
        assert len(server.paths("/join/")) == 2
        assert json.loads((tmp_path / "sync.json").read_text())["invitations"] == []


async def test_what_a_killed_process_had_begun_to_say_is_deleted(tmp_path: Path) -> None:
    """But not what goes on growing after a lost connection, nor what was finished."""
    async with homeserver() as server:
        server.news = [room()]
        channel = make(server, tmp_path)
        async with running(server, channel):
            finished = await channel.write(ROOM, "One", "")
            await channel.erase(ROOM, finished)
            growing = await channel.write(ROOM, "A heron", "")
            server.refusals["/sync"] = [(502, {})]
        assert len(server.paths("/redact/")) == 1
        server.news = [room()]
        with pytest.raises(ChannelError):
            await channel.run(ignore)
        async with running(server, channel):
            await server.until("/sync", 5)
        assert len(server.paths("/redact/")) == 1
        server.news = [room()]
        await heard(server, tmp_path)
        assert [path.split("/")[-2] for path in server.paths("/redact/")] == [finished, growing]
        server.news = [room()]
        await heard(server, tmp_path)
        assert len(server.paths("/redact/")) == 2


async def test_what_was_said_right_before_the_process_was_killed_is_found_by_its_transaction(tmp_path: Path) -> None:
    """The server had taken it, but the process never heard of that."""
    async with homeserver() as server:
        server.news = [room()]
        async with running(server, channel := make(server, tmp_path)):
            for status, code in ((403, "M_FORBIDDEN"), (502, "M_UNKNOWN")):  # the first was not taken for certain
                server.refusals["/send/"] = [(status, {"errcode": code, "error": "no"})]
                with pytest.raises(ChannelError):
                    await channel.write(ROOM, "A heron", "")
        refused, lost = (path.rsplit("/", 1)[-1] for path in server.paths("/send/m."))
        echoes = [
            text(number, "A", sender=BOT, unsigned={"transaction_id": name})
            for number, name in ((5, refused), (6, lost), (7, "another"))
        ]
        server.news = [room(text(4, "hello"), *echoes)]
        assert [inbound.message.text for inbound in await heard(server, tmp_path)] == ["hello"]
        assert [path.split("/")[-2] for path in server.paths("/redact/")] == ["$e6"]
        server.news = [room(*echoes)]
        await heard(server, tmp_path)
        assert len(server.paths("/redact/")) == 1


async def test_a_download_stops_at_its_limit_whatever_was_declared(tmp_path: Path) -> None:
    async with homeserver() as server:
        server.news = [room()]
        server.files = {"large": b"x" * 2_000_000, "small": b"fine"}
        channel = make(server, tmp_path)
        async with running(server, channel):
            large = Attachment("", "x.bin", ref=str(HeldFile("mxc://localhost/large")), size=5)
            with pytest.raises(ChannelError, match="larger than"):
                await channel.fetch(large, 1_000)
            assert await channel.fetch(Attachment("", "x", ref=str(HeldFile("mxc://localhost/small"))), 4) == b"fine"
            changed = Attachment("", "x", ref=str(HeldFile("mxc://localhost/small", "AAAA", "AAAA", "AAAA")))
            with pytest.raises(ChannelError, match="cannot be decrypted"):
                await channel.fetch(changed, 1_000)
            with pytest.raises(ChannelError, match="not known where"):
                await channel.fetch(Attachment("", "x", ref="nonsense"), 1_000)
            server.refusals["/media/"] = [(404, {"errcode": "M_NOT_FOUND", "error": "gone"})]
            with pytest.raises(ChannelError, match="any more"):
                await channel.fetch(Attachment("", "x", ref=str(HeldFile("mxc://localhost/small"))), 1_000)


async def test_a_file_that_is_gone_is_not_uploaded_and_the_hints_tell_how_large_one_may_be(tmp_path: Path) -> None:
    async with homeserver() as server:
        server.news = [room()]
        channel = make(server, tmp_path / "matrix")
        async with running(server, channel):
            with pytest.raises(Undeliverable, match="cannot be read"):
                await channel.send(Outbound(Address("matrix", ROOM), "", (str(tmp_path / "gone.bin"),), key="1.0"))
        assert (server.paths("/media/"), channel.hints.file_bytes) == ([], 1_000)


async def test_a_damaged_file_of_its_own_is_named(tmp_path: Path) -> None:
    (tmp_path / "sync.json").write_text("[]")
    async with homeserver() as server:
        with pytest.raises(ChannelError, match=r"sync\.json is damaged"):
            await make(server, tmp_path).run(ignore)
