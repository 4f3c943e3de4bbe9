"""What the owner says to a question of the program: /yes 3, /no 3, or a bare yes or no where one is open."""

from __future__ import annotations

from collections.abc import Callable

from nanoclaw.core.commands import Answer, Said
from nanoclaw.core.messages import Inbound
from nanoclaw.core.store.inbox import Ending
from nanoclaw.plugins.approvals.approvals import Approvals


def approval_commands(approvals: Approvals) -> dict[str, Answer]:
    """Both are the owner's alone."""

    def answer(said: Said, is_yes: bool) -> str:
        number = said.argument.strip().removeprefix("#")
        if not (number.isascii() and number.isdigit() and len(number) < 10):
            word = "yes" if is_yes else "no"
            return approvals.hear(word, said.place) or approvals.which(is_yes, said.place)
        return approvals.answer(int(number), is_yes)

    return {"yes": lambda said: answer(said, True), "no": lambda said: answer(said, False)}


def approval_reaction(approvals: Approvals, is_owner: Callable[[Inbound], bool]) -> Callable[[Inbound], Ending | None]:
    """Recognises a bare yes or no that a question waits for."""

    def react(inbound: Inbound) -> Ending | None:
        if inbound.message.origin != "person" or inbound.attachments or not is_owner(inbound):
            return None
        said = approvals.hear(inbound.message.text, inbound.address, inbound.quoted)
        return Ending(said) if said else None

    return react
