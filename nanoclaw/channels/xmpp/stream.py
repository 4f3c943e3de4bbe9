"""One session at an XMPP server: its login, what comes in order, and questions with their answers."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element, SubElement

from nanoclaw.channels.web_api import CALL_SECONDS, reason_of
from nanoclaw.channels.xmpp.settings import XmppSettings
from nanoclaw.core.errors import ChannelError, ChannelUnavailable, Undeliverable, Unreachable
from nanoclaw.escapes import one_line

if TYPE_CHECKING:
    from slixmpp import ClientXMPP

RESOURCE = "nanoclaw"
"""The name of the session that is served. A new one of that name ends the one before, also one that only seems to live:
what that had not acknowledged comes again."""

LOGIN_SECONDS = 12.0
PING_SECONDS = 60.0
WAIT_SECONDS = 60.0
"""After what only a person can change: a wrong password, a certificate, another program with the same account."""

_MECHANISMS = {"PLAIN", *(f"SCRAM-SHA-{n}{plus}" for n in ("1", "256", "512") for plus in ("", "-PLUS"))}
"""Ways to log in that prove the password; slixmpp takes all of them within TLS alone."""


class XmppStream:
    """A session, which is opened once. Its methods raise ChannelUnavailable when it is over."""

    def __init__(self, settings: XmppSettings, heard: Callable[[], None], resource: str = "") -> None:
        """`heard` is called at each sign of life; only the session with a `resource` is given messages."""
        self._jid, self._password, self._server = settings
        self._domain, self._resource, self._heard = self._jid.partition("@")[2], resource, heard
        self._client: ClientXMPP | None = None
        self._coming: asyncio.Queue[Element | int | ChannelError] = asyncio.Queue()
        self._over: asyncio.Future[ChannelError] = asyncio.get_running_loop().create_future()
        self._opened = asyncio.Event()
        self._pinging: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Log in. Raises ChannelError."""
        from slixmpp import ClientXMPP
        from slixmpp.xmlstream.handler import Callback
        from slixmpp.xmlstream.matcher import MatchXPath

        config = {"feature_mechanisms": {"use_mechs": _MECHANISMS}, "xep_0198": {"allow_resume": False}}
        logging.getLogger("slixmpp").setLevel(logging.CRITICAL)  # what it says to the screen is told here in a sentence
        self._client = client = ClientXMPP(
            f"{self._jid}/{self._resource}".rstrip("/"), self._password, plugin_config=config
        )
        client.auto_authorize, client.auto_subscribe = None, False
        client.register_plugin("xep_0198")
        client.enable_direct_tls = not self._server or self._server.endswith((":5223", ":443"))
        # acknowledge what was delivered, in its turn, and not what has only arrived
        client.plugin["xep_0198"].send_ack = lambda: self._coming.put_nowait(client.plugin["xep_0198"].handled)
        for name in ("message", "presence"):
            matches = MatchXPath(f"{{jabber:client}}{name}")
            client.register_handler(Callback(f"all of {name}", matches, lambda one: self._coming.put_nowait(one.xml)))
        no_login = ChannelError(f"{self._domain} offers no login by password within TLS.", WAIT_SECONDS)
        refused, failed = list[ChannelError](), list[Any]()
        for event, handler in {
            "stream_negotiated": lambda _: self._opened.set(),
            "connection_failed": failed.append,
            "failed_auth": lambda _: refused.append(self._wrong_password()),
            "failed_all_auth": lambda _: self._end(*refused[-1:] or [no_login]),
            "stream_error": lambda error: self._end(self._reason(str(error["condition"]))),
            "disconnected": lambda why: self._end(*refused[-1:] or [self._reason(why)]),
        }.items():
            client.add_event_handler(event, handler)
        host, _, port = self._server.rpartition(":")
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                await client.connect(*((host.strip("[]"), int(port)) if host else ()))
                if not client.is_connected():
                    raise self._unreachable(failed)
                await self._opened.wait()
        except TimeoutError:
            raise self._unreachable(failed) from None
        finally:
            client.cancel_connection_attempt()
        if self._over.done():
            raise self._over.result()
        self._pinging = asyncio.create_task(self._ping())

    async def stanzas(self) -> AsyncIterator[Element]:
        """Messages and presences as they come, until the session is over. Each counts as acknowledged once the next one
        is asked for."""
        while not isinstance(one := await self._coming.get(), ChannelError):
            if isinstance(one, Element):
                self._heard()
                yield one
            elif self._client and self._client.is_connected():
                self._client.send_raw(f'<a xmlns="urn:xmpp:sm:3" h="{one}"/>')
        raise one

    def send(self, stanza: Element) -> None:
        """Send a message or presence, of which nobody knows whether it arrives before `settled`."""
        session = self._session
        made = session.Message() if stanza.tag == "message" else session.Presence()
        made.xml.attrib.update(stanza.attrib)
        made.xml.extend(list(stanza))
        session.send(made)

    async def settled(self) -> None:
        """Return when the server has taken what was sent; what it says to that came before. A server that does not
        answer has lost the session."""
        try:
            await self.ask(self._domain, Element("{urn:xmpp:ping}ping"))
        except Undeliverable:
            pass  # a server that knows no pings has answered, too
        except ChannelUnavailable as error:
            self._end(error)
            raise

    async def ask(self, to: str, payload: Element, seconds: float = CALL_SECONDS) -> Element:
        """The payload of an answer. Raises Undeliverable for one that is an error."""
        from slixmpp.exceptions import IqError, IqTimeout

        iq = self._session.make_iq(ito=to, itype="get")
        iq.append(payload)
        answer = asyncio.ensure_future(iq.send(timeout=seconds))
        await asyncio.wait({answer, self._over}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            answer.cancel()
            raise self._over.result()
        try:
            found: Element = answer.result().xml
            self._heard()
            return next(iter(found), Element("nothing"))
        except IqTimeout:
            raise ChannelUnavailable(f"{to} did not answer within {seconds:.0f} s.") from None
        except IqError as error:
            said = one_line(error.text or "", 200)
            raise Undeliverable(f"{to} refuses: {error.condition}{said and f', {said}'}.") from None

    async def close(self) -> None:
        self._end(self._reason())
        if self._pinging:
            self._pinging.cancel()
        if self._client:
            client, self._client = self._client, None
            client.cancel_connection_attempt()
            await client.disconnect(wait=1.0, ignore_send_queue=True)
            if client._run_out_filters:  # which slixmpp leaves waiting for more to send
                client._run_out_filters.cancel()

    @property
    def _session(self) -> ClientXMPP:
        if self._client is None or self._over.done():
            raise Unreachable("there is no connection to XMPP at the moment.")
        return self._client

    async def _ping(self) -> None:
        """Notice a connection that has died without a word."""
        try:
            while True:
                await asyncio.sleep(PING_SECONDS)
                await self.settled()
        except ChannelError:
            pass  # who reads the stanzas knows it, too

    def _end(self, error: ChannelError) -> None:
        if not self._over.done():
            self._over.set_result(error)
            self._opened.set()
            self._coming.put_nowait(error)

    # --- what went wrong ---------------------------------------------------------------------------------------------

    def _reason(self, why: Any = None) -> ChannelError:
        """Why a connection ended."""
        if isinstance(why, ssl.SSLError):
            return self._untrusted(why)
        if why == "conflict":
            return ChannelError(f"another nanoclaw has logged in as {self._jid}: end one of the two.", WAIT_SECONDS)
        more = f": {one_line(str(why), 100)}" if why else ""
        return Unreachable(f"the XMPP server {self._domain} ended the connection{more}.")

    def _unreachable(self, failed: list[Any]) -> ChannelError:
        if untrusted := [one for one in failed if isinstance(one, ssl.SSLCertVerificationError)]:
            return self._untrusted(untrusted[0])
        why = failed[-1] if failed else f"it did not answer within {LOGIN_SECONDS:.0f} s"
        said = reason_of(why if isinstance(why, Exception) else OSError(why), self._password)
        return Unreachable(f"XMPP at {self._server or self._domain} cannot be reached: {said}.")

    def _untrusted(self, error: ssl.SSLError) -> ChannelError:
        why = getattr(error, "verify_message", "") or error.reason or "TLS failed"
        return ChannelError(
            f"the server of {self._domain} does not prove who it is: {one_line(why, 200).rstrip('.')}. Give it a "
            "certificate for that name, and name your own authority, if it is of one, in SSL_CERT_FILE.",
            WAIT_SECONDS,
        )

    def _wrong_password(self) -> ChannelError:
        told = f"the XMPP server refuses {self._jid} with this password: check channels.xmpp.jid and"
        return ChannelError(f"{told} NANOCLAW_XMPP_PASSWORD.", WAIT_SECONDS)


def stanza(kind: str, to: str, type: str = "", id: str = "") -> Element:
    """A message or presence to be filled."""
    given = {"to": to, "type": type, "id": id}
    return Element(kind, {name: value for name, value in given.items() if value})


def below(parent: Element, tag: str, text: str = "", **attributes: str) -> Element:
    """A new element within another."""
    made = SubElement(parent, tag, attributes)
    made.text = text or None
    return made
