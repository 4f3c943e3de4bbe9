"""Tests a mail server with a forged mail to itself, and keeps the result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from nanoclaw.channels.email import mailbox as mailboxes
from nanoclaw.channels.email import proof as proofs
from nanoclaw.channels.email.blocking import in_thread
from nanoclaw.channels.email.mailbox import Mailbox, MailHost, Skipped
from nanoclaw.channels.email.proof import Proof
from nanoclaw.channels.email.trust import Headers, author
from nanoclaw.core.errors import ChannelError, WorkspaceError

ARRIVE_SECONDS, LOOK_SECONDS = 60.0, 1.0
"""A test mail is waited for so long, and looked for so often."""


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
        return proofs.sentence(self._kept(), self._server)

    async def prove(self, *, anew: bool) -> None:
        """Try it where that is due, or `anew`. Raises nothing for what goes wrong with mail."""
        before, now = self._kept(), self._clock()
        if before and not anew and not before.is_due(now):
            return
        from nanoclaw.log import logger

        found = await self._found(now)
        if found.trouble and before and before.is_good:
            logger.warning("E-mail: the test of {} could not be repeated: {}", self._server, found.trouble)
            found = replace(before, due=found.due, trouble=found.trouble)
        try:
            await asyncio.to_thread(proofs.keep, self._file, found)
        except (OSError, WorkspaceError) as error:
            raise ChannelError(f"The result of the mail server's test cannot be saved: {error}") from None
        log = logger.info if found.is_good else logger.warning
        log("E-mail: {}", self.sentence)

    async def _found(self, now: datetime) -> Proof:
        def after(span: timedelta, *, adds: bool = False, strips: bool = False, trouble: str = "") -> Proof:
            return Proof(self._of, now.isoformat(), (now + span).isoformat(), adds, strips, trouble)

        from nanoclaw.channels.email.writing import submit

        try:
            mail, word = proofs.test_mail(self._address, self._server, now)
        except ValueError:
            return after(proofs.BAD, trouble=f"channels.email.trusts is not a server name: {self._server!r}.")
        try:
            await submit(mail, self._smtp, *self._login)
            headers = await self._arrived(word)
        except TimeoutError:
            why = (
                f"the test mail to {self._address} was not in the INBOX after {ARRIVE_SECONDS:.0f} s. Check whether it "
                f"is in the spam folder."
            )
            return after(proofs.BAD, trouble=why)
        except (ChannelError, Skipped) as error:
            return after(proofs.NOT_SENT, trouble=str(error))
        adds, strips = proofs.judge(headers, word, self._server)
        return after(proofs.GOOD if adds and strips else proofs.BAD, adds=adds, strips=strips)

    async def _arrived(self, word: str) -> Headers:
        """The test mail as it came; it is removed, with those before that came too late. Raises TimeoutError."""
        async with asyncio.timeout(ARRIVE_SECONDS):
            box = await in_thread(mailboxes.open_mailbox, self._imap, *self._login)
            try:
                while True:
                    if found := await in_thread(box.with_subject, word, until_cancelled=box):
                        break
                    await asyncio.sleep(LOOK_SECONDS)
                headers = await in_thread(box.headers, found[-1], until_cancelled=box)
                with suppress(ChannelError):  # what was found counts all the same
                    await in_thread(self._remove, box, until_cancelled=box)
                return headers
            finally:
                box.close()

    def _remove(self, box: Mailbox) -> None:
        own = list[int]()
        for uid in box.with_subject(proofs.SUBJECT):
            with suppress(Skipped):
                headers = box.headers(uid)
                who = author(headers)
                if who and who.address == self._address and headers.first("subject").startswith(f"{proofs.SUBJECT}: "):
                    own.append(uid)
        box.remove(own)

    def _kept(self) -> Proof | None:
        return proofs.load(self._file, self._of)
