"""/skills, and `nanoclaw skills`: the skills with their states, one in full, and the owner's yes to it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence, Set
from typing import Any

from nanoclaw.core.errors import SkillError
from nanoclaw.core.plugin import Reply, Said, Tx
from nanoclaw.packages.reading import Package
from nanoclaw.plugins.skills import described
from nanoclaw.plugins.skills.drafts import Drafts, in_chat
from nanoclaw.plugins.skills.package import read_folder
from nanoclaw.plugins.skills.plugin import SHIPPED, FoundSkills
from nanoclaw.plugins.skills.skills import Skill, few, find, shown

USAGE = "/skills lists them; /skills show NAME, /skills trust NAME…, /skills remove NAME."


def carry_out(found: FoundSkills, drafts: Drafts, said: Said, tx: Tx) -> Reply:
    """Answer one line. Raises SkillError."""
    verb, _, name = said.argument.strip().partition(" ")
    if verb in ("", "list") and not name:
        return _listed(found, said)
    if verb not in ("show", "trust", "remove") or not name:
        raise SkillError(USAGE)
    if verb == "trust":
        return _trusted(found, name.strip(), tx)
    skill, source = _named(found.surveyed(), name.strip())
    return _shown(found, drafts, skill, said) if verb == "show" else _removed(found, skill, source, tx)


def _named(listed: Sequence[tuple[Skill, str]], name: str) -> tuple[Skill, str]:
    """The skill of that name; a draft before one that is looked at, which needs no decision."""
    skills = [one for one in listed if name.casefold() in (one[0].name.casefold(), shown(one[0].folder).casefold())]
    if not skills:
        find([skill for skill, _ in listed], name)  # says which are near
    return next((one for one in skills if one[0].draft), skills[0])


def _listed(found: FoundSkills, said: Said) -> Reply:
    listed, active = found.surveyed(), found.active()
    kept = ("name", "missing", "withheld", "problem", "description")
    rows: list[dict[str, Any]] = [
        {name: getattr(skill, name) for name in kept}
        | {"source": source, "state": _state(skill, active), "path": shown(skill.path)}
        for skill, source in listed
    ]
    width = max((len(row["name"]) for row in rows), default=0)
    lines = []
    for row in rows:
        why = row["problem"] or ", ".join(row["missing"])
        state = f"{row['state']}{': ' if why else ''}{why}"
        if row["withheld"]:
            state += f"; commands get no {', '.join(row['withheld'])}: name it in [skills] environment"
        in_shell = f"{row['name']:<{width}}  {row['source']:<9}  {state}"
        lines.append(in_shell if said.shell else f"- `{row['name']}` ({row['source']}): {state}")
    if not said.shell and any(skill.draft for skill, _ in listed):
        lines.append("\nOne that is new or changed isn't used yet: /skills show NAME, then /skills trust NAME.")
    return Reply("\n".join(lines) or "There are no skills yet.", {"skills": rows})


def _state(skill: Skill, active: Set[str]) -> str:
    if skill.problem:
        return "off"
    if skill.draft:
        return f"draft ({skill.draft})"
    if skill.missing:
        return "lacks"
    if skill.always and not skill.hidden:
        return "always on" if skill.name in active else "too long to be always on"
    return "by hand" if skill.hidden else "ready"


def _shown(found: FoundSkills, drafts: Drafts, skill: Skill, said: Said) -> Reply:
    package, text = read_folder(str(skill.folder)), drafts.in_full(skill)
    state = "as you reviewed it" if not skill.draft else f"{skill.draft}, not used yet"
    head = f"{shown(skill.folder)}: {state}."
    data = {"path": shown(skill.path), "draft": skill.draft, "text": text}
    if said.shell:
        return Reply(f"{head}\n{text}", {**described.as_data(package, skill.folder.name), **data})
    end = f"\n\n/skills trust {skill.name} {package.sha256[:12]} uses it as it is shown here." if skill.draft else ""
    return Reply(f"{head}\n{in_chat(text, skill.name)}{end}")


def _trusted(found: FoundSkills, name: str, tx: Tx) -> Reply:
    """Pin one as it was shown, by the beginning of its hash, or several by their names; all of them or none."""
    name, sha256 = hashed.groups() if (hashed := re.fullmatch(r"(.+) ([0-9a-f]{12,64})", name)) else (name, "")
    listed, packages = found.surveyed(), dict[str, Package]()
    is_one = sha256 or any(name.casefold() == skill.name.casefold() for skill, _ in listed)
    for skill, source in [_named(listed, one) for one in ([name] if is_one else name.split())]:
        if source == SHIPPED:
            raise SkillError(f"The skill {skill.name} is part of this program and needs no approval.")
        package = packages[skill.name] = read_folder(str(skill.folder))
        if not package.sha256.startswith(sha256):
            raise SkillError(f"The skill {skill.name} is no longer what was shown: /skills show {skill.name} shows it.")
        found.pins.set(tx, found.pins.place(skill), package)
    (first, package), *more = packages.items()
    if more:
        return Reply(
            f"{len(packages)} skills are used from now on, as they are: {few(packages)}.", {"trusted": [*packages]}
        )
    text = f"The skill {first} is used from now on, as it is ({package.sha256[:12]})."
    return Reply(text, {"name": first, "sha256": package.sha256, "trusted": True})


def _removed(found: FoundSkills, skill: Skill, source: str, tx: Tx) -> Reply:
    if source != "home":
        raise SkillError(f"The skill {skill.name} was not added here: it is in {shown(skill.folder)}, delete it there.")
    try:
        shutil.rmtree(skill.folder)
    except OSError as error:
        raise SkillError(f"{shown(skill.folder)} cannot be deleted: {error.strerror or error}") from error
    found.pins.drop(tx, found.pins.place(skill))
    return Reply(f"The skill {skill.name} is deleted.", {"name": skill.name, "removed": True})
