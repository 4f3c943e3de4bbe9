"""A command that the person runs by their own hand: with their own rights, in their own shell and folder."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress

from nanoclaw.escapes import printable

_MOST = 20_000  # characters of its output, half from each end


async def run_by_hand(command: str) -> str:
    """Its output, and how it ended if that was not well. Cancelled, it ends the command with all that it began."""
    process = await asyncio.create_subprocess_exec(
        *(os.environ.get("SHELL") or "/bin/sh", "-c", command),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = await process.communicate()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    text = printable(output.decode("utf-8", "replace")).strip("\n")
    if len(text) > _MOST:
        text = f"{text[: _MOST // 2]}\n[… {len(text) - _MOST:,} characters …]\n{text[-_MOST // 2 :]}"
    status = f"[exit status {process.returncode}]" if process.returncode else ""
    return "\n".join(filter(None, (text, status))) or "(no output)"
