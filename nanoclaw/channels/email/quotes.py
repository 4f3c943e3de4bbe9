"""Finds a person's own words in a mail, without what their program quoted or signed.

By the shape of a mail, not by its words: an attribution is the text right above lines with ">", in any language.
Only Outlook quotes without marks; its block of headers is known by the word for "From". Libraries for this take lists
for signatures, drop indentation, or need seconds for long lines.
"""

from __future__ import annotations

import re
from itertools import takewhile, zip_longest

_FROM = (
    "From|Von|De|Da|Van|Från|Fra|Od|От|Від|Lähettäjä|Feladó|Kimden|Από|Expéditeur|Mittente|Remitente"
    "|发件人|寄件者|寄件人|差出人|送信者|보낸 사람|보낸사람|من|מאת"
)
_HEADERS_BEGIN = re.compile(rf"^\s*\**(?:{_FROM})\s?\**[:：]\**\s*\S", re.IGNORECASE)
_HEADER = re.compile(r"^\s*\**[^\W\d_][\w .\-]{0,24}?\s?\**[:：]\**\s*\S")
_SEPARATOR = re.compile(r"^\s*(?:_{20,}|-{4,} ?[^-\n]{3,40} ?-{4,})\s*$")
_ORIGINAL = re.compile(r"^\s*-{4,} ?(?:Original Message|Ursprüngliche Nachricht|Message d'origine) ?-{4,}\s*$", re.I)
_WROTE = re.compile(r"^(?:On\b.*\bwrote|Am\b.*\bschrieb\b.*|Le\b.*\ba écrit|El\b.*\bescribió)\s?:$")
_FORWARDED = re.compile(r"^\s*-{4,} ?(?:Forwarded message|Weitergeleitete Nachricht|Message transféré|转发)", re.I)
_FORWARD = re.compile(r"^\s*(?:fwd?|wg|tr|rv|enc|i|vs|vb|doorst|转发|轉寄|転送)\s*[:：]", re.IGNORECASE)
_DEVICE = re.compile(
    r"^(?:Sent (?:from|with) |Get Outlook for |Von (?:meinem|meiner) .{2,40} gesendet|Gesendet (?:von|mit) "
    r"|Envoyé (?:de|depuis|à partir de) |Enviado (?:desde|do) |Inviato da |Verzonden (?:vanaf|met) |发自我的|從我的"
    r"|Отправлено с |.{2,20}から送信)",
    re.IGNORECASE,
)
_COMMAND = re.compile(
    r"/?(?:stop|(?:done|stop) (?:#?\d{1,6}|all)|snooze #?\d{1,6}(?: [^\n]{1,40})?)[.!]?|/(?:yes|no) \d{1,6}",
    re.IGNORECASE,
)
_TIME_OR_ADDRESS = re.compile(r"@|\d[:.h]\d\d")
_DATE = re.compile(r"\d[^\d@]{1,12}\d")
_NAMED = re.compile(r"<[^<>@\s]+@[^<>\s]+>")
_ATTRIBUTION_LINES = 3
_NEAR = 8  # lines above a quote in which its attribution is looked for
_LINE = 1000  # a longer line belongs to nobody's header


def is_forward(subject: str, text: str) -> bool:
    """True when the mail is about the text that follows the person's words."""
    return bool(_FORWARD.match(subject)) or any(_FORWARDED.match(line[:_LINE]) for line in text.splitlines())


def is_quoting(text: str) -> bool:
    """True if the text has more than its author's own words and signature, as it would from others' mail."""
    own, is_cut = _split(text)
    return is_cut or any(map(_is_quoted, own))


def forwarded(text: str) -> tuple[str, str]:
    """The words above what a mail forwards, and all from there on; nothing is above where that can't be told."""
    lines = text.splitlines()
    for place, line in enumerate(lines):
        if any(mark.match(line[:_LINE]) for mark in (_FORWARDED, _ORIGINAL, _SEPARATOR, _HEADERS_BEGIN)):
            return "\n".join(lines[:place]).strip(), "\n".join(lines[place:])
    return "", text


def without_quoted_lines(text: str) -> str:
    """Without them and the lines that say whose they are: a name in these is one that somebody else has chosen."""
    lines = text.splitlines()
    own = [not _is_quoted(line) for line in lines]
    for place in range(len(lines)):
        if not own[place] and place and own[place - 1]:
            near = lines[max(0, place - _NEAR) : place]
            if (begin := _attribution_at(near, len(near))) is not None:
                own[place - len(near) + begin : place] = [False] * (len(near) - begin)
    return "\n".join(line for line, is_own in zip(lines, own, strict=True) if is_own).strip()


def is_signature(text: str) -> bool:
    """True when nothing is above the signature."""
    return text.lstrip().partition("\n")[0].rstrip() == "--"


