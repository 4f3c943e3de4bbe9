"""XMPP's stanzas as a server sends them are read, without a server."""

from typing import Any
from xml.etree.ElementTree import Element, fromstring

import pytest

from nanoclaw.channels.fields import Malformed
from nanoclaw.channels.styled import styled
from nanoclaw.channels.xmpp import events
from nanoclaw.core.messages import Inbound
from tests.examples import examples
from tests.program import NOON

READ, STYLED = examples(__file__, "xmpp_stanzas.jsonl"), examples(__file__, "styled.jsonl")
ROOM = {"Anna": "anna@a.test"}


def stanza(within: str, attributes: str = "type='chat'", source: str = "anna@a.test/phone", id: str = "7") -> Element:
    return fromstring(f"<message xmlns='jabber:client' from='{source}' id='{id}' {attributes}>{within}</message>")


def read(xml: Element, room: dict[str, str] | None = None) -> Inbound | None:
    return events.message(xml, room, "nano", {"r1": "own1"}, NOON)


def shown(inbound: Inbound | None) -> dict[str, Any]:
    assert inbound
    (file,) = inbound.attachments or (None,)
    at, chat = inbound.message.at.isoformat(), inbound.address.chat
    more = {"file": file.name, "is_voice": file.is_voice} if file else {}
    return {**inbound._asdict(), "text": inbound.message.text, "at": at, "chat": chat, **more}


@pytest.mark.parametrize(("within", "expected"), READ["said"])
def test_a_message_is_read(within: str, expected: dict[str, Any]) -> None:
    found = shown(read(stanza(within)))
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize(("within", "expected"), READ["said in a room"])
def test_a_message_in_a_room_is_of_whom_the_room_says(within: str, expected: dict[str, Any]) -> None:
    found = shown(read(stanza(within, "type='groupchat'", "g@r.test/Anna"), ROOM))
    assert {key: found[key] for key in expected} == expected


def test_who_is_hidden_in_a_room_is_nobody_elsewhere() -> None:
    found = read(stanza("<body>hi</body>", "type='groupchat'", "g@r.test/anna@a.test"), ROOM)
    assert found and found.sender == "g@r.test/anna@a.test"


def test_what_is_whispered_in_a_room_is_not_heard() -> None:
    assert read(stanza("<body>hi</body>", source="g@r.test/Anna"), ROOM) is None


@pytest.mark.parametrize(("attributes", "within"), READ["not said"])
def test_what_is_no_message_to_the_assistant_is_not_read(attributes: str, within: str) -> None:
    assert read(stanza(within, attributes)) is None


@pytest.mark.parametrize("within", READ["malformed"])
def test_what_cannot_be_read_is_malformed(within: str) -> None:
    with pytest.raises(Malformed):
        read(stanza(within))


@pytest.mark.parametrize("id", ["", "x" * 501])
def test_a_message_without_a_usable_id_is_malformed(id: str) -> None:
    with pytest.raises(Malformed):
        read(stanza("<body>hello</body>", id=id))


@pytest.mark.parametrize(("source", "within", "expected"), READ["invites"])
def test_an_invitation_counts_if_its_author_is_certain(source: str, within: str, expected: list[str] | None) -> None:
    found = events.invitation(stanza(within, "", source), "a.test")
    assert (found and list(found)) == expected


@pytest.mark.parametrize(("markdown", "expected"), STYLED["marks"])
def test_markdown_is_shown_in_the_marks_of_chat_apps(markdown: str, expected: str) -> None:
    assert styled(markdown) == expected
