"""The proof that a mail server's word holds: what it did with a forged mail of ours, kept until it is retried."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from email.message import EmailMessage
from pathlib import Path

from nanoclaw.atomic_write import write_atomically
from nanoclaw.channels.email.trust import Headers

SUBJECT = "nanoclaw mail test"
"""Of the test mails, before a word that nobody can guess."""
RESULTS = "Authentication-Results"
GOOD, BAD, NOT_SENT = timedelta(days=30), timedelta(days=1), timedelta(hours=1)
"""After so long it is retried."""


@dataclass(frozen=True, slots=True)
class Proof:
    """Outcome of the test mail. `of` is the mailbox and the name that it is about, `due` when it is retried; `trouble`
    is why nothing is known, or nothing newer."""

    of: str
    at: str
    due: str
    adds: bool = False
    strips: bool = False
    trouble: str = ""

    @property
    def is_good(self) -> bool:
        return self.adds and self.strips

    def is_due(self, now: datetime) -> bool:
        return now >= datetime.fromisoformat(self.due)


def load(file: Path, of: str) -> Proof | None:
    """None if this mailbox was not tried yet, with this name."""
    try:
        kept = Proof(**json.loads(file.read_text(encoding="utf-8")))
        has_zones = all(datetime.fromisoformat(at).tzinfo for at in (kept.at, kept.due))
        is_whole = has_zones and kept.adds in (True, False) and kept.strips in (True, False)
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    return kept if is_whole and kept.of == of else None


def keep(file: Path, proof: Proof) -> None:
    """Raises OSError and WorkspaceError."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomically(file, json.dumps(asdict(proof)), 0o600)


def sentence(proof: Proof | None, server: str) -> str:
    """A line for the person: what is known of the server, and what follows."""
    if proof is None:
        return f"It is not known yet whether its server removes forged {RESULTS}. {_HELD}"
    day = f"{datetime.fromisoformat(proof.at):%Y-%m-%d}"
    if proof.is_good:
        since = f"; trying it again did not work: {proof.trouble}" if proof.trouble else ""
        return f"its server adds {RESULTS} as {server} and removes forged ones (tested {day}{since})"
    if proof.trouble:
        why = f"It could not be tested whether its server removes forged {RESULTS} ({day}): {proof.trouble}"
    elif not proof.strips:
        why = f"Its server leaves forged {RESULTS} of {server} in a mail (tried {day}): anybody can write as you."
    else:
        why = f"Its server removed forged {RESULTS}, but added none as {server} (tried {day})."
    return f"{why} {_HELD}"


_HELD = (
    "Until that is resolved, mails that claim to be from you wait for your yes: /held, in the terminal or another chat."
)


def test_mail(own: str, server: str, at: datetime) -> tuple[EmailMessage, str]:
    """A mail to oneself with forged results of this server, in spellings that count as its name; and the word by which
    both are found again."""
    from email.policy import SMTP
    from email.utils import format_datetime

    word, domain = secrets.token_hex(16), own.rpartition("@")[2]
    mail = EmailMessage(policy=SMTP)
    for name in (server, server.upper(), f"{server} 1", f"(checked) {server}"):
        mail[RESULTS] = f'{name}; dmarc=pass reason="{word}" header.from={domain}'
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
        try:
            added |= AuthenticationResultsHeader.parse_value(value).authserv_id.lower() == server.lower()
        except AuthResError:
            continue
    return added, len(own) == len(found)
