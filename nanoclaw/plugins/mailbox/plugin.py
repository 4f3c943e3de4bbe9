"""The plugin: finding, reading and drafting mails; one is sent only after a yes to the whole draft."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from datetime import timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from nanoclaw.core.errors import ConfigError, NanoclawError, ToolError
from nanoclaw.core.messages import Address, CheckedCall, Effect, Outbound
from nanoclaw.core.plugin import Ask, Finding, Host, Plugin, Tool, ToolOutput, Turn, Tx, Verdict
from nanoclaw.core.tool import ToolContext, tool

if TYPE_CHECKING:
    from nanoclaw.plugins.mailbox.imap import PersonsMailbox

MOST = 30
FLAGS = {"flagged": "\\Flagged", "read": "\\Seen", "answered": "\\Answered"}
GONE = "DELETE FROM mailbox_drafts WHERE id = ?"
PLANNED = Effect("mailbox", "mailbox", "", "changed the mailbox")
SENDING = Effect("mailbox", "message", "", "sent a mail")


class MailboxSettings(NamedTuple):
    """Your own mailbox."""

    host: str = ""  # IMAP server
    port: int = 993  # its port
    user: str = ""  # login name
    password: str = ""  # its password
    address: str = ""  # yours; empty: user
    security: Literal["tls", "starttls", "none"] = "tls"  # encryption
    smtp_host: str = ""  # server to send with
    smtp_port: int = 465  # its port

    def check(self) -> None:
        if self.host and not self.user:
            raise ConfigError("mailbox.user is missing: it is the login name at mailbox.host.")


class OwnersMailbox(Plugin):
    name = "mailbox"
    settings = MailboxSettings
    secrets = ("password",)
    seconds = 120.0
    migrations = (
        """CREATE TABLE mailbox_drafts (
            id INTEGER PRIMARY KEY, draft TEXT NOT NULL,
            was TEXT NOT NULL, before BLOB NOT NULL,  -- id and text of the draft in its place until then, or empty
            channel TEXT NOT NULL, chat TEXT NOT NULL, at TEXT NOT NULL
        ) STRICT""",
    )
    marks = tuple(f"mailbox_drafts.{one}" for one in ("draft", "was", "channel", "chat", "at"))

    def __init__(self, host: Host, settings: MailboxSettings) -> None:
        self._host, self._settings = host, settings
        self.public = MailboxForOthers(host, lambda: self._box) if settings.host else None
        self._asked: dict[str, str] = {}  # by call the draft that the owner is asked about

    @cached_property
    def _box(self) -> PersonsMailbox:
        from nanoclaw.plugins.mailbox.imap import PersonsMailbox

        try:
            import imap_tools  # noqa: F401
        except ImportError:
            from nanoclaw.installation import install_command

            raise ToolError(f"the mailbox needs more libraries: {install_command('email')}") from None
        one = self._settings
        return PersonsMailbox(one.host, one.port, one.user, one.password, one.security)

    def tools(self) -> Iterable[Tool]:
        if not self._settings.host:
            return []
        looks = [tool(self._find_mails, reach="none"), tool(self._read_mail, reach="none")]
        changes = [tool(self._draft_mail), tool(self._label_mail)]
        if self._settings.smtp_host:
            looks.append(tool(self._send_draft)._replace(check=self._check, audit=lambda _: SENDING))
        return [*looks, *(one._replace(audit=lambda _: PLANNED) for one in changes)]

    async def check(self, deep: bool) -> Iterable[Finding]:
        if not (deep and self._settings.host):
            return []
        try:
            await asyncio.to_thread(self._box.find, "", "", None, "", 1)
        except NanoclawError as error:
            return [Finding(False, str(error), self.name)]
        return [Finding(True, f"{self._settings.user} at {self._settings.host}", self.name)]

    # --- looking -----------------------------------------------------------------------------------------------------

    async def _find_mails(
        self,
        words: Annotated[str, "in any part of it"] = "",
        sender: str = "",
        days: Annotated[int, "not older; 0: of any age"] = 30,
        folder: Annotated[str, "'' is the inbox"] = "",
    ) -> ToolOutput:
        """Mails in the person's own mailbox, the newest first, each with its id."""
        since = self._host.now().date() - timedelta(days=days) if days > 0 else None
        found = await asyncio.to_thread(self._box.find, words, sender, since, folder, MOST)
        return ToolOutput("\n".join(found) or "There is no such mail.", outside="mailbox")

    async def _read_mail(self, mail: Annotated[str, "its id"]) -> ToolOutput:
        """A mail or draft of the person's mailbox as text. It stays as unread as it was."""
        return ToolOutput(await asyncio.to_thread(self._box.read, mail), outside="mailbox")

    # --- changing ----------------------------------------------------------------------------------------------------

    async def _draft_mail(
        self,
        context: ToolContext,
        to: Annotated[str, "addresses, separated by commas"],
        subject: str,
        text: str,
        answers: Annotated[str, "id of the mail that it answers"] = "",
        replaces: Annotated[str, "id of an earlier draft that it takes the place of"] = "",
    ) -> str:
        """Write a draft into the person's mailbox, or write one anew. Nothing is sent."""
        mail = EmailMessage(policy=policy.SMTP)
        try:
            mail["From"], mail["To"], mail["Subject"] = self._settings.address or self._settings.user, to, subject
        except (ValueError, IndexError):
            raise ToolError("to must be addresses, and subject one line.") from None
        sender = mail["From"].addresses[0].domain if mail["From"].addresses else "localhost"
        id_ = hashlib.sha256(f"{context.call}{text}{self._host.now()}".encode()).hexdigest()[:32]
        mail["Message-ID"] = f"<{id_}@{sender}>"
        mail["Date"] = self._host.now()
        if answers and (known := str((await asyncio.to_thread(self._box.message, answers)).obj["Message-ID"] or "")):
            mail["In-Reply-To"] = mail["References"] = known.strip()
        mail.set_content(text)
        before = await asyncio.to_thread(self._box.whole, replaces) if replaces else None
        made = await asyncio.to_thread(self._box.draft, mail)
        if before:
            await asyncio.to_thread(self._box.remove, replaces)
        told = f"wrote the draft “{subject[:80]}” to {to[:80]}"

        def keep(tx: Tx) -> int:
            tx.execute("DELETE FROM mailbox_drafts WHERE at < ?", (self._host.now() - timedelta(days=30)).isoformat())
            sql = "INSERT INTO mailbox_drafts (draft, was, before, channel, chat, at) VALUES (?, ?, ?, ?, ?, ?)"
            values = (made, replaces, before.data if before else b"", *context.address, self._host.now().isoformat())
            return int(tx.execute(f"{sql} RETURNING id", *values)[0][0])

        row = await context.write(keep, f"The draft is {made}.")
        context.report(Effect("mailbox", "mailbox", f"mailbox {row}", told))
        return f"The draft is {made}: nothing was sent."

    async def _label_mail(
        self,
        context: ToolContext,
        mail: Annotated[str, "its id"],
        label: Literal["flagged", "read", "answered"],
        on: bool = True,
    ) -> str:
        """Set or take away a mark of a mail."""
        await asyncio.to_thread(lambda: self._box.mark(mail, FLAGS[label], is_on=on))
        told = f"marked the mail {mail} as {'' if on else 'not '}{label}"
        context.report(Effect("mailbox", "mailbox", "mailbox", told))
        return f"M{told[1:]}."

    async def _check(self, call: CheckedCall, turn: Turn) -> Verdict:
        """The owner says yes to the whole draft as it stands, each time."""
        id_ = str(call.arguments.get("draft", ""))
        draft = await asyncio.to_thread(self._box.whole, id_)
        shown = await asyncio.to_thread(self._box.read, id_)
        self._asked.setdefault(call.id, hashlib.sha256(draft.data).hexdigest())
        return Ask(f"Send this mail?\n\n{shown}")

    async def _send_draft(self, context: ToolContext, draft: Annotated[str, "its id"]) -> str:
        """Send a draft, after the person has read it and said yes."""
        one = await asyncio.to_thread(self._box.whole, draft)
        if self._asked.pop(context.call, "") != hashlib.sha256(one.data).hexdigest():
            raise ToolError(
                "the draft is not the one that the person said yes to: call send_draft again. Nothing was sent."
            )
        mail = message_from_bytes(one.data, policy=policy.SMTP)
        assert isinstance(mail, EmailMessage)
        await asyncio.to_thread(self._submit, mail)
        context.report(Effect("mailbox", "message", "", f"sent the mail “{mail['Subject']}” to {mail['To']}"))
        await asyncio.to_thread(self._box.remove, draft)
        return f"Sent to {mail['To']}."

    def _submit(self, mail: EmailMessage) -> None:
        import smtplib
        import ssl

        one, context = self._settings, ssl.create_default_context()
        try:
            if one.security == "tls":
                server: smtplib.SMTP = smtplib.SMTP_SSL(one.smtp_host, one.smtp_port, timeout=30, context=context)
            else:
                server = smtplib.SMTP(one.smtp_host, one.smtp_port, timeout=30)
            with server:
                if one.security == "starttls":
                    server.starttls(context=context)
                server.login(one.user, one.password)
                server.send_message(mail)
        except (OSError, smtplib.SMTPException) as error:
            raise ToolError(f"{one.smtp_host} has not taken the mail: {error}. The draft is still there.") from None


