"""Notices facts that a tool wrote into MEMORY.md by itself and that contradict others there."""

from __future__ import annotations

from contextlib import suppress

from nanoclaw import bootstrap_files
from nanoclaw.core.errors import WorkspaceError
from nanoclaw.plugins.memory.notes import MemoryStore, plain_entry

MOST_COMPARED = 10
"""New lines of one call that are compared with all the others."""


class FactsWatch:
    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._stamp: object = None
        self._known: frozenset[str] = frozenset()

    def written(self) -> str:
        """A sentence for the model about new lines that contradict others, '' if there are none."""
        new, facts = self.look()
        if not new:
            return ""
        from nanoclaw.plugins.memory.contradictions import contradict

        pairs = [
            (old, one)
            for one in new
            for old in facts
            if (old[0] < one[0] or old not in new)
            and old[0] != one[0]
            and contradict(plain_entry(old[1]), plain_entry(one[1]))
        ]
        if not pairs:
            return ""
        listed = "\n".join(dict.fromkeys(f"MEMORY.md:{number}: {line}" for pair in pairs for number, line in pair))
        return (
            f"These facts in MEMORY.md contradict each other:\n{listed}\nStrike or delete what is no longer true; "
            "if both hold, leave them; if you can't tell, ask the person."
        )

    def look(self) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
        """Take what is there as known. Returns facts that are new since the last time, and all; nothing of a file that
        is as it was."""
        facts = list[tuple[int, str]]()
        stamp = bootstrap_files.stamp(self._store.workspace, ("MEMORY.md",))
        if stamp == self._stamp:
            return [], []
        with suppress(WorkspaceError):
            facts = self._store.facts()
        known, self._known, self._stamp = self._known, frozenset(line for _, line in facts), stamp
        return [fact for fact in facts if fact[1] not in known][:MOST_COMPARED], facts
