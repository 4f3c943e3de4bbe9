"""The gateway as a service: `nanoclaw service install`, `status` and `remove`."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from nanoclaw.atomic_write import write_atomically
from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.plugin import Command, Host, Plugin, Reply, Said

if TYPE_CHECKING:
    from nanoclaw.plugins.service.managers import Manager

_REPLY_SECONDS = 1.0  # until the answer of a service is out that was asked to end or begin anew
Done = tuple[Reply, Callable[[], None] | None]  # a reply, and what is done once it is out


class GatewayService(Plugin):
    name = "service"

    def __init__(self, host: Host, settings: None) -> None:
        self._host = host

    def commands(self) -> Iterable[Command]:
        told = "the gateway as a service: /service install, status, remove"
        return [Command("service", told, self._service, cli=True, private=True, part_of="status")]

    async def _service(self, said: Said) -> Reply:
        from nanoclaw.plugins.service.managers import manager

        work = {"install": self._install, "": _status, "status": _status, "remove": _remove}
        if (chosen := work.get(said.argument.strip())) is None:
            raise NanoclawError("nanoclaw service install, nanoclaw service status or nanoclaw service remove")
        reply, then = await asyncio.to_thread(chosen, manager())
        return reply._replace(change=(lambda tx: tx.after(lambda: self._host.spawn(_soon(then)))) if then else None)

    def _install(self, manager: Manager) -> Done:
        if lacking := manager.lacking():
            by_hand = f"nohup {shlex.join(_command())} >/dev/null 2>&1 &"
            why = f"no service can be installed here, as {manager.name} doesn't answer ({lacking})"
            raise NanoclawError(f"{why}. Run instead:\n  {by_hand}")
        home, file = str(self._host.program_home), manager.file
        text = manager.text(_command(), {"NANOCLAW_HOME": home, "PATH": os.environ.get("PATH", os.defpath)})
        try:
            if file.exists() and home not in file.read_text("utf-8", "replace"):
                raise NanoclawError(f"{file} is not for {home}: move it away first. Nothing was changed.")
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, text, 0o600)
        except OSError as error:
            raise NanoclawError(f"no service was installed: {error}") from None
        advice, then, begins = manager.load(), None, "It starts now."
        if not self._host.is_gateway():
            manager.start()
        elif manager.state()[0] == os.getpid():
            then, begins = manager.start, "It starts anew now."
        else:
            begins = "A gateway runs by hand: once you have ended it, install again, or it starts at your next login."
        lines = [f"The service is installed: {file}. {begins}", advice, self._unseen()]
        return Reply("\n".join(filter(None, lines)), {"installed": str(file)}), then

    def _unseen(self) -> str:
        """A line about keys that only the shell has."""
        kept = self._host.program_home / "secrets.env"
        text = kept.read_text("utf-8", "replace") if kept.exists() else ""
        lost = [name for name in sorted(os.environ) if name.endswith("_API_KEY") and f"{name}=" not in text]
        said = "A service doesn't see what your shell exports: nanoclaw keys set NAME keeps"
        return f"{said} {', '.join(lost)} for it." if lost else ""


def _remove(manager: Manager) -> Done:
    if not manager.file.exists():
        raise NanoclawError(f"no service is installed: there is no {manager.file}.")
    manager.file.unlink(missing_ok=True)
    is_own = not manager.lacking() and manager.state()[0] == os.getpid()
    if not is_own:
        manager.stop()
    said = f"The service is removed: {manager.file} is gone. Your home stays as it is."
    return Reply(said), manager.stop if is_own else None


def _status(manager: Manager) -> Done:
    file, lacking = manager.file, manager.lacking()
    if not file.exists():
        how = f"{manager.name} doesn't answer here ({lacking})" if lacking else "nanoclaw service install does that"
        return Reply(f"No service is installed: {how}.", {"installed": None}), None
    pid, words = (0, f"{manager.name} doesn't answer: {lacking}") if lacking else manager.state()
    runs = f"process {pid} ({words})" if pid else f"not running ({words}). What it said: {manager.log}"
    return Reply(f"{file}: {runs}", {"installed": str(file), "pid": pid, "state": words}), None


async def _soon(work: Callable[[], None]) -> None:
    await asyncio.sleep(_REPLY_SECONDS)
    await asyncio.to_thread(work)


def _command() -> list[str]:
    """The whole path of the program here, which stays the same when it is brought up to date."""
    launcher = Path(sys.executable).with_name("nanoclaw")
    return [*([str(launcher)] if launcher.is_file() else [sys.executable, "-m", "nanoclaw"]), "gateway"]
