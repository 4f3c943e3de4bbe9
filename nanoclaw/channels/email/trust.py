"""Who wrote a mail, whether the person's own server vouches for it, and whether it was a machine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.errors import MessageError

from nanoclaw.channels.email.words import header_text

_ADDRESS = re.compile(r"[^\s@<>,;:\"()\[\]\\/\x00-\x1f\x7f]{1,64}@[^\s@<>,;:\"()\[\]\\/_\x00-\x1f\x7f]{1,253}")
_FROM_CHARACTERS = 2000
_MACHINES = re.compile(
    r"(?:mailer-daemon|postmaster|(?:no|do-?not)[-_.]?reply|bounces?|auto-?(?:reply|responder|mailer))(?:[+\-=_.].*)?"
)
_STRAY = "X-Autoreply X-Autorespond X-Auto-Response-Suppress X-Failed-Recipients List-Id List-Unsubscribe".lower()


@dataclass(frozen=True, slots=True)
class Headers:
    """The headers of a mail in their order: names in lower case, values unfolded."""

    items: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, data: bytes) -> Headers:
        from email.parser import BytesHeaderParser

        found = BytesHeaderParser().parsebytes(data).raw_items()
        return cls(tuple((name.lower(), _unfolded(str(value))) for name, value in found))

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.items if key == name]

    def first(self, name: str) -> str:
        return next(iter(self.all(name)), "")


@dataclass(frozen=True, slots=True)
class Author:
    """`is_certain`: that the mail names this one address as its author, in a way that leaves no doubt."""

    address: str
    name: str
    is_certain: bool

    @property
    def domain(self) -> str:
        return ascii_domain(self.address.rpartition("@")[2])


def is_address(text: str) -> bool:
    """Whether it is one plain address such as ann@example.org."""
    return _ADDRESS.fullmatch(text) is not None


def ascii_domain(domain: str) -> str:
    """A domain in the one spelling in which two can be compared."""
    lowered = domain.strip().rstrip(".").lower()
    try:
        return lowered if lowered.isascii() else lowered.encode("idna").decode()
    except ValueError:
        return lowered


def author(headers: Headers) -> Author | None:
    """Who is named as author, the first if several; None when nobody is who could be answered."""
    given = headers.all("from")
    if not given or len(given[0]) > _FROM_CHARACTERS:
        return None
    from email.headerregistry import AddressHeader, HeaderRegistry

    try:
        parsed = HeaderRegistry()("from", given[0])
        assert isinstance(parsed, AddressHeader)
        people = [(person.addr_spec.lower(), person.display_name) for person in parsed.addresses]
        is_clear = not parsed.defects
    except (ValueError, IndexError, AttributeError, TypeError, LookupError, MessageError, AssertionError):
        people, is_clear = [], False  # the parser of the standard library trips over some malformed headers
    if not is_clear and (found := re.search(r"<([^<>]*)>", given[0])):
        people = [(found[1].strip().lower(), "")]
    people = [person for person in people if is_address(person[0])]
    if not people:
        return None
    address, name = people[0]
    return Author(address, header_text(name)[:64].strip(), is_clear and len(given) == len(people) == 1)


def is_vouched_for(headers: Headers, who: Author, server: str) -> bool:
    """Whether the topmost Authentication-Results of this server say that the author's domain sent the mail.

    By DMARC, or a DKIM signature or an SPF sender of the author's own domain or of one above it. What the server writes
    in comments and quotes may come from the sender and is not read.
    """
    for value in headers.all("authentication-results"):
        statements = _statements(value)
        if not statements:  # it may be the server's own: what stands below is not asked
            return False
        if statements[0] and statements[0][0].lower() == server.lower():
            return who.is_certain and any(_vouches(words, who.domain) for words in statements[1:])
    return False


def machine(headers: Headers, who: Author) -> str:
    """Why this mail must not be answered; '' for one that a person may have written."""
    submitted = headers.first("auto-submitted").split(";")[0].split("(")[0].strip().lower()
    if submitted not in ("", "no"):
        return "it was sent by a program (Auto-Submitted)"
    if headers.first("precedence").strip().lower() in ("bulk", "list", "junk", "auto_reply"):
        return "it was sent to many (Precedence)"
    if found := next((name for name, _ in headers.items if name in _STRAY.split()), ""):
        return f"it was sent by a program ({found})"
    if headers.first("return-path").replace(" ", "") == "<>":
        return "it is a notice of a mail server"
    if headers.first("content-type").strip().lower().startswith("multipart/report"):
        return "it is a report of a mail server"
    if _MACHINES.fullmatch(who.address.rpartition("@")[0]):
        return "nobody reads answers to that address"
    return ""


def _vouches(words: list[str], domain: str) -> bool:
    """Whether one statement, such as ["dkim=pass", "header.d=example.org"], is about this domain."""
    method, equals, result = words[0].lower().partition("=") if words else ("", "", "")
    if not equals or result != "pass":
        return False
    pairs = [word.lower().partition("=")[::2] for word in words[1:]]
    given = dict(pairs)
    if len(given) < len(pairs):
        return False
    match method.partition("/")[0]:
        case "dmarc":
            return ascii_domain(given.get("header.from", domain)) == domain
        case "dkim":
            return _covers(given.get("header.d") or given.get("header.i", "").rpartition("@")[2], domain)
        case "spf":
            return _covers(given.get("smtp.mailfrom", "").rpartition("@")[2], domain)
    return False


def _covers(vouching: str, domain: str) -> bool:
    vouching = ascii_domain(vouching)
    return "." in vouching and (domain == vouching or domain.endswith(f".{vouching}"))


def _statements(value: str) -> list[list[str]]:
    """Split at ";" into words, without comments; a quoted text stays quoted, in one word. [] for what never ends."""
    statements: list[list[str]] = [[]]
    word, depth, is_quoted = "", 0, False
    characters = iter(value)
    for character in _with_end(characters):
        if character == "\\" and (depth or is_quoted):
            escaped = next(characters, "")
            word += "" if depth else character + escaped
        elif depth:
            depth += {"(": 1, ")": -1}.get(character, 0)
        elif character == '"':
            is_quoted = not is_quoted
            word += character
        elif is_quoted or not (character.isspace() or character in ";("):
            word += character
        else:
            if word:
                statements[-1].append(word)
                word = ""
            if character == ";":
                statements.append([])
            depth = int(character == "(")
    return [] if depth or is_quoted else statements


def _with_end(characters: Iterator[str]) -> Iterator[str]:
    yield from characters
    yield " "


def _unfolded(value: str) -> str:
    value = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return re.sub(r"[\r\n]+", "", value).strip()
