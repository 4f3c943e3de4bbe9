"""Keeps secrets out of what leaves the process: texts, and the environment of its children."""

from __future__ import annotations

import base64
import json
import re
import sys
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

__all__ = ["MASK", "SHORTEST", "Redactor", "clean_environment", "smells_of_secret", "within"]

MASK = "[secret]"

SHORTEST = 4
"""Characters of a secret, at least: a shorter one would blank out ordinary words."""

Span = tuple[int, int]
"""Begin and end of a place in a text."""


class Redactor:
    """Replaces known values, however they are written, with `[secret]`: as they are, as base64, base32, hex, JSON or
    URL parts, backwards, and with other characters between theirs.

    Values may come at any time (`add`); whoever has it hides them from then on.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self.values: tuple[str, ...] = ()
        self._forms: tuple[str, ...] | None = None
        self._apart: tuple[bytes, ...] = ()
        self._hex: tuple[bytes, ...] = ()
        self._short: tuple[str, ...] = ()
        self._values_decoded: tuple[re.Pattern[str], ...] = ()
        self._eights: frozenset[int] = frozenset()
        self._beginnings: frozenset[str] | None = None
        self.add(*secrets)

    def add(self, *secrets: str) -> None:
        """Hide these, too, from now on."""
        known = {value: None for value in (*self.values, *map(str.strip, secrets)) if len(value) >= SHORTEST}
        if len(known) > len(self.values):
            self.values, self._forms, self._beginnings = tuple(known), None, None

    def __call__(self, text: str) -> str:
        if self._forms is None:
            self._learn()
        if len(text) < _LARGE or self._may_hold(text):
            for form in self._forms or ():
                if form in text:
                    text = text.replace(form, MASK)
            if len(text) >= _SHORTEST_APART and self._apart:
                text = self._without_apart(text)
        if self._apart and ("%" in text or "\\" in text or "&" in text):
            text = masked(text, self._nested(text))
        return text

    def strictly(self, text: str) -> str:
        """A text without known values, and without what has the form of a secret."""
        from nanoclaw.redaction import patterns  # dear to import, and most runs read nothing in which these could be

        return patterns.without_patterns(self(text)) if text else text

    def _may_hold(self, text: str) -> bool:
        """False for a large text that surely has no form of a value: none of the eights of letters and digits in it
        belongs to one."""
        if any(form in text for form in self._short):
            return True
        letters = text.encode("ascii", "ignore").translate(_LOWER, _SIGNS)
        if not self._eights.isdisjoint(_eights_of(letters)):
            return True
        apart = "0x" in text or "\\" in text  # other letters stand between digits
        return apart and not self._eights.isdisjoint(_eights_of(letters.translate(None, _NO_HEX)))

    def _nested(self, text: str) -> Iterator[Span]:
        """The places of values that are written with escapes of escapes."""
        from nanoclaw.redaction.decoding import NESTED, decoded

        for begin, end in around(text, places_of(text, NESTED)):
            meant, signs = decoded(text[begin:end])
            for value in self._values_decoded if len(meant) < end - begin else ():
                for found in value.finditer(meant):
                    yield begin + signs[found.start()], begin + signs[found.end()]

    def begun(self, text: str) -> int:
        """The number of characters at the end of a text that may be the beginning of a secret."""
        if self._beginnings is None:
            forms = (form for secret in self.values for form in _forms(secret, is_whole=False))
            self._beginnings = frozenset(form[:end] for form in forms for end in range(1, len(form)))
            self._longest = max(map(len, self._beginnings), default=0)
        begun = self._beginnings
        return next((end for end in range(min(self._longest, len(text)), 0, -1) if text[-end:] in begun), 0)

    def _learn(self) -> None:
        """Make all forms of the values, at the first text after they came."""
        forms = {form for secret in self.values for form in _forms(secret)}
        self._forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))
        self._apart = tuple({form for secret in self.values for form in _forms_apart(secret)})
        self._hex = tuple({form for secret in self.values for form in _hex_forms(secret)})
        self._values_decoded = tuple(map(_decoded_form, self.values))
        letters = {form: form.encode("ascii", "ignore").translate(_LOWER, _SIGNS) for form in forms}
        self._short = tuple(form for form, its in letters.items() if len(its) < 15)
        long = {its for its in (*letters.values(), *self._apart, *self._hex) if len(its) >= 15}
        self._eights = frozenset(
            int.from_bytes(one[at : at + 8], sys.byteorder) for one in long for at in range(len(one) - 7)
        )

    def _without_apart(self, text: str) -> str:
        """A text without values whose characters stand apart: in wrapped or spaced lines."""
        letters = text.encode("ascii", "ignore").translate(_LOWER, _SIGNS)
        for form in self._apart:
            if form in letters:
                text = re.sub(r"[^0-9a-z]{0,16}".join(form.decode()), MASK, text, flags=re.IGNORECASE)
        digits = letters.translate(None, _NO_HEX)
        for form in self._hex:
            if form in digits:
                text = re.sub(r"[^0-9a-f]{0,16}".join(form.decode()), MASK, text, flags=re.IGNORECASE)
        return text


def within(value: Any, redact: Callable[[str], str]) -> Any:
    """The same with each text in it redacted by itself, so that it stays JSON."""
    if isinstance(value, Mapping):
        return {name: within(one, redact) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [within(one, redact) for one in value]
    return redact(value) if isinstance(value, str) else value


def clean_environment(environ: Mapping[str, str], secrets: Iterable[str] = ()) -> dict[str, str]:
    """The environment that a child process may see: no name that smells of a secret, no value that holds one."""
    known, seen = tuple(secrets), dict[str, str]()
    for name, value in environ.items():
        has_password = re.search(_PASSWORD_IN_ADDRESS, value) or any(secret in value for secret in known)
        if not has_password and not smells_of_secret(name):
            seen[name] = value
    return seen


def smells_of_secret(name: str) -> bool:
    """True if a variable or setting of this name holds a secret."""
    return re.search(_SMELLS, name.upper()) is not None


_LARGE = 2_000
"""Characters of a text from which on it is cheaper to look first whether a value can be in it."""


def _eights_of(letters: bytes) -> memoryview:
    """Every eighth of the runs of eight: a run of 15 has one of them, wherever it stands."""
    return memoryview(letters[: len(letters) // 8 * 8]).cast("Q")


_SHORTEST_ENCODED = 8
_SHORTEST_APART = 12
"""Letters and digits of a value, at least, that is looked for with others between: fewer meet by chance."""
_SMELLS = (
    r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|(?<![A-Z])(?:PASS|PAT)(?:_|$)|_PWD$|CREDENTIAL|COOKIE|PRIVATE|AUTH(?!OR(?:_|$))"
)
_PASSWORD_IN_ADDRESS = r"://[^/\s:@]*:[^/\s@]+@"

_SIGNS = bytes(code for code in range(128) if not chr(code).isalnum())
_LOWER = bytes(code + 32 if 65 <= code <= 90 else code for code in range(256))
_NO_HEX = b"ghijklmnopqrstuvwxyz"


def _forms(secret: str, *, is_whole: bool = True) -> Iterator[str]:
    """The spellings of a value; without `is_whole`, those that a stream waits for."""
    yield secret
    if len(secret) < _SHORTEST_ENCODED:
        return
    if is_whole:
        yield secret[::-1]
        yield from _base32(secret.encode("utf-8", "surrogatepass"))
    data = secret.encode("utf-8", "surrogatepass")
    yield data.hex()
    yield data.hex().upper()
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield urllib.parse.quote(data, safe="")
    yield from _base64(data)
    yield from (form.replace("+", "-").replace("/", "_") for form in _base64(data))


def _decoded_form(secret: str) -> re.Pattern[str]:
    """A value as it stands in a decoded text, in which escapes of letters beyond ASCII are NUL."""
    parts = re.split(r"([^\x01-\x7f]+)", secret)  # every other one is ASCII
    ascii_only = [re.escape(part) if number % 2 == 0 else r"[^\x01-\x7f]+" for number, part in enumerate(parts)]
    return re.compile("".join(ascii_only) if sum(map(len, parts[::2])) >= SHORTEST else re.escape(secret))


def _base64(data: bytes) -> Iterator[str]:
    for before in range(3):  # as part of a longer text it starts at one of three places within a group of four
        encoded = base64.b64encode(b"\0" * before + data).decode()
        rest = (before + len(data)) % 3
        yield encoded[(0, 2, 3)[before] : len(encoded) - (0, 3, 2)[rest]]


def _base32(data: bytes) -> Iterator[str]:
    for before in range(5):
        whole = (before + len(data)) * 8 // 5  # signs that depend on nothing that follows
        yield base64.b32encode(b"\0" * before + data).decode()[-(-before * 8 // 5) : whole]


def _forms_apart(secret: str) -> Iterator[bytes]:
    """The letters and digits of the forms, as small letters."""
    if len(secret) < _SHORTEST_ENCODED:
        return
    data = secret.encode("utf-8", "surrogatepass")
    for form in (secret, secret[::-1], *_base64(data), *_base32(data)):
        letters = form.encode("ascii", "ignore").translate(_LOWER, _SIGNS)
        if len(letters) >= _SHORTEST_APART and form.isascii():
            yield letters


def _hex_forms(secret: str) -> Iterator[bytes]:
    """The bytes as hex digits: plainly, and as 0x73 or \\u0073 leave them behind."""
    data = secret.encode("utf-8", "surrogatepass")
    if len(data) >= _SHORTEST_ENCODED:
        yield data.hex().encode()
        yield b"".join(b"0%02x" % one for one in data)
        yield b"".join(b"00%02x" % one for one in data)


# --- places in a text ------------------------------------------------------------------------------------------------

_BEFORE, _AFTER = 200, 800  # characters of a long line around a place


def masked(text: str, spans: Iterable[Span]) -> str:
    """A text with the mask in these places; those that touch become one."""
    made, done = list[str](), 0
    for start, end in sorted(spans):
        if made and start <= done:
            done = max(done, end)
        elif end > start:
            made += (text[done:start], MASK)
            done = end
    return "".join((*made, text[done:])) if made else text


def places(low: str, word: str) -> Iterator[int]:
    at = low.find(word)
    while at >= 0:
        yield at
        at = low.find(word, at + len(word))


def places_of(text: str, escapes: Mapping[str, re.Pattern[str]]) -> Iterator[int]:
    """The places of escapes, each kind by the character that it begins with."""
    for sign, pattern in escapes.items():
        if sign in text:
            yield from (match.start() for match in pattern.finditer(text))


def around(low: str, places: Iterable[int]) -> Iterator[Span]:
    """The lines, of long ones the parts, in which one of the places is."""
    begun, end = -1, -1
    for at in sorted(places):
        if at < end:
            continue
        start, stop = low.rfind("\n", max(at - _BEFORE, end, 0), at) + 1, low.find("\n", at, at + _AFTER)
        if begun >= 0:
            yield begun, end
        begun, end = start or max(at - _BEFORE, end, 0), stop + 1 or min(at + _AFTER, len(low))
    if begun >= 0:
        yield begun, end
