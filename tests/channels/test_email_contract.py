"""The e-mail channel keeps the contract of chat apps."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from functools import cache
from itertools import count

from tests.channels.contract import SECONDS, Contract, Shown
from tests.channels.mail_server import PASSWORD, USER, MailServer


class Sent(list[tuple[str, bytes]]):
    """What was handed in, in another thread."""

    def __init__(self, came: asyncio.Event) -> None:
        super().__init__()
        self._loop, self._came = asyncio.get_running_loop(), came

    def append(self, mail: tuple[str, bytes]) -> None:
        super().append(mail)
        self._loop.call_soon_threadsafe(self._came.set)


class OnEmail:
    """People who write in one thread each, as their programs do when they press Reply."""

    name, secret = "email", "wrong-password"
    keeps = True
    edits = buttons = False

    def __init__(self, server: MailServer) -> None:
        self.server, self.numbers = server, count(1)
        self.came, self.listens = asyncio.Event(), asyncio.Event()
        server.sent = Sent(self.came)
        loop = asyncio.get_running_loop()
        server.on_idle = lambda: loop.call_soon_threadsafe(self.listens.set)
        (imap, imap_port), (smtp, smtp_port) = server.imap, server.smtp
        self.settings, self.broken = (
            f'[channels.email]\naddress = "{USER}"\npassword = "{password}"\nsecurity = "none"\ntrusts = "lab.test"\n'
            f'imap_host = "{imap}:{imap_port}"\nsmtp_host = "{smtp}:{smtp_port}"'
            for password in (PASSWORD, self.secret)
        )

    async def ready(self) -> None:
        async with asyncio.timeout(SECONDS):
            await self.listens.wait()
        self.listens.clear()

    def id_of(self, who: str) -> str:
        return f"{who.lower().replace(' ', '')}@lab.test"

    async def write(self, who: str, text: str, *, answers: str = "", file: tuple[str, bytes] | None = None) -> str:
        letter, id = EmailMessage(), f"<{next(self.numbers)}@lab.test>"
        letter["Authentication-Results"] = "lab.test; dmarc=pass header.from=lab.test"
        letter["From"], letter["To"], letter["Message-ID"] = f"{who} <{self.id_of(who)}>", USER, id
        before = answers or next((one.id for one in reversed(self.shown(who))), "")
        if before:
            letter["In-Reply-To"] = letter["References"] = before
        letter.set_content(text)
        if file:
            letter.add_attachment(file[1], "text", "plain", filename=file[0])
        self.server.put(letter)
        return id

    async def edit(self, who: str, id: str, text: str) -> None:
        raise NotImplementedError

    async def press(self, who: str, shown: Shown, label: str) -> None:
        raise NotImplementedError

    def shown(self, who: str) -> list[Shown]:
        return [_shown(data) for address, data in self.server.sent if address == self.id_of(who)]

    async def changed(self) -> None:
        self.came.clear()
        await self.came.wait()

    async def repeat(self) -> None:
        self.server.put(self.server.mails[-1].data)

    async def garble(self) -> None:
        for data in (b"", b"\xff\xfe", b"From: \r\n\r\n", b"Content-Type: multipart/mixed; boundary=\r\n\r\n--"):
            self.server.put(data)

    async def leave(self) -> None:
        await asyncio.to_thread(self.server.stop)

    async def come_back(self) -> None:
        self.server.come_back()


@cache
def _shown(data: bytes) -> Shown:
    mail = message_from_bytes(data, policy=policy.default)
    body = mail.get_body(("plain",))
    assert body
    files = tuple(bytes(one.get_content(), "utf-8") for one in mail.iter_attachments())
    return Shown(str(mail["Message-ID"]), body.get_content(), files)


@asynccontextmanager
async def serving() -> AsyncIterator[OnEmail]:
    server = MailServer()
    try:
        yield OnEmail(server)
    finally:
        await asyncio.to_thread(server.stop)


class TestEmail(Contract):
    service = staticmethod(serving)
