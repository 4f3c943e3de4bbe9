"""The files that shape the assistant (SOUL.md, AGENTS.md …): seeding them, and reading what a person wrote in them."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from nanoclaw.errors import WorkspaceError

NAMES = ("SOUL.md", "IDENTITY.md", "AGENTS.md", "TOOLS.md", "USER.md", "BOOTSTRAP.md", "MEMORY.md")

FILE_LIMIT, TOTAL_LIMIT = 20_000, 60_000
"""Characters of one file, and of all together, that reach the prompt."""

READ_LIMIT = 20_000_000
"""Bytes; a larger file is none that a person wrote by hand."""

HEAD_SHARE, TAIL_SHARE = 0.7, 0.2

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


@dataclass(frozen=True, slots=True)
class BootstrapFile:
    """`problem` is missing_file, file_read_error, file_truncated or total_budget_truncated, '' when the text is whole.

    `sha256` is that of the file's own text, however much of it is shown.
    """

    name: str
    text: str
    problem: str = ""
    sha256: str = ""
    characters: int = 0


def seed(root: Path, template: Path) -> list[str]:
    """Copy what the template has and the workspace lacks; nothing is ever overwritten. Returns the new names.

    Raises WorkspaceError when the folder cannot be made or written.
    """
    made: list[str] = []
    is_new = not root.exists()
    try:
        (root / "memory").mkdir(parents=True, exist_ok=True)
        for source in sorted(template.glob("*.md")):
            if not os.path.lexists(root / source.name):
                made.append(source.name)
                _copy(source, root / source.name)
    except OSError as error:
        for name in made:  # half a workspace would count as one, and never be completed
            (root / name).unlink(missing_ok=True)
        if is_new:
            shutil.rmtree(root, ignore_errors=True)
        raise WorkspaceError(
            f"cannot write to the workspace {root}: {error.strerror}. Check its permissions and the free space, "
            "or choose another folder ([workspace] path in config.toml)."
        ) from error
    return made


def _copy(source: Path, target: Path) -> None:
    with target.open("xb") as file:
        file.write(source.read_bytes())
        file.flush()
        os.fsync(file.fileno())


def read(
    root: Path,
    template: Path,
    names: Iterable[str] = NAMES,
    *,
    file_limit: int = FILE_LIMIT,
    total_limit: int = TOTAL_LIMIT,
) -> dict[str, BootstrapFile]:
    """The files as they are now, cut to the limits; a small file is never starved by a large one.

    One that nobody edited since it was seeded counts as empty, but for BOOTSTRAP.md.
    """
    return fit({name: _read(root, name, template / name) for name in names}, file_limit, total_limit)


def fit(files: Mapping[str, BootstrapFile], file_limit: int, total_limit: int) -> dict[str, BootstrapFile]:
    """The same files, each within its limit and all within theirs."""
    single = {name: _cut(file, file_limit, "file_truncated") for name, file in files.items()}
    shares = fair_shares([len(file.text) for file in single.values()], total_limit)
    return {
        name: _cut(files[name], share, "total_budget_truncated") if share < len(file.text) else file
        for (name, file), share in zip(single.items(), shares, strict=True)
    }


def fair_shares(sizes: Sequence[int], total: int) -> list[int]:
    """How much of each may be kept so that all fit into `total`: the small ones whole, the large ones alike."""
    shares = [0] * len(sizes)
    left = total
    for rank, index in enumerate(sorted(range(len(sizes)), key=lambda index: sizes[index])):
        shares[index] = min(sizes[index], left // (len(sizes) - rank))
        left -= shares[index]
    return shares


def says_something(text: str) -> bool:
    """Whether there is more than headings, comments and blank lines."""
    lines = _COMMENT.sub("", text).splitlines()
    return any(line.strip() and not line.lstrip().startswith("#") for line in lines)


def cut(name: str, text: str, limit: int) -> str:
    """Head and tail of a text that is too long, around a marker that says so; never more than `limit` characters."""
    head, tail = int(limit * HEAD_SHARE), int(limit * TAIL_SHARE)
    marker = f"\n[... {name}: kept {head}+{tail} of {len(text)} characters, read the file for the rest ...]\n"
    if head + len(marker) + tail > limit:  # a limit so small that the marker is most of it
        return marker.strip()[:limit]
    return text[:head] + marker + text[len(text) - tail :]


def _cut(file: BootstrapFile, limit: int, problem: str) -> BootstrapFile:
    if len(file.text) <= limit:
        return file
    return replace(file, text=cut(file.name, file.text, limit), problem=problem)


def _read(root: Path, name: str, template: Path) -> BootstrapFile:
    path = root / name
    try:
        status = path.stat()
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(os.path.realpath(root)):
            return BootstrapFile(name, "", "file_read_error")
        return _parsed(real, name, template, status.st_mtime_ns, status.st_size, status.st_ino)
    except FileNotFoundError:
        return BootstrapFile(name, "", "missing_file")
    except OSError:
        return BootstrapFile(name, "", "file_read_error")


@lru_cache(maxsize=64)  # read again when the file has changed
def _parsed(path: Path, name: str, template: Path, mtime: int, size: int, inode: int) -> BootstrapFile:
    try:
        if not path.is_file() or size > READ_LIMIT:
            raise ValueError("it is no plain file of a sane size")
        text = path.read_text(encoding="utf-8-sig").strip()
    except (OSError, ValueError) as error:
        from nanoclaw.log import logger

        logger.warning("{} is left out of the prompt: {}", path, error)
        return BootstrapFile(name, "", "file_read_error")
    sha256 = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    untouched = name != "BOOTSTRAP.md" and text == _template_text(template)
    shown = "" if untouched or not says_something(text) else text
    return BootstrapFile(name, shown, "", sha256, len(text))


def _template_text(template: Path) -> str:
    try:
        return template.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
