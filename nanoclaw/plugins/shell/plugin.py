"""The tool that runs commands in the workspace."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

from nanoclaw.atomic_write import reason
from nanoclaw.core.errors import ConfigError, ToolError
from nanoclaw.core.messages import Effect, ToolExample
from nanoclaw.core.plugin import Host, Plugin
from nanoclaw.core.tool import ShowProgress, Tool, ToolContext, ToolOutput, tool
from nanoclaw.escapes import plain, visible
from nanoclaw.redaction import clean_environment

if TYPE_CHECKING:
    from nanoclaw.core.outputs import Outputs
    from nanoclaw.spawn import Exit

HEAD_CHARACTERS = 4_000
TAIL_CHARACTERS = 6_000
LONGEST_SECONDS = 600


class ShellSettings(NamedTuple):
    """`exec_seconds`: how long a command may run where the model says nothing else."""

    exec_seconds: int = 60

    def check(self) -> None:
        if self.exec_seconds <= 0:
            raise ConfigError(f"limits.exec_seconds must be more than 0, not {self.exec_seconds}.")


class Shell(Plugin):
    name = "shell"
    settings = ShellSettings
    keys: ClassVar[Mapping[str, str]] = {"exec_seconds": "limits.exec_seconds"}

    def __init__(self, host: Host, settings: ShellSettings) -> None:
        self._host, self._settings = host, settings
        self.public = Environment(host)

    def tools(self) -> Iterable[Tool]:
        return [tool(self._exec, examples=_EXAMPLES)._replace(audit=_effect)]

    async def _exec(
        self, context: ToolContext, command: str, timeout_seconds: Annotated[int | None, "at most 600"] = None
    ) -> ToolOutput:
        """Run a shell command in the workspace. Returns its output and exit status; background processes are ended."""
        if "\0" in command:
            raise ToolError("the command has a NUL character in it: leave it out. Nothing was run.")
        from nanoclaw.core.outputs import Outputs
        from nanoclaw.spawn import run_process

        seconds = min(max(1, timeout_seconds or self._settings.exec_seconds), LONGEST_SECONDS)
        outputs = Outputs(self._host.workspace)
        spool = outputs.spool()
        try:
            ended = await run_process(
                (_shell(), "-c", command),
                folder=self._host.workspace,
                environment=self.public.variables,
                timeout_seconds=seconds,
                spool=spool.write,
                heard=LastLines(context.show).hear,
            )
            kept = await asyncio.to_thread(spool.finish, "exec") if ended.dropped else ""
        except OSError as error:
            raise ToolError(f"the command could not be started: {reason(error)}. Nothing was run.") from None
        finally:
            spool.close()
        text = "\n".join(filter(None, (_shortened(ended, outputs, kept), _outcome(ended, seconds))))
        return ToolOutput(text, is_error=ended.why != "exited" or ended.status != 0)


class LastLines:
    """Shows the end of an output while it grows."""

    def __init__(self, show: ShowProgress) -> None:
        self._show, self._end = show, b""

    def hear(self, data: bytes) -> None:
        self._end = (self._end + data)[-_SHOWN_BYTES:]
        self._show(self._lines)

    def _lines(self) -> str:
        return _readable(self._end)


_SHOWN_BYTES = 4_000


class Environment:
    """The environment of commands, for whoever runs some beside the model's: what the plugin makes public."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @cached_property
    def variables(self) -> dict[str, str]:
        """The process's own, without names that smell of secrets, and with those that the person grants."""
        core = self._host.get("core")
        given = core.config.environment
        granted = {name: given[name] for name in core.config.get("skills.environment", ()) if name in given}
        return {**clean_environment(given, core.secrets), **granted, **_QUIET}


_EXAMPLES = (
    ToolExample("How much disk space is left?", {"command": "df -h ."}),
    ToolExample("Run my backup script", {"command": "sh backup.sh"}),
)


def _effect(arguments: dict[str, Any]) -> Effect:
    command = str(arguments["command"])
    line = visible(" ".join(command.split()))
    return Effect("exec", "command", command[:500], f"ran `{line if len(line) <= 60 else line[:59] + '…'}`")


def _shell() -> str:
    return next((name for name in ("/bin/bash", "/usr/bin/bash") if Path(name).exists()), "/bin/sh")


_QUIET = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
"""Keeps programs from drawing, paging or asking: nobody sits there."""


def _outcome(ended: Exit, seconds: int) -> str:
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


def _shortened(ended: Exit, outputs: Outputs, kept: str) -> str:
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
        text = "\n".join(map(_last_state, text.split("\n")))
    return plain(text)


def _last_state(line: str) -> str:
    """A line as it stands at last: a progress bar overwrites itself."""
    return line.rstrip("\r").rpartition("\r")[2]
