"""Calls that block, such as those of IMAP, beside the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from nanoclaw.channels.email.mailbox import Mailbox

_T = TypeVar("_T")


async def in_thread(function: Callable[..., _T], *arguments: object, until_cancelled: Mailbox | None = None) -> _T:
    """Run what blocks in a thread that nobody waits for when the program ends; a mailbox is shut when cancelled, which
    ends the thread at once."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def settle(result: _T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)  # type: ignore[arg-type]
        else:
            future.set_exception(error)

    def work() -> None:
        outcome: tuple[_T | None, BaseException | None]
        try:
            outcome = function(*arguments), None
        except BaseException as error:
            outcome = None, error
        with suppress(RuntimeError):  # the loop is closed: nobody wants to know
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=work, name="email", daemon=True).start()
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        if until_cancelled:
            until_cancelled.shut()
            await asyncio.wait([future], timeout=2)
        future.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        raise
