"""Secrets that nobody told of, known by their form: keys of services, private keys, passwords, assignments.

A courtesy, not a border: what has no form of a secret is not seen. It rather lets one pass than touch what is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from math import log2

MASK = "[secret]"

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
"""Forms that are nothing but a key: how each begins, and how it goes on."""

_NAME = (
    r"(?:pass(?:w(?:or)?d|phrase|code)?|pwd|secret|token|credentials?|(?:api|access|secret|private|signing|encryption"
    r"|account|master|service|license|auth|storage)[ _.-]?key)"
)
_WORDS = ("pass", "pwd", "secret", "token", "key", "credential")
"""Parts, of which each name has one."""

_HARMLESS = re.compile(
    r"(?:next|page|sync|continuation|csrf|xsrf|cancel(?:lation)?|[ebs]os|pad|unk|mask|cls|sep|cache|stop|start|end|resume"
    r"|delimiter|public|foreign|primary|cursor|min|max|total|prompt|completion)[_.-]?(?:\w*[_.-])?$",
    re.IGNORECASE,
)
"""Ends of what stands before a name and makes it a harmless one."""

_PLACEHOLDER = re.compile(
    r"x{4,}|\*{3,}|\.{3}|your|example|change[_-]?me|placeholder|redacted|dummy|insert|todo|<|>|\{\{|\$\{|\$\(|\[secret\]"
    r"|^(?:keyring|file|env|op|vault|secret|arn|projects)[:/]",
    re.IGNORECASE,
)
_CODE = re.compile(r"[(\[{`]|^\$?[A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)+$|^\$[A-Za-z_]|^%\w+%$|^[~/.]|^https?:|\\$")
_PART = r"(?:[a-z]+\d{0,2}|[A-Z]+|[A-Z][a-z]+|[a-z]?\d{1,4})"
_WORDY = re.compile(rf"_*{_PART}(?:[-_/.:#@]+{_PART})*")
"""Words and short numbers with signs between them: a name, a path, a version, a date."""
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_DULL = frozenset({"password", "passwd", "secret", "token", "postgres", "x-oauth-basic"})


class Patterns:
    """Compiled at first use: most runs of the program read nothing in which these could be."""

    def __init__(self) -> None:
        self._keys = [
            # the beginning stands first, so that it is looked for as a plain word
            (begins, re.compile(rf"{re.escape(begins)}(?<![\w-]{re.escape(begins)})(?:{rest})(?![A-Za-z0-9])"))
            for begins, rest in _KEYS
        ]
        self._bot = re.compile(r":AA(?<=\d{8}:AA)[\w-]{33}(?![\w-])")
        self._pair = re.compile(r"(?:AKIA|ASIA)[A-Z0-9]{16}[\"']?[,;:\s]{1,4}[\"']?([A-Za-z0-9/+]{40})(?![\w/+])")
        self._private = re.compile(
            r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
            r"((?:[A-Za-z-]+: [^\n]*\n|[A-Za-z0-9+/=\s]|\\[nr]|[>|] ?|=[\w/+]{4}\s)*)"
        )
        self._address = re.compile(r"://(?<=[A-Za-z0-9]://)([^\s/:@\"'<>]*):([^\s/@\"'<>]{5,})@(?=[\w\[])")
        self._hook = re.compile(r"hooks\.slack\.com/services/(T\w+/B\w+/\w{16,})")
        self._header = re.compile(
            r"(?i)(?:\b(?:bearer|basic)[ \t]+|\b(?:set-)?cookie:[ \t]*[\w.-]+=)([\w.~+/%-]{16,}=*)"
        )
        self._assigned = re.compile(
            rf"(?i)({_NAME})(?:[_-]?\d)?[\"'\]]?[ \t]{{0,20}}(?:\\?[\"'])?(?::=|=>|=|:(?!:))[ \t]{{0,3}}"
            r"(?:(?P<quote>\\?[\"'])(?P<quoted>[^\s\"'`]{4,})(?P=quote)|(?P<bare>[^\s\"'`,;&]{4,}))"
        )
        self._option = re.compile(
            r"(?i)(?:--(?:password|passwd|passphrase|token|secret|api-key)[ \t]+"
            r"|\b(?:login|user)[ \t]+\S+[ \t]+password[ \t]+"
            r"|\bcurl\b[^\n]{0,200}?\s(?:-u|--user)[ \t]+[\"']?[^\s:\"']+:)"
            r"([^\s\"']{6,})"
        )

    def __call__(self, text: str) -> str:
        if "AKIA" in text or "ASIA" in text:
            text = self._pair.sub(_masked(1), text)
        for begins, pattern in self._keys:
            if begins in text:
                text = pattern.sub(MASK, text)
        if ":AA" in text:
            text = self._bot.sub(f":{MASK}", text)
        if "PRIVATE KEY" in text:
            text = self._private.sub(_without_key, text)
        if "://" in text:
            text = self._address.sub(_without_password, text)
        if "hooks.slack.com/" in text:
            text = self._hook.sub(_masked(1), text)
        low = text.lower()
        if "bearer" in low or "basic" in low or "cookie:" in low:
            text = self._header.sub(_masked(1, is_random), text)
            low = text.lower()
        return self._without_assigned(text, low) if len(low) == len(text) else text

    def _without_assigned(self, text: str, low: str) -> str:
        """The text without what is assigned in it: only what stands around the words for it is read."""
        made, done = list[str](), 0
        for begin, end in _around(low):
            made += (text[done:begin], self._unassigned(text[begin:end]))
            done = end
        return "".join((*made, text[done:])) if made else text

    def _unassigned(self, part: str) -> str:
        part = self._assigned.sub(_without_value, part)
        return self._option.sub(_masked(1, is_password), part)


def _around(low: str) -> Iterator[tuple[int, int]]:
    """The lines, of long ones the parts, in which one of the words stands."""
    begun, end = -1, -1
    for at in sorted(_places(low)):
        if at < end:
            continue
        start, stop = low.rfind("\n", max(at - _BEFORE, end, 0), at) + 1, low.find("\n", at, at + _AFTER)
        if begun >= 0:
            yield begun, end
        begun, end = start or max(at - _BEFORE, end, 0), stop + 1 or min(at + _AFTER, len(low))
    if begun >= 0:
        yield begun, end


def _places(low: str) -> Iterator[int]:
    for word in (*_WORDS, "curl"):
        at = low.find(word)
        while at >= 0:
            yield at
            at = low.find(word, at + len(word))


_BEFORE, _AFTER = 200, 800


@cache
def _compiled() -> Patterns:
    return Patterns()


def without_patterns(text: str) -> str:
    """A text without what has the form of a secret."""
    return _compiled()(text)


def is_random(value: str) -> bool:
    """True for what no person chose as words: signs of several kinds, few of them twice."""
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
    """Shannon's entropy of one sign."""
    counts = [value.count(sign) / len(value) for sign in set(value)]
    return -sum(share * log2(share) for share in counts)


