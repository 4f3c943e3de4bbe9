"""Secrets that nobody told of, known by their form: keys of services, private keys, passwords, assignments.

Best effort: what has no form of a secret is not seen. It rather misses a secret than changes harmless text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from math import log2

from nanoclaw.redaction import Span, around, masked, places, places_of
from nanoclaw.redaction.decoding import decoded, has_escapes

_KEYS: tuple[tuple[str, str], ...] = (
    (
        "sk-",
        r"(?:ant|proj|or|svcacct|admin|None)-(?=[\w-]*\d)[\w-]{24,}|(?=[a-zA-Z]*\d)(?=\d*[a-zA-Z])[A-Za-z0-9]{32,}",
    ),
    *((f"gh{kind}_", r"(?=[a-zA-Z]*\d)[A-Za-z0-9]{36,}") for kind in "pousr"),
    ("github_pat_", r"(?=[a-zA-Z_]*\d)\w{40,}"),
    *(
        (f"gl{kind}-", r"(?=[a-zA-Z_-]*\d)[\w-]{20,}")
        for kind in ("pat", "dt", "rt", "cbt", "ptt", "ft", "imt", "soat")
    ),
    *((kind, r"(?=[A-Z]*\d)[A-Z0-9]{16}(?<!EXAMPLE)") for kind in ("AKIA", "ASIA", "ABIA", "ACCA")),
    ("xox", r"[abeoprs]-(?=[a-zA-Z-]*\d)[A-Za-z0-9-]{16,}"),
    ("xapp-", r"\d-[A-Za-z0-9-]{30,}"),
    ("AIza", r"(?=[a-zA-Z_-]*\d)[\w-]{35}"),
    ("GOCSPX-", r"[\w-]{24,}"),
    ("ya29.", r"(?=[a-zA-Z_-]*\d)[\w-]{30,}"),
    *((f"{kind}_", r"(?:live|test)_(?=[a-zA-Z]*\d)[A-Za-z0-9]{16,}") for kind in ("sk", "rk")),
    ("whsec_", r"(?=[a-zA-Z]*\d)[A-Za-z0-9+/=]{24,}"),
    ("npm_", r"(?=[a-zA-Z]*\d)[A-Za-z0-9]{36}"),
    ("pypi-AgE", r"[\w-]{40,}"),
    ("hf_", r"[A-Za-z0-9]{34,}"),
    ("SG.", r"[\w-]{20,24}\.[\w-]{39,50}"),
    *((f"do{kind}_v1_", r"[a-f0-9]{64}") for kind in "opr"),
    ("dckr_pat_", r"[\w-]{24,}"),
    *((f"shp{kind}_", r"[a-fA-F0-9]{32}") for kind in ("at", "ca", "pa", "ss")),
    *(
        (kind, r"(?=[a-zA-Z_=-]*\d)[\w=-]{28,}")
        for kind in (
            *("gsk_", "xai-", "pplx-", "tvly-", "nvapi-", "lin_api_", "figd_", "rubygems_", "glsa_", "tskey-", "PMAK-"),
            *("sntrys_", "ATATT3"),
        )
    ),
    *((kind, r"(?=[a-zA-Z_-]*\d)[\w-]{24,}") for kind in ("hvs.", "hvb.")),
    ("dapi", r"[a-f0-9]{32}"),
    ("AGE-SECRET-KEY-1", r"[0-9A-Z]{50,}"),
    *((kind, r"[A-Za-z0-9+/=]+_[A-Za-z]{20}_[A-Za-z0-9]{6}") for kind in ("syt_", "syl_")),
    ("eyJ", r"[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{10,}"),
)
"""Forms that are nothing but a key: how each begins, and how it continues."""

_KINDS_OF_KEY = "(?:api|access|secret|private|signing|encryption|account|master|service|license|auth|storage)"
_NAME = rf"(?:pass(?:w(?:or)?d|phrase|code)?|pwd|secret|token|credentials?|{_KINDS_OF_KEY}[ _.-]?key)"
_WORDS = ("pass", "pwd", "secret", "token", "key", "credential")
"""Parts, of which each name has one."""

_HARMLESS = re.compile(
    r"(?:next|page|sync|continuation|csrf|xsrf|cancel(?:lation)?|[ebs]os|pad|unk|mask|cls|sep|cache|stop|start|end|resume"
    r"|delimiter|public|foreign|primary|cursor|min|max|total|prompt|completion)[_.-]?(?:\w*[_.-])?$",
    re.IGNORECASE,
)
"""Endings of text before a name that make the name harmless."""

_PLACEHOLDER = re.compile(
    r"x{4,}|\*{3,}|\.{3}|your|example|change[_-]?me|placeholder|redacted|dummy|insert|todo|<|>|\{\{|\$\{|\$\(|\[secret\]"
    r"|^(?:keyring|file|env|op|vault|secret|arn|projects)[:/]",
    re.IGNORECASE,
)
_CODE = re.compile(r"[(\[{`]|^\$?[A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)+$|^\$[A-Za-z_]|^%\w+%$|^[~/.]|^https?:|\\$")
_PART = r"(?:[a-z]+\d{0,2}|[A-Z]+|[A-Z][a-z]+|[a-z]?\d{1,4})"
_WORDY = re.compile(rf"_*{_PART}(?:[-_/.:#@]+{_PART})*")
"""Words and short numbers with characters between them: a name, a path, a version, a date."""
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_DULL = frozenset({"password", "passwd", "secret", "token", "postgres", "x-oauth-basic"})


_KEY = {
    # the beginning stands first, so that it is looked for as a plain word
    begins: re.compile(rf"{re.escape(begins)}(?<![\w-]{re.escape(begins)})(?:{rest})(?![A-Za-z0-9])")
    for begins, rest in _KEYS
}
_BROKEN = ("SG.", "ya29.", "hvs.", "hvb.", "whsec_")
"""Beginnings of keys that have other signs in them."""
_BEGIN_RUNS = tuple(begins for begins in _KEY if begins not in _BROKEN)
_FIRST_SIGNS = frozenset(begins[:2] for begins in _BEGIN_RUNS)
_RUNS = bytes(97 if chr(code).isalnum() or chr(code) in "_-" else 32 for code in range(128)) + b" " * 128
_LONG_RUN = re.compile(b" " + b"a" * 19)

_BOT = re.compile(r":AA(?<=\d{8}:AA)([\w-]{33})(?![\w-])")
_PAIR = re.compile(r"(?:AKIA|ASIA)[A-Z0-9]{16}[\"']?[,;:\s]{1,4}[\"']?([A-Za-z0-9/+]{40})(?![\w/+])")
_PRIVATE = re.compile(
    r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
    r"((?:[A-Za-z-]+: [^\n]*\n|[A-Za-z0-9+/=\s]|\\[nr]|[>|] ?|=[\w/+]{4}\s)*)"
)
_BODY = re.compile(r"\S[\s\S]{14,}\S")
_ADDRESS = re.compile(r"://(?<=[A-Za-z0-9]://)[^\s/:@\"'<>]*:([^\s/@\"'<>]{5,})@(?=[\w\[])")
_HOOK = re.compile(r"hooks\.slack\.com/services/(T\w+/B\w+/\w{16,})")
_HEADER = re.compile(r"(?i)(?:\b(?:bearer|basic)[ \t]+|\b(?:set-)?cookie:[ \t]*[\w.-]+=)([\w.~+/%-]{16,}=*)")
_ASSIGNS = re.compile(
    r"(pass(?:w(?:or)?d|phrase|code)?|pwd|secret|token|key|credentials?)(?:[_-]?\d)?[\"'\]]?[ \t]{0,20}"
    r"(?:\\?[\"'])?(?::=|=>|=|:(?!:))[ \t]{0,3}"
    r"(?:(?P<quote>\\?[\"'])(?P<quoted>[^\s\"'`]{4,})(?P=quote)|(?P<bare>[^\s\"'`,;&]{4,}))"
)
_BEFORE_KEY = re.compile(rf"{_KINDS_OF_KEY}[ _.-]?\Z")
_OPTION = re.compile(
    r"(?i)(?:--(?:password|passwd|passphrase|token|secret|api-key)[ \t]+"
    r"|\b(?:login|user)[ \t]+\S+[ \t]+password[ \t]+"
    r"|\bcurl\b[^\n]{0,200}?\s(?:-u|--user)[ \t]+[\"']?[^\s:\"']+:)"
    r"([^\s\"']{6,})"
)
_FIELD = re.compile(r"(?i)<input\b([^<>]{0,1000})>")
_ELEMENT = re.compile(rf"(?i)<(?:[\w.-]*[:_.-])?{_NAME}\b[^<>]{{0,200}}>\s*([^\s<>]{{6,}})\s*</")


def without_patterns(text: str) -> str:
    """A text without what has the form of a secret, also where it is written with escapes."""
    return masked(text, _spans(text))


def _spans(text: str) -> Iterator[Span]:
    low = text.lower()
    if len(low) != len(text):  # some signs become two
        low = "".join(sign.lower() if len(sign.lower()) == 1 else sign for sign in text)
    words = _word_places(low)
    yield from _plain(text, low, words)
    for begin, end in around(low, _escaped(text, words)):
        part = text[begin:end]
        if has_escapes(part):
            meant, signs = decoded(part)
            low_part = meant.lower()
            found = _plain(meant, low_part, _word_places(low_part))
            yield from ((begin + signs[start], begin + signs[stop]) for start, stop in found)


# Everything is looked for by plain words first, and by a pattern only where one stands: a pattern that reads all of a
# megabyte costs more than all of these words.


def _plain(text: str, low: str, words: WordPlaces) -> Iterator[Span]:
    yield from _of_services(text)
    if "PRIVATE KEY" in text:
        bodies = (_BODY.search(text, *match.span(1)) for match in _PRIVATE.finditer(text))
        yield from (body.span() for body in bodies if body)
    if "@" in text and "://" in text:
        yield from _fitting(_ADDRESS.finditer(text), _is_secret_password)
    if "bearer" in low or "basic" in low or "cookie:" in low:
        headers = [at for word in ("bearer", "basic", "cookie:") for at in places(low, word)]
        yield from _near(_HEADER, text, low, headers, is_random)
    yield from _of_words(text, low, words)


def _of_services(text: str) -> Iterator[Span]:
    """Keys of services: nearly all of them are a long run of letters, digits, _ and -."""
    begun = {"whsec_"} if "whsec_" in text else set()
    runs = b" " + text.encode("ascii", "replace").translate(_RUNS)
    for match in _LONG_RUN.finditer(runs):
        at = match.start()  # of the blank in front of it, which the text does not have
        if text[at : at + 2] in _FIRST_SIGNS:
            begun.update(one for one in _BEGIN_RUNS if text.startswith(one, at))
        elif text[at - 1 : at] == ".":
            begun.update(one for one in _BROKEN if text.endswith(one, 0, at))
    for begins in begun:
        yield from (match.span() for match in _KEY[begins].finditer(text))
    for sign, pattern in ((":AA", _BOT), ("AKIA", _PAIR), ("ASIA", _PAIR), ("hooks.slack.com/", _HOOK)):
        if sign in text:
            yield from (match.span(1) for match in pattern.finditer(text))


def _of_words(text: str, low: str, words: WordPlaces) -> Iterator[Span]:
    """Values that stand behind a word for a secret: only what is around such words is read."""
    every = [*chain.from_iterable(words.values())]
    for match in filter(None, map(_ASSIGNS.match, repeat(low), every)):
        if span := _value_of(match, text):
            yield span
    options = [at for at in words["pass"] if low.startswith(("password ", "password\t"), at)]
    if "--" in text:
        options += [at for at in every if "--" in low[max(at - 6, 0) : at]]
    if "curl" in low:
        options += places(low, "curl")
    if options:
        yield from _near(_OPTION, text, low, options, is_password)
    if "<input" in low:
        yield from filter(None, map(_field_value, _FIELD.finditer(text)))
    if "</" in low:
        tags = [at for at in every if ">" in low[at : at + 200]]
        yield from _near(_ELEMENT, text, low, tags, lambda value: is_password(html.unescape(value)))


def _near(
    pattern: re.Pattern[str], text: str, low: str, places: Iterable[int], is_secret: Callable[[str], bool]
) -> Iterator[Span]:
    """The first groups of a pattern around some places, where they may be secrets."""
    for begin, end in around(low, places):
        yield from _fitting(pattern.finditer(text, begin, end), is_secret)


def _fitting(found: Iterable[re.Match[str]], is_secret: Callable[[str], bool]) -> Iterator[Span]:
    return (match.span(1) for match in found if is_secret(match[1]))


WordPlaces = Mapping[str, Sequence[int]]
"""By word for a secret the places where it stands."""


def _word_places(low: str) -> WordPlaces:
    return {word: [*places(low, word)] for word in _WORDS}


def _escaped(text: str, words: WordPlaces) -> Iterator[int]:
    """Places around which a secret may be written with escapes."""
    yield from places_of(text, _ESCAPES)
    if any(sign in text for sign in _ESCAPES):
        yield from (at for found in words.values() for at in found if _ESCAPED_SOON.match(text, at))


_ESCAPED_SOON = re.compile(r"[^\\%&\n]{1,100}[\\%&]")
_ESCAPES = {
    "%": re.compile("%(?:25|3[aA]|40)"),
    "\\": re.compile(r"\\(?:u00|/\\/)"),
    "&": re.compile("&(?:#|quot;|lt;)"),
}
"""Escapes that may stand in a secret, or in the word for it."""


def is_random(value: str) -> bool:
    """True for what no person chose as words: characters of several kinds, few of them twice."""
    if len(value) < 16 or _CODE.search(value) or _PLACEHOLDER.search(value) or _WORDY.fullmatch(value):
        return False
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value)) and _bits(value) >= 3.2


def is_password(value: str) -> bool:
    """True for what a person may have chosen as a password, and no words, names or code."""
    if len(value) < 6 or _CODE.search(value) or _PLACEHOLDER.search(value) or _WORDY.fullmatch(value):
        return False
    kinds = (str.isdigit, str.islower, str.isupper, _is_sign)
    return sum(any(map(kind, value)) for kind in kinds) >= 3 or is_random(value)


def _is_sign(letter: str) -> bool:
    return not letter.isalnum()


def _bits(value: str) -> float:
    """Shannon's entropy of one character."""
    counts = [value.count(sign) / len(value) for sign in set(value)]
    return -sum(share * log2(share) for share in counts)


