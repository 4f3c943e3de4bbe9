"""The WhatsApp channel keeps the contract of chat apps, and what is WhatsApp's own."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from nanoclaw.channels.fields import Malformed
from nanoclaw.channels.whatsapp import events
from nanoclaw.channels.whatsapp.api import WhatsappApi
from nanoclaw.core.errors import ChannelError, ChannelUnavailable, Undeliverable
from nanoclaw.providers.scripted import Hang
from tests.channels.contract import ANNA, Contract, Shown, scene
from tests.channels.whatsapp_server import NUMBER, SECRET, TOKEN, WhatsappServer
from tests.channels.whatsapp_server import serving as server
from tests.examples import examples
from tests.program import NOON

READ = examples(__file__, "whatsapp_messages.jsonl")


class OnWhatsapp:
    name, secret = "whatsapp", "EAAG-wrong"
    keeps = True
    edits = buttons = False

    def __init__(self, server: WhatsappServer, port: int) -> None:
        self.server = server
        self.settings, self.broken = (
            f'[page]\nport = {port}\n[channels.whatsapp]\ntoken = "{token}"\napp_secret = "{SECRET}"\n'
            f'number_id = "{NUMBER}"'
            for token in (TOKEN, self.secret)
        )

    async def ready(self) -> None:
        """Nothing to wait for: what is not taken is delivered again."""

    def id_of(self, who: str) -> str:
        return self.server.person(who)

    async def write(self, who: str, text: str, *, answers: str = "", file: tuple[str, bytes] | None = None) -> str:
        more: dict[str, Any] = {"context": {"from": "49151", "id": answers}} if answers else {}
        if not file:
            return self.server.write(who, "text", {"body": text}, **more)
        self.server.files["F1"] = file[1]
        part = {"id": "F1", "filename": file[0], "caption": text, "mime_type": "text/plain"}
        return self.server.write(who, "document", part, **more)

    async def edit(self, who: str, id: str, text: str) -> None:
        raise NotImplementedError

    async def press(self, who: str, shown: Shown, label: str) -> None:
        raise NotImplementedError

    def shown(self, who: str) -> list[Shown]:
        found, id = [], self.id_of(who)
        for one in self.server.sent:
            if one["to"] == id:
                part = one[one["type"]]
                files = (self.server.files[part["id"]],) if "id" in part else ()
                found.append(Shown(one["wamid"], part.get("body") or part.get("caption", ""), files))
        return found

    async def changed(self) -> None:
        await self.server.changed()

    async def repeat(self) -> None:
        self.server.repeat()

    async def garble(self) -> None:
        told: list[Any] = [None, 7, {"entry": 5}, {"entry": [{"changes": [{"field": "messages", "value": 1}]}]}]
        for delivery in told:
            self.server.deliver(delivery)
        for messages in (
            None,
            "a",
            [5],
            [{"from": ["x"], "type": "text"}],
            [{"type": {"a": 1}, "from": "49", "id": "w"}],
        ):
            self.server.tell({"messages": messages})
        self.server.tell({"statuses": [{"id": "wamid.0", "status": "failed", "errors": [{"code": 1, "title": "no"}]}]})

    async def leave(self) -> None:
        await self.server.leave()

    async def come_back(self) -> None:
        await self.server.start()


@asynccontextmanager
async def serving() -> AsyncIterator[OnWhatsapp]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    async with server(f"http://127.0.0.1:{port}/channels/whatsapp") as there:
        yield OnWhatsapp(there, port)


class TestWhatsapp(Contract):
    service = staticmethod(serving)


async def test_only_what_whatsapp_signed_is_taken_and_its_question_answered(tmp_path: Path) -> None:
    async with serving() as there, scene(there, tmp_path, "Here.") as here, httpx.AsyncClient(trust_env=False) as other:
        page, body = there.server.page, there.server.last
        assert (await other.post(page, content=body)).status_code == 401
        signature = there.server.signed(body + b" ")
        assert (await other.post(page, content=body, headers=signature)).status_code == 401
        asked = {"hub.mode": "subscribe", "hub.verify_token": NUMBER, "hub.challenge": "1158201444"}
        answer = await other.get(page, params=asked)
        assert (answer.status_code, answer.text) == (200, "1158201444")
        assert (await other.get(page, params={**asked, "hub.verify_token": "x"})).status_code == 403
        assert (await other.get(page, params={**asked, "hub.challenge": "<b>"})).status_code == 403
        await here.answer(ANNA, "hello", "Here.")


async def test_what_cannot_be_stored_comes_again_until_it_can(tmp_path: Path) -> None:
    async with serving() as there, scene(there, tmp_path, "With oats?") as here:
        database = here.program.app.transactions.store.db
        await here.rests()
        there.server.refused = 0
        database.execute("PRAGMA query_only = 1")
        await here.says(ANNA, "buy milk")
        await here.until(lambda: there.server.refused == 503, "it is refused")
        database.execute("PRAGMA query_only = 0")
        await here.sees(ANNA, "With oats?")
        assert here.asked() == ["buy milk"]


async def test_who_waits_sees_that_their_message_was_seen_and_that_it_writes(tmp_path: Path) -> None:
    hang = Hang("I think")
    async with serving() as there, scene(there, tmp_path, hang) as here:
        first = await here.says(ANNA, "a long story")
        await hang.reached.wait()
        second = await here.says(ANNA, "and another")
        signs = there.server.signs
        await here.until(lambda: [one for one in signs if one.get("reaction", {}).get("message_id") == second])
        await here.until(lambda: [one for one in signs if one.get("message_id") == first and "typing_indicator" in one])
        await here.answer(ANNA, "/stop", "Stopped")


@pytest.mark.parametrize(
    ("status", "code", "kind", "words"),
    [
        (400, 131047, Undeliverable, "only within 24 hours"),
        (400, 131026, Undeliverable, "it is not so"),
        (400, 131056, ChannelError, "asks to wait"),
        (500, 131000, ChannelUnavailable, "problems of its own"),
        (401, 190, ChannelError, "NANOCLAW_WHATSAPP_TOKEN"),
    ],
)
async def test_what_whatsapp_says_no_to_is_told_in_a_sentence(
    status: int, code: int, kind: type[ChannelError], words: str
) -> None:
    async with server("") as there:
        there.errors.append((status, {"message": "it is not so", "type": "OAuthException", "code": code}))
        api = WhatsappApi(TOKEN, NUMBER)
        with pytest.raises(kind, match=words):
            await api.say(to="49", type="text", text={"body": "hello"})
        await api.aclose()


@pytest.mark.parametrize(("given", "expected"), READ["said"])
def test_a_message_is_read(given: dict[str, Any], expected: dict[str, Any]) -> None:
    found = events.message({"from": "49151", "id": "wamid.A", "timestamp": "5", **given}, {"49151": "Anna"}, NOON)
    assert found
    files = [[one.name, one.mime, one.is_voice] for one in found.attachments]
    shown = {**found._asdict(), "text": found.message.text, "outside": found.message.outside, "files": files}
    assert {key: shown[key] for key in expected} == expected


@pytest.mark.parametrize("given", READ["not said"])
def test_what_is_no_message_to_the_assistant_is_not_read(given: dict[str, Any]) -> None:
    assert events.message({"from": "49151", "id": "wamid.A", **given}, {}, NOON) is None


@pytest.mark.parametrize("given", READ["malformed"])
def test_what_cannot_be_read_is_malformed(given: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        events.message({"from": "49151", "id": "wamid.A", **given}, {}, NOON)
