"""Answers that say more than was done are sent back once, then shown with a note from the program."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nanoclaw.core.messages import Effect, ToolResult, UserMessage
from nanoclaw.core.plugin import Answer, Filter, Host, Plugin, TryAgain, Turn
from nanoclaw.outside_text import own_words
from nanoclaw.plugins.claims.claims import NOTHING, unsupported, wanted

HELPER, EARLIER = "delegate", 500
"""The tool whose report says what was run; effects of a conversation that are looked at for what may be told again."""

REMARK = (
    "{fact}. If your answer says or promises that it was done, do it now with a tool, or tell the person that it was "
    "not done. If it says nothing of the kind, give the same answer again."
)


class Claims(Plugin):
    name = "claims"

    def __init__(self, host: Host, settings: None) -> None:
        self._host = host

    def stream(self, turn: Turn) -> Filter | None:
        """Holds back the answer to a request that takes a tool until one had an effect."""
        if turn.origin != "person" or not turn.profile.acts or wanted(_asked(turn)[0]) != "order":
            return None
        is_over = turn.effects or self._is_planned(turn)
        return None if is_over else _HeldBack(lambda text: not self._fact(text, turn))

    async def before_answer(self, answer: Answer, turn: Turn) -> TryAgain | None:
        if turn.origin != "person" or not turn.profile.acts or not answer.text.strip() or answer.files:
            return None
        if not (fact := self._fact(answer.text, turn)) or self._is_planned(turn):
            return None
        return TryAgain(REMARK.format(fact=f"{fact[0].upper()}{fact[1:]}"), f"(nanoclaw: {fact}.)")

    def _is_planned(self, turn: Turn) -> bool:
        """In plan mode the answer is a plan, and the person reads below it that nothing is changed."""
        plan = self._host.get("plan")
        return plan is not None and plan.is_on(turn.conversation)

    def _fact(self, answer: str, turn: Turn) -> str:
        asked, failed = _asked(turn)
        if not wanted(asked):
            return ""
        effects = [one for one in turn.effects if one.state in ("begun", "done") or one.kind == "command"]
        if [one.state for one in turn.effects if one.kind == "page"][-1:] == ["failed"]:  # what was typed was not sent
            effects = [one for one in effects if one.kind != "page"]
        effects += [Effect(one.name, "call", "", "") for one in turn.calls if one.name == HELPER]
        tool = self._host.tools(turn.profile).get(failed) if failed else None
        is_vain = bool(failed) and (tool is None or tool.reach != "none")  # a look is one also where it finds nothing
        known = () if is_vain else self._known(turn)
        fact = unsupported(asked, answer, effects, has_looked=bool(turn.calls) and not is_vain, known=known)
        return "no tool was used for this, and nothing was changed" if fact == NOTHING and not turn.calls else fact

    def _known(self, turn: Turn) -> Iterator[str]:
        """Texts of earlier effects in this conversation, of jobs, and of the prompt."""
        earlier = self._host.records.effects(turn.conversation, EARLIER)
        yield from (one.text for one in earlier if one.state in ("begun", "done"))
        if schedule := self._host.get("schedule"):
            yield from schedule.table().splitlines()
        yield from turn.system.splitlines()


class _HeldBack:
    """A stream of which only an answer that `is_right` is shown, at its end: any other comes once, with the outbox."""

    def __init__(self, is_right: Callable[[str], bool]) -> None:
        self._is_right, self._text = is_right, ""

    def feed(self, text: str) -> str:
        self._text += text
        return ""

    def end(self) -> str:
        return self._text if self._is_right(self._text) else ""


def _asked(turn: Turn) -> tuple[str, str]:
    """The person's last words, and the name of the last tool if it failed."""
    last: ToolResult | None = None
    for one in reversed(turn.history):
        if isinstance(one, ToolResult):
            last = last or one
        elif isinstance(one, UserMessage) and one.origin == "person":
            failed = last.name if last and last.is_error else ""
            return own_words(one.text) if "[outside " in one.text else one.text, failed
    return "", ""
