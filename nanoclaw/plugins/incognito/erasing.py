"""Erasing a conversation: its rows, what was typed of it, and their bytes."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from nanoclaw.core.messages import Address
from nanoclaw.core.plugin import Host, Tx


async def erase(host: Host, address: Address, conversation: Address, after: int, since: datetime) -> None:
    """Delete all of a conversation but what it cost. Its messages at `address` came after that row of the inbox."""
    typed = await host.write(lambda tx: _delete(tx, address, conversation, after))
    _forget_typed(host.program_home / "history", typed, since if address.channel == "terminal" else None)
    for copy in host.copies():
        if copy.stat().st_mtime >= since.timestamp():
            copy.unlink(missing_ok=True)
    host.drop_bytes()


def _delete(tx: Tx, address: Address, conversation: Address, after: int) -> set[str]:
    """The texts of its messages, once their rows are deleted."""
    session = "SELECT id FROM sessions WHERE key = ?1"
    turns = f"SELECT id FROM turns WHERE session IN ({session})"
    said = f"(turn IN ({turns}) OR (id > ?2 AND channel = ?3 AND chat = ?4 AND state = 'done'))"
    values = (str(conversation), after, address.channel, address.chat)
    rows = tx.execute(f"SELECT id, body ->> 'text' FROM inbox WHERE {said}", *values)
    tx.execute(f"UPDATE usage SET session = NULL, turn = NULL WHERE session IN ({session})", values[0])
    tx.execute(f"DELETE FROM compactions WHERE session IN ({session})", values[0])
    tx.execute(f"DELETE FROM messages WHERE session IN ({session})", values[0])
    for row, _ in rows:
        tx.execute("UPDATE inbox SET turn = NULL WHERE id = ?", row)
    tx.execute(f"DELETE FROM turns WHERE session IN ({session})", values[0])
    for row, _ in rows:
        tx.execute("DELETE FROM outbox WHERE inbox = ?", row)
        tx.execute("DELETE FROM inbox WHERE id = ?", row)
    tx.execute("DELETE FROM sessions WHERE key = ?", values[0])
    tx.execute("DELETE FROM incognito_chats WHERE address = ?", str(address))
    return {text for _, text in rows if text}


def _forget_typed(path: Path, typed: set[str], began: datetime | None) -> None:
    """Take messages, and lines since then that came to no conversation, out of those typed in the terminal, in place:
    whoever appends to the file has it open."""
    with suppress(FileNotFoundError), path.open("r+b") as file:
        entries = file.read().decode("utf-8", "surrogateescape").split("\n# ")
        kept = [entry for entry in entries if _text(entry) not in typed and not _is_since(began, entry)]
        file.seek(0)
        file.write("\n# ".join(kept).encode("utf-8", "surrogateescape"))
        file.truncate()
        os.fsync(file.fileno())


def _is_since(began: datetime | None, entry: str) -> bool:
    """Tell a line by the local time above it."""
    try:
        return began is not None and datetime.fromisoformat(entry.partition("\n")[0].strip()).astimezone() >= began
    except ValueError:
        return False


def _text(entry: str) -> str:
    """A line typed, as the terminal writes it down."""
    return "\n".join(line[1:] for line in entry.split("\n") if line.startswith("+")).strip()
