"""One IMAP connection to a mailbox, for one thread at a time; `shut` may be called by another."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from nanoclaw.channels.email import fetch_answer, reading
from nanoclaw.channels.email.reading import Letter
from nanoclaw.channels.email.settings import Security
from nanoclaw.channels.email.trust import Headers, author, machine
from nanoclaw.core.errors import ChannelError, ConfigError, Unreachable
from nanoclaw.net import is_loopback

if TYPE_CHECKING:
    import ssl

    from imap_tools import BaseMailBox

IDLE_SECONDS = 120.0
"""Silence after which a server is asked for a sign of life; some end an IDLE of half an hour."""
_POLL_SECONDS = 30.0  # where the server cannot IDLE
_ANSWER_SECONDS = 30.0
_HEADER_BYTES = 100_000
PIECE_BYTES = 1_000_000
"""Bytes of a file that are asked for at once, so that memory holds it decoded only."""


@dataclass(frozen=True, slots=True)
class MailHost:
    host: str
    port: int
    security: Security

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def context(self) -> ssl.SSLContext:
        import ssl

        return ssl.create_default_context()


def mail_host(text: str, security: Security, usual: int) -> MailHost:
    """A server at its usual port, or at the one that its setting names, "mail.lan:1993". Raises ConfigError."""
    try:
        found = urlsplit(f"//{text}")
        host, port = found.hostname or "", found.port or usual
    except ValueError:
        raise ConfigError(f"channels.email: {text!r} is no server such as mail.lan or mail.lan:1993.") from None
    if security == "none" and not is_loopback(host):
        raise ConfigError(
            f"channels.email.security is 'none', which is for servers on this machine only, not for {host}. "
            "Use 'tls' or 'starttls'."
        )
    return MailHost(host, port, security)


class Skipped(Exception):
    """A mail that is not for the assistant; the text says why."""


class Mailbox:
    """The INBOX. Nothing in it is changed: what was read stays unread for people who look at it, too. Test
    mails of our own are removed.

    All methods raise ChannelError for a connection that is lost.
    """

    def __init__(self, box: BaseMailBox, server: MailHost) -> None:
        self._box, self._server = box, server
        self._shut = threading.Event()
        with _told(server):
            state = box.folder.status("INBOX", ["UIDVALIDITY", "UIDNEXT"])
            box.folder.set("INBOX", readonly=True)
        self.validity = int(state["UIDVALIDITY"])
        """Another number means that all mails have new numbers."""
        self.newest = int(state["UIDNEXT"]) - 1
        """No mail had a higher number when the connection was made."""

    def newer(self, uid: int) -> list[int]:
        """The mails after this one, oldest first."""
        with _told(self._server):
            found = self._box.uids(f"UID {uid + 1}:*", charset=None)
        return sorted(number for number in map(int, found) if number > uid)

    def since(self, day: date) -> list[int]:
        """The mails that came on this day or later, oldest first."""
        with _told(self._server):
            return sorted(map(int, self._box.uids(f"SINCE {day:%d-%b-%Y}", charset=None)))

    def letter(self, uid: int) -> Letter:
        """A mail's headers, text and what its parts are; of files nothing is read.

        Raises Skipped for one that is gone, cannot be understood or must not be answered.
        """
        items = self._fetch(uid, f"UID INTERNALDATE BODYSTRUCTURE BODY.PEEK[HEADER]<0.{_HEADER_BYTES}>")
        headers = Headers.of(_of(items, "BODY[HEADER]"), _HEADER_BYTES)
        who = author(headers)
        if who is None:
            raise Skipped("it names no sender who could be answered")
        tree = items.get("BODYSTRUCTURE")
        if why := "it is a report of a mail server" if fetch_answer.is_report(tree) else machine(headers, who):
            raise Skipped(why)
        try:
            parts = fetch_answer.parts(tree)
        except ValueError as error:
            raise Skipped(str(error)) from None
        bodies = self._bodies(uid, reading.wanted(parts))
        return Letter(f"{self.validity}/{uid}", _moment(items), headers, who, parts, bodies)

    def conversation(self, message_id: str) -> Headers | None:
        """The headers of the mail with this Message-ID, None for one that is not there. Raises Skipped."""
        with _told(self._server):
            found = self._box.uids(f'HEADER Message-ID "{message_id}"', charset=None)
        return self.headers(int(found[-1])) if found else None

    def with_subject(self, words: str) -> list[int]:
        """The mails whose subject has these words, including those that have just arrived."""
        with _told(self._server):
            self._box.client.noop()
            return sorted(map(int, self._box.uids(f'HEADER Subject "{words}"', charset=None)))

    def headers(self, uid: int) -> Headers:
        """Raises Skipped if the mail is gone."""
        return Headers.of(_of(self._fetch(uid, f"UID BODY.PEEK[HEADER]<0.{_HEADER_BYTES}>"), "BODY[HEADER]"))

    def remove(self, uids: Sequence[int]) -> None:
        """Delete mails of our own. Where the server can't delete these alone, they are marked as deleted."""
        with _told(self._server):
            self._box.folder.set("INBOX")
            try:
                for uid in map(str, uids):
                    self._box.client.uid("STORE", uid, "+FLAGS", "(\\Deleted)")
                    if "UIDPLUS" in self._box.client.capabilities:
                        self._box.client.uid("EXPUNGE", uid)
            finally:
                self._box.folder.set("INBOX", readonly=True)

    def part(self, uid: int, section: str) -> Iterator[bytes]:
        """A part as it is encoded, piece by piece. Raises Skipped if the mail is gone."""
        start, is_more = 0, True
        while is_more:
            items = self._fetch(uid, f"UID BODY.PEEK[{section}]<{start}.{PIECE_BYTES}>")
            piece = _of(items, f"BODY[{section}]", start)
            yield piece
            start, is_more = start + len(piece), len(piece) == PIECE_BYTES

    def wait(self) -> None:
        """Wait until the server has something to tell, or a sign of life is due. It does not tell twice of a mail that
        came while another was read."""
        with _told(self._server):
            if self._box.client.response("EXISTS")[1] != [None]:
                return
            if "IDLE" not in self._box.client.capabilities:
                self._shut.wait(_POLL_SECONDS)
                return
            self._box.idle.start()  # type: ignore[no-untyped-call]
            if not self._has_buffered():
                self._box.idle.poll(IDLE_SECONDS)
            self._box.idle.stop()  # type: ignore[no-untyped-call]

    def shut(self) -> None:
        """Break the connection off; a method that waits in another thread raises."""
        self._shut.set()
        with suppress(OSError, AttributeError), socket.socket(fileno=os.dup(self._box.client.sock.fileno())) as same:
            same.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self._box.client.shutdown()

    def _bodies(self, uid: int, sizes: dict[str, int]) -> dict[str, bytes]:
        if not sizes:
            return {}
        items = self._fetch(uid, "UID " + " ".join(f"BODY.PEEK[{part}]<0.{most}>" for part, most in sizes.items()))
        return {part: _of(items, f"BODY[{part}]") for part in sizes}

    def _fetch(self, uid: int, what: str) -> dict[str, Any]:
        """Raises Skipped for a mail that is gone, and for what the server refuses of this one."""
        import imaplib

        with _told(self._server):
            try:
                status, data = self._box.client.uid("FETCH", str(uid), f"({what})")
            except imaplib.IMAP4.abort:
                raise
            except imaplib.IMAP4.error:
                raise Skipped("the server cannot read it") from None
        if status != "OK":
            raise Skipped("the server does not deliver it")
        try:
            items = fetch_answer.fetched(data, uid)
        except ValueError as error:
            raise Skipped(str(error)) from None
        if not items:
            raise Skipped("it is gone")
        return items

    def _has_buffered(self) -> bool:
        """True when news came together with the answer to IDLE; polling the socket would wait for more."""
        client = self._box.client
        before = client.sock.gettimeout()
        client.sock.settimeout(0)
        try:
            return bool(client.file.peek(1))  # type: ignore[union-attr]
        except OSError:
            return False
        finally:
            client.sock.settimeout(before)


