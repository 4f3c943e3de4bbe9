"""Silence: an answer that is nothing but a silence token reaches nobody, and a token beside words is taken off."""

from __future__ import annotations

from nanoclaw.core.plugin import Answer, Filter, Plugin, Turn
from nanoclaw.silence_token import may_become_silence, spoken


class Silence(Plugin):
    name = "silence"

    def stream(self, turn: Turn) -> Filter:
        return SilenceFilter()

    async def before_answer(self, answer: Answer, turn: Turn) -> Answer | None:
        return answer._replace(text=spoken(answer.text))


class SilenceFilter:
    """Holds back the beginning of an answer's stream until it is clear that something is said."""

    def __init__(self) -> None:
        self._begun, self._is_open = "", False

    def feed(self, text: str) -> str:
        if self._is_open:
            return text
        self._begun += text
        if may_become_silence(self._begun):
            return ""
        self._is_open = True
        return self._begun

    def end(self) -> str:
        held, self._begun = "" if self._is_open else self._begun, ""
        return held if spoken(held).strip() else ""
