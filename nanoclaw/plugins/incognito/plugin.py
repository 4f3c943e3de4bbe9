"""The plugin: /incognito, which chats are in it, and the end that erases it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from nanoclaw.core.messages import Address, Inbound
from nanoclaw.core.plugin import Command, Hears, Host, Plugin, Profile, Said, Tx, dump_profile
from nanoclaw.named_tuple import NamedTuple

CHANNEL = "incognito"
"""The channel of the conversations."""

ALLOWED = ("incognito", "stop", "help", "model", "panic", "resume", "context", "status")
"""Commands that keep nothing of what is said."""

BEGUN = (
    "Incognito: I know nothing of our other conversations or your notes, use no tools, and keep nothing of this "
    "when it ends. /incognito off ends it."
)

REFUSED = "Commands and files would keep something: not in incognito. /incognito off ends it."


class _Chat(NamedTuple):
    conversation: Address
    since: datetime


class Incognito(Plugin):
    name = "incognito"
    hears: Mapping[str, Hears] = {"on_message": Hears(rows="incognito_chats")}
    migrations = (
        """
        CREATE TABLE incognito_chats (
            address TEXT PRIMARY KEY,
            conversation TEXT NOT NULL,
            after INTEGER NOT NULL,
            since TEXT NOT NULL
        ) STRICT;
        """,
    )
    profiles = (Profile("incognito", only=frozenset(), can_ask=False, can_allow=False),)
    marks = ("incognito_chats.address", "incognito_chats.conversation")

    def __init__(self, host: Host, settings: None) -> None:
        self._host = host
        self._chats = dict[str, _Chat]()
        self.reload()

    def reload(self) -> None:
        rows = self._host.read("SELECT address, conversation, since FROM incognito_chats")
        self._chats = {row[0]: _Chat(Address(CHANNEL, row[1]), datetime.fromisoformat(row[2])) for row in rows}

    def commands(self) -> Iterable[Command]:
        told = "talk without memory and tools, of which nothing is kept; /incognito off ends it"
        return [Command("incognito", told, self._incognito, "talk", private=True)]

    def on_message(self, inbound: Inbound, tx: Tx) -> Inbound | None:
        """Give a message of such a chat a conversation of its own. Nothing of a refused one comes to the store."""
        chat = self._chats.get(str(inbound.address))
        if chat is None or inbound.role != "owner" or inbound.is_group or inbound.message.origin != "person":
            return None
        inbound = inbound._replace(conversation=chat.conversation, profile=dump_profile(self.profiles[0]))
        text = inbound.message.text
        is_refused = text.startswith("/") and text[1:].partition(" ")[0] not in ALLOWED
        if not is_refused and not inbound.attachments:
            return inbound
        return inbound._replace(message=inbound.message._replace(text="/incognito not here"), attachments=())

    async def _incognito(self, said: Said) -> str:
        chat = self._chats.get(str(said.address))
        if said.argument not in ("", "off"):
            return REFUSED if chat else "/incognito begins a conversation that is not kept, /incognito off ends it."
        if not said.argument:
            return "This is incognito. /incognito off ends it." if chat else await self._begin(said)
        if chat is None:
            return "This is not incognito: /incognito begins it."
        await self._host.conversations.stop(chat.conversation)
        await self._host.conversations.free(chat.conversation)
        del self._chats[str(said.address)]
        from nanoclaw.plugins.incognito.erasing import erase

        await erase(self._host, said.address, chat.conversation, chat.since)
        return "Only what it cost is kept. From here on everything is as usual."

    async def _begin(self, said: Said) -> str:
        now = self._host.now()
        name = f"{said.address}/{now.timestamp():.0f}"
        sql = "INSERT INTO incognito_chats (address, conversation, after, since) VALUES (?, ?, 0, ?)"
        await self._host.write(lambda tx: tx.execute(sql, str(said.address), name, now.isoformat()))
        self._chats[str(said.address)] = _Chat(Address(CHANNEL, name), now)
        return BEGUN
