"""The files that shape the assistant (SOUL.md, AGENTS.md …): seeding them, and reading what a person wrote in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from nanoclaw.errors import WorkspaceError

NAMES = ("SOUL.md", "IDENTITY.md", "AGENTS.md", "TOOLS.md", "USER.md", "BOOTSTRAP.md")

FILE_LIMIT = 20_000
"""Characters of one file that reach the prompt."""

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


@dataclass(frozen=True, slots=True)
class BootstrapFile:
    """`problem` is missing_file, file_read_error or file_truncated when the text isn't the whole file."""

    name: str
    text: str
    problem: str = ""


def seed(root: Path, template: Path) -> list[str]:
    """Copy what the template has and the workspace lacks; nothing is ever overwritten. Returns the new names.

    Raises WorkspaceError when the folder cannot be made or written.
    """
    made = []
    try:
        (root / "memory").mkdir(parents=True, exist_ok=True)
        for source in sorted(template.glob("*.md")):
            try:
                with (root / source.name).open("x", encoding="utf-8") as target:
                    target.write(source.read_text(encoding="utf-8"))
            except FileExistsError:
                continue
            made.append(source.name)
    except OSError as error:
        raise WorkspaceError(
            f"cannot write to the workspace {root}: {error.strerror}. Check its permissions and the free space, "
            "or choose another folder ([workspace] path in config.toml)."
        ) from error
    return made


def read(root: Path, template: Path) -> dict[str, BootstrapFile]:
    """The files as they are now. One that nobody edited since it was seeded counts as empty, but for BOOTSTRAP.md."""
    return {name: _read(root / name, template / name) for name in NAMES}


def _read(path: Path, template: Path) -> BootstrapFile:
    if not path.exists() and not path.is_symlink():
        return BootstrapFile(path.name, "", "" if path.name == "BOOTSTRAP.md" else "missing_file")
    try:
        if not path.is_file():  # a pipe or a device would never end
            return BootstrapFile(path.name, "", "file_read_error")
        text = path.read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError):
        return BootstrapFile(path.name, "", "file_read_error")
    if not says_something(text) or (path.name != "BOOTSTRAP.md" and text == _template_text(template)):
        return BootstrapFile(path.name, "")
    if len(text) > FILE_LIMIT:
        marker = f"\n[... {path.name}: kept the first {FILE_LIMIT:,} of {len(text):,} characters ...]"
        return BootstrapFile(path.name, text[: FILE_LIMIT - len(marker)] + marker, "file_truncated")
    return BootstrapFile(path.name, text)


def says_something(text: str) -> bool:
    """Whether there is more than headings, comments and blank lines."""
    lines = _COMMENT.sub("", text).splitlines()
    return any(line.strip() and not line.lstrip().startswith("#") for line in lines)


def _template_text(template: Path) -> str:
    try:
        return template.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
