"""Pins: each skill as the owner reviewed it, by the hash of its folder; anything else is a draft."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from nanoclaw.core.errors import SkillError
from nanoclaw.core.plugin import Host, Tx
from nanoclaw.named_tuple import NamedTuple
from nanoclaw.plugins.skills.skills import Judge, Skill

if TYPE_CHECKING:
    from nanoclaw.packages.pins import PackagePin
    from nanoclaw.packages.reading import Package

SHIPPED = "shipped"

MIGRATIONS = (
    "CREATE TABLE skills_pins (place TEXT PRIMARY KEY, sha256 TEXT NOT NULL, hashes TEXT NOT NULL, texts TEXT NOT NULL,"
    " at TEXT NOT NULL) STRICT;"
    "CREATE TABLE skills_asked (place TEXT, sha256 TEXT, how TEXT, PRIMARY KEY (place, sha256, how)) STRICT;",
)
MARKS = (
    *("skills_pins.place", "skills_pins.sha256", "skills_pins.hashes", "skills_pins.at"),
    *("skills_asked.place", "skills_asked.sha256", "skills_asked.how"),
)


class SkillDraft(NamedTuple):
    """A skill that the owner has not looked at as it is now."""

    place: str
    sha256: str
    skill: Skill


class Pins:
    """`sources` are the folders of skills with their names; those that are shipped need no pin."""

    def __init__(self, host: Host, sources: Mapping[Path, str]) -> None:
        self._host, self._sources = host, sources

    @staticmethod
    def sha256_of(folder: Path) -> str:
        """Hash of the skill in a folder. Raises SkillError."""
        from nanoclaw.plugins.skills import package  # not for those that are shipped

        return package.sha256_of(folder)

    def judge(self) -> Judge:
        """Looks at skills with the pins as they are now."""
        pins = dict(self._host.read("SELECT place, sha256 FROM skills_pins"))

        def judged(skill: Skill) -> Skill:
            if self._sources.get(skill.folder.parent) == SHIPPED:
                return skill
            try:
                sha256 = self.sha256_of(skill.folder)
            except SkillError as error:
                return skill._replace(problem=str(error))
            pinned = pins.get(self.place(skill))
            if pinned == sha256:
                return skill
            return skill._replace(draft="changed" if pinned else "new")

        return judged

    def place(self, skill: Skill) -> str:
        """The name of a skill's folder and of where it is, which stay the same when the home is moved."""
        return f"{self._sources.get(skill.folder.parent, skill.folder.parent)}/{skill.folder.name}"

    def pin(self, place: str) -> PackagePin | None:
        """The state in which one was looked at last."""
        from nanoclaw.packages.pins import PackagePin

        rows = self._host.read("SELECT sha256, hashes, texts FROM skills_pins WHERE place = ?", place)
        return next((PackagePin(sha256, _parsed(hashes), _parsed(texts)) for sha256, hashes, texts in rows), None)

    def set(self, tx: Tx, place: str, package: Package) -> None:
        """Pin a skill as it is in a package."""
        from nanoclaw.packages.pins import pin_of

        pin = pin_of(package)
        sql = "INSERT OR REPLACE INTO skills_pins (place, sha256, hashes, texts, at) VALUES (?, ?, ?, ?, ?)"
        at, hashes, texts = self._host.now().isoformat(), json.dumps(pin.hashes), json.dumps(pin.texts)
        tx.execute(sql, place, pin.sha256, hashes, texts, at)
        tx.execute("DELETE FROM skills_asked WHERE place = ?", place)

    def drop(self, tx: Tx, place: str) -> None:
        tx.execute("DELETE FROM skills_pins WHERE place = ?", place)
        tx.execute("DELETE FROM skills_asked WHERE place = ?", place)

    def drafts(self, skills: Iterable[Skill], how: str) -> list[SkillDraft]:
        """Drafts of which the owner has not heard in this way ("asked", "told") as they are now."""
        heard = set(self._host.read("SELECT place, sha256 FROM skills_asked WHERE how = ?", how))
        found = []
        for skill in skills:
            if skill.draft:
                with suppress(SkillError):
                    draft = SkillDraft(self.place(skill), self.sha256_of(skill.folder), skill)
                    if (draft.place, draft.sha256) not in heard:
                        found.append(draft)
        return found

    def note(self, drafts: Collection[SkillDraft], how: str, tx: Tx) -> None:
        """Save that the owner was notified of these."""
        for draft in drafts:
            sql = "INSERT OR IGNORE INTO skills_asked (place, sha256, how) VALUES (?, ?, ?)"
            tx.execute(sql, draft.place, draft.sha256, how)


def _parsed(text: str) -> dict[str, str]:
    """Read what was kept as JSON; {} if forgetting has taken words out of it that it cannot do without."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