def open_mailbox(server: MailHost, user: str, password: str) -> Mailbox:
    """Connect, log in and select INBOX. Raises ChannelError."""
    with _told(server):
        box = _connected(server)
    try:
        _log_in(box, server, user, password)
        return Mailbox(box, server)
    except BaseException:
        with suppress(OSError):
            box.client.shutdown()
        raise


def _connected(server: MailHost) -> BaseMailBox:
    import imap_tools

    match server.security:
        case "tls":
            return imap_tools.MailBox(server.host, server.port, _ANSWER_SECONDS, ssl_context=server.context())
        case "starttls":
            return imap_tools.MailBoxStartTls(server.host, server.port, _ANSWER_SECONDS, server.context())
        case "none":
            return imap_tools.MailBoxUnencrypted(server.host, server.port, _ANSWER_SECONDS)


def _log_in(box: BaseMailBox, server: MailHost, user: str, password: str) -> None:
    import imaplib

    from imap_tools import MailboxLoginError

    with _told(server):
        try:
            if user.isascii() and password.isascii():
                box.login(user, password, None)
            else:
                box.login_utf8(user, password, None)
        except imaplib.IMAP4.abort:
            raise
        except (MailboxLoginError, imaplib.IMAP4.error):
            raise Unreachable(login_refused(server, user), 300) from None
        if "ID" in box.client.capabilities:  # some servers hand nothing to programs without a name
            imaplib.Commands.setdefault("ID", ("AUTH", "SELECTED"))
            box.client._simple_command("ID", '("name" "nanoclaw")')


