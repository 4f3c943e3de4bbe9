"""The plugin: skills in the prompt, /skill and /skills."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from nanoclaw import bootstrap_files
from nanoclaw.core.errors import SkillError
from nanoclaw.core.messages import UserMessage
from nanoclaw.core.plugin import Command, Draft, Ended, Finding, Host, Plugin, Profile, Reply, Said, Section, Turn, Tx
from nanoclaw.log import logger
from nanoclaw.named_tuple import NamedTuple
from nanoclaw.plugins.skills import skills
from nanoclaw.plugins.skills.skills import MOST_LISTED, Judge, Means, Skill, summary
from nanoclaw.runtime_metadata import escape, framed

if TYPE_CHECKING:
    from nanoclaw.packages.pins import PackagePin
    from nanoclaw.packages.reading import Package
    from nanoclaw.plugins.skills.drafts import Drafts

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

ABOUT = (
    "When one fits the task, read its location with read_file and follow it; never more than one up front. "
    "{baseDir} and relative paths in it mean its folder."
)


class SkillSettings(NamedTuple):
    """Places of skills, and what they may see."""

    folders: tuple[str, ...] = ()  # more folders with skills
    # variables that commands may see although they look like secrets: ["NOTION_API_KEY"]
    environment: tuple[str, ...] = ()


ACTIVE_LIMIT = 24_000
"""Characters of all always-on skills; those that don't fit are listed like the others."""


class PromptSkills(NamedTuple):
    """Skills in the prompt: bodies of always-on ones by name, a summary of the others, ids of sections cut short."""

    bodies: dict[str, str]
    summary: str
    shortened: frozenset[str]
    version: str = ""  # where a question chose among them: what they were chosen from


class SkillDraft(NamedTuple):
    """A skill that the owner has not looked at as it is now."""

    place: str
    sha256: str
    skill: Skill


class Pins:
    """Each skill as the owner reviewed it, by the hash of its folder; anything else is a draft. `sources` are folders
    of skills with their names; those that are shipped need no pin."""

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


class FoundSkills:
    """Skills as the plugin makes them public. `folders` are places outside the workspace, which file tools may read."""

    def __init__(self, host: Host, extra: tuple[str, ...]) -> None:
        self._host = host
        home = host.program_home
        more = [home / Path(folder).expanduser() for folder in extra]
        self._sources = {
            host.workspace / "skills": "workspace",
            home / "skills": "home",
            **{folder: str(folder) for folder in more},
            host.shipped / "skills": SHIPPED,
        }
        self.folders = tuple(self._sources)[1:]
        self.pins = Pins(host, self._sources)
        self._drafts: tuple[Hashable, list[Skill]] = None, []
        self.broken: frozenset[str] = frozenset()
        """Sentences about skills that were broken when the prompt was made last."""

    @property
    def stamp(self) -> Hashable:
        """Changes with what is found: the files of skills, their pins, and the commands that they need."""
        found = list[object](self._host.read("SELECT place, sha256 FROM skills_pins ORDER BY place"))
        for folder, source in self._sources.items():
            for path, stamp in skills.places(str(folder)):
                found.append((path, stamp))
                if source != SHIPPED:
                    with suppress(SkillError):
                        found.append(self.pins.sha256_of(Path(path).parent))
        commands = self._host.environment.get("PATH", os.defpath).split(os.pathsep)
        return tuple(found), bootstrap_files.stamp(Path(), commands)

    def every(self) -> tuple[Skill, ...]:
        """All skills by name, hidden and broken ones and drafts too."""
        return skills.survey(self._sources, self._means(self._host.profile("person")), self.pins.judge())

    def surveyed(self) -> list[tuple[Skill, str]]:
        """The same, each with its source."""
        return [(skill, self._sources[skill.folder.parent]) for skill in self.every()]

    def located(self, name: str) -> Path:
        """The SKILL.md of a skill that may be used, also if it lacks something. Raises SkillError."""
        return skills.find([skill._replace(missing=()) for skill in self.every()], name).path

    def drafts(self) -> list[Skill]:
        """Those that the owner has not looked at as they are now, looked for when something has changed."""
        if (stamp := self.stamp) != self._drafts[0]:
            self._drafts = stamp, [skill for skill in self.every() if skill.draft]
        return self._drafts[1]

    def searchable(self, profile: Profile) -> tuple[Skill, ...]:
        """All skills, if they don't all fit into the prompt and tool_search has to find some; otherwise none."""
        means = self._means(profile)
        if profile.mode != "full" or not {"tool_search", "read_file"} <= means.tools:
            return ()
        found = skills.discover(self._sources, means, judge=self.pins.judge())
        return found if len(found) > MOST_LISTED else ()

    def active(self) -> Set[str]:
        """Names of the skills that every conversation has as a whole."""
        return self.shown(self._host.profile("person")).bodies.keys()

    def shown(self, profile: Profile, query: str = "") -> PromptSkills:
        """Those that fit the question best where there is no room for all."""
        bodies, left, shortened, broken = dict[str, str](), ACTIVE_LIMIT, set[str](), list[Skill]()
        means = self._means(profile)
        every = skills.discover(self._sources, means, broken.append, self.pins.judge())
        texts = {one: framed(one.name, skills.body(one)) for one in every if one.always and not one.missing}
        has_room = sum(map(len, texts.values())) <= ACTIVE_LIMIT
        for skill in texts if has_room else skills.by_fit(tuple(texts), query):
            if len(text := texts[skill]) <= left:
                bodies[skill.name] = text
                left -= len(text)
            else:
                shortened.add("active_skills")
        listed = [skill for skill in every if skill.name not in bodies]
        self.broken = frozenset(f"the skill {skills.shown(one.path)} is off: {one.problem}" for one in broken)
        choice, most = summary(tuple(listed), sys.maxsize), MOST_LISTED if "tool_search" in means.tools else None
        if len(choice) > skills.SUMMARY_CHARACTERS or (most and len(listed) > most):
            choice = summary(skills.by_fit(listed, query), most=most)
            shortened.add("skills")
        version = ""
        if shortened:
            all_of_them = "".join([*texts.values(), summary(every, sys.maxsize)])
            version = sha256(all_of_them.encode("utf-8", "replace")).hexdigest()
        return PromptSkills(bodies, escape(choice), frozenset(shortened), version)

    def _means(self, profile: Profile) -> Means:
        environment, shell = self._host.environment, self._host.get("shell")
        withheld = environment.keys() - shell.variables.keys() if shell else frozenset()
        return Means(frozenset(self._host.tools(profile)), self._host.setting, environment, withheld)


