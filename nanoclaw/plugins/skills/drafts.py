"""Drafts: asks the owner once about skills that are new or were changed, and pins those that get a yes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from nanoclaw.core.errors import SkillError
from nanoclaw.core.events import Notice
from nanoclaw.core.messages import Address, Outbound
from nanoclaw.core.plugin import Ask, Host, Turn, Tx
from nanoclaw.exact_text import exactly
from nanoclaw.packages.reading import Package
from nanoclaw.plugins.skills import described
from nanoclaw.plugins.skills.package import read_folder
from nanoclaw.plugins.skills.plugin import Pins, SkillDraft
from nanoclaw.plugins.skills.skills import Skill, few

HOURS = 4.0
"""The time in which the question is open; then a draft stays one."""

MOST_SHOWN = 12_000
"""Characters that a chat is shown of drafts."""


class Drafts:
    """The owner's side of the pins."""

    def __init__(self, host: Host, pins: Pins) -> None:
        self._host, self._pins = host, pins
        self._asking = set[tuple[str, str]]()

    def offer(self, skills: Sequence[Skill], turn: Turn, tx: Tx) -> None:
        """After a turn of the owner's: ask about drafts, or mention them if nobody can be asked."""
        if self._host.asker.place(turn.address) is None:
            if told := self._pins.drafts(skills, "told"):
                names = few([one.skill.name for one in told])
                text = f"not used until you review {_them(told)}: {names} (nanoclaw skills show NAME)"
                self._pins.note(told, "told", tx)
                self._host.show(turn.address, Notice(text, stays="owner"))
            return
        drafts = [one for one in self._pins.drafts(skills, "asked") if (one.place, one.sha256) not in self._asking]
        if drafts:
            tx.after(lambda: self._host.spawn(self._ask(drafts, turn.address)))

    async def _ask(self, drafts: Sequence[SkillDraft], about: Address) -> None:
        keys = {(one.place, one.sha256) for one in drafts}
        self._asking |= keys
        try:
            seconds, options = HOURS * 3600, ("yes", "no", "show")
            question = Ask(_question(drafts), options, "no", seconds=seconds)
            answer = await self._host.asker.ask(question, about)
            if answer.text == "show":
                await self._host.write(partial(self._show, drafts, about))
                answer = await self._host.asker.ask(question._replace(options=("yes", "no")), about)
            if answer.by == "nobody":  # asked anew after a start
                return
            if answer.text == "yes":
                packages = [(one, package) for one in drafts if (package := _as_asked(one))]
                await self._host.write(partial(self._take, packages))
            await self._host.write(partial(self._pins.note, drafts, "asked"))
        finally:
            self._asking -= keys

    def _take(self, packages: Sequence[tuple[SkillDraft, Package]], tx: Tx) -> None:
        for draft, package in packages:
            self._pins.set(tx, draft.place, package)

    def _show(self, drafts: Sequence[SkillDraft], about: Address, tx: Tx) -> None:
        text = in_chat("\n\n".join(self.in_full(one.skill) for one in drafts), "NAME")
        tx.send(Outbound(self._host.asker.place(about) or about, text), is_news=False)

    def in_full(self, skill: Skill) -> str:
        """All of a skill, or what was changed in it since it was looked at. Raises SkillError."""
        package = read_folder(str(skill.folder))
        pin = self._pins.pin(self._pins.place(skill))
        is_changed = pin is not None and pin.sha256 != package.sha256
        return "\n".join(described.lines(package, skill.folder.name, pin if is_changed else None))


def in_chat(text: str, name: str) -> str:
    """A text as a code block; of a longer one both ends, and how a terminal shows all of it."""
    more = f"\n\nnanoclaw skills show {name} shows all of it." if len(text) > MOST_SHOWN else ""
    return exactly(text, MOST_SHOWN) + more


def _question(drafts: Sequence[SkillDraft]) -> str:
    each = [
        f"{one.skill.name} ({'new' if one.skill.draft == 'new' else 'changed since you reviewed it'}"
        f"{', always in the prompt' * one.skill.always}): {one.skill.description[:200]}"
        for one in drafts
    ]
    return f"Use {_them(drafts)} from now on? {few(each, '; ')}"


def _them(drafts: Sequence[SkillDraft]) -> str:
    return "this skill" if len(drafts) == 1 else f"these {len(drafts)} skills"


def _as_asked(draft: SkillDraft) -> Package | None:
    """The skill on disk; None if it isn't any more what was asked about."""
    try:
        package = read_folder(str(draft.skill.folder))
    except SkillError:
        return None
    return package if package.sha256 == draft.sha256 else None
