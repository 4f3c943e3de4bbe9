"""The e-mail channel: waits for mail, hands it in, answers it in its thread."""

from __future__ import annotations

import asyncio
import io
import json
from collections import deque
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from nanoclaw import atomic_write as drafts
from nanoclaw.channels.email import mailbox as mailboxes
from nanoclaw.channels.email import quotes, threads
from nanoclaw.channels.email.blocking import in_thread
from nanoclaw.channels.email.mailbox import Mailbox, Skipped
from nanoclaw.channels.email.proof import Prover
from nanoclaw.channels.email.reading import Letter, as_message
from nanoclaw.channels.email.settings import EmailSettings
from nanoclaw.channels.email.text import decoded, header_text
from nanoclaw.channels.email.threads import MailThread, Threads
from nanoclaw.channels.email.trust import Headers, is_address
from nanoclaw.channels.web_api import too_large
from nanoclaw.core.channel import ChannelHost, Deliver, Hints, Place
from nanoclaw.core.errors import ChannelError, ConfigError, Undeliverable, WorkspaceError
from nanoclaw.core.events import Event
from nanoclaw.core.messages import Address, Attachment, Outbound
from nanoclaw.log import logger

MAILS_AN_HOUR = 60
"""More mails of one address that came within an hour are ignored: two programs that answer each other stop here at
last."""

MOST_BREAKS, BREAKS_FOR = 5, timedelta(minutes=15)
"""A mail at which the connection is interrupted so often, one time after the other, and for so long is left alone:
others come after it. The first tries come within half a minute, and a server may be ill for longer."""

_LENGTH, _FILES = 200_000, 100


@dataclass(frozen=True, slots=True)
class _Mark:
    """Up to where the mailbox was read; `at` is when."""

    validity: int
    uid: int
    at: datetime