class Skills(Plugin):
    name = "skills"
    settings = SkillSettings
    migrations = (
        "CREATE TABLE skills_told (sentence TEXT PRIMARY KEY) STRICT",  # about broken ones, reported once
        *MIGRATIONS,
    )
    marks = MARKS

    def __init__(self, host: Host, settings: SkillSettings) -> None:
        self._host, self._settings = host, settings
        self.public: FoundSkills = FoundSkills(host, settings.folders)

    @cached_property
    def _drafts(self) -> Drafts:
        from nanoclaw.plugins.skills.drafts import Drafts

        return Drafts(self._host, self.public.pins)

    async def audit(self) -> Iterable[Finding]:
        found, variables = list[Finding](), self._settings.environment
        if drafts := self.public.drafts():
            from nanoclaw.plugins.skills.skills import few

            names = few([skill.name for skill in drafts])
            text = f"not used before you review them: {names} (nanoclaw skills show NAME)"
            found.append(Finding(True, text, "skills", risk="note"))
        if variables:
            found.append(Finding(True, f"commands see {', '.join(variables)}", "skills", risk="warning"))
        return found

    def commands(self) -> Iterable[Command]:
        help_text = "start a skill by hand: /skill summarize https://example.org; /skill alone lists them"
        about = "look at skills: /skills, /skills show NAME, remove NAME; use one as it is now: /skills trust NAME"
        return [
            Command("skill", help_text, self._skill, waits=True, private=True, part_of="skills"),
            Command("skills", about, self._skills, "knowledge", private=True, cli=True),
        ]

    @property
    def stamp(self) -> Hashable:
        return self.public.stamp

    def sections(self, query: str, profile: Profile) -> Iterable[Section]:
        if profile.mode != "full" or "read_file" not in self._host.tools(profile):
            return []
        shown = self.public.shown(profile, query)
        active = "\n\n".join(["# Active skills", *shown.bodies.values()]) if shown.bodies else ""
        listed = f"# Skills\n\n{ABOUT}\n\n{shown.summary}" if shown.summary else ""
        of_active = Section("active_skills", "Active skills", active, True, ", ".join(shown.bodies), shown.version)
        of_all = Section("skills", "Skills", listed, True, "skills", shown.version)
        cut = ("section_truncated",)
        return [one._replace(diagnostics=cut * (one.id in shown.shortened)) for one in (of_active, of_all)]

    async def before_turn(self, draft: Draft, turn: Turn) -> None:
        """Tell of broken skills: once as long as each is broken as it is, whichever process tells."""
        broken = self.public.broken
        told = {sentence for (sentence,) in self._host.read("SELECT sentence FROM skills_told")}
        if broken != told:
            turn.later(partial(_keep_told, broken))
        for sentence in sorted(broken - told):
            logger.warning("{}", sentence)

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> None:
        is_owners = turn.role == "owner" and turn.profile.name == "person" and turn.profile.keeps
        if is_owners and not turn.is_group and (drafts := self.public.drafts()):
            self._drafts.offer(drafts, turn, tx)

    def _skills(self, said: Said, tx: Tx) -> Reply:
        from nanoclaw.plugins.skills.skills_command import carry_out

        return carry_out(self.public, self._drafts, said, tx)

    def _skill(self, said: Said, tx: Tx) -> str | UserMessage:
        from nanoclaw.plugins.skills.skills import by_hand, find

        found = self.public.every()
        if not said.argument:
            return _listed(found)
        name, task = (*said.argument.split(maxsplit=1), "")[:2]
        return UserMessage(by_hand(find(found, name), task), self._host.now())


def _keep_told(sentences: Collection[str], tx: Tx) -> None:
    tx.execute("DELETE FROM skills_told")
    for sentence in sentences:
        tx.execute("INSERT INTO skills_told (sentence) VALUES (?)", sentence)


def _listed(skills: Sequence[Skill]) -> str:
    """Skills that /skill can start; those that are off, lack something or are drafts come last."""
    lines = []
    for skill in sorted(skills, key=lambda skill: bool(skill.missing or skill.problem or skill.draft)):
        lacks = f" (lacks {', '.join(skill.missing)})" if skill.missing else ""
        lacks = f" (draft: /skills show {skill.name})" if skill.draft else lacks
        lines.append(f"- `{skill.name}`{' is off' if skill.problem else lacks}: {skill.problem or skill.description}")
    return "\n".join(lines) or "There are no skills yet."


def _parsed(text: str) -> dict[str, str]:
    """Read what was kept as JSON; {} if forgetting has taken words out of it that it cannot do without."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
