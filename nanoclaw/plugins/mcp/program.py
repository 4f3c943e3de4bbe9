"""A server's program and its two streams: one message a line, each of a bounded length.

The SDK's own transport keeps a line until it ends, however long it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from nanoclaw.plugins.mcp import sdk

MOST_MESSAGE_BYTES = 32_000_000
"""Of one message, such as a picture."""

CLOSE_SECONDS, TERM_SECONDS = 2.0, 2.0
"""For a program to end when its input ends, and when it is told to."""


@asynccontextmanager
async def streams(
    parameters: sdk.StdioServerParameters, errors: Any, refuse: Callable[[str], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of a program, which is started and ended here. `refuse` hears why what it says is read no further.
    Raises OSError."""
    process = await asyncio.create_subprocess_exec(
        parameters.command,
        *parameters.args,
        env=parameters.env,
        cwd=parameters.cwd,
        stdin=PIPE,
        stdout=PIPE,
        stderr=errors,
        limit=MOST_MESSAGE_BYTES,
        start_new_session=True,
    )
    said, messages = anyio.create_memory_object_stream[Any](0)
    answers, to_send = anyio.create_memory_object_stream[Any](0)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_read, process, said, refuse)
            group.start_soon(_write, process, to_send, said)
            try:
                yield messages, answers
            finally:
                messages.close()
                answers.close()
                with anyio.CancelScope(shield=True):
                    await _end(process)
                group.cancel_scope.cancel()
    finally:
        for stream in (said, messages, answers, to_send):
            stream.close()
        with contextlib.suppress(PermissionError):
            process._transport.close()  # type: ignore[attr-defined]  # a child of it may hold the pipes open


async def _read(process: Process, said: Any, refuse: Callable[[str], None]) -> None:
    assert process.stdout
    async with said:
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, ConnectionError):
            try:
                while line := await process.stdout.readline():
                    message = _message(line)
                    if isinstance(message, ValueError) and b'"jsonrpc"' in line[:200] + line[-200:]:
                        refuse("it sent a message that cannot be read")  # its call would wait for ever
                        return
                    await said.send(message)
            except ValueError:  # more than the limit of the reader
                refuse(f"it wrote a line of more than {MOST_MESSAGE_BYTES / 1e6:g} MB")
                return
        while await process.stdout.read(65_536):  # who can't write can't end
            pass


def _message(line: bytes) -> Any:
    """A message, or a ValueError for anything else. Half characters, left by servers that cut texts, are replaced."""
    text = line.decode("utf-8", "replace")
    try:
        try:
            return sdk.SessionMessage(sdk.types.jsonrpc_message_adapter.validate_json(text, by_name=False))
        except ValueError:
            if "\\ud" not in text.lower():
                raise
        whole = json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8", "replace")
        return sdk.SessionMessage(sdk.types.jsonrpc_message_adapter.validate_json(whole, by_name=False))
    except ValueError as error:
        return error
    except RecursionError:
        return ValueError("nested too deeply")


async def _write(process: Process, to_send: Any, said: Any) -> None:
    assert process.stdin
    try:
        async with to_send:
            async for one in to_send:
                text = one.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode("utf-8", "replace") + b"\n")
                await process.stdin.drain()
    except OSError:
        await said.aclose()  # the session hears of the end, where a request would wait for ever


async def _end(process: Process) -> None:
    """End a program: its input, then a signal to its group, then a harder one."""
    assert process.stdin
    process.stdin.close()
    if await _is_over(process, CLOSE_SECONDS):
        return
    for number, seconds in ((signal.SIGTERM, TERM_SECONDS), (signal.SIGKILL, TERM_SECONDS)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        if await _is_over(process, seconds):
            return


async def _is_over(process: Process, seconds: float) -> bool:
    """True where the program has ended in time. Not by `wait`, which waits for a child's open pipes, too."""
    with anyio.move_on_after(seconds):
        while process.returncode is None:  # noqa: ASYNC110  (nothing tells)
            await anyio.sleep(0.01)
    return process.returncode is not None
