"""A skill's folder as a whole, from the disk or an archive: a package with a SKILL.md."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nanoclaw.core.errors import SkillError
from nanoclaw.packages import reading
from nanoclaw.packages.reading import Kind, Package, PackageError

SKILL = Kind(
    "skill",
    lambda names: next((one for one in ("SKILL.md", "skill.md") if one in names), ""),
    "the folder that has a SKILL.md, or a .zip, .tar or .tar.gz of it",
)


def read(path: Path) -> Package:
    """A skill from a local folder or archive. Raises SkillError."""
    with _errors_of_skills():
        return reading.read(path, SKILL)


def read_folder(folder: str) -> Package:
    """Raises SkillError."""
    with _errors_of_skills():
        return reading.read_folder(folder, SKILL.noun)


def sha256_of(folder: Path) -> str:
    """Hash of the skill in a folder, read again when something in it has changed. Raises SkillError."""
    with _errors_of_skills():
        return reading.sha256_of(folder, SKILL.noun)


def main_of(package: Package) -> bytes:
    """The text of its SKILL.md, b"" for none."""
    name = SKILL.main(package.files.keys())
    return package.files[name].data if name else b""


@contextmanager
def _errors_of_skills() -> Iterator[None]:
    try:
        yield
    except PackageError as error:
        raise SkillError(str(error)) from error
    except OSError as error:
        raise SkillError(f"{error.filename} cannot be read: {error.strerror or error}") from error