def login_refused(server: MailHost, user: str) -> str:
    return (
        f"{server.host} refuses the login of {user}. Check channels.email.user and NANOCLAW_EMAIL_PASSWORD; most "
        "providers want an app password made in the account's security settings, and IMAP switched on."
    )


@contextmanager
def _told(server: MailHost) -> Iterator[None]:
    """Turn errors of the connection into a ChannelError with a sentence."""
    import imaplib
    import ssl

    from imap_tools import ImapToolsError

    try:
        yield
    except ssl.SSLCertVerificationError as error:
        raise ChannelError(certificate_refused(server, error)) from None
    except (OSError, EOFError, imaplib.IMAP4.error, ImapToolsError) as error:
        said = " ".join(str(error).split())[:200] or type(error).__name__
        kind = (
            Unreachable if isinstance(error, OSError) and not isinstance(error, imaplib.IMAP4.error) else ChannelError
        )
        raise kind(f"The connection to {server} broke off: {said}.{port_hint(server, error)}") from None


def port_hint(server: MailHost, error: BaseException | None) -> str:
    """A hint at the port where a server speaks no TLS, or not at once; '' for other errors."""
    import ssl

    if not isinstance(error, ssl.SSLError):
        return ""
    return (
        f" Check whether {server.port} is the port for channels.email.security = {server.security!r}: mostly 993 and "
        "465 are for 'tls', 143 and 587 for 'starttls'."
    )


def certificate_refused(server: MailHost, error: ssl.SSLCertVerificationError) -> str:
    return (
        f"The certificate of {server} cannot be trusted: {error.verify_message}. For a server of your own with a "
        "CA of its own, set SSL_CERT_FILE in the environment."
    )


def _of(items: dict[str, Any], name: str, start: int = 0) -> bytes:
    """Content by its name, with which the server may repeat from where it is."""
    found = items.get(f"{name}<{start}>") or items.get(name)
    return found if isinstance(found, bytes) else b""


def _moment(items: dict[str, Any]) -> datetime:
    """Time when the mail came. Servers always tell it; one that does not is no reason to lose a mail."""
    try:
        return datetime.strptime(items["INTERNALDATE"].decode("ascii").strip(), "%d-%b-%Y %H:%M:%S %z")
    except (KeyError, AttributeError, ValueError):
        return datetime.now(UTC)
