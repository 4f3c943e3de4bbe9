"""Tells what tools did, and takes it back: /undo, /receipts, the line after a turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from nanoclaw.core.events import Receipt
from nanoclaw.core.plugin import Command, Draft, Ended, Hears, Host, NamedTuple, Plugin, Said, Turn, Tx

if TYPE_CHECKING:
    from nanoclaw.plugins.undo.file_versions import FileVersions

DAYS, MOST_BYTES = 30, 200_000_000  # copies are kept for so long, and so much of them in all


class UndoSettings(NamedTuple):
    """Receipts of what was changed."""

    receipts: bool = True  # in the terminal, show a line about what was changed after each answer


class Undo(Plugin):
    name = "undo"
    hears: Mapping[str, Hears] = {
        "on_end": Hears(changes=True),
        "before_turn": Hears(rows="ledger WHERE state = 'undone' AND told = 0"),
    }
    settings = UndoSettings
    keys: ClassVar[Mapping[str, str]] = {"receipts": "session.receipts"}

    def __init__(self, host: Host, settings: UndoSettings) -> None:
        self._host, self._settings = host, settings
        self._copies: Path = host.program_home / "undo"
        self._told_in = 0  # the turn whose model was told last of what was undone

    @cached_property
    def public(self) -> FileVersions:
        from nanoclaw.plugins.undo.file_versions import FileVersions

        return FileVersions(self._host, self._copies, days=DAYS, most_bytes=MOST_BYTES)

    def files(self) -> Mapping[Path, Literal["kept", "derived"]]:
        return {self._copies: "kept"}

    def commands(self) -> Iterable[Command]:
        return [
            Command("undo", "take back the last changes: /undo, /undo 3", self._undo, "safety", waits=True),
            Command("receipts", "what was done in this conversation: /receipts 50", self._receipts, part_of="undo"),
        ]

    def _undo(self, said: Said, tx: Tx) -> str:
        from nanoclaw.plugins.undo.taking_back import undo

        return undo(self._host, self.public, said, tx)

    def _receipts(self, said: Said, tx: Tx) -> str:
        from nanoclaw.plugins.undo.taking_back import receipts

        return receipts(self._host, said)

    # --- a turn ------------------------------------------------------------------------------------------------------

    async def before_turn(self, draft: Draft, turn: Turn) -> Draft | None:
        """Tell the model once what the person has undone."""
        from nanoclaw.plugins.undo.memory_history import folded

        undone = [effect.text for effect in folded(self._host.records.undone(turn.conversation))]
        if not undone or self._told_in == turn.id:
            return None
        self._told_in = turn.id
        turn.later(lambda tx: self._host.records.mark_told(tx, turn.conversation))
        told = "; ".join(undone[:5]) + (f"; and {len(undone) - 5} more" if len(undone) > 5 else "")
        return draft._replace(remarks=(*draft.remarks, f"Undone by the person, so it is as it was before: {told}"))

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> None:
        """Tell what was done, in a line of its own."""
        from nanoclaw.plugins.undo.taking_back import line_after_turn

        if self._settings.receipts and (line := line_after_turn(turn.effects)):
            tx.after(lambda: self._host.show(turn.address, Receipt(line)))
