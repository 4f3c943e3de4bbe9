"""The proof that a mail server's word holds: what it did with a forged mail of ours, kept until it is tried again."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from email.message import EmailMessage
from pathlib import Path

from nanoclaw.atomic_write import write_atomically
from nanoclaw.channels.email import mailbox as mailboxes
from nanoclaw.channels.email.blocking import in_thread
from nanoclaw.channels.email.mailbox import Mailbox, MailHost, Skipped
from nanoclaw.channels.email.trust import Headers, author
from nanoclaw.core.errors import ChannelError, WorkspaceError
from nanoclaw.log import logger

SUBJECT = "nanoclaw mail test"
"""Of the test mails, before a word that nobody can guess."""
RESULTS = "Authentication-Results"
GOOD, ELSE = timedelta(days=30), timedelta(hours=6)
"""After so long it is tried again."""
ARRIVE_SECONDS, LOOK_SECONDS = 60.0, 1.0
"""A test mail is waited for so long, and looked for so often."""

_HELD = (
    "Until that is resolved, mails that claim to be from you wait for your yes: /held, in the terminal or another chat."
)


@dataclass(frozen=True, slots=True)
class Proof:
    """Outcome of the test mail. `of` is the mailbox and the name that it is about, `due` when it is tried again, `why`
    what is wrong, or why nothing newer is known of a good one."""

    of: str
    at: str
    due: str
    is_good: bool
    why: str = ""


class Prover:
    """Only what is known to be good counts, and it continues to count where trying it again does not work."""

    def __init__(
        self,
        hosts: tuple[MailHost, MailHost],
        login: tuple[str, str],
        address: str,
        server: str,
        folder: Path,
        clock: Callable[[], datetime],
    ) -> None:
        """`hosts` are those of IMAP and SMTP, `server` is the name under which results are written."""
        (self._imap, self._smtp), self._login, self._address = hosts, login, address
        self._server, self._file, self._clock = server, folder / "proof.json", clock
        self._of = f"{login[0]} {self._imap} {self._smtp} {server.lower()}"

    @property
    def is_good(self) -> bool:
        kept = self._kept()
        return kept is not None and kept.is_good

    @property
    def sentence(self) -> str:
        """A line for the person: what is known of the server, and what follows."""
        if (kept := self._kept()) is None:
            return f"It is not known yet whether its server removes forged {RESULTS}. {_HELD}"
        day = f"{datetime.fromisoformat(kept.at):%Y-%m-%d}"
        if not kept.is_good:
            return f"{kept.why} (Tried {day}.) {_HELD}"
        since = f"; trying it again did not work: {kept.why}" if kept.why else ""
        return f"its server adds {RESULTS} as {self._server} and removes forged ones (tested {day}{since})"

    async def prove(self, *, anew: bool) -> None:
        """Try it where that is due, or `anew`. Raises ChannelError if the result cannot be kept."""
        before, now = self._kept(), self._clock()
        if before and not anew and now < datetime.fromisoformat(before.due):
            return
        try:
            why = await self._fault(now)
            found = Proof(self._of, now.isoformat(), (now + (ELSE if why else GOOD)).isoformat(), not why, why)
        except (ChannelError, Skipped, TimeoutError, ValueError) as error:
            why, due = str(error), (now + ELSE).isoformat()
            untested = Proof(self._of, now.isoformat(), due, False, f"Its server could not be tested: {why}")
            found = replace(before, due=due, why=why) if before and before.is_good else untested
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            await asyncio.to_thread(write_atomically, self._file, json.dumps(asdict(found)), 0o600)
        except (OSError, WorkspaceError) as error:
            raise ChannelError(f"The result of the mail server's test cannot be saved: {error}") from None
        log = logger.info if found.is_good and not why else logger.warning
        log("E-mail: {}", self.sentence)

    async def _fault(self, now: datetime) -> str:
        """The fault of the server, '' for none. Raises ChannelError, Skipped, TimeoutError, and ValueError for a
        name that no server has."""
        from nanoclaw.channels.email.writing import submit

        mail, word = test_mail(self._address, self._server, now)
        await submit(mail, self._smtp, *self._login)
        adds, strips = judge(await self._arrived(word), word, self._server)
        if not strips:
            return f"Its server leaves forged {RESULTS} of {self._server} in a mail: anybody can write as you."
        return "" if adds else f"Its server removed forged {RESULTS}, but added none as {self._server}."

    async def _arrived(self, word: str) -> Headers:
        """The test mail as it came; it is removed, with those before that came too late. Raises TimeoutError."""
        box = await in_thread(mailboxes.open_mailbox, self._imap, *self._login)
        try:
            async with asyncio.timeout(ARRIVE_SECONDS):
                while True:
                    if found := await in_thread(box.with_subject, word, until_cancelled=box):
                        break
                    await asyncio.sleep(LOOK_SECONDS)
            headers = await in_thread(box.headers, found[-1], until_cancelled=box)
            with suppress(ChannelError):  # what was found counts all the same
                await in_thread(self._remove, box, until_cancelled=box)
            return headers
        except TimeoutError:
            where = f"the test mail to {self._address} was not in the INBOX after {ARRIVE_SECONDS:.0f} s"
            raise TimeoutError(f"{where}. Check whether it is in the spam folder.") from None
        finally:
            box.close()

    def _remove(self, box: Mailbox) -> None:
        own = list[int]()
        for uid in box.with_subject(SUBJECT):
            with suppress(Skipped):
                headers = box.headers(uid)
                who = author(headers)
                if who and who.address == self._address and headers.first("subject").startswith(f"{SUBJECT}: "):
                    own.append(uid)
        box.remove(own)

    def _kept(self) -> Proof | None:
        """None if this mailbox was not tried yet, with this name."""
        try:
            kept = Proof(**json.loads(self._file.read_text(encoding="utf-8")))
            is_whole = all(datetime.fromisoformat(at).tzinfo for at in (kept.at, kept.due)) and kept.is_good in (0, 1)
        except (OSError, ValueError, TypeError, AttributeError):
            return None
        return kept if is_whole and kept.of == self._of else None


def test_mail(own: str, server: str, at: datetime) -> tuple[EmailMessage, str]:
    """A mail to oneself with forged results of this server, in spellings that count as its name; and the word by which
    both are found again. Raises ValueError for a name that no server has."""
    from email.policy import SMTP
    from email.utils import format_datetime

    word, domain = secrets.token_hex(16), own.rpartition("@")[2]
    mail = EmailMessage(policy=SMTP)
    try:
        for name in (server, server.upper(), f"{server} 1", f"(checked) {server}"):
            mail[RESULTS] = f'{name}; dmarc=pass reason="{word}" header.from={domain}'
    except ValueError:
        raise ValueError(f"channels.email.trusts is not a server name: {server!r}.") from None
    mail["From"], mail["To"] = own, own
    mail["Subject"] = f"{SUBJECT}: {word}"
    mail["Date"] = format_datetime(at)
    mail["Message-ID"] = f"<{word}@{domain}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content("nanoclaw sent this to itself, and deletes it again.\n")
    return mail, word


def judge(headers: Headers, word: str, server: str) -> tuple[bool, bool]:
    """Looks whether the server added results of its own, and took out those that were forged."""
    from authres import AuthenticationResultsHeader, AuthResError

    found = headers.all(RESULTS.lower())
    own = [value for value in found if word not in value]
    added = False
    for value in own:
        with suppress(AuthResError):
            added |= AuthenticationResultsHeader.parse_value(value).authserv_id.lower() == server.lower()
    return added, len(own) == len(found)
