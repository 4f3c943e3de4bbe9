"""The plugin: skills in the prompt, /skill and /skills."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

from nanoclaw.core.messages import UserMessage
from nanoclaw.core.plugin import Command, Draft, Ended, Finding, Host, Plugin, Profile, Reply, Said, Section, Turn, Tx
from nanoclaw.plugins.skills.found import FoundSkills
from nanoclaw.plugins.skills.pins import MARKS, MIGRATIONS

if TYPE_CHECKING:
    from nanoclaw.plugins.skills.drafts import Drafts
    from nanoclaw.plugins.skills.skills import Skill

ABOUT = (
    "When one fits the task, read its location with read_file and follow it; never more than one up front. "
    "{baseDir} and relative paths in it mean its folder."
)


class SkillSettings(NamedTuple):
    """Places of skills, and what they may see."""

    folders: tuple[str, ...] = ()  # more folders with skills
    # variables that commands may see although they look like secrets: ["NOTION_API_KEY"]
    environment: tuple[str, ...] = ()


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
        if "active_skills" in shown.shortened:
            of_active = of_active._replace(diagnostics=("section_truncated",))
        if "skills" in shown.shortened:
            of_all = of_all._replace(diagnostics=("section_truncated",))
        return [of_active, of_all]

    async def before_turn(self, draft: Draft, turn: Turn) -> None:
        """Tell of broken skills: once as long as each is broken as it is, whichever process tells."""
        broken = self.public.broken
        told = {sentence for (sentence,) in self._host.read("SELECT sentence FROM skills_told")}
        if broken != told:
            turn.later(partial(_keep_told, broken))
        for sentence in sorted(broken - told):
            from nanoclaw.log import logger

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
