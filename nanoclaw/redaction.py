"""Keeps secrets out of what leaves the process: texts, and the environment of its children."""

from __future__ import annotations

import base64
import json
import re
import urllib.parse
from collections.abc import Iterable, Mapping

MASK = "[secret]"
SHORTEST = 4
"""Signs of a secret, at least: a shorter one would blank out ordinary words."""


class Redactor:
    """Replaces known secret values, also written as base64, hex, JSON or URL parts, with `[secret]`."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets for form in _forms(secret.strip())}
        self._forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))
        self._beginnings = frozenset(form[:end] for form in self._forms for end in range(1, len(form)))

    def __call__(self, text: str) -> str:
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASK)
        return text

    def begun(self, text: str) -> int:
        """The number of signs at the end of a text that may be the beginning of a secret."""
        longest = len(self._forms[0]) - 1 if self._forms else 0
        return next((end for end in range(min(longest, len(text)), 0, -1) if text[-end:] in self._beginnings), 0)


def clean_environment(environ: Mapping[str, str], secrets: Iterable[str] = ()) -> dict[str, str]:
    """The environment that a child process may see: no name that smells of a secret, no value that holds one."""
    known = tuple(secret for secret in secrets if len(secret) >= SHORTEST)
    return {
        name: value
        for name, value in environ.items()
        if not smells_of_secret(name)
        and not re.search(_PASSWORD_IN_ADDRESS, value)
        and not any(secret in value for secret in known)
    }


def smells_of_secret(name: str) -> bool:
    """True where a variable or setting of this name holds a secret."""
    return re.search(_SMELLS, name.upper()) is not None


_SHORTEST_ENCODED = 8
_SMELLS = r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|COOKIE|PRIVATE|AUTH(?!OR(?:_|$))"
_PASSWORD_IN_ADDRESS = r"://[^/\s:@]*:[^/\s@]+@"


def _forms(secret: str) -> Iterable[str]:
    if len(secret) < SHORTEST:
        return
    yield secret
    if len(secret) < _SHORTEST_ENCODED:
        return
    data = secret.encode("utf-8", "surrogatepass")
    yield data.hex()
    yield data.hex().upper()
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield urllib.parse.quote(data, safe="")
    for before in range(3):  # as part of a longer text it starts at one of three places within a group of four
        encoded = base64.b64encode(b"\0" * before + data).decode()
        start = (0, 2, 3)[before]
        rest = (before + len(data)) % 3
        stable = encoded[start : len(encoded) - (0, 3, 2)[rest]]
        yield stable
        yield stable.replace("+", "-").replace("/", "_")