def _is_secret_password(password: str) -> bool:
    return not (password.lower() in _DULL or _PLACEHOLDER.search(password) or _CODE.search(password))


def _value_of(match: re.Match[str], text: str) -> Span | None:
    """The place of a value that is assigned to a name, None for a harmless one. What matched has small letters."""
    name, start = match[1], match.start()
    if name == "key":
        kind = _BEFORE_KEY.search(match.string, max(0, start - 12), start)
        if kind is None:
            return None
        start = kind.start()
    begin, end = match.span("quoted" if match["quoted"] else "bare")
    before = _WORD_BEFORE.search(text, max(0, start - 60), start)
    standing = before[0] if before else ""
    if _HARMLESS.search(standing) or (text.endswith(":", 0, start - len(standing)) and not standing.startswith("_")):
        return None
    is_quoted = text[begin - 1] in "\"'"
    value = text[begin:end] if is_quoted else text[begin:end].rstrip(").,}]")
    if is_quoted and len(value) >= 24:
        value = value.replace("(", "")  # no code stands in quotes without a blank
    if name.startswith(("pass", "pwd")):
        is_secret = is_password(value)
    elif _UUID.fullmatch(value):
        is_secret = name != "token"
    else:
        is_secret = is_random(value)
    return (begin, end) if is_secret else None


_WORD_BEFORE = re.compile(r"[\w.-]+\Z")


def _field_value(match: re.Match[str]) -> Span | None:
    """The value of a form's field for a password or a token."""
    found = {one[1].lower(): one for one in _ATTRIBUTE.finditer(match[1])}
    if "value" not in found:
        return None
    given = {name: one[one.lastindex or 1] for name, one in found.items()}
    text, names = html.unescape(given["value"]), (given.get("name", ""), given.get("id", ""))
    if given.get("type", "").lower() == "password":
        is_secret = len(text) >= 4 and not _PLACEHOLDER.search(text) and text.lower() not in _DULL
    else:
        is_named = any(_FIELD_NAME.search(one) and not _HARMLESS_FIELD.search(one) for one in names)
        is_secret = is_named and is_password(text)
    start, end = found["value"].span(found["value"].lastindex or 1)
    return (match.start(1) + start, match.start(1) + end) if is_secret else None


_ATTRIBUTE = re.compile(r"([\w-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))")
_FIELD_NAME = re.compile(rf"{_NAME}\d?$", re.IGNORECASE)
_HARMLESS_FIELD = re.compile(r"csrf|xsrf|verification|page|sync|nonce", re.IGNORECASE)
