"""Redact: takes secrets and control characters out of tool results, answers and what is shown of them."""

from __future__ import annotations

from nanoclaw.core.messages import CheckedCall, ToolResult
from nanoclaw.core.plugin import Answer, Filter, Host, Plugin, Turn
from nanoclaw.redaction import SHORTEST, Redactor


class Redact(Plugin):
    name = "redact"

    def __init__(self, host: Host, settings: None) -> None:
        self._redact = Redactor(host.get("core").secrets)

    def on_progress(self, text: str, turn: Turn) -> str | None:
        whole = self._redact(text)
        begun = self._redact.begun(whole)  # the rest of a secret may be on its way
        return whole[: len(whole) - begun] if begun >= SHORTEST else whole

    async def after_tool(self, call: CheckedCall, result: ToolResult, turn: Turn) -> ToolResult | None:
        return result._replace(text=self._redact(result.text), diff=self._redact(result.diff))

    async def before_answer(self, answer: Answer, turn: Turn) -> Answer | None:
        return answer._replace(text=self._redact(answer.text))

    def stream(self, turn: Turn) -> Filter | None:
        return RedactFilter(self._redact)


class RedactFilter:
    """Holds back the end of what was streamed while it may be the beginning of a secret."""

    def __init__(self, redact: Redactor) -> None:
        self._redact, self._held = redact, ""

    def feed(self, text: str) -> str:
        raw = self._held + text
        whole, cut = self._redact(raw), len(raw) - self._redact.begun(raw)
        if self._redact(raw[:cut]) + self._redact(raw[cut:]) != whole:  # a secret ends where another may begin
            raw, cut = whole, len(whole) - self._redact.begun(whole)
        self._held = raw[cut:]
        return self._redact(raw[:cut])

    def end(self) -> str:
        held, self._held = self._held, ""
        return self._redact(held)
