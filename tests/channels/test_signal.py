"""The Signal channel keeps the contract of chat apps, and what is Signal's own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.channels.fields import Malformed
from nanoclaw.channels.signal import events
from nanoclaw.channels.signal.api import SignalApi
from nanoclaw.core.errors import ChannelUnavailable, Undeliverable
from nanoclaw.providers.scripted import Hang
from tests.channels.contract import ANNA, Contract, Shown, scene
from tests.channels.signal_server import ACCOUNT, ACI, SignalServer
from tests.channels.signal_server import serving as server
from tests.examples import examples
from tests.program import NOON

READ = examples(__file__, "signal_events.jsonl")


class OnSignal:
    name, secret = "signal", "+4915111111111"
    keeps = edits = True
    buttons = False

    def __init__(self, server: SignalServer) -> None:
        self.server = server
        self.settings, self.broken = (
            f'[channels.signal]\naccount = "{account}"\napi_base = "{server.url}"' for account in (ACCOUNT, self.secret)
        )

    async def ready(self) -> None:
        while not self.server.listeners:
            await self.server.changed()

    def id_of(self, who: str) -> str:
        return self.server.person(who)

    async def write(self, who: str, text: str, *, answers: str = "", file: tuple[str, bytes] | None = None) -> str:
        more: dict[str, Any] = {}
        if answers:
            said = next(one for one in self.server.sent if str(one["timestamp"]) == answers)
            author = {"author": ACCOUNT, "authorNumber": ACCOUNT, "authorUuid": ACI}
            more["quote"] = {"id": int(answers), **author, "text": said["message"], "attachments": []}
        if file:
            self.server.files[file[0]] = file[1]
        return str(self.server.write(who, text, files=(file[0],) if file else (), **more))

    async def edit(self, who: str, id: str, text: str) -> None:
        self.server.edit(who, int(id), text)

    async def press(self, who: str, shown: Shown, label: str) -> None:
        raise NotImplementedError

    def shown(self, who: str) -> list[Shown]:
        to = [self.id_of(who)]
        mine = [one for one in self.server.sent if one.get("recipient") == to]
        return [Shown(str(one["timestamp"]), one.get("message", ""), tuple(one["files"])) for one in mine]

    async def changed(self) -> None:
        await self.server.changed()

    async def repeat(self) -> None:
        self.server.repeat()

    async def garble(self) -> None:
        told: list[Any] = [None, 7, [], {"envelope": 5}, {"envelope": {"dataMessage": {"message": ["a"]}}}]
        for event in told:
            self.server.event(event)
        for data in (
            {"message": "no time"},
            {"timestamp": True, "message": "x"},
            {"timestamp": 5, "attachments": [{}]},
        ):
            self.server.tell("Anna", dataMessage=data)
        self.server.tell("Anna", editMessage={"targetSentTimestamp": "then", "dataMessage": {"message": "x"}})
        self.server.tell("Anna", typingMessage={"action": "STARTED", "timestamp": 1})

    async def leave(self) -> None:
        await self.server.leave()

    async def come_back(self) -> None:
        await self.server.start()


@asynccontextmanager
async def serving() -> AsyncIterator[OnSignal]:
    async with server() as there:
        yield OnSignal(there)


class TestSignal(Contract):
    service = staticmethod(serving)


async def test_an_edit_of_an_edit_is_the_same_message(tmp_path: Path) -> None:
    async with serving() as there, scene(there, tmp_path, "With oats?", burst=0.5) as here:
        first = there.server.write(ANNA, "by milk")
        there.server.edit(ANNA, there.server.edit(ANNA, first, "buy mlk"), "buy milk")
        await here.sees(ANNA, "With oats?")
        assert here.asked() == ["buy milk"]


async def test_in_a_group_a_mention_is_answered_as_a_quotation(tmp_path: Path) -> None:
    async with (
        serving() as there,
        scene(there, tmp_path, "In the group.", rules='allow_groups = ["group:a/b="]') as here,
    ):
        group, mention = {"groupId": "a/b=", "type": "DELIVER"}, {"name": "Nano", "uuid": ACI, "start": 0, "length": 1}
        stamp = there.server.write(ANNA, "\ufffc where?", groupInfo=group, mentions=[mention])
        await here.until(lambda: [one for one in there.server.sent if one.get("groupId") == "a/b="])
        sent = there.server.sent[-1]
        assert here.asked() == ["where?"]
        assert (sent["quoteTimestamp"], sent["quoteAuthor"]) == (stamp, there.id_of(ANNA))


async def test_who_waits_sees_that_their_message_was_seen_and_that_it_writes(tmp_path: Path) -> None:
    hang = Hang("I think")
    async with serving() as there, scene(there, tmp_path, hang) as here:
        await here.says(ANNA, "a long story")
        await hang.reached.wait()
        second = await here.says(ANNA, "and another")
        signs = there.server.asked
        await here.until(lambda: [one for method, one in signs if one.get("targetTimestamp") == int(second)])
        await here.until(lambda: [one for method, one in signs if method == "sendTyping" and not one.get("stop")])
        await here.answer(ANNA, "/stop", "Stopped")
        await here.until(lambda: [one for method, one in signs if method == "sendTyping" and one.get("stop")])


async def test_bold_words_are_bold_and_links_keep_their_address(tmp_path: Path) -> None:
    async with serving() as there, scene(there, tmp_path, "**Now** 😀 `go`", "[here](https://a.test)") as here:
        await here.answer(ANNA, "when?", "Now")
        assert there.server.sent[-1]["textStyle"] == ["0:3:BOLD", "7:2:MONOSPACE"]
        assert "https://a.test" in (await here.answer(ANNA, "where?", "here")).text


@pytest.mark.parametrize(
    ("code", "kind"), [(-1, Undeliverable), (-3, ChannelUnavailable)], ids=["refused", "no network"]
)
async def test_what_signal_cli_says_no_to_is_told_in_a_sentence(code: int, kind: type[Exception]) -> None:
    async with server() as there:
        there.errors["send"] = [{"code": code, "message": "it is not so", "data": None}]
        api = SignalApi(ACCOUNT, there.url)
        with pytest.raises(kind, match="it is not so"):
            await api.call("send", message="hello", recipient=["x"])
        await api.aclose()


@pytest.mark.parametrize(("envelope", "expected"), READ["said"])
def test_an_event_is_read(envelope: dict[str, Any], expected: dict[str, Any]) -> None:
    found = events.message({"sourceUuid": "u-1", "sourceName": "Anna", **envelope}, [ACCOUNT, ACI], {}, NOON)
    assert found
    shown = {**found._asdict(), "text": found.message.text, "chat": found.address.chat}
    shown |= {"files": [[one.name, one.mime, one.is_voice] for one in found.attachments]}
    assert {key: shown[key] for key in expected} == expected


@pytest.mark.parametrize("envelope", READ["not said"])
def test_what_is_no_message_to_the_assistant_is_not_read(envelope: dict[str, Any]) -> None:
    assert events.message({"sourceUuid": "u-1", **envelope}, [ACCOUNT, ACI], {}, NOON) is None


def test_a_file_without_an_id_is_malformed() -> None:
    data = {"timestamp": 5, "attachments": [{"id": 5}]}
    with pytest.raises(Malformed):
        events.message({"sourceUuid": "u-1", "dataMessage": data}, [], {}, NOON)
