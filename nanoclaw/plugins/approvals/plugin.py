"""Approvals: asks the owner what a call needs first, a yes or one of several options, and hears the answer."""

from __future__ import annotations

from collections.abc import Iterable

from nanoclaw.core.channel import is_stop
from nanoclaw.core.messages import Inbound
from nanoclaw.core.plugin import Command, Host, Plugin, Reply, Said, Tx
from nanoclaw.plugins.approvals.questions import OwnerQuestions


class Approvals(Plugin):
    name = "approvals"
    needs = ("access",)

    def __init__(self, host: Host, settings: None) -> None:
        self._questions = host.get("core").asks.asker = OwnerQuestions(host)

    def commands(self) -> Iterable[Command]:
        return [
            Command("yes", "allow what was asked: /yes 3", lambda said, tx: self._said(said, tx, "yes")),
            Command("no", "refuse it: /no 3", lambda said, tx: self._said(said, tx, "no")),
            Command(
                "answer",
                "answer a question: /answer 3 blue; /answer 3 shows it",
                lambda said, tx: self._said(said, tx, ""),
            ),
        ]

    def on_message(self, inbound: Inbound, tx: Tx) -> Reply | None:
        """Hear words that answer a question. A message with files is something else, and so is a command."""
        is_talk = inbound.message.origin == "person" and not inbound.is_edit and not inbound.profile
        text = inbound.message.text.strip()
        if not is_talk or inbound.role != "owner" or inbound.is_group or text.startswith("/") or is_stop(text):
            return None
        said = self._questions.hear(tx, inbound)
        return Reply(said) if said else None

    def _said(self, said: Said, tx: Tx, word: str) -> str:
        """Take an answer that names its question, or that only one can mean. `word` is that of /yes and /no."""
        number, _, rest = said.argument.strip().removeprefix("#").replace(":", " ", 1).partition(" ")
        is_number = number.isascii() and number.isdigit() and len(number) < 10
        if is_number and (not rest.strip() if word else self._questions.knows(int(number))):
            return self._questions.answer(tx, int(number), word or rest.strip())
        return self._questions.answer_the_one(tx, word or said.argument.strip(), said.address)
