"""The channel of the page: what is said there comes in, and what is sent there is shown in every browser."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from nanoclaw.core.channel import Deliver, Hints
from nanoclaw.core.errors import ChannelError
from nanoclaw.core.events import Event
from nanoclaw.core.messages import Address, Inbound, Message, Outbound, UserMessage
from nanoclaw.core.plugin import Host
from nanoclaw.plugins.page.sessions import SignIns
from nanoclaw.plugins.page.stream import EventStream

if TYPE_CHECKING:
    from nanoclaw.plugins.page.plugin import PageSettings

NAME, SENDER = "page", "owner"


class PageChannel:
    """Serves the page while it runs. `port` is the one that it listens on, 0 until it does."""

    name = NAME
    hints = Hints(markup="markdown", files=20, edits=True, buttons=True, reactions=True, bursts=False, notices=True)

    def __init__(self, host: Host, settings: PageSettings) -> None:
        from nanoclaw.plugins.page.live import LiveTurns

        self.host, self._settings = host, settings
        media = host.get("media")
        self.most_bytes = media.most_bytes if media else 20_000_000
        self.hints = self.hints._replace(file_bytes=self.most_bytes)
        self.sessions, self.stream = SignIns(host, host.now), EventStream()
        self.live = LiveTurns(self.stream.publish, lambda key: len(self.history(key)))
        self.alive: datetime | None = None
        self.admitted: set[str] = set()
        """Ids of messages that a browser which is signed in is handing in."""
        self.port = 0
        self.listening = asyncio.Event()
        self._deliver: Deliver | None = None
        self._sent = 0

    async def run(self, deliver: Deliver) -> None:
        from nanoclaw.plugins.page import server
        from nanoclaw.plugins.page.cards import Cards
        from nanoclaw.plugins.page.talk import Talk

        self._deliver = deliver
        address, port = self._settings.address, self._settings.port
        try:
            own = server.listening(address, port)
        except OSError as error:
            raise ChannelError(
                f"the page cannot be served at {address}:{port}: {error.strerror or error}. Another port is chosen by "
                "port in [page] of config.toml."
            ) from None
        self.port = own.getsockname()[1]
        routes = [*Talk(self).routes(), *Cards(self).routes(), *server.hook_routes(self.host.get("send"))]
        app = server.application(routes, self.sessions, self.hosts, self._settings.password, self.most_bytes + 1000)
        self.listening.set()
        self.alive = self.host.now()
        await server.serve(app, own, self.stream.close)

    def hosts(self) -> list[str]:
        """The names under which the page may be asked for."""
        names = ["127.0.0.1", "localhost", "[::1]"]
        return [*(f"{name}:{self.port}" for name in names), *self._settings.hosts]

    @property
    def url(self) -> str:
        address = self._settings.address
        shown = "127.0.0.1" if address in ("0.0.0.0", "::") else f"[{address}]" if ":" in address else address
        return f"http://{shown}:{self.port or self._settings.port}/"

    def link(self) -> str:
        """An address that lets one browser in."""
        return f"{self.url}#{self.sessions.new_code()}"

    # --- what is said ------------------------------------------------------------------------------------------------

    def history(self, key: str) -> Sequence[Message]:
        channel, _, chat = key.partition(":")
        return self.host.conversations.of(Address(channel, chat)).whole()

    async def say(self, key: str, id_: str, text: str) -> None:
        """Hand in what the person said in a conversation."""
        if self._deliver is None:
            raise ChannelError("the page is only about to start: try again.")
        now = self.host.now()
        self.alive = now
        inbound = Inbound(address_of(key), SENDER, id_, UserMessage(text, now))
        self.live.said(key, {"id": f"i{id_}", "kind": "said", "text": text, "at": now.isoformat()})
        self.admitted.add(id_)
        try:
            await self._deliver(inbound)
        finally:
            self.admitted.discard(id_)

    # --- what is shown -----------------------------------------------------------------------------------------------

    def serves(self, outbound: Outbound) -> bool:
        """True: a message is shown whenever somebody opens the page."""
        return True

    async def send(self, outbound: Outbound) -> str:
        from nanoclaw.plugins.page.live import of_text

        row = outbound.key.partition(".")[0]
        buttons = [list(one) for one in outbound.buttons]
        item = of_text(f"o{row}", outbound.text, at=self.host.now().isoformat(), buttons=buttons)
        self.live.sent(conversation(outbound.address), outbound, item)
        return f"page-{outbound.key}"

    def show(self, address: Address, event: Event) -> None:
        self.live.show(conversation(address), event)


def address_of(key: str) -> Address:
    """The address under which the page talks in a conversation: its own, or one that stands for another's."""
    channel, _, chat = key.partition(":")
    return Address(NAME, chat if channel == NAME else key)


def conversation(address: Address) -> str:
    """The key of the conversation that an address belongs to."""
    return address.chat if address.channel == NAME and ":" in address.chat else str(address)
