"""Redact: takes secrets out of what the model reads, of answers, and of what is shown of them.

Known values go everywhere. What only has the form of a secret goes from results of tools, and from answers that others
than the owner read; what the owner writes, and reads in their own chats, keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nanoclaw.beneath.paths import open_for_reading
from nanoclaw.core.messages import CheckedCall, ToolResult
from nanoclaw.core.plugin import Answer, Draft, Ended, Filter, Hears, Host, Plugin, Refuse, Turn, Tx, Verdict
from nanoclaw.redaction import MASK, SHORTEST, Redactor, within

_MASKED = (
    f"not done: {MASK} stands for a secret that you are not shown, and would be written in its place. "
    "Change the lines around it (edit_file with an old text that leaves the value out); to change the value "
    "itself, ask the person, or replace the whole line with a command such as sed."
)


class Redact(Plugin):
    name = "redact"
    hears: Mapping[str, Hears] = {"before_tool": Hears(changes=True)}

    def __init__(self, host: Host, settings: None) -> None:
        self._host = host
        self._redact, self._clean = host.redact, host.redact.strictly

    # --- what the model reads ----------------------------------------------------------------------------------------

    async def before_turn(self, draft: Draft, turn: Turn) -> Draft | None:
        message = draft.message._replace(text=self._redact(draft.message.text))
        inbound = draft.inbound and draft.inbound._replace(overheard=self._redact(draft.inbound.overheard))
        remarks = tuple(map(self._redact, draft.remarks))
        return draft._replace(message=message, inbound=inbound, remarks=remarks, quote=self._redact(draft.quote))

    async def after_tool(self, call: CheckedCall, result: ToolResult, turn: Turn) -> ToolResult | None:
        return result._replace(text=self._clean(result.text), diff=self._clean(result.diff))

    # --- what is shown -----------------------------------------------------------------------------------------------

    def on_progress(self, text: str, turn: Turn) -> str | None:
        whole = self._clean(text)
        begun = self._redact.begun(whole)  # the rest of a secret may be on its way
        return whole[: len(whole) - begun] if begun >= SHORTEST else whole

    async def before_answer(self, answer: Answer, turn: Turn) -> Answer | None:
        return answer._replace(text=self._shown(answer.text, turn))

    def stream(self, turn: Turn) -> Filter | None:
        return LineFilter(self._clean) if _others_read(turn) else RedactFilter(self._redact)

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> Ended | None:
        outbound = ended.outbound and ended.outbound._replace(text=self._shown(ended.outbound.text, turn))
        return ended._replace(outbound=outbound, text=self._redact(ended.text))

    def _shown(self, text: str, turn: Turn) -> str:
        return self._clean(text) if _others_read(turn) else self._redact(text)

    # --- what would be written ---------------------------------------------------------------------------------------

    async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
        """Refuse to write the mask in the place of a secret."""
        if within(call.arguments, lambda text: text.replace(MASK, "")) == call.arguments:
            return None
        path = call.arguments.get("path")
        if isinstance(path, str):
            return Refuse(_MASKED) if self._holds_secret(path) else None
        seen = any(isinstance(one, ToolResult) and MASK in one.text for one in turn.history)
        return Refuse(_MASKED) if call.name == "exec" and seen else None

    def _holds_secret(self, path: str) -> bool:
        """True for a file of which the model isn't shown all."""
        try:
            with open_for_reading(self._host.reach, path) as file:
                text = file.read(_MOST_READ).decode("utf-8", "replace")
        except (OSError, ValueError):
            return False  # the tool says what is wrong with it
        return self._clean(text) != text


_MOST_READ = 2_000_000


def _others_read(turn: Turn) -> bool:
    return turn.is_group or turn.role != "owner"


class RedactFilter:
    """Holds back the end of what was streamed while it may be the beginning of a secret."""

    def __init__(self, redact: Redactor) -> None:
        self._redact, self._held = redact, ""

    def feed(self, text: str) -> str:
        raw = self._held + text
        whole, cut = self._redact(raw), len(raw) - self._redact.begun(raw)
        # a secret may end where another may begin
        if cut < len(raw) and self._redact(raw[:cut]) + self._redact(raw[cut:]) != whole:
            raw, cut = whole, len(whole) - self._redact.begun(whole)
        self._held = raw[cut:]
        return self._redact(raw[:cut])

    def end(self) -> str:
        held, self._held = self._held, ""
        return self._redact(held)


class LineFilter:
    """Holds back the line that is not whole yet, and a private key until its end."""

    def __init__(self, clean: Callable[[str], str]) -> None:
        self._clean, self._held = clean, ""

    def feed(self, text: str) -> str:
        self._held += text
        if "\n" not in text:
            return ""
        cut = self._held.rindex("\n") + 1
        begun = self._held.rfind("-----BEGIN ", 0, cut)
        if begun >= 0 and "-----END " not in self._held[begun:cut]:
            cut = begun
        passed, self._held = self._held[:cut], self._held[cut:]
        return self._clean(passed)

    def end(self) -> str:
        held, self._held = self._held, ""
        return self._clean(held)
