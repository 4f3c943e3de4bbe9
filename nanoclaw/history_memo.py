"""The memo of a history: what was computed from messages that never change is computed once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

State = TypeVar("State")


class HistoryMemo:
    """Caches what is computed from a conversation's messages: their bytes on the wire, their tokens. Messages never
    change, so each is processed once; the cache goes when the conversation leaves memory."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[object, tuple[object, ...], Any]] = {}

    def state(
        self,
        key: Hashable,
        about: object,
        messages: tuple[object, ...],
        count: int,
        begin: Callable[[], State],
        add: Callable[[State, Sequence[Any], range], None],
    ) -> State:
        """The state after the first `count` messages. `add` processes new ones; all are processed again, after `begin`,
        if they do not continue those of the last call, or `about` has changed."""
        was_about, known, state = self._kept.pop(key, (about, (), None))
        if state is None or was_about != about or len(known) > count or known != messages[: len(known)]:
            known, state = (), begin()
        add(state, messages, range(len(known), count))
        self._kept[key] = (about, messages[:count], state)
        return state  # type: ignore[no-any-return]
