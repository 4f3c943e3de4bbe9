"""Calls that block, such as those of IMAP, beside the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from nanoclaw.channels.email.mailbox import Mailbox

_T = TypeVar("_T")


async def in_thread(function: Callable[..., _T], *arguments: object, until_cancelled: Mailbox | None = None) -> _T:
    """Run what blocks in a thread that nobody waits for when the program ends; a mailbox is shut when cancelled, which
    ends the thread at once."""
    outcome: Future[_T] = Future()
    outcome.set_running_or_notify_cancel()

    def work() -> None:
        try:
            outcome.set_result(function(*arguments))
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=work, name="email", daemon=True).start()
    future = asyncio.wrap_future(outcome)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        if until_cancelled:
            until_cancelled.shut()
            await asyncio.wait([future], timeout=2)
        future.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        future.cancel()  # nobody wants to know, also when the loop is closed
        raise