class MailboxForOthers:
    """Takes drafts back for /undo, and has the mailbox: what the plugin makes public."""

    def __init__(self, host: Host, box: Callable[[], PersonsMailbox]) -> None:
        self._host, self.box, self._one_by_one = host, box, asyncio.Lock()

    def undo(self, tx: Tx, effect: Effect) -> str:
        """Take a draft back, as soon as the server answers; '' for what cannot be."""
        number = effect.target.removeprefix("mailbox").strip()
        if not tx.execute("SELECT 1 FROM mailbox_drafts WHERE id = ?", number):
            return ""
        tx.after(lambda: self._host.spawn(self._put_back(number, effect.text)))
        return f"Taking back in the mailbox: {effect.text}. I say so if the server refuses."

    async def _put_back(self, number: str, told: str) -> None:
        async with self._one_by_one:  # the later draft first
            sql = "SELECT draft, was, before, channel, chat FROM mailbox_drafts WHERE id = ?"
            draft, was, before, *place = self._host.read(sql, number)[0]
            try:
                known = str(message_from_bytes(before, policy=policy.default)["Message-ID"] or "")
                now = await asyncio.to_thread(self.box().put, before, known) if before else ""
                await asyncio.to_thread(self.box().remove, draft)
            except NanoclawError as error:
                text = f"This could not be taken back in the mailbox: {told}. The reason: {error}"
                await self._host.write(lambda tx: tx.send(Outbound(Address(*place), text), "From the mailbox."))
                return
            sql = "UPDATE mailbox_drafts SET draft = ? WHERE draft = ? AND draft <> ''"
            await self._host.write(lambda tx: (tx.execute(sql, now, was), tx.execute(GONE, number)))
