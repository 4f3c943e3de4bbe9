"""Answers that say more than was done are sent back once, then stand with a note of the program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nanoclaw.beneath.paths import name_beneath
from nanoclaw.core.messages import AssistantMessage, Message, UserMessage
from nanoclaw.core.plugin import Answer, Host, Plugin, TryAgain, Turn
from nanoclaw.plugins.claims.claims import unsupported
from nanoclaw.silence_token import spoken

EARLIER = 500
"""So many effects of a conversation are looked at for what may be told again."""

TALK = 8
"""So many messages before are looked at for what a request is about."""

REMARK = (
    "{fact}. If your answer says or promises that it was done, do it now with a tool, or tell the person that it was "
    "not done. If it says nothing of the kind, give the same answer again."
)


class Claims(Plugin):
    name = "claims"

    def __init__(self, host: Host, settings: None) -> None:
        self._host = host

    async def before_answer(self, answer: Answer, turn: Turn) -> TryAgain | None:
        is_silent = not spoken(answer.text).strip()
        if turn.origin != "person" or answer.files or is_silent or not turn.profile.acts:
            return None
        said = [one.text for one in turn.history if isinstance(one, AssistantMessage) or _is_the_persons(one)]
        asked = next((one.text for one in reversed(turn.history) if _is_the_persons(one)), "")
        effects = [one for one in turn.effects if one.state in ("begun", "done") or one.kind == "command"]
        before = "\n".join(text for text in said[-TALK:] if text != asked)
        fact = unsupported(asked, answer.text, effects, self._known(turn), self._exists, before)
        if not fact:
            return None
        return TryAgain(REMARK.format(fact=f"{fact[0].upper()}{fact[1:]}"), f"(Note from the program: {fact}.)")

    def _known(self, turn: Turn) -> Iterator[str]:
        """Texts of earlier effects in this conversation, of jobs, and of the prompt."""
        sql = "SELECT text FROM ledger WHERE address = ? AND state IN ('begun', 'done') ORDER BY id DESC LIMIT ?"
        yield from (text for (text,) in self._host.read(sql, str(turn.conversation), EARLIER))
        if schedule := self._host.get("schedule"):
            yield from schedule.table().splitlines()
        yield from turn.system.splitlines()

    def _exists(self, name: str) -> bool:
        """Anywhere in the workspace: an answer may leave out the folder."""
        root: Path = self._host.workspace
        inside = name_beneath(root, name)
        return bool(inside) and ((root / inside).exists() or ("/" not in name and any(root.glob(f"*/{name}"))))


def _is_the_persons(message: Message) -> bool:
    return isinstance(message, UserMessage) and message.origin == "person"
