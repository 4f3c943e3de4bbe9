"""Values from a platform's JSON, which may have any type: made plain, or left out. No I/O; nothing is trusted."""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime
from typing import Any

from nanoclaw.core.messages import Attachment
from nanoclaw.core.provider import whole

Fields = dict[str, Any]


class Malformed(ValueError):
    """An event that lacks what it must have."""


FILE_NAME_LENGTH, NAME_LENGTH = 100, 64

_MIME = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,60}")
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_NO_MARKS = str.maketrans("", "", '()[]{},“”"（）［］，')


def table(value: Any) -> Fields:
    return value if isinstance(value, dict) else {}


def tables(value: Any) -> list[Fields]:
    """The objects of a list; all else in it is left out."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def string(value: Any) -> str:
    return whole(value) if isinstance(value, str) else ""


def identifier(fields: Fields, key: str, form: str) -> str:
    """An id of the platform's, of that form. Raises Malformed."""
    value = fields.get(key)
    if not isinstance(value, str) or not re.fullmatch(form, value):
        raise Malformed(f"{key!r} is missing or no id")
    return value


def mime(value: Any, otherwise: str) -> str:
    said = string(value).partition(";")[0].strip().lower()
    return said if _MIME.fullmatch(said) else otherwise


def size(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def clean_line(text: str, most: int) -> str:
    """One line without what cannot be seen: control characters, turned directions, line ends of any kind."""
    seen = (" " if unicodedata.category(one) in _UNSEEN else one for one in text[: most * 8])
    return " ".join("".join(seen).split())[:most].rstrip()


def file_name(name: str) -> str:
    """The last part of a path, whatever system it is from; '' for an invalid one."""
    last = re.split(r"[/\\]", name)[-1]
    base = clean_line(last[:1000] + last[1000:][-20:], 1020).lstrip(". ")
    stem, dot, suffix = base.rpartition(".")
    if len(base) > FILE_NAME_LENGTH and dot and len(suffix) < 12:
        return f"{stem[: FILE_NAME_LENGTH - len(suffix) - 1]}.{suffix}"
    return base[:FILE_NAME_LENGTH]


def name_of(value: Any) -> str:
    """The name of somebody, or of something, as they gave it."""
    return clean_line(string(value), NAME_LENGTH)


def time_of(seconds: Any, now: datetime) -> datetime:
    """The time so many seconds after the beginning of 1970; `now` for what is later, or no time."""
    try:
        return min(now, datetime.fromtimestamp(float(seconds), now.tzinfo))
    except (TypeError, ValueError, OverflowError, OSError):
        return now


def attachment(
    otherwise: str, ref: Any, name: Any, kind: Any, bytes: Any = None, *, usual: str = "application/octet-stream"
) -> Attachment:
    """A file that the platform holds. Where it does not say, `otherwise` is its name, and `usual` its kind. Raises
    Malformed."""
    if not (address := string(ref)):
        raise Malformed("a file has no address")
    return Attachment("", file_name(string(name)) or otherwise, mime(kind, usual), address, size(bytes))


def message_of(name: str, id: str) -> str:
    """A source of text: `id` is the platform's, written by nobody else, and stands in the parentheses alone."""
    shown = f" of “{name}”" if (name := name_of(name).translate(_NO_MARKS).strip()) else ""
    return f"a message{shown} ({id})"
