"""The messages of a request as JSON bytes: each is written once, and joined from then on."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from nanoclaw.core.messages import AssistantMessage, HistoryMemo, Message, ModelRequest

Wire = dict[str, Any]


class WireForm(Protocol):
    """Puts one message of a history after the other into an adapter's form."""

    def copy(self) -> WireForm: ...

    def add(self, open: list[Wire], history: Sequence[Message], position: int) -> None:
        """Append what stands for a message. What comes next may still change the last of `open`: it is replaced then,
        never changed in place."""
        ...

    def end(self, open: list[Wire]) -> None:
        """Append what has to stand at the end of a request."""
        ...


class _Written:
    """A beginning of a history: the bytes of all that is settled, each message with a comma, and the last."""

    def __init__(self, form: WireForm, before: Sequence[Wire]) -> None:
        self.form, self.settled, self.open = form, bytearray(), list(before)

    def add(self, history: Sequence[Message], positions: range) -> None:
        for position in positions:
            self.form.add(self.open, history, position)
            if len(self.open) > 1:
                self.settled += dump(self.open[:-1])[1:-1] + b","
                del self.open[:-1]


def messages_json(
    request: ModelRequest, key: object, about: object, begin: Callable[[], WireForm], before: Sequence[Wire] = ()
) -> bytes:
    """The JSON array of a request's messages, after those that stand `before` the history. `about` decides, beside the
    messages, how they read; `key` is whose form it is."""
    history = request.history
    newest = (at for at in range(len(history) - 1, 0, -1) if isinstance(history[at], AssistantMessage))
    count = next(newest, 0)  # an answer's results may still come
    memo = request.memo or HistoryMemo()
    written = memo.state(key, (about, before), history, count, lambda: _Written(begin(), before), _Written.add)
    form, open = written.form.copy(), list(written.open)
    for position in range(count, len(history)):
        form.add(open, history, position)
    form.end(open)
    return b"".join((b"[", written.settled, dump(open)[1:]))


def object_json(before: Wire, messages: bytes, after: Wire) -> bytes:
    """The JSON object of a request: what stays comes first, so that the next request begins with the same bytes."""
    return b"".join((dump(before)[:-1], b',"messages":', messages, b",", dump(after)[1:]))


def dump(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
