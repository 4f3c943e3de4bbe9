"""The XMPP channel keeps the contract of chat apps, at a real server; and what is XMPP's own."""

import asyncio
import io
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement

import pytest

from nanoclaw.channels import table as chat_apps
from nanoclaw.channels.xmpp.settings import XmppSettings, make
from nanoclaw.core.channel import ChannelHost
from nanoclaw.core.errors import ChannelError, ConfigError, Unreachable
from nanoclaw.core.messages import Address, Inbound, Outbound
from nanoclaw.providers.scripted import Hang
from tests.channels.contract import ANNA, Contract, Shown, scene
from tests.channels.xmpp_server import HAS_PROSODY, PASSWORD, ROOM, XmppServer
from tests.channels.xmpp_server import serving as server
from tests.program import NOON, config_of

needs_prosody = pytest.mark.skipif(not HAS_PROSODY, reason="needs the XMPP server Prosody: apt-get install prosody")
BOT = "nano@localhost"


class OnXmpp:
    name, secret = "xmpp", "a-wrong-password"
    keeps = edits = True
    buttons = False

    def __init__(self, server: XmppServer) -> None:
        self.server = server
        self.settings, self.broken = (
            f'[channels.xmpp]\njid = "{BOT}"\npassword = "{password}"\nserver = "127.0.0.1:{server.port}"'
            for password in (PASSWORD, self.secret)
        )
        self.who = ""

    async def ready(self) -> None:
        """Nothing to wait for: the server keeps what is said before."""

    def id_of(self, who: str) -> str:
        return self.server.person(who).jid

    async def message(self, who: str, text: str) -> Any:
        client = await self.server.person(who).client()
        made = client.make_message(BOT, text, mtype="chat")
        made["id"] = client.new_id()
        made["nick"]["nick"] = who
        return made

    async def write(self, who: str, text: str, *, answers: str = "", file: tuple[str, bytes] | None = None) -> str:
        person, made = self.server.person(who), await self.message(who, text)
        self.who = who
        if answers:
            made["reply"]["id"], made["reply"]["to"] = answers, BOT
            made["reply"].add_quoted_fallback(next(one.text for one in person.heard if one.id == answers))
        if file:
            client = await person.client()
            made["oob"]["url"] = await _upload(client, *file)
        return await person.send(made)

    async def edit(self, who: str, id: str, text: str) -> None:
        made = await self.message(who, text)
        made["replace"]["id"] = id
        await self.server.person(who).send(made)

    async def press(self, who: str, shown: Shown, label: str) -> None:
        raise NotImplementedError

    def shown(self, who: str) -> list[Shown]:
        return [Shown(one.id, one.text, tuple(one.files)) for one in self.server.person(who).heard]

    async def changed(self) -> None:
        await self.server.changed()

    async def repeat(self) -> None:
        person = self.server.person(self.who)
        await person.send(person.last)

    async def garble(self) -> None:
        client = await self.server.person("Anna").client()
        oob = Element("{jabber:x:oob}x")
        SubElement(oob, "{jabber:x:oob}url").text = "aesgcm://localhost/x"
        fallback = Element("{urn:xmpp:fallback:0}fallback", {"for": "urn:xmpp:reply:0"})
        SubElement(fallback, "{urn:xmpp:fallback:0}body", {"start": "here", "end": "-3"})
        parts: list[Any] = [None, Element("{urn:none}none"), oob, fallback, Element("{urn:xmpp:reactions:0}reactions")]
        for number, part in enumerate(parts):
            made = client.make_message(BOT, "" if number < 2 else "what?", mtype="chat")
            made["id"] = "x" * 600 if part is not oob and part is not fallback else client.new_id()
            if part is not None:
                made.append(part)
            made.send()
        client.make_message(BOT, "news", mtype="headline").send()
        client.send_presence(pto=BOT, ptype="probe")

    async def enters(self, who: str) -> Any:
        """Somebody enters the room; their client."""
        client = await self.server.person(who).client()
        rooms = client.plugin["xep_0045"]
        await rooms.join_muc_wait(ROOM, who)
        await rooms.set_room_config(ROOM, client.plugin["xep_0004"].make_form("submit"))  # as it is, for all
        return client

    async def says_in_room(self, who: str, text: str) -> None:
        client = await self.server.person(who).client()
        made = client.make_message(ROOM, text, mtype="groupchat")
        await self.server.person(who).send(made)

    def told(self, who: str, id: str) -> Any:
        return next(one.stanza for one in self.server.person(who).heard if one.id == id)

    async def leave(self) -> None:
        await self.server.stop()

    async def come_back(self) -> None:
        await self.server.start()
        for one in self.server.people.values():
            await one.client()


async def _upload(client: Any, name: str, content: bytes) -> str:
    return str(await client.plugin["xep_0363"].upload_file(name, len(content), input_file=io.BytesIO(content)))


@asynccontextmanager
async def serving() -> AsyncIterator[OnXmpp]:
    async with server() as there:
        yield OnXmpp(there)


@needs_prosody
class TestXmpp(Contract):
    service = staticmethod(serving)


