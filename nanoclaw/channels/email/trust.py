"""Authors of mails: who wrote one, whether the person's own server vouches for it, whether it was a machine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.errors import MessageError
from typing import Any

from nanoclaw.channels.email.text import header_text

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
    """True for one plain address such as ann@example.org."""
    return _ADDRESS.fullmatch(text) is not None


def ascii_domain(domain: str) -> str:
    """A domain in the one spelling in which two can be compared."""
    lowered = domain.strip().rstrip(".").lower()
    try:
        return lowered if lowered.isascii() else lowered.encode("idna").decode()
    except ValueError:
        return lowered


def author(headers: Headers) -> Author | None:
    """The named author, the first of several; None when nobody is named who could be answered."""
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
    """True when the topmost Authentication-Results of this server say that the author's domain sent the mail.

    By DMARC, or a DKIM signature or an SPF sender of the author's own domain or of one above it. What the server writes
    in comments may come from the sender and is not read.
    """
    from authres import AuthenticationResultsHeader, AuthResError

    for value in headers.all("authentication-results"):
        try:
            found = AuthenticationResultsHeader.parse_value(value)
        except AuthResError:
            if server.lower() in value.lower():  # it may be the server's own: what stands below is not asked
                return False
            continue
        if found.authserv_id.lower() == server.lower():
            return who.is_certain and any(_vouches(result, who.domain) for result in found.results)
    return False


def machine(headers: Headers, who: Author) -> str:
    """The reason that this mail must not be answered; '' for one that a person may have written."""
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


def _vouches(result: Any, domain: str) -> bool:
    """True when a result, such as dkim=pass header.d=example.org, vouches for this domain."""
    given = {f"{one.type}.{one.name}": (one.value or "").lower() for one in result.properties}
    if result.result != "pass" or len(given) < len(result.properties):
        return False
    match result.method:
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


def _unfolded(value: str) -> str:
    value = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return re.sub(r"[\r\n]+", "", value).strip()