def _masked(group: int | str, fits: Callable[[str], bool] | None = None) -> Callable[[re.Match[str]], str]:
    """The replacement of a match in which one group is masked, where that `fits`."""

    def mask(match: re.Match[str]) -> str:
        if fits and not fits(match[group]):
            return match[0]
        start, end = match.start(group) - match.start(), match.end(group) - match.start()
        return f"{match[0][:start]}{MASK}{match[0][end:]}"

    return mask


def _without_key(match: re.Match[str]) -> str:
    body = match[1]
    if len(body.strip()) < 16:
        return match[0]
    start, end = len(body) - len(body.lstrip()), len(body.rstrip())
    head = match[0][: match.start(1) - match.start()]
    return f"{head}{body[:start]}{MASK}{body[end:]}"


def _without_password(match: re.Match[str]) -> str:
    password = match[2]
    is_none = password.lower() in _DULL or _PLACEHOLDER.search(password) or _CODE.search(password)
    return match[0] if is_none else _masked(2)(match)


def _without_value(match: re.Match[str]) -> str:
    text, start, name = match.string, match.start(), match[1].lower()
    before = _WORD_BEFORE.search(text, max(0, start - 60), start)
    standing = before[0] if before else ""
    if _HARMLESS.search(standing) or (text[: start - len(standing)].endswith(":") and not standing.startswith("_")):
        return match[0]
    group = "quoted" if match["quoted"] else "bare"
    value = match[group] if group == "quoted" else match[group].rstrip(").,}]")
    if group == "quoted" and len(value) >= 24:
        value = value.replace("(", "")  # no code stands in quotes without a blank
    if name.startswith(("pass", "pwd")):
        is_secret = is_password(value)
    elif _UUID.fullmatch(value):
        is_secret = name != "token"
    else:
        is_secret = is_random(value)
    return _masked(group)(match) if is_secret else match[0]


_WORD_BEFORE = re.compile(r"[\w.-]+\Z")
