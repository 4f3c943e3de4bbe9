"""Authors of mails: who wrote one, whether the person's own server vouches for it, whether it was a machine."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from email.errors import MessageError, MultipartInvariantViolationDefect
from typing import Any

from nanoclaw.channels.email.text import header_text

_ADDRESS = re.compile(r"[^\s@<>,;:\"()\[\]\\/\x00-\x1f\x7f]{1,64}@[^\s@<>,;:\"()\[\]\\/_\x00-\x1f\x7f]{1,253}")
_FROM_CHARACTERS = 2000
_MACHINES = re.compile(
    r"(?:mailer-daemon|postmaster|(?:no|do-?not)[-_.]?reply|bounces?|auto-?(?:reply|responder|mailer))(?:[+\-=_.].*)?"
)
_WRITTEN = re.compile(r"(?:.*<)?\s*([^\s<>()\"]+)\s*>?\s*(?:\([^()]*\))?\s*", re.DOTALL)
"""A From header with one address as it is there: what a parser decodes or leaves out, a mail server may not."""
_LOWER = str.maketrans({chr(sign): chr(sign + 32) for sign in range(ord("A"), ord("Z") + 1)})
"""Letters that mail servers take for the same: not the Kelvin sign for a k, as str.lower does."""
_SPACED_NAME = re.compile(rb"^([!-9;-~]+)[ \t]+:", re.MULTILINE)
_BROKEN = re.compile(rb"\r(?!\n)|\x00")
_STRAY = "X-Autoreply X-Autorespond X-Auto-Response-Suppress X-Failed-Recipients List-Id List-Unsubscribe".lower()


@dataclass(frozen=True, slots=True)
class Headers:
    """The headers of a mail in their order: names in lower case, values unfolded. `is_clear`: that all programs read
    the same in them."""

    items: tuple[tuple[str, str], ...]
    is_clear: bool = True

    @classmethod
    def of(cls, data: bytes, most: int = 0) -> Headers:
        """`most` is how many bytes were asked for: where there are as many, headers may be missing."""
        from email.parser import BytesHeaderParser

        parsed = BytesHeaderParser().parsebytes(_SPACED_NAME.sub(rb"\1:", data))
        # before 3.11.5 Python finds the body of each multipart mail missing (github.com/python/cpython/issues/106186)
        defects = [one for one in parsed.defects if not isinstance(one, MultipartInvariantViolationDefect)]
        is_clear = not (defects or _BROKEN.search(data) or 0 < most <= len(data))
        found = tuple((name.lower(), _unfolded(str(value))) for name, value in parsed.raw_items())
        return cls(found, is_clear)

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
        people = [(_lower(person.addr_spec), person.display_name) for person in parsed.addresses]
        is_clear = not parsed.defects and all(group.display_name is None for group in parsed.groups)
    except (ValueError, IndexError, AttributeError, TypeError, LookupError, MessageError, AssertionError):
        people, is_clear = [], False  # the parser of the standard library trips over some malformed headers
    if not is_clear and (found := re.search(r"<([^<>]*)>", given[0])):
        people = [(_lower(found[1].strip()), "")]
    is_one = headers.is_clear and is_clear and len(given) == len(people) == 1
    people = [person for person in people if is_address(person[0])]
    if not people:
        return None
    address, name = people[0]
    written = _WRITTEN.fullmatch(given[0])
    is_certain = is_one and written is not None and _lower(written[1]) == address
    return Author(address, header_text(name)[:64].strip(), is_certain)


def is_vouched_for(headers: Headers, who: Author, server: str) -> bool:
    """True when the topmost Authentication-Results of this server say that the author's domain sent the mail.

    By DMARC, which names the domain; where that has no policy by a DKIM signature or an SPF sender of the author's own
    domain or of one above it. What the server writes in comments may come from the sender and is not read.
    """
    from authres import AuthenticationResultsHeader, AuthResError

    for value in headers.all("authentication-results"):
        if server.isascii() and not value.partition(";")[0].isascii():  # looks like it, and the parser folds it
            continue
        try:
            found = AuthenticationResultsHeader.parse_value(value)
        except AuthResError:
            if server.lower() in value.lower():  # it may be the server's own: what stands below is not asked
                return False
            continue
        if found.authserv_id.lower() == server.lower():
            return who.is_certain and _are_good(found.results, who.domain)
    return False


def is_addressed(headers: Headers, own: Collection[str]) -> bool:
    """True for a mail to one of these addresses, also with a +tag: a signed mail to somebody else can be sent on to
    anybody, and its signature holds."""
    from email.utils import getaddresses

    named = getaddresses([*headers.all("to"), *headers.all("cc")])
    return any(re.sub(r"\+[^@]*@", "@", _lower(address)) in own for _, address in named)


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


def _are_good(results: Sequence[Any], domain: str) -> bool:
    """True when results vouch for this domain: DMARC has the last word where it has one."""
    judged = [result for result in results if result.method == "dmarc" and result.result not in _NO_POLICY]
    if judged:
        return all(_given(result).get("header.from", "") == domain and result.result == "pass" for result in judged)
    return any(_vouches(result, domain) for result in results)


_NO_POLICY = ("none", "bestguesspass")


def _vouches(result: Any, domain: str) -> bool:
    """True when a result, such as dkim=pass header.d=example.org, vouches for this domain."""
    given = _given(result)
    match result.method if result.result == "pass" else "":
        case "dkim":
            return _covers(given.get("header.d") or _domain(given.get("header.i", "")), domain)
        case "spf":
            return _covers(_domain(given.get("smtp.mailfrom", "")), domain)
    return False


def _given(result: Any) -> dict[str, str]:
    """Properties of a result, domains in one spelling; none where one of them is there twice."""
    given = {f"{one.type}.{one.name}": one.value or "" for one in result.properties}
    return {name: ascii_domain(value) for name, value in given.items()} if len(given) == len(result.properties) else {}


def _domain(address: str) -> str:
    """The domain of an address, or of what is one itself; '' if there is doubt."""
    return address.rpartition("@")[2] if address.count("@") < 2 else ""


def _covers(vouching: str, domain: str) -> bool:
    return "." in vouching and (domain == vouching or domain.endswith(f".{vouching}"))


def _lower(text: str) -> str:
    return text.translate(_LOWER)


def _unfolded(value: str) -> str:
    value = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return re.sub(r"[\r\n]+", "", value).strip()
