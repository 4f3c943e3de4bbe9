"""A person's mailbox by IMAP: one connection for each thing that is done. All of it blocks, and raises ToolError."""

from __future__ import annotations

import html
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date
from email.message import EmailMessage
from typing import TYPE_CHECKING, Any, NamedTuple

from nanoclaw.core.errors import ToolError
from nanoclaw.escapes import one_line, plain

if TYPE_CHECKING:
    from imap_tools import BaseMailBox, MailMessage

SECONDS, MOST_TEXT = 30.0, 20_000


class DraftMail(NamedTuple):
    """A mail that is not sent yet: where it is, as `folder/uid`, and all of it."""

    id: str
    data: bytes


class PersonsMailbox:
    def __init__(self, host: str, port: int, user: str, password: str, security: str) -> None:
        self._login = host, port, user, password, security

    def find(self, words: str, sender: str, since: date | None, folder: str, most: int) -> list[str]:
        """A line about each mail, the newest first."""
        from imap_tools import AND, OR

        given: dict[str, Any] = {"from_": sender} if sender else {}
        given |= {"date_gte": since} if since else {}
        parts = [OR(text=words, subject=words)] if words else []  # TEXT of some servers is of what is encoded
        with self._opened(folder or "INBOX") as box:
            criteria = AND(*parts, **given) if parts or given else "ALL"
            uids = box.uids(criteria, charset="UTF-8")[::-1]
            lines = [self._line(box, uid, folder or "INBOX") for uid in uids[:most]]
        more = [f"({len(uids) - most} more)"] if len(uids) > most else []
        return [*filter(None, lines), *more]

    def _line(self, box: BaseMailBox, uid: str, folder: str) -> str:
        for one in box.fetch(f"UID {uid}", mark_seen=False, headers_only=True, charset=None):
            is_new = "" if "\\Seen" in one.flags else " (new)"
            who, about = one_line(plain(one.from_), 60), one_line(plain(one.subject), 100)
            return f"[{folder}/{uid}] {one.date:%a %d %b %Y, %H:%M} {who}: {about}{is_new}"
        return ""

    def newer(self, mark: str, most: int) -> tuple[str, list[str]]:
        """The inbox as it is now, as a mark, and a line about each mail that came since an earlier one: none for '', or
        where the server has numbered all mails anew."""
        with self._opened("INBOX") as box:
            now = box.folder.status("INBOX", ["UIDVALIDITY", "UIDNEXT"])
            validity, _, first = mark.partition(":")
            came = range(int(first), now["UIDNEXT"]) if validity == str(now["UIDVALIDITY"]) else range(0)
            lines = [self._line(box, str(uid), "INBOX") for uid in came[-most:]]
        return f"{now['UIDVALIDITY']}:{now['UIDNEXT']}", [*filter(None, lines)]

    def read(self, id_: str) -> str:
        """A mail as text."""
        one = self.message(id_)
        text = one.text or html.unescape(re.sub(r"<(?:style|script).*?</.*?>|<[^>]+>", " ", one.html, flags=re.S))
        files = [f"Files: {', '.join(one_line(plain(each.filename or 'unnamed'), 60) for each in one.attachments)}"]
        people = {"To": one.to, "Cc": one.cc, "Bcc": one.bcc, "Reply-To": one.reply_to}
        names = {"From": one.from_, **{name: ", ".join(all) for name, all in people.items()}, "Subject": one.subject}
        head = [f"{name}: {one_line(plain(value), MOST_TEXT)}" for name, value in names.items() if value]
        return "\n".join([*head, f"Date: {one.date}", *(files if one.attachments else []), "", plain(text)[:MOST_TEXT]])

    def message(self, id_: str) -> MailMessage:
        folder, _, uid = id_.rpartition("/")
        if folder and uid.isdecimal():
            with self._opened(folder) as box:
                for one in box.fetch(f"UID {uid}", mark_seen=False, charset=None):
                    return one
        raise ToolError(f"there is no mail {id_[:60]!r}: find_mails says the ids.")

    def mark(self, id_: str, flag: str, *, is_on: bool) -> None:
        folder, _, uid = id_.rpartition("/")
        self.message(id_)
        with self._opened(folder, for_writing=True) as box:
            box.flag(uid, flag, is_on)

    # --- drafts ------------------------------------------------------------------------------------------------------

    def draft(self, mail: EmailMessage) -> str:
        """Store a draft; its id."""
        return self.put(mail.as_bytes(), str(mail["Message-ID"]))

    def put(self, data: bytes, message_id: str) -> str:
        with self._opened("INBOX", for_writing=True) as box:
            folder = next((one.name for one in box.folder.list() if "\\Drafts" in one.flags), "Drafts")
            if not box.folder.exists(folder):
                box.folder.create(folder)
            _, said = box.append(data, folder, flag_set=["\\Draft", "\\Seen"])
            if found := re.search(rb"APPENDUID \d+ (\d+)", b" ".join(one for one in said if isinstance(one, bytes))):
                return f"{folder}/{int(found[1])}"
            box.folder.set(folder)  # a server without UIDPLUS
            uids = box.uids(f'HEADER Message-ID "{message_id}"', charset=None)
        if not uids:
            raise ToolError("the server took the draft, but does not find it again.")
        return f"{folder}/{uids[-1]}"

    def whole(self, id_: str) -> DraftMail:
        """A draft as it stands."""
        one = self.message(id_)
        if "\\Draft" not in one.flags:
            raise ToolError(f"{id_} is no draft.")
        is_plain = one.obj.get_content_type() == "text/plain" and not one.attachments
        if not is_plain or max(map(len, (one.text, *map(str, one.obj.values())))) > MOST_TEXT:
            raise ToolError(f"{id_} has files, HTML or a very long text, which isn't shown whole: send it yourself.")
        return DraftMail(id_, one.obj.as_bytes())

    def remove(self, id_: str) -> None:
        """Delete a draft for good; one that is gone is no error."""
        folder, _, uid = id_.rpartition("/")
        with self._opened(folder, for_writing=True) as box:
            box.delete(uid)

    # --- the connection ----------------------------------------------------------------------------------------------

    @contextmanager
    def _opened(self, folder: str, *, for_writing: bool = False) -> Iterator[BaseMailBox]:
        import imaplib

        from imap_tools import ImapToolsError, MailBox, MailBoxStartTls, MailBoxUnencrypted

        host, port, user, password, security = self._login
        kinds: dict[str, Any] = {"tls": MailBox, "starttls": MailBoxStartTls, "none": MailBoxUnencrypted}
        secure = {} if security == "none" else {"ssl_context": ssl.create_default_context()}
        try:
            box = kinds[security](host, port, timeout=SECONDS, **secure)
        except (OSError, imaplib.IMAP4.error, ImapToolsError) as error:
            why = "what is there speaks no TLS: look at port and security" if "WRONG_VERSION" in str(error) else error
            raise ToolError(f"{host}:{port} cannot be reached: {why}.") from None
        try:
            box.login(user, password, initial_folder=None)
        except (OSError, imaplib.IMAP4.error, ImapToolsError):
            raise ToolError(
                f"{host} refuses the login: look at user and password in [mailbox] of config.toml."
            ) from None
        try:
            box.folder.set(folder, readonly=not for_writing)
            yield box
        except (OSError, imaplib.IMAP4.error, ImapToolsError) as error:
            raise ToolError(f"{host} could not do it: {one_line(str(error), 200)}.") from None
        finally:
            with suppress(OSError, imaplib.IMAP4.error, ImapToolsError):
                box.logout()
