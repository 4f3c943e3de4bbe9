"""Files named in a typed line, spelled as terminals do when a file is dropped on them."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from nanoclaw.core.messages import Attachment
from nanoclaw.documents.documents import TYPES
from nanoclaw.escapes import printable

_WORD = re.compile(r"""'([^'\n]+)'|"([^"\n]+)"|((?:\\.|[^\s\\'"])(?:\\.|[^\s\\])*)""")
_CHARACTERS = 20_000  # a longer text is not a line with a path


def extract_files(text: str) -> tuple[str, tuple[Attachment, ...]]:
    """The text with the path of each existing file replaced by `[its name]`, and the files.

    Pictures count by any path; documents by a whole one only, as a terminal writes it, since people who talk about
    "todo.md" mean the file in the workspace; a recording only alone, since it is what they say.
    """
    if len(text) > _CHARACTERS:
        return text, ()
    if file := _file(text.strip()):  # a path with bare spaces and nothing else
        return f"[{file.name}]", (file,)
    found: list[Attachment] = []

    def extract(word: re.Match[str]) -> str:
        quoted = word[1] or word[2]
        spelling = quoted or re.sub(r"\\(.)", r"\1", word[3])
        bare = spelling if quoted else spelling.rstrip("?!.,;:)")
        file = _file(bare)
        if file is None or file.mime.startswith("audio/"):
            return word[0]
        if file not in found:
            found.append(file)
        return f"[{file.name}]{spelling[len(bare) :]}"

    return _WORD.sub(extract, text), tuple(found)


def _file(spelling: str) -> Attachment | None:
    mime = TYPES.get(spelling[spelling.rfind(".") :].lower()) if "." in spelling else None
    if mime is None or "\n" in spelling or "\0" in spelling:
        return None
    if not mime.startswith("image/") and not spelling.startswith(("/", "~/", "file://")):
        return None
    try:
        if spelling.startswith("file://"):
            spelling = unquote(urlsplit(spelling).path)
        path = Path(spelling).expanduser().absolute()
        return Attachment(str(path.resolve()), printable(path.name), mime) if path.is_file() else None
    except (OSError, ValueError, RuntimeError):  # too long, NUL, no such user
        return None