def command(text: str) -> str:
    """The one line that the text has besides quotes, however they are named, when it stops something
    or answers a question or reminder by its number; '' for any other."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    own = [
        line
        for line, following in zip_longest(lines, lines[1:], fillvalue="")
        if not _is_quoted(line) and not (line.endswith((":", "：")) and _is_quoted(following))
    ]
    said = " ".join(own[0].split()) if len(own) == 1 and len(own[0]) < _LINE else ""
    return said if _COMMAND.fullmatch(said) else ""


def own_words(text: str) -> str:
    """The text without what it quotes at its end or, where the answer is below, at its beginning, and without a
    signature. Quotes between answers stay, since answers refer to them."""
    return "\n".join(_split(text)[0]).strip("\n")


def _split(text: str) -> tuple[list[str], bool]:
    """The lines of a text without quotes at its ends and a signature, and whether it has such quotes."""
    whole = [line.rstrip() for line in text.split("\n")]
    above = whole[: _headers_at(whole)]
    before = _without_end_quote(above)
    signed = before[: _signature_at(before)]
    within = _without_end_quote(signed)
    own = _without_first_quote(within)
    is_cut = any(_last(long) > _last(short) for long, short in ((whole, above), (above, before), (signed, within)))
    return own, is_cut or len(own) < len(within)


def _headers_at(lines: list[str]) -> int:
    """First line of the headers that Outlook puts above what it quotes; a line of dashes belongs to them. In a language
    whose words are not known here they are told by their shape, and so is an attribution of lines without marks."""
    for place, line in enumerate(lines):
        if _is_foreign_block(lines, place) or _attributes_all(lines, place):
            return place
        if len(line) < _LINE and _HEADERS_BEGIN.match(line):
            above = place - 1
            while above >= 0 and not lines[above]:
                above -= 1
            is_marked = above >= 0 and _ORIGINAL.match(lines[above][:_LINE]) is not None
            if not _is_block(lines[place + 1 : place + 9], is_marked):
                continue
            return above if above >= 0 and _SEPARATOR.match(lines[above][:_LINE]) else place
    return len(lines)


def _is_block(following: list[str], is_marked: bool) -> bool:
    """True when two more headers follow, blank lines aside, with a time or an address among them unless the
    line above says what they are."""
    found = _headers([*filter(None, following)])
    return len(found) >= 2 and (is_marked or any(map(_TIME_OR_ADDRESS.search, found)))


def _is_foreign_block(lines: list[str], place: int) -> bool:
    """True for words between dashes above two headers, and for four headers in a paragraph of their own, with an
    address and a date or time among them, above a text."""
    line = lines[place]
    if _SEPARATOR.match(line[:_LINE]) and any(map(str.isalpha, line)):
        return len(_headers(lines[place + 1 : place + 9])) >= 2
    if len(line) >= _LINE or not _HEADER.match(line) or (place and lines[place - 1]):
        return False
    found = _headers(lines[place : place + 8])
    is_mails = any("@" in one for one in found) and any(map(_DATE.search, found))
    end = place + len(found)
    is_above = end + 1 < len(lines) and not lines[end] and any(lines[end + 1 : end + 5])
    return len(found) >= 4 and is_mails and is_above


def _headers(lines: list[str]) -> list[str]:
    """The headers at the beginning of some lines, skipping blank lines."""
    found = list[str]()
    for line in lines:
        if not line and not found:
            continue
        if not line or len(line) >= _LINE or not _HEADER.match(line):
            break
        found.append(line)
    return found


def _attributes_all(lines: list[str], place: int) -> bool:
    """True for “On Monday 2 March 2026 Bob <b@x.org> wrote:” above lines that no program has marked."""
    if place and lines[place - 1]:
        return False
    said = list(takewhile(bool, lines[place : place + _ATTRIBUTION_LINES]))
    end = next((count for count, line in enumerate(said, 1) if line.endswith((":", "："))), 0)
    whole = " ".join(said[:end])
    if not end or len(whole) > _LINE or not (_DATE.search(whole) and _NAMED.search(whole)):
        return False
    following = next((line for line in lines[place + end :] if line), "")
    return bool(following) and not _is_quoted(following)


def _without_end_quote(lines: list[str]) -> list[str]:
    """Take off a quote at the end that somebody is named for; any other was put there by hand."""
    last = _last(lines)
    begin = last
    while begin and (_is_quoted(lines[begin - 1]) or not lines[begin - 1]):
        begin -= 1
    quoted = [line.lstrip("> |") for line in lines[begin:last]][: _ATTRIBUTION_LINES + 2]
    while quoted and not quoted[0]:
        quoted.pop(0)
    named = _attribution_at(lines, begin)
    if named is None and not any(_attribution_at(quoted, end) == 0 for end in range(1, len(quoted) + 1)):
        return lines[:last]
    return lines[: begin if named is None else named]


def _without_first_quote(lines: list[str]) -> list[str]:
    """An answer below the one block that it quotes."""
    first = next((place for place, line in enumerate(lines) if _is_quoted(line)), None)
    if first is None:
        return lines
    named = _attribution_at(lines, first)
    if named is None or _last(lines[:named]):
        return lines
    end = first
    while end < len(lines) and (_is_quoted(lines[end]) or not lines[end]):
        end += 1
    rest = lines[end:]
    return lines if any(map(_is_quoted, rest)) else rest


def _attribution_at(lines: list[str], end: int) -> int | None:
    """First line of "On Monday at 10:00 Bob wrote:", if that is the last before `end`."""
    last = _last(lines[:end])
    if not last or not lines[last - 1].endswith((":", "：")):
        return None
    address = None
    for begin in range(last - 1, max(-1, last - 1 - _ATTRIBUTION_LINES), -1):
        if not lines[begin] or len(lines[begin]) > _LINE:
            break
        if _DATE.search(lines[begin]) or (begin == last - 1 and _WROTE.match(lines[begin])):
            return begin
        if address is None and "@" in lines[begin]:
            address = begin
    return address


def _signature_at(lines: list[str]) -> int:
    for place, line in enumerate(lines):
        if line == "--" and place >= len(lines) - 30:
            return place
    last = _last(lines)
    return last - 1 if last and len(lines[last - 1]) < 80 and _DEVICE.match(lines[last - 1]) else last


def _last(lines: list[str]) -> int:
    """Count the lines without blank ones at the end."""
    count = len(lines)
    while count and not lines[count - 1]:
        count -= 1
    return count


def _is_quoted(line: str) -> bool:
    return line.startswith((">", "|>")) or line.lstrip(" ").startswith("> ")
