"""The files that shape the assistant (SOUL.md, AGENTS.md …): what a person wrote in them, as far as it is sent."""

from __future__ import annotations

import hashlib
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from io import TextIOWrapper
from pathlib import Path

from nanoclaw.atomic_write import reason
from nanoclaw.beneath.paths import PathRefused, Reach, open_for_reading
from nanoclaw.log import logger
from nanoclaw.named_tuple import NamedTuple

NAMES = ("SOUL.md", "IDENTITY.md", "AGENTS.md", "TOOLS.md", "USER.md", "BOOTSTRAP.md", "MEMORY.md")

FILE_LIMIT, TOTAL_LIMIT = 20_000, 60_000
"""Characters of one file, and of all together, that reach the prompt."""

READ_LIMIT = 20_000_000
"""Bytes; nobody writes a larger file by hand."""

HEAD_SHARE, TAIL_SHARE = 0.7, 0.2


class BootstrapFile(NamedTuple):
    """`problem` is missing_file, file_read_error, file_truncated or total_budget_truncated, '' when the text is whole.

    `sha256` and `characters` are those of the file's own text, however much of it is shown.
    """

    name: str
    text: str
    problem: str = ""
    sha256: str = ""
    characters: int = 0


def stamp(root: Path, names: Iterable[str]) -> tuple[tuple[int, ...], ...]:
    """Changes with the files."""
    found = list[tuple[int, ...]]()
    for name in names:
        try:
            status = (root / name).stat()
            found.append((status.st_mtime_ns, status.st_size, status.st_ino))
        except OSError as error:
            found.append((error.errno or 0,))
    return tuple(found)


def read(
    reach: Reach,
    template: Path,
    names: Iterable[str] = NAMES,
    *,
    file_limit: int = FILE_LIMIT,
    total_limit: int = TOTAL_LIMIT,
) -> dict[str, BootstrapFile]:
    """The files as they are now without comments, cut to the limits; a small file is never starved by a large one.

    One that nobody edited since it was seeded counts as empty, except BOOTSTRAP.md.
    """
    return fit({name: _read(reach, name, template / name) for name in names}, file_limit, total_limit)


def fit(files: Mapping[str, BootstrapFile], file_limit: int, total_limit: int) -> dict[str, BootstrapFile]:
    """The same files, each within its limit and all within theirs."""
    sizes = [min(len(file.text), file_limit) for file in files.values()]
    found = dict[str, BootstrapFile]()
    for file, size, share in zip(files.values(), sizes, fair_shares(sizes, total_limit), strict=True):
        text, problem = file.text, "total_budget_truncated" if share < size else "file_truncated"
        is_cut = share < len(text)
        found[file.name] = file._replace(text=cut(file.name, text, share), problem=problem) if is_cut else file
    return found


def fair_shares(sizes: Sequence[int], total: int) -> list[int]:
    """Shares of each that may be kept so that all fit into `total`: the small ones whole, the large ones alike."""
    shares = [0] * len(sizes)
    left = total
    for rank, index in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        shares[index] = min(sizes[index], left // (len(sizes) - rank))
        left -= shares[index]
    return shares


def says_something(text: str) -> bool:
    """True if there is more than headings, comments and blank lines."""
    return re.search(r"^\s*[^\s#]", without_comments(text), re.MULTILINE) is not None


def without_comments(text: str) -> str:
    """The part that is meant for a model: the comments of a Markdown file are for the person who edits it."""
    kept, position = list[str](), 0
    while (start := text.find("<!--", position)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        kept.append(text[position:start])
        position = end + 3
    return re.sub(r"\n{3,}", "\n\n", "".join([*kept, text[position:]])).strip() if kept else text


def sha256_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def cut(name: str, text: str, limit: int) -> str:
    """Head and tail of a text that is too long, around a marker that says so; never more than `limit` characters."""
    head, tail = int(limit * HEAD_SHARE), int(limit * TAIL_SHARE)
    marker = f"\n[... {name}: kept {head}+{tail} of {len(text)} characters, read the file for the rest ...]\n"
    if head + len(marker) + tail > limit:  # a limit so small that the marker is most of it
        return marker.strip()[:limit]
    return text[:head] + marker + text[len(text) - tail :]


def _read(reach: Reach, name: str, template: Path) -> BootstrapFile:
    path = reach.root / name
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > READ_LIMIT:
            raise ValueError(f"it is not a plain file of at most {READ_LIMIT // 10**6} MB")
        with open_for_reading(reach, name) as file:
            text = TextIOWrapper(file, encoding="utf-8-sig").read().strip()
    except FileNotFoundError:
        return BootstrapFile(name, "", "missing_file")
    except (OSError, ValueError) as error:
        if isinstance(error, PathRefused) and path.is_symlink():
            return _unreadable(path, name, "it is a link out of the workspace")
        why = reason(error) if isinstance(error, OSError) else str(error)
        return _unreadable(path, name, "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else why)
    sha256 = sha256_of(text)
    untouched = name != "BOOTSTRAP.md" and text == _template_text(template)
    shown = without_comments(text)
    if untouched or not says_something(shown):
        shown = ""
    return BootstrapFile(name, shown, "", sha256, len(text))


@lru_cache(maxsize=64)  # told once
def _unreadable(path: Path, name: str, why: str) -> BootstrapFile:
    logger.warning("{} is left out of the prompt: {}", path, why)
    return BootstrapFile(name, "", "file_read_error")


def _template_text(template: Path) -> str:
    try:
        return template.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