class Email:
    """Mails that come from the first start on are passed on, in their order, also those that come while nobody runs.

    Where it stopped is kept in `folder`, not in the mailbox, whose mails stay as they are: who looks at it with another
    program takes nothing away. Of mails by programs, lists and mail servers none is passed on. A mail with several
    recipients is answered to its author alone, at the address of its From header. A mail in which there is nothing at
    all, neither a subject nor words nor a file, is left alone. One that only says "stop" or "done 3" belongs to the
    conversation before, even if it begins one.

    A mail that is sent again, because it was not certain that it went out, has the same Message-ID: most mail programs
    show it once.
    """

    name = "email"

    def __init__(self, settings: EmailSettings, host: ChannelHost) -> None:
        """Raises ConfigError."""
        for key, one in (("address", settings.address), *(("aliases", one) for one in settings.aliases)):
            if not is_address(one):
                raise ConfigError(f"channels.email.{key} takes an address such as bot@example.org, not {one!r}.")
        self._address = settings.address.lower()
        self._own = (self._address, *(one.lower() for one in settings.aliases))
        self._user, self._password = settings.user or settings.address, settings.password
        usual = {"tls": (993, 465), "starttls": (143, 587), "none": (143, 25)}[settings.security]
        self._imap = mailboxes.mail_host(settings.imap_host, settings.security, usual[0])
        self._smtp = mailboxes.mail_host(settings.smtp_host, settings.security, usual[1])
        self._clock, self._trusts, self._most_bytes = host.clock, settings.trusts.strip(), host.most_bytes
        self._prover = Prover(
            (self._imap, self._smtp), (self._user, self._password), self._address, self._trusts, host.folder, host.clock
        )
        self._mark_file = host.folder / "mailbox.json"
        self._threads = Threads(host.folder / "threads")
        self._taken: deque[tuple[datetime, str]] = deque()
        self._over: dict[str, datetime] = {}
        self._broke_at, self._breaks, self._broken_since = (0, 0), 0, host.clock()
        self.alive: datetime | None = None
        self.hints = Hints(
            length=_LENGTH,
            markup="markdown",
            caption=_LENGTH,
            files=_FILES,
            file_bytes=host.most_bytes,
            threads=True,
            remark="This is e-mail: write a letter, not chat. Each answer is one mail, read later, so ask all at once.",
        )

    def serves(self, outbound: Outbound) -> bool:
        return True

    def show(self, address: Address, event: Event) -> None:
        """Nothing is shown: a mail is whole when it comes."""

    async def run(self, deliver: Deliver) -> None:
        """Raises ChannelError if the connection is lost, StoreError of `deliver`, WorkspaceError."""
        box = await in_thread(mailboxes.open_mailbox, self._imap, self._user, self._password)
        try:
            await self.prove()
            await self._read(box, deliver)
        finally:
            box.close()

    @property
    def proof(self) -> tuple[bool, str]:
        return (self._prover.is_good, self._prover.sentence) if self._trusts else (False, _NO_TRUST)

    async def prove(self, *, anew: bool = False) -> tuple[bool, str]:
        if self._trusts:
            await self._prover.prove(anew=anew)
        return self.proof

    async def check(self) -> str:
        """Log in for mail that comes and for mail that goes; the address. Raises ChannelError."""
        from nanoclaw.channels.email.writing import log_in

        box = await in_thread(mailboxes.open_mailbox, self._imap, self._user, self._password)
        box.close()
        await log_in(self._smtp, self._user, self._password)
        return self._address

    async def fetch(self, attachment: Attachment, most: int) -> bytes:
        """The file, over a connection of its own. Raises Undeliverable for one that is larger than `most`, or gone, and
        ChannelError if another try may help."""
        if attachment.size == 0:
            return b""
        try:
            validity, uid, section, encoding = attachment.ref.split("/")
            place = int(validity), int(uid)
        except ValueError:
            raise Undeliverable(f"{attachment.name!r} is not an attachment.") from None
        return await in_thread(self._part, place, section, encoding, most)

    async def send(self, outbound: Outbound) -> str:
        """Its Message-ID; of files that are too large together several mails, and theirs. Raises Undeliverable, or
        ChannelError if another try may help."""
        from nanoclaw.channels.email.writing import compose, loads, submit

        place = Place.of(outbound.address.chat)
        if not is_address(place.chat):
            raise Undeliverable(f"{place.chat!r} is not an e-mail address such as ann@example.org.")
        known = await self._conversation(place, outbound)
        sent = list[str]()
        for files in loads(outbound.files, self._most_bytes):
            part = outbound._replace(text="" if sent else outbound.text, files=files)
            mail = await asyncio.to_thread(compose, part, self._address, place.chat, place.thread, known, self._clock())
            await submit(mail, self._smtp, self._user, self._password)
            sent.append(str(mail["Message-ID"]))
            if place.thread:
                before = known or MailThread(str(mail["Subject"]), next(iter(threads.ids(outbound.reply_to)), ""))
                known = before.answered(sent[-1])
                self._keep(outbound.address.chat, known)
        return " ".join(sent)

    async def _read(self, box: Mailbox, deliver: Deliver) -> None:
        mark = self._mark()
        if mark is None:
            mark = self._set_mark(box.validity, box.newest)
        is_renumbered = mark.validity != box.validity
        if is_renumbered:  # what was read of these is known by its Message-ID
            due = await in_thread(box.since, (mark.at - timedelta(days=1)).date(), until_cancelled=box)
        else:
            due = await in_thread(box.newer, mark.uid, until_cancelled=box)
        while True:
            for uid in due:
                if await self._take(box, uid, deliver) and not is_renumbered:
                    mark = self._set_mark(box.validity, uid)
            newest = max([box.newest if is_renumbered else mark.uid, *due])
            if (box.validity, newest) != (mark.validity, mark.uid):
                mark = self._set_mark(box.validity, newest)
            is_renumbered = False
            self.alive = self._clock()
            await in_thread(box.wait, until_cancelled=box)
            await self.prove()
            due = await in_thread(box.newer, mark.uid, until_cancelled=box)

    async def _take(self, box: Mailbox, uid: int, deliver: Deliver) -> bool:
        """Hand one mail in. False for one that is passed over; it stops none of the others."""
        try:
            letter = await self._letter(box, uid)
            if letter.who.address == self._address:
                raise Skipped("it is from the assistant itself")
            reading = partial(as_message, is_proven=self._prover.is_good)
            inbound, conversation = await in_thread(reading, letter, self.name, self._own, self._trusts)
        except Skipped as why:
            logger.info("E-mail: mail {} is skipped: {}", uid, why)
            return False
        except ChannelError:
            raise
        except Exception as error:  # what strangers send breaks parsers in ways that nobody has listed
            logger.warning("E-mail: mail {} could not be read and is skipped: {}", uid, type(error).__name__)
            return False
        if not (inbound.message.text.strip() or inbound.quote or inbound.attachments):
            logger.info("E-mail: mail {} is skipped: it is empty", uid)
            return False
        if self._is_too_many(inbound.sender, letter.at):
            return False
        chat = inbound.address.chat
        is_threaded = Place.of(chat).thread != ""
        before = self._threads.find(chat) if is_threaded else None
        is_beside = is_threaded and before is None and quotes.command(inbound.message.text) != ""
        if is_beside and (latest := self._threads.latest(chat)):
            inbound = inbound._replace(address=inbound.address._replace(chat=latest))
        else:
            self._threads.remember(chat, conversation.after(before) if before else conversation)
        await deliver(inbound)
        self._taken.append((letter.at, inbound.sender))
        return True

    async def _letter(self, box: Mailbox, uid: int) -> Letter:
        """Raises Skipped for a mail that cannot be read, and ChannelError if the connection is lost."""
        place = box.validity, uid
        if place != self._broke_at:
            self._broke_at, self._breaks = place, 0
        if self._breaks >= MOST_BREAKS and self._clock() - self._broken_since >= BREAKS_FOR:
            raise Skipped(f"the connection broke off {self._breaks} times while it was read")
        try:
            return await in_thread(box.letter, uid, until_cancelled=box)
        except ChannelError:
            self._broken_since = self._broken_since if self._breaks else self._clock()
            self._breaks += 1
            raise

    def _is_too_many(self, sender: str, at: datetime) -> bool:
        """True when more mails of one sender came within an hour than a person writes. What came while nobody ran is
        counted by when it came."""
        since = at - timedelta(hours=1)
        while self._taken and self._taken[0][0] <= since:
            self._taken.popleft()
        if sum(one == sender for _, one in self._taken) < MAILS_AN_HOUR:
            return False
        self._over = {one: told for one, told in self._over.items() if told > since}
        if sender not in self._over:
            self._over[sender] = at
            logger.warning(
                "E-mail: {} mails from {} came within an hour; more are refused, as it may be a loop.",
                MAILS_AN_HOUR,
                sender,
            )
        return True

    async def _conversation(self, place: Place, outbound: Outbound) -> MailThread | None:
        """The thread that the mail continues; None for one that begins a thread."""
        known = self._threads.find(outbound.address.chat)
        if known and (place.thread or (outbound.reply_to and known.last == outbound.reply_to)):
            return known
        if not threads.ids(outbound.reply_to):
            return None
        headers = await in_thread(self._headers_of, outbound.reply_to)
        if headers is None:
            return None
        references = [*threads.ids(headers.first("references")), *threads.ids(headers.first("in-reply-to"))[:1]]
        subject = header_text(headers.first("subject"))
        return MailThread(subject, outbound.reply_to, tuple(dict.fromkeys(references)))

    def _headers_of(self, message_id: str) -> Headers | None:
        with self._opened() as box, suppress(Skipped):
            return box.conversation(message_id)
        return None

    def _part(self, place: tuple[int, int], section: str, encoding: str, most: int) -> bytes:
        """The file. Raises Undeliverable."""
        validity, uid = place
        data = io.BytesIO()
        with self._opened() as box, suppress(Skipped):
            if box.validity == validity:
                for piece in decoded(box.part(uid, section), encoding):
                    data.write(piece)
                    if data.tell() > most:
                        raise too_large(most)
                return data.getvalue()
        raise Undeliverable("The mail with this file is gone. Send it again.")

    def _opened(self) -> closing[Mailbox]:
        return closing(mailboxes.open_mailbox(self._imap, self._user, self._password))

    def _keep(self, chat: str, conversation: MailThread) -> None:
        """The mail is out: that its thread cannot be kept must not send it again."""
        try:
            self._threads.keep(chat, conversation)
        except (OSError, WorkspaceError) as error:
            logger.warning("E-mail: the thread of a mail was not kept: {}", error)

    def _mark(self) -> _Mark | None:
        """None at the first start, and for another mailbox than before."""
        try:
            kept = json.loads(self._mark_file.read_text(encoding="utf-8"))
            if kept["mailbox"] != self._mailbox:
                return None
            return _Mark(int(kept["uidvalidity"]), int(kept["uid"]), datetime.fromisoformat(kept["at"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            raise ChannelError(
                f"{self._mark_file}, which says what mail was read, cannot be read. Delete it to begin with mails that "
                "come from then on."
            ) from None

    def _set_mark(self, validity: int, uid: int) -> _Mark:
        mark = _Mark(validity, uid, self._clock())
        kept = {"mailbox": self._mailbox, "uidvalidity": validity, "uid": uid, "at": mark.at.isoformat()}
        self._mark_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        drafts.write_atomically(self._mark_file, json.dumps(kept), 0o600)
        return mark

    @property
    def _mailbox(self) -> str:
        return f"{self._user} {self._imap}"


_NO_TRUST = (
    "channels.email.trusts is not set, the name by which your server signs Authentication-Results (look into a mail "
    "that it has received): without it each mail that claims to be from you waits for your yes, /held."
)
