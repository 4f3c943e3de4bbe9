"""Threads of mails: which one a mail belongs to, and what the next mail of one must refer to."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from nanoclaw import atomic_write as drafts
from nanoclaw.channels.newest import remember
from nanoclaw.core.channel import Place

_ID = re.compile(r"<[!-;=?-~]{3,250}>")
_REMEMBERED = 500  # conversations in memory
_KEPT = 2000  # conversations on disk
_REFERENCES = 12


@dataclass(frozen=True, slots=True)
class MailThread:
    """Position in a mail thread: newest Message-ID ('' if none), then the older ones, and the subject."""

    subject: str
    last: str
    references: tuple[str, ...] = ()

    def answered(self, message_id: str) -> MailThread:
        """The same with one mail more."""
        return MailThread(self.subject, message_id).after(self)

    def after(self, before: MailThread) -> MailThread:
        """The same with earlier mails, of which some mail programs name only the newest."""
        known = [*before.references, before.last, *self.references]
        chain = [one for one in dict.fromkeys(known) if one and one != self.last]
        return MailThread(self.subject, self.last, (*chain[:1], *chain[1:][-_REFERENCES:]))


def ids(value: str) -> list[str]:
    """The Message-IDs in a header."""
    return _ID.findall(value)


def own_id(digest: str, thread: str, domain: str) -> str:
    """A Message-ID of ours; it carries the conversation, since some programs answer without naming the first mail."""
    return f"<nanoclaw.{digest[:32]}.{thread or 0}@{domain}>"


def own_thread(references: Sequence[str], domain: str) -> str | None:
    """The conversation of the newest mail of ours that is referred to, None when none is."""
    pattern = re.compile(rf"<nanoclaw\.[0-9a-f]{{32}}\.([0-9a-f]{{12}}|0)@{re.escape(domain)}>", re.IGNORECASE)
    found = [match[1].lower() for reference in references if (match := pattern.fullmatch(reference))]
    if not found:
        return None
    return "" if found[-1] == "0" else found[-1]


def thread_id(root: str) -> str:
    """A short name of a conversation that began with this mail."""
    return hashlib.sha256(root.encode()).hexdigest()[:12]


class Threads:
    """The conversations: the recent ones in memory, those in which we wrote also on disk, so that a reminder weeks
    later still finds its thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._recent: dict[str, MailThread] = {}

    def remember(self, chat: str, conversation: MailThread) -> None:
        remember(self._recent, chat, conversation, _REMEMBERED)

    def latest(self, chat: str) -> str:
        """The conversation with the same person that something was said in last; '' if none is in memory."""
        place = Place.of(chat)
        others = (one for one in reversed(self._recent) if Place.of(one)._replace(thread=place.thread) == place)
        return next(others, "")

    def find(self, chat: str) -> MailThread | None:
        if known := self._recent.get(chat):
            return known
        try:
            kept = json.loads(self._file(chat).read_text(encoding="utf-8"))
            return MailThread(kept["subject"], kept["last"], tuple(kept["references"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, chat: str, conversation: MailThread) -> None:
        """Raises WorkspaceError and OSError."""
        self.remember(chat, conversation)
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file, known = self._file(chat), self._file(chat).exists()
        drafts.write_atomically(file, json.dumps(asdict(conversation)), 0o600)
        if not known and len(files := [one for one in self._folder.iterdir() if not drafts.is_draft(one.name)]) > _KEPT:
            min(files, key=lambda file: file.stat().st_mtime).unlink(missing_ok=True)

    def _file(self, chat: str) -> Path:
        return self._folder / f"{hashlib.sha256(chat.encode()).hexdigest()[:32]}.json"
