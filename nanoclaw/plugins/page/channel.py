"""The channel of the page: what is said there comes in, and what is sent there is shown in every browser."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from nanoclaw.core.channel import Deliver, Hints
from nanoclaw.core.errors import ChannelError, Undeliverable
from nanoclaw.core.events import Event, Joined, Notice, Queued, TurnBegan, TurnEnded
from nanoclaw.core.messages import Address, Attachment, Inbound, Outbound, UserMessage, is_stop
from nanoclaw.core.plugin import Host
from nanoclaw.net import is_loopback
from nanoclaw.plugins.page.sessions import SignIns
from nanoclaw.plugins.page.stream import EventStream
from nanoclaw.plugins.page.tokens import ApiTokens

if TYPE_CHECKING:
    from nanoclaw.plugins.page.live import Item
    from nanoclaw.plugins.page.plugin import PageSettings

NAME, SENDER = "page", "owner"
CHANGING = ("/retry", "/edit", "/rewind")  # commands that take back what was said
BETWEEN = "\x1f"  # of what was said and the names of its files


class PageChannel:
    """Serves the page while it runs. `port` is the one that it listens on, 0 until it does."""

    name = NAME
    hints = Hints(markup="markdown", files=20, edits=True, buttons=True, bursts=False, notices=True)

    def __init__(self, host: Host, settings: PageSettings, sign_ins: SignIns, tokens: ApiTokens) -> None:
        from nanoclaw.plugins.page.api import ApiChannel
        from nanoclaw.plugins.page.live import LiveTurns
        from nanoclaw.plugins.page.transcript import Transcript

        self.host, self._settings, self.api = host, settings, ApiChannel(host, tokens)
        self._tokens = tokens
        media = host.get("media")
        self.most_bytes = media.most_bytes if media else 20_000_000
        self.hints = self.hints._replace(file_bytes=self.most_bytes)
        self.sessions, self.stream = sign_ins, EventStream()
        self.transcript = Transcript(host)
        self.live = LiveTurns(self.stream.publish, self.transcript, lambda *notes: host.spawn(self._keep_notes(*notes)))
        self.alive: datetime | None = None
        self.admitted: set[str] = set()
        """Ids of messages that a browser which is signed in is handing in; the sender says whose it is."""
        self.port = 0
        self.listening = asyncio.Event()
        self._deliver: Deliver | None = None
        host.watch(self._overhear)
        # by id, what was said and is neither answered nor part of a turn: its conversation and how it is shown
        self._said: dict[str, tuple[str, Item]] = {}
        self._changing = set[str]()  # ids of commands that take back what was said

    async def run(self, deliver: Deliver) -> None:
        from nanoclaw.plugins.page import server, terminals
        from nanoclaw.plugins.page.actions import Actions
        from nanoclaw.plugins.page.cards import Cards
        from nanoclaw.plugins.page.talk import Talk

        self._deliver = deliver
        await self._be_known()
        address, port = self._settings.address, self._settings.port
        try:
            own = server.listening(address, port)
        except OSError as error:
            raise ChannelError(
                f"the page cannot be served at {address}:{port}: {os.strerror(error.errno or 0)}. Another port is "
                "chosen by port in [page] of config.toml."
            ) from None
        self.port = own.getsockname()[1]
        routes = terminals.routes(self.host.program_home, self._tokens)
        routes += [*Talk(self).routes(), *Actions(self).routes(), *Cards(self).routes(), *self.api.routes()]
        brought = server.brought(self.host.plugins(), self.host.log)
        password, uploads = self._settings.password, self.most_bytes + 1000
        app = server.application(routes, brought, self.sessions, self.hosts, password, uploads)
        self.listening.set()
        self.alive = self.host.now()
        await server.serve(app, own, self.stream.close)

    async def _be_known(self) -> None:
        """Have the page among the owner's accounts, so that what is made there, such as a reminder, is the owner's."""
        access = self.host.get("access")
        if access is None or access.role(NAME, SENDER) is not None:
            return
        here = Address(NAME, "main")
        await self.host.write(lambda tx: access.accounts.admit(tx, here, SENDER, "owner", "the page"))

    def hosts(self) -> list[str]:
        """The names under which the page may be asked for."""
        names = ["127.0.0.1", "localhost", "[::1]"]
        return [*(f"{name}:{self.port}" for name in names), urlsplit(self.url).netloc, *self._settings.hosts]

    @property
    def url(self) -> str:
        address = self._settings.address
        shown = "127.0.0.1" if address in ("0.0.0.0", "::") else f"[{address}]" if ":" in address else address
        return f"http://{shown}:{self.port or self._settings.port}/"

    def links(self, code: str = "") -> list[str]:
        """Addresses that let one browser in, under each name of the page; all but the first have TLS."""
        code = code or self.sessions.new_code()
        return [f"{self.url}#{code}", *(f"https://{name}/#{code}" for name in self._settings.hosts)]

    def drawn(self, link: str) -> str:
        """A link for the camera of a phone, or why there is none."""
        if is_loopback(where := urlsplit(link).hostname or ""):
            return f"No phone reaches {where}, so there is no QR code: [page] address, or hosts, can change that."
        try:
            import segno
        except ImportError:
            return "There is no QR code without segno: install the extra page again."
        segno.make(link, micro=False).terminal(found := StringIO(), compact=True)
        return found.getvalue().rstrip("\n")

    # --- what is said ------------------------------------------------------------------------------------------------

    def waiting(self, key: str) -> list[Item]:
        """Messages that were said in a conversation and are not part of a turn yet."""
        return [item for place, item in self._said.values() if place == key]

    async def say(
        self, key: str, id_: str, text: str, files: Sequence[Attachment] = (), *, is_shown: bool = True, guest: str = ""
    ) -> None:
        """Hand in what the person, or a guest, said in a conversation, or what a button did."""
        if self._deliver is None:
            raise ChannelError("the page is only about to start: try again.")
        self.alive = now = self.host.now()
        if guest and text[:1] != "/" and not is_stop(text):
            text = f"[guest] {text}"
        names = [one.name for one in files]
        item = {"id": f"i{id_}", "kind": "said", "text": text, "names": names, "at": now.isoformat()}
        if text.split(None, 1)[:1] and text.split(None, 1)[0].lower() in CHANGING:
            self._changing.add(id_)
        if is_shown:
            self.live.said(key, item)
        if is_shown and text.lstrip().startswith("/"):
            await self._keep_said(key, item)
        elif is_shown:
            self._said[id_] = key, item
        self.admitted.add(id_)
        try:
            sender = guest or SENDER
            reply = await self._deliver(Inbound(address_of(key), sender, id_, UserMessage(text, now), tuple(files)))
            if reply == "" and id_ in self._said:  # an answer to a question, after which that goes on
                del self._said[id_]
                await self._keep_said(key, item)
        finally:
            self.admitted.discard(id_)

    async def withdraw(self, key: str, id_: str) -> bool:
        """Take back what the person said and what waits still; False if it is begun."""
        if self._deliver is None or self._said.get(id_, ("",))[0] != key:
            return False
        self.admitted.add(id_)
        nothing = UserMessage("", self.host.now())
        try:
            done = await self._deliver(Inbound(address_of(key), SENDER, id_, nothing, is_edit=True)) is not None
        finally:
            self.admitted.discard(id_)
        if done and id_ in self._said:
            del self._said[id_]
            self.live.gone(key, f"i{id_}")
        return done

    async def _keep_reply(self, key: str, outbound: Outbound) -> None:
        """Keep an answer by code, and what it answers, as far as the history does not have them."""
        is_there = any(one.message.text == outbound.text for one in self.transcript.last(key))
        if said := self._said.pop(outbound.reply_to, None):
            await self._keep_said(key, said[1], before=int(is_there))
        if not is_there:
            await self._keep(key, "text", outbound.text)

    async def _keep_dropped(self, key: str, answered: str) -> None:
        """Keep what was said and will not be begun, as after a stop."""
        left = [id_ for id_, (place, _) in self._said.items() if place == key and id_ not in self.admitted | {answered}]
        if left and not self.host.records.is_waiting(address_of(key)):
            for id_ in left:
                self.live.said(key, (item := self._said.pop(id_)[1]) | {"waits": False})
                await self._keep_said(key, item)

    async def _keep_said(self, key: str, item: Item, before: int = 0) -> None:
        text = BETWEEN.join([item["text"], *item["names"]])
        await self._keep(key, "said", text, self.transcript.end(key, before))

    async def _keep(self, key: str, kind: str, text: str, after: int | None = None) -> None:
        """Keep what the history of a conversation does not have: a command, its reply, why a turn failed."""
        session = self.host.conversations.of(conversation_of(key)).id
        sql = "INSERT INTO page_lines (session, after, kind, text, at) VALUES (?, ?, ?, ?, ?)"
        values = session, self.transcript.end(key) if after is None else after, kind, text, self.host.now().isoformat()
        await self.host.write(lambda tx: tx.execute(sql, *values))

    async def _keep_notes(self, key: str, notes: list[Item]) -> None:
        """Keep what the program remarked in the last turn, below what the person said there."""
        said = self.transcript.asked(key)[-1:]
        for one in notes:
            await self._keep(key, "note", f"{one['what']}{BETWEEN}{one['text']}", max([one["after"], *said]))
        if not key.startswith(f"{NAME}:"):  # the page has read it at the turn's end
            self.changed(key)

    async def fetch(self, attachment: Attachment, most: int) -> bytes:
        """A file that was dropped into the page."""
        for (data,) in self.host.read("SELECT data FROM page_files WHERE id = ?", attachment.ref):
            if len(data) <= most:
                return bytes(data)
        raise Undeliverable("it is not there any more, or too large")

    # --- what is shown -----------------------------------------------------------------------------------------------

    def serves(self, outbound: Outbound) -> bool:
        """True: a message is shown whenever somebody opens the page."""
        return True

    async def send(self, outbound: Outbound) -> str:
        from nanoclaw.plugins.page.live import of_text

        row = str(outbound.row)
        buttons = [list(one) for one in outbound.buttons]
        item = of_text(f"o{row}", outbound.text, at=self.host.now().isoformat(), buttons=buttons)
        key, names = conversation(outbound.address), [Path(one).name for one in outbound.files]
        item |= {"files": [{"name": name, "url": f"/files/{row}/{at}"} for at, name in enumerate(names)]}
        if names:
            await self._keep(key, "files", json.dumps([row, names]))
        asks = self.host.get("approvals")
        if any(str(one.outbox) == row for one in (asks.open() if asks else ())):
            if words := self.live.words(key):
                await self._keep(key, "words", words)
            await self._keep(key, "asked", f"{row} {outbound.text}")
        await self._keep_dropped(key, outbound.reply_to)
        is_kept = self.live.sent(key, outbound, item)
        if not is_kept and outbound.text:
            await self._keep_reply(key, outbound)
        self._has_changed(key, outbound.reply_to)
        return f"page-{outbound.key}"

    def _overhear(self, address: Address, event: Event) -> None:
        """Show what goes on in a conversation that is held elsewhere; at its end the page reads it anew."""
        if address.channel not in (NAME, self.api.name):
            access = self.host.get("access")
            own = access.conversation_of(address) if access and address.channel != "terminal" else None
            key = str(own or address)
            if not isinstance(event, Notice) or key in self.live.running():  # else it tells what is shown here anyway
                self.live.show(key, event)
            if isinstance(event, TurnEnded):
                self.changed(key)

    def _has_changed(self, key: str, id_: str) -> None:
        """Let every page read a conversation anew after a command took back what was said."""
        if id_ in self._changing:
            self._changing.discard(id_)
            self.changed(key)

    def changed(self, key: str) -> None:
        """Let every page read a conversation anew."""
        self.stream.publish({"c": key, "t": "elsewhere"})

    def show(self, address: Address, event: Event) -> None:
        key = conversation(address)
        for one in event.external_ids if isinstance(event, Joined) else [getattr(event, "reply_to", "")]:
            if said := self._said.pop(one, None):  # it is part of a turn, whose history has it
                self.live.joined(*said)
        self.live.show(key, event)
        if isinstance(event, Queued) and (said := self._said.get(event.external_id)):
            said[1]["waits"] = True
            self.live.said(*said)
        if isinstance(event, TurnBegan):
            self._has_changed(key, event.reply_to)


def conversation_of(key: str) -> Address:
    """The conversation with this key."""
    return Address(*key.partition(":")[::2])


def address_of(key: str) -> Address:
    """The address under which the page talks in a conversation: its own, or one that stands for another's."""
    return Address(NAME, key.removeprefix(f"{NAME}:"))


def conversation(address: Address) -> str:
    """The key of the conversation that an address belongs to."""
    return address.chat if address.channel == NAME and ":" in address.chat else str(address)
