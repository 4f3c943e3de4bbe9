"""Approvals: asks the owner before a call that needs a yes, and hears the answer."""

from __future__ import annotations

from collections.abc import Iterable

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
            Command("yes", "allow what was asked: /yes 3", lambda said, tx: self._answer(said, tx, True)),
            Command("no", "refuse it: /no 3", lambda said, tx: self._answer(said, tx, False)),
        ]

    def on_message(self, inbound: Inbound, tx: Tx) -> Reply | None:
        """Hear a bare yes or no that a question waits for."""
        is_word = inbound.message.origin == "person" and not inbound.attachments and not inbound.is_edit
        if not is_word or inbound.role != "owner" or inbound.is_group:
            return None
        said = self._questions.hear(tx, inbound.message.text, inbound.address, inbound.quoted)
        return Reply(said) if said else None

    def _answer(self, said: Said, tx: Tx, is_yes: bool) -> str:
        number = said.argument.strip().removeprefix("#")
        if number.isascii() and number.isdigit() and len(number) < 10:
            return self._questions.answer(tx, int(number), is_yes)
        word = "yes" if is_yes else "no"
        return self._questions.hear(tx, word, said.address) or self._questions.which(is_yes, said.address)
