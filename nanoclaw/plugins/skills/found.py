"""The skills of this run: where they are, what they lack, and how much of them the prompt shows."""

from __future__ import annotations

import sys
from collections.abc import Set
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from nanoclaw.core.metadata import escape, framed
from nanoclaw.core.plugin import Host, Profile
from nanoclaw.plugins.skills.skills import SUMMARY_CHARACTERS, Means, Skill, body, discover, summary, survey
from nanoclaw.plugins.skills.skills import shown as named

ACTIVE_LIMIT = 24_000
"""Characters of all always-on skills; those that don't fit are listed like the others."""


class PromptSkills(NamedTuple):
    """Skills in the prompt: bodies of always-on ones by name, a summary of the others, ids of sections cut short."""

    bodies: dict[str, str]
    summary: str
    shortened: frozenset[str]


class FoundSkills:
    """Skills as the plugin makes them public. `folders` are places outside the workspace, which file tools may read."""

    def __init__(self, host: Host, extra: tuple[str, ...]) -> None:
        self._host = host
        home: Path = host.get("core").home
        shipped: Path = host.get("core").template.with_name("skills")
        more = [home / Path(folder).expanduser() for folder in extra]
        self._sources = {
            host.workspace / "skills": "workspace",
            home / "skills": "home",
            **{folder: str(folder) for folder in more},
            shipped: "shipped",
        }
        self.folders = tuple(self._sources)[1:]
        self.broken: frozenset[str] = frozenset()
        """Sentences about skills that were broken when the prompt was made last."""

    def surveyed(self) -> list[tuple[Skill, str]]:
        """All skills by name, each with its source; hidden and broken ones too."""
        found = survey(self._sources, self._means(self._host.profile("person")))
        return [(skill, self._sources[skill.folder.parent]) for skill in found]

    def active(self) -> Set[str]:
        """Names of the skills that every conversation has as a whole."""
        return self.shown(self._host.profile("person")).bodies.keys()

    def shown(self, profile: Profile) -> PromptSkills:
        bodies, listed, left, shortened = dict[str, str](), list[Skill](), ACTIVE_LIMIT, set[str]()
        broken = list[Skill]()
        for skill in discover(self._sources, self._means(profile), broken.append):
            text = framed(skill.name, body(skill)) if skill.always and not skill.missing else ""
            if text and len(text) <= left:
                bodies[skill.name] = text
                left -= len(text)
            else:
                listed.append(skill)
                shortened |= {"active_skills"} if text else set()
        self.broken = frozenset(f"the skill {named(one.path)} is off: {one.problem}" for one in broken)
        choice = summary(listed, sys.maxsize)
        if len(choice) > SUMMARY_CHARACTERS:
            choice = summary(listed)
            shortened.add("skills")
        return PromptSkills(bodies, escape(choice), frozenset(shortened))

    def _means(self, profile: Profile) -> Means:
        core: Any = self._host.get("core")
        environment, shell = core.config.environment, self._host.get("shell")
        withheld = environment.keys() - shell.variables.keys() if shell else frozenset()
        return Means(frozenset(self._host.tools(profile)), partial(_setting, core.config), environment, withheld)


def _setting(config: Any, name: str) -> object:
    """The value of a dotted key, as the file has it or as it is without; None for an unknown one."""
    table, _, key = name.partition(".")
    return config.get(name, getattr(getattr(config, table, None), key, None) if key else None)