@needs_prosody
async def test_an_invitation_leads_into_a_room_where_its_name_is_answered(tmp_path: Path) -> None:
    """Also after a new start: what was said meanwhile is answered then."""
    async with serving() as there:
        rules = f'allow_groups = ["{ROOM}"]'
        async with scene(there, tmp_path, "In the garden.", rules=rules) as here:
            anna = await there.enters("Anna")
            anna.plugin["xep_0045"].invite(ROOM, BOT)
            await here.until(lambda: ("in", "nano") in there.server.person("Anna").signs, "it enters")
            await there.says_in_room("Anna", "what a day")
            await there.says_in_room("Anna", "nano: where are you?")
            answer = await here.sees(ANNA, "In the garden.")
            assert "what a day" in str(here.model.requests[-1].history[-1])
            told = there.told("Anna", answer.id)
            assert (told["type"], told["from"], told["reply"]["to"]) == ("groupchat", f"{ROOM}/nano", f"{ROOM}/Anna")
            await here.rests()
        await there.says_in_room("Anna", "nano, and now?")
        async with scene(there, tmp_path, "Still here.", rules=rules) as here:
            await here.sees(ANNA, "Still here.")
            assert here.asked()[0].endswith("\n\nand now?")


@needs_prosody
async def test_a_strangers_invitation_is_not_followed(tmp_path: Path) -> None:
    async with serving() as there, scene(there, tmp_path, "Here.") as here:
        bob = await there.enters("Bob")
        bob.plugin["xep_0045"].invite(ROOM, BOT)
        bob.send_presence_subscription(BOT)
        await here.answer(ANNA, "hello", "Here.")
        assert list(bob.plugin["xep_0045"].get_roster(ROOM)) == ["Bob"]
        assert ("there is", BOT) not in there.server.person("Bob").signs


@needs_prosody
async def test_what_arrived_and_was_not_stored_comes_again(tmp_path: Path) -> None:
    """The server hears that a message arrived only once it is stored."""
    came = asyncio.Event()

    async def stores_nothing(inbound: Inbound) -> None:
        came.set()
        await asyncio.Event().wait()

    async with serving() as there:
        async with scene(there, tmp_path, "First.") as here:
            await here.answer(ANNA, "one", "First.")
        settings = XmppSettings(BOT, PASSWORD, f"127.0.0.1:{there.server.port}")
        running = asyncio.create_task(make(settings, ChannelHost(tmp_path / "xmpp", lambda: NOON)).run(stores_nothing))
        await here.says(ANNA, "two")
        await came.wait()
        running.cancel()
        await asyncio.wait({running})
        async with scene(there, tmp_path, "Second.") as here:
            await here.sees(ANNA, "Second.")
            assert here.asked() == ["two"]


@needs_prosody
async def test_who_waits_sees_that_their_message_was_seen_and_that_it_writes(tmp_path: Path) -> None:
    hang = Hang("I think")
    async with serving() as there, scene(there, tmp_path, hang, "Both.") as here:
        await here.says(ANNA, "a long story")
        await hang.reached.wait()
        second = await here.says(ANNA, "and another")
        signs = there.server.person(ANNA).signs
        await here.until(lambda: ("reacts to", second) in signs, "a reaction")
        await here.until(lambda: ("is", "composing") in signs, "it writes")
        await here.answer(ANNA, "/stop", "Stopped")


@needs_prosody
async def test_known_people_see_that_it_is_there_and_hear_that_it_cannot_read_encrypted_words(tmp_path: Path) -> None:
    async with serving() as there, scene(there, tmp_path) as here:
        anna = await there.server.person(ANNA).client()
        anna.send_presence_subscription(BOT)
        await here.until(lambda: ("there is", BOT) in there.server.person(ANNA).signs, "it is there")
        made = await there.message(ANNA, "I sent you an OMEMO encrypted message")
        made.append(Element("{eu.siacs.conversations.axolotl}encrypted"))
        made.send()
        await here.sees(ANNA, "switch encryption off")
        assert here.asked() == []


@needs_prosody
async def test_a_message_to_nobody_is_given_up_with_the_servers_reason(tmp_path: Path) -> None:
    async with serving() as there, scene(there, tmp_path) as here:
        nobody = Outbound(Address("xmpp", "nobody@localhost"), "hello?")
        here.program.app.transactions.write_now(lambda tx: tx.send(nobody, "A test sends it."))
        told = await here.sees(ANNA, "Could not be delivered")
        assert "nobody@localhost takes no message: service-unavailable" in told.text


@needs_prosody
async def test_a_server_whose_certificate_nobody_vouches_for_is_not_given_the_password(tmp_path: Path) -> None:
    async with serving() as there:
        del os.environ["SSL_CERT_FILE"]
        config = config_of(tmp_path, there.settings)
        with pytest.raises(ChannelError, match=r"does not prove who it is: self-signed certificate.* SSL_CERT_FILE"):
            await chat_apps.login(config, chat_apps.tables(config)["xmpp"], lambda: NOON)


async def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    pytest.importorskip("slixmpp")
    config = config_of(tmp_path, f'[channels.xmpp]\njid = "{BOT}"\npassword = "x"\nserver = "127.0.0.1:1"')
    with pytest.raises(Unreachable, match=r"XMPP at 127.0.0.1:1 cannot be reached"):
        await chat_apps.login(config, chat_apps.tables(config)["xmpp"], lambda: NOON)


@pytest.mark.parametrize(
    ("given", "sentence"), [('jid = "nano"', "jid must be"), ('server = "here"', "server must be")]
)
def test_settings_that_cannot_be_right_are_named(tmp_path: Path, given: str, sentence: str) -> None:
    pytest.importorskip("slixmpp")
    others = {"jid": f'jid = "{BOT}"', "password": 'password = "x"'} | {given.split(" =")[0]: given}
    config = config_of(tmp_path, "[channels.xmpp]\n" + "\n".join(others.values()))
    with pytest.raises(ConfigError, match=sentence):
        chat_apps.tables(config)["xmpp"].made(ChannelHost(tmp_path, lambda: NOON))
