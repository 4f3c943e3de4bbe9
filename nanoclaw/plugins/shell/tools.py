"""The tool that runs commands in the workspace."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from nanoclaw.atomic_write import reason
from nanoclaw.core.errors import ToolError
from nanoclaw.core.messages import ToolExample
from nanoclaw.core.redact import clean_environment
from nanoclaw.core.tool import Tool, tool
from nanoclaw.core.workspace import Workspace
from nanoclaw.escapes import plain

if TYPE_CHECKING:
    from nanoclaw.core.outputs import Outputs
    from nanoclaw.spawn import Ended

HEAD_CHARACTERS = 4_000
TAIL_CHARACTERS = 6_000
LONGEST_SECONDS = 600


def shell_tools(
    workspace: Workspace,
    environment: Mapping[str, str],
    *,
    granted: Mapping[str, str] | None = None,
    timeout_seconds: int = 60,
) -> list[Tool]:
    """`exec`, with what is left of the environment once names that smell of secrets are taken out, and with what the
    person has `granted`."""
    visible = {**clean_environment(environment), **(granted or {}), **_QUIET}
    shell = next((name for name in ("/bin/bash", "/usr/bin/bash") if Path(name).exists()), "/bin/sh")

    async def exec(command: str, timeout_seconds: Annotated[int, "at most 600"] = timeout_seconds) -> str:
        """Run a shell command in the workspace. Returns its output and exit status; background processes are ended."""
        if "\0" in command:
            raise ToolError("the command has a NUL character in it: leave it out. Nothing was run.")
        from nanoclaw.core.outputs import Outputs
        from nanoclaw.spawn import run_process

        seconds = min(max(1, timeout_seconds), LONGEST_SECONDS)
        outputs = Outputs(workspace.root)
        spool = outputs.spool()
        try:
            ended = await run_process(
                (shell, "-c", command),
                folder=workspace.root,
                environment=visible,
                timeout_seconds=seconds,
                spool=spool.write,
            )
            kept = await asyncio.to_thread(spool.finish, "exec") if ended.dropped else ""
        except OSError as error:
            raise ToolError(f"the command could not be started: {reason(error)}. Nothing was run.") from None
        finally:
            spool.close()
        text = "\n".join(filter(None, (_shortened(ended, outputs, kept), _outcome(ended, seconds))))
        if ended.why != "exited":
            raise ToolError(text)
        return text

    examples = (
        ToolExample("How much disk space is left?", {"command": "df -h ."}),
        ToolExample("Run my backup script", {"command": "sh backup.sh"}),
    )
    return [tool(exec, examples=examples)]


_QUIET = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
"""What keeps programs from drawing, paging or asking: nobody sits there."""


def _outcome(ended: Ended, seconds: int) -> str:
    if ended.why == "timeout":
        return f"[stopped after {seconds} s: the command was still running. Above is its output so far.]"
    if ended.why == "flood":
        return f"[stopped: more than {ended.dropped:,} bytes of output. Write it to a file, or filter it.]"
    left = f"; {ended.left_behind} background process(es) were ended with it" if ended.left_behind else ""
    if ended.status < 0:
        return f"[killed by {_signal_name(-ended.status)}{left}]"
    return f"[exit status {ended.status}{left}]"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _shortened(ended: Ended, outputs: Outputs, kept: str) -> str:
    """`kept` is the path of an output that was too long for memory."""
    head, tail = _readable(ended.head), _readable(ended.tail)
    if not ended.dropped:
        whole = _readable(ended.head + ended.tail).rstrip()
        if len(whole) <= HEAD_CHARACTERS + TAIL_CHARACTERS:
            return whole
        head = tail = whole
        kept = outputs.keep("exec", whole)
        left_out = f"{len(whole) - HEAD_CHARACTERS - TAIL_CHARACTERS:,} characters"
    else:
        total = len(ended.head) + len(ended.tail) + ended.dropped
        left_out = f"about {max(0, total - HEAD_CHARACTERS - TAIL_CHARACTERS):,} bytes"
    from nanoclaw.core.outputs import hint

    ends = f"{head[:HEAD_CHARACTERS]}\n[... {left_out} left out ...]\n{tail[-TAIL_CHARACTERS:].rstrip()}"
    return f"{ends}\n{hint(kept)}"


def _readable(output: bytes) -> str:
    text = output.decode("utf-8", "replace").replace("\r\n", "\n")
    if "\r" in text:
        text = re.sub(_OVERWRITTEN, "", text)  # a progress bar: only its last state
    return plain(text)


_OVERWRITTEN = r"[^\n]*\r(?=[^\n\r])"
