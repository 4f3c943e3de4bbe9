"""The skills of this run: where they are, what they lack, and how much of them the prompt shows."""

from __future__ import annotations

import os
import sys
from collections.abc import Hashable, Set
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from nanoclaw import bootstrap_files
from nanoclaw.core.errors import SkillError
from nanoclaw.core.plugin import Host, Profile
from nanoclaw.named_tuple import NamedTuple
from nanoclaw.plugins.skills import skills
from nanoclaw.plugins.skills.package import sha256_of
from nanoclaw.plugins.skills.pins import SHIPPED, Pins
from nanoclaw.plugins.skills.skills import MOST_LISTED, Means, Skill, summary
from nanoclaw.runtime_metadata import escape, framed

ACTIVE_LIMIT = 24_000
"""Characters of all always-on skills; those that don't fit are listed like the others."""


class PromptSkills(NamedTuple):
    """Skills in the prompt: bodies of always-on ones by name, a summary of the others, ids of sections cut short."""

    bodies: dict[str, str]
    summary: str
    shortened: frozenset[str]
    version: str = ""  # where a question chose among them: what they were chosen from


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
                        found.append(sha256_of(Path(path).parent))
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
