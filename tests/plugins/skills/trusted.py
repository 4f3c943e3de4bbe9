"""The owner's look at the skills of a home, so that a test may begin with skills that are used."""

from nanoclaw.plugins.skills.package import read_folder
from tests.program import Program


def trust_all(here: Program) -> None:
    found = here.public("skills")
    with here.app.transactions.open() as tx:
        for skill, _ in found.surveyed():
            if skill.draft:
                found.pins.set(tx, found.pins.place(skill), read_folder(str(skill.folder)))
