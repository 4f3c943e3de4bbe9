"""Erasing a conversation: its rows, what was typed of it, and their bytes."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from nanoclaw.core.messages import Address
from nanoclaw.core.plugin import Host, Tx


async def erase(host: Host, address: Address, conversation: Address, since: datetime) -> None:
    """Delete all of a conversation but what it cost; it was at an address."""

    def delete(tx: Tx) -> set[str]:
        tx.execute("DELETE FROM incognito_chats WHERE address = ?", str(address))
        return {text for text in host.conversations.erase(conversation, tx) if text}

    typed = await host.write(delete)
    _forget_typed(host.program_home / "history", typed, since if address.channel == "terminal" else None)
    for copy in host.copies():
        if copy.stat().st_mtime >= since.timestamp():
            copy.unlink(missing_ok=True)
    host.drop_bytes()


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
