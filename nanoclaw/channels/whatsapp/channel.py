"""The WhatsApp channel: webhooks on the page's server for what comes, one request for each thing that goes out."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from urllib.parse import parse_qs

from nanoclaw.channels.bot import Untried, log_skipped
from nanoclaw.channels.fields import Malformed, string, table, tables
from nanoclaw.channels.newest import remember
from nanoclaw.channels.styled import styled
from nanoclaw.channels.whatsapp import events
from nanoclaw.channels.whatsapp.api import WhatsappApi
from nanoclaw.channels.whatsapp.settings import WhatsappSettings
from nanoclaw.core.channel import ChannelHost, Deliver, Hints
from nanoclaw.core.errors import ChannelError, StoreError
from nanoclaw.core.events import Event, Queued
from nanoclaw.core.messages import Address, Inbound, Outbound
from nanoclaw.core.plugin import RouteAnswer

LENGTH, CAPTION = 4_096, 1_024
MOST_BYTES = 4_000_000
"""Of a delivery; WhatsApp puts up to 1,000 changes into one."""

LOOK_SECONDS = 300.0
"""Between two looks whether WhatsApp answers, as it says nothing by itself."""

SEEN = "👀"
NO_TABLES = "WhatsApp shows no tables: write lists."
_KINDS = {
    "image": ("image/jpeg", "image/png"),
    "audio": ("audio/aac", "audio/mp4", "audio/mpeg", "audio/amr", "audio/ogg"),
    "video": ("video/mp4", "video/3gpp"),
}
"""Of files that are shown, or played; all others are documents."""


class Whatsapp(Untried):
    """One number. A message that is sent again because nobody knows whether it arrived may be there twice."""

    _api: WhatsappApi

    def __init__(self, settings: WhatsappSettings, host: ChannelHost) -> None:
        self.name = events.NAME
        self.alive: datetime | None = None
        hints = Hints(LENGTH, markup="markdown", caption=CAPTION, file_bytes=host.most_bytes, remark=NO_TABLES)
        super().__init__(WhatsappApi(settings.token, settings.number_id), hints)
        self._settings, self._clock = settings, host.clock
        self._deliver: Deliver | None = None
        self._latest: dict[str, str] = {}  # the last message of each chat, below which one is seen typing

    # --- in ----------------------------------------------------------------------------------------------------------

    async def run(self, deliver: Deliver) -> None:
        """Take deliveries until cancelled; what was not taken WhatsApp delivers again, for days."""
        async with self._listening():
            try:
                while True:
                    await self._api.number()
                    self.alive, self._deliver = self._clock(), deliver
                    await asyncio.sleep(LOOK_SECONDS)
            finally:
                self._deliver = None

    async def login(self) -> str:
        return await self._api.number()

    def routes(self) -> Mapping[str, RouteAnswer]:
        """Paths of the page's server where WhatsApp asks and delivers."""
        return {f"GET /channels/{self.name}": self._verify, f"POST /channels/{self.name}": self._receive}

    async def _verify(self, name: str, headers: Mapping[str, str], query: bytes) -> tuple[int, str]:
        """Prove to WhatsApp that this address is the one which was meant."""
        given = {key: values[0] for key, values in parse_qs(query.decode("utf-8", "replace")).items()}
        challenge, token = given.get("hub.challenge", ""), given.get("hub.verify_token", "")
        if not hmac.compare_digest(token.encode(), self._settings.number_id.encode()) or not challenge.isalnum():
            return 403, "The Verify token is not the Phone number ID."
        return 200, challenge

    async def _receive(self, name: str, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
        """Take a delivery; the answer, once what it says is stored."""
        signed = hmac.new(self._settings.app_secret.encode(), body[:MOST_BYTES], hashlib.sha256).hexdigest()
        shown = headers.get("x-hub-signature-256", "").removeprefix("sha256=")
        if len(body) > MOST_BYTES or not hmac.compare_digest(shown.encode("utf-8", "replace"), signed.encode()):
            log_skipped("WhatsApp", "a delivery whose signature is not right: check NANOCLAW_WHATSAPP_APP_SECRET")
            return 401, "The signature is not right."
        if self._deliver is None:
            return 503, "The assistant does not listen now."
        self.alive = self._clock()
        try:
            delivery = table(json.loads(body))
        except (ValueError, RecursionError):
            delivery = {}
        said = list[Inbound]()
        for value in events.values(delivery, self._settings.number_id):
            for failure in events.failures(value):
                log_skipped("WhatsApp", f"a message did not arrive: {failure}")
            people = events.names(value)
            for one in tables(value.get("messages")):
                try:
                    inbound = events.message(one, people, self._clock())
                except Malformed as error:  # whatever is wrong with it, the others are delivered
                    log_skipped("WhatsApp", error)
                    continue
                if inbound:
                    said.append(inbound)
        try:
            await asyncio.gather(*map(self._deliver, said))  # in order, and many of them in one COMMIT
        except StoreError as error:
            return 503, str(error)
        for inbound in said:
            remember(self._latest, inbound.address.chat, inbound.external_id)
        return 200, ""

    # --- out ---------------------------------------------------------------------------------------------------------

    async def send(self, outbound: Outbound) -> str:
        await self._live.hand_over(outbound)
        text = styled(outbound.text)
        if outbound.files:
            path = Path(outbound.files[0])
            id, form = await self._api.upload(path)
            kind = next((kind for kind, forms in _KINDS.items() if form in forms), "document")
            caption = {} if kind == "audio" or not text else {"caption": text}
            name = {"filename": path.name} if kind == "document" else {}
            said = await self._api.say(to=outbound.address.chat, type=kind, **{kind: {"id": id, **caption, **name}})
        else:
            words = {"body": text, "preview_url": False}  # to fetch one tells its host what a model wrote into the link
            said = await self._api.say(to=outbound.address.chat, type="text", text=words)
        if not (sent := string(next(iter(tables(said.get("messages"))), {}).get("id"))):
            raise ChannelError("WhatsApp accepted a message without giving its id.")
        return sent

    def show(self, address: Address, event: Event) -> None:
        if isinstance(event, Queued) and event.external_id.startswith("wamid."):
            reaction = {"message_id": event.external_id, "emoji": SEEN}
            self._live.beside(address.chat, self._api.say(to=address.chat, type="reaction", reaction=reaction))
        self._live.show(address, event)

    async def typing(self, chat: str) -> None:
        if id := self._latest.get(chat):
            await self._api.say(status="read", message_id=id, typing_indicator={"type": "text"})
