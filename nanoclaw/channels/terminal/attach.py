"""Pictures named in a typed line, spelled as terminals do when a file is dropped on them."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from nanoclaw.channels.text import printable
from nanoclaw.messages import Attachment

_MIME = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}
_WORD = re.compile(r"""'([^'\n]+)'|"([^"\n]+)"|((?:\\.|[^\s\\'"])(?:\\.|[^\s\\])*)""")
_CHARACTERS = 20_000  # a longer text is no line with a path


def take_pictures(text: str) -> tuple[str, tuple[Attachment, ...]]:
    """The text with the path of each existing picture replaced by `[its name]`, and the pictures."""
    if len(text) > _CHARACTERS:
        return text, ()
    if picture := _picture(text.strip()):  # a path with bare spaces and nothing else
        return f"[{picture.name}]", (picture,)
    found: list[Attachment] = []

    def take(word: re.Match[str]) -> str:
        quoted = word[1] or word[2]
        spelling = quoted or re.sub(r"\\(.)", r"\1", word[3])
        bare = spelling if quoted else spelling.rstrip("?!.,;:)")
        picture = _picture(bare)
        if picture is None:
            return word[0]
        if picture not in found:
            found.append(picture)
        return f"[{picture.name}]{spelling[len(bare) :]}"

    return _WORD.sub(take, text), tuple(found)


def _picture(spelling: str) -> Attachment | None:
    mime = _MIME.get(spelling[spelling.rfind(".") :].lower()) if "." in spelling else None
    if mime is None or "\n" in spelling or "\0" in spelling:
        return None
    try:
        if spelling.startswith("file://"):
            spelling = unquote(urlsplit(spelling).path)
        path = Path(spelling).expanduser().absolute()
        return Attachment(str(path), printable(path.name), mime) if path.is_file() else None
    except (OSError, ValueError, RuntimeError):  # too long, NUL, no such user
        return None
