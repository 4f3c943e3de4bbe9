"""A message as a mail, and the mail on its way."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from nanoclaw.channels.bot import file_to_send
from nanoclaw.channels.email import threads
from nanoclaw.channels.email.mailbox import MailHost, certificate_refused, login_refused, port_hint
from nanoclaw.channels.email.threads import MailThread
from nanoclaw.core.errors import ChannelError, ChannelUnavailable, Undeliverable, Unreachable
from nanoclaw.core.messages import Outbound
from nanoclaw.escapes import one_line
from nanoclaw.markdown.html import to_html
from nanoclaw.markdown.text import to_plain

_SEND_SECONDS = 60.0
_PAGE = '<!DOCTYPE html>\n<html><body style="font-family: sans-serif; line-height: 1.4">\n{}\n</body></html>\n'
_REPLY = ("re:", "aw:", "sv:", "antw:", "回复:", "回复：", "答复:", "答复：")


def compose(outbound: Outbound, own: str, to: str, thread: str, known: MailThread | None, at: datetime) -> EmailMessage:
    """The mail. Raises Undeliverable for a file that cannot go with it."""
    from email.policy import SMTP
    from email.utils import format_datetime

    domain = own.rpartition("@")[2]
    mail = EmailMessage(policy=SMTP)
    mail["From"], mail["To"] = own, to
    mail["Subject"] = _subject(outbound, known)
    mail["Date"] = format_datetime(at)
    mail["Message-ID"] = threads.own_id(_digest(outbound, at), thread, domain)
    mail["Auto-Submitted"] = "auto-replied" if outbound.reply_to else "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    answered = next(iter(threads.ids(outbound.reply_to)), known.last if known else "")
    if answered:
        before = known.answered("").references if known else ()
        mail["In-Reply-To"] = answered
        mail["References"] = " ".join(dict.fromkeys([*(one for one in before if one != answered), answered]))
    mail.set_content(to_plain(outbound.text) + "\n", cte="quoted-printable")
    mail.add_alternative(_PAGE.format(to_html(outbound.text)), subtype="html", cte="quoted-printable")
    for path in outbound.files:
        _attach(mail, Path(path))
    return mail


def loads(files: Sequence[str], most_bytes: int) -> list[tuple[str, ...]]:
    """The files as one mail after the other takes them: one with all, unless they are larger together than that."""
    found: list[tuple[str, ...]] = [()]
    total = 0
    for file in files:
        try:
            size = Path(file).stat().st_size
        except OSError:  # told when it is read
            size = 0
        if found[-1] and total + size > most_bytes:
            found.append(())
            total = 0
        found[-1] += (file,)
        total += size
    return found


async def submit(mail: EmailMessage, server: MailHost, user: str, password: str) -> None:
    """Hand the mail to the server. Raises Undeliverable if the address or the mail is refused for good, ChannelError
    when another try may help."""
    import aiosmtplib

    sender, recipient = str(mail["From"]), str(mail["To"])
    with _told(server, user, "The mail could not be handed to"):
        try:
            await aiosmtplib.send(
                mail, sender=sender, recipients=[recipient], **_connection(server, user, password, sender)
            )
        except aiosmtplib.SMTPRecipientsRefused as error:
            first = error.recipients[0]
            raise _refused(first.code, f"{server.host} does not accept mail for {recipient}: {first.message}") from None
        except aiosmtplib.SMTPSenderRefused as error:
            raise ChannelError(
                f"{server.host} does not let {user} send as {sender}: {one_line(error.message, 200)}"
            ) from None
        except aiosmtplib.SMTPDataError as error:
            raise _refused(error.code, f"{server.host} rejects the mail: {error.message}") from None


async def log_in(server: MailHost, user: str, password: str) -> None:
    """Look whether the server would take mail from us. Raises ChannelError."""
    import aiosmtplib

    with _told(server, user, "Mail cannot be sent by"):
        async with aiosmtplib.SMTP(**_connection(server, user, password, user)):
            pass


def _connection(server: MailHost, user: str, password: str, sender: str) -> dict[str, Any]:
    return {
        "hostname": server.host,
        "port": server.port,
        "username": user,
        "password": password,
        "use_tls": server.security == "tls",
        "start_tls": server.security == "starttls",
        "tls_context": None if server.security == "none" else server.context(),
        "local_hostname": sender.rpartition("@")[2],
        "timeout": _SEND_SECONDS,
    }


@contextmanager
def _told(server: MailHost, user: str, what: str) -> Iterator[None]:
    """Turn errors of the connection into a ChannelError with a sentence."""
    import ssl

    import aiosmtplib

    try:
        yield
    except ssl.SSLCertVerificationError as error:
        raise ChannelError(certificate_refused(server, error)) from None
    except aiosmtplib.SMTPAuthenticationError:
        raise Unreachable(login_refused(server, user), 300) from None
    except aiosmtplib.SMTPConnectError as error:
        if isinstance(cause := error.__cause__, ssl.SSLCertVerificationError):
            raise ChannelError(certificate_refused(server, cause)) from None
        said = one_line(str(error), 200)
        kind = ChannelError if isinstance(error, aiosmtplib.SMTPConnectResponseError) else Unreachable
        raise kind(f"{server} cannot be reached: {said}.{port_hint(server, cause)}") from None
    except (aiosmtplib.SMTPTimeoutError, aiosmtplib.SMTPServerDisconnected) as error:
        raise ChannelUnavailable(f"{what} {server}: {one_line(str(error), 200)}.") from None
    except (aiosmtplib.SMTPException, OSError, ValueError) as error:
        raise ChannelError(f"{what} {server}: {one_line(str(error), 200)}.{port_hint(server, error)}") from None


def _refused(code: int, said: str) -> ChannelError:
    sentence = f"{one_line(said, 300)} ({code})"
    return Undeliverable(sentence) if 500 <= code < 600 else ChannelError(sentence)


def _subject(outbound: Outbound, known: MailThread | None) -> str:
    """The subject of the thread, or the first words of a mail that begins one."""
    if known is not None or outbound.reply_to:
        subject = one_line(known.subject, 300) if known else ""
        return subject if subject.lower().startswith(_REPLY) else f"Re: {subject}".rstrip()
    words = one_line(next(filter(str.strip, to_plain(outbound.text).splitlines()), ""), 78)
    return words or next((Path(file).name for file in outbound.files), "")


def _digest(outbound: Outbound, at: datetime) -> str:
    """The same whenever the same message is sent, so that a recipient recognizes a repeat."""
    key = outbound.key or at.isoformat()
    said = "\0".join([key, str(outbound.address), outbound.text, *outbound.files])
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()


def _attach(mail: EmailMessage, path: Path) -> None:
    data, mime = file_to_send(path)
    main, _, sub = mime.partition("/")
    name = one_line(path.name.encode("utf-8", "replace").decode(), 100)
    if main in ("message", "multipart"):  # these must not be encoded
        main, sub = "application", "octet-stream"
    mail.add_attachment(data, maintype=main, subtype=sub, filename=name)
