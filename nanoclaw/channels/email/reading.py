"""A mail as a message: who says what, in which conversation, with which files. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from nanoclaw.channels.email import quotes, threads
from nanoclaw.channels.email.fetch_answer import MailPart
from nanoclaw.channels.email.text import content, decoded_text, header_text, html_text
from nanoclaw.channels.email.threads import MailThread
from nanoclaw.channels.email.trust import Author, Headers, is_addressed, is_vouched_for
from nanoclaw.channels.fields import file_name
from nanoclaw.core.channel import UNVERIFIED, Place
from nanoclaw.core.messages import Address, Attachment, Inbound, UserMessage

TEXT_BYTES = 400_000
"""Bytes of each text that are read."""
_TEXT_CHARACTERS = 200_000
_QUOTE_CHARACTERS = 10_000
_NOISE = ("application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature")


@dataclass(frozen=True, slots=True)
class Letter:
    """A mail as it is in the mailbox: `place` is its UIDVALIDITY and UID, `bodies` the encoded content of its small
    parts by section."""

    place: str
    at: datetime
    headers: Headers
    who: Author
    parts: Sequence[MailPart]
    bodies: Mapping[str, bytes]


def wanted(parts: Sequence[MailPart]) -> dict[str, int]:
    """Parts that must be read for a message, and how many bytes of each."""
    return {part.section: TEXT_BYTES for part in _texts(parts)[:20]}


def as_message(
    letter: Letter, channel: str, own: Sequence[str], server: str, *, is_proven: bool
) -> tuple[Inbound, MailThread]:
    """The message, and the state of its conversation after it. `own` are the assistant's addresses, the mailbox's
    first. `server` is whose word is taken on who wrote it, where it `is_proven` that nobody else can write it, and the
    mail was written to the assistant.

    A sender without proof has an invalid id, "unverified:ADDRESS", and a conversation of its own, even with the
    references of another one.
    """
    headers, who, domain = letter.headers, letter.who, own[0].rpartition("@")[2]
    message_id = next(iter(threads.ids(headers.first("message-id"))), "")
    answered = threads.ids(headers.first("in-reply-to"))[:1]
    references = [*threads.ids(headers.first("references")), *answered]
    ours = threads.own_thread(references, domain)
    external_id = message_id or f"{letter.place}@{domain}"
    thread = threads.thread_id((references or [external_id])[0]) if ours is None else ours
    answers_us = threads.own_thread(references[-1:], domain) is not None  # else it quotes others, also in our thread
    is_vouched = is_proven and is_vouched_for(headers, who, server) and is_addressed(headers, own)
    place = Place(who.address, thread, "" if is_vouched else UNVERIFIED.rstrip(":"))
    subject = header_text(headers.first("subject"))[:300]
    text, quote, is_forward = _words(letter, subject, answers_us=answers_us)
    others = ""
    if is_forward or (not answers_us and (quote or (references and subject))):
        others = "a forwarded mail" if is_forward else "the mail that this one answers"
        quote, subject = f"Subject: {subject}\n\n{quote}".strip() if subject else quote, ""
    inbound = Inbound(
        Address(channel, str(place)),
        who.address if is_vouched else f"{UNVERIFIED}{who.address}",
        external_id,
        UserMessage(_with_subject(text, subject, is_first=ours is None), letter.at),
        attachments(letter),
        quoted=next(iter(answered), ""),
        quote=quote if others else "",
        quote_from=others,
        name=who.name,
    )
    conversation = MailThread(subject, message_id, tuple(dict.fromkeys(references)))
    return inbound, conversation


def attachments(letter: Letter) -> tuple[Attachment, ...]:
    """The files of a mail, pictures within its text included, without signatures."""
    texts = _texts(letter.parts)
    found = [part for part in letter.parts if part not in texts and part.mime not in _NOISE]
    return tuple(
        Attachment("", _file_name(part), part.mime, f"{letter.place}/{part.section}/{part.encoding}", part.size)
        for part in found
    )


def _words(letter: Letter, subject: str, *, answers_us: bool) -> tuple[str, str, bool]:
    """The author's own words, those of others in the mail, and whether it is about these. What an answer to us quotes
    is ours: left out at its ends, and left between its words."""
    plain = _text_of(letter, "text/plain")
    page = "" if plain.strip() else _text_of(letter, "text/html")
    whole = plain if plain.strip() else html_text(page, quotes=True)
    whole = _bounded(whole.strip("\n"), _TEXT_CHARACTERS)
    if quotes.is_forward(subject, whole):
        return *quotes.forwarded(whole), True
    shown = whole if plain.strip() else html_text(page, quotes=False, blocks=answers_us)
    shown = _bounded(shown.strip("\n"), _TEXT_CHARACTERS)
    own = quotes.own_words(shown)
    own = quotes.command(own) or (own if answers_us else quotes.without_quoted_lines(own))
    if not own.strip() and not quotes.is_signature(whole):
        return ("", whole, False) if attachments(letter) or not answers_us else (whole, "", False)
    is_quoting = shown != whole or quotes.is_quoting(whole)
    return own, _bounded(whole.replace(own, "", 1).strip("\n"), _QUOTE_CHARACTERS) if is_quoting else "", False


def _with_subject(own: str, subject: str, *, is_first: bool) -> str:
    """A conversation's first mail begins with its subject; a command is sent without it, even from the subject."""
    if not own.strip():
        return subject if is_first else ""
    if not is_first or not subject or own.lstrip().startswith("/") or quotes.command(own):
        return own
    return f"Subject: {subject}\n\n{own}"


def _texts(parts: Sequence[MailPart]) -> list[MailPart]:
    """The parts that are the letter itself: one text with a file's name is a file, unless it is all there is."""
    kinds = ("text/plain", "text/html")
    found = [part for part in parts if part.mime in kinds and not part.is_attached and not part.name]
    return found or [part for part in parts if len(parts) == 1 and part.mime in kinds and not part.is_attached]


def _text_of(letter: Letter, mime: str) -> str:
    texts = [part for part in _texts(letter.parts) if part.mime == mime and part.section in letter.bodies]
    read = (decoded_text(content(letter.bodies[part.section], part.encoding), part.charset) for part in texts)
    return "\n\n".join(filter(str.strip, read))


def _bounded(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}\n[… the mail goes on]"


def _file_name(part: MailPart) -> str:
    """A base name without anything that a file system or a screen could take amiss."""
    if name := file_name(header_text(part.name)):
        return name
    if part.mime == "message/rfc822":
        return "forwarded.eml"
    import mimetypes

    return f"file-{part.section.replace('.', '-')}{mimetypes.guess_extension(part.mime) or ''}"
