"""`nanoclaw gateway` as a process of its own, for tests with real servers."""

import asyncio
import json
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from tests.journeys.command import Home
from tests.model_server import ModelServer
from tests.program import REPOSITORY


class Served:
    """The gateway of a home, with a scripted model; all it prints is kept."""

    def __init__(self, folder: Path, model: ModelServer) -> None:
        self.model, self.home, self._log = model, Home(folder / "home"), folder / "gateway.log"
        self.process: subprocess.Popen[bytes] | None = None

    def launch(self) -> None:
        command, variables = self.home.command("gateway"), self.home.variables()
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=variables, cwd=REPOSITORY
            )

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self.process:
            self.process.send_signal(how)
            self.process.wait(20)
            self.process = None

    async def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        await asyncio.to_thread(self.stop, how)

    def close(self) -> None:
        with suppress(subprocess.TimeoutExpired):
            self.stop()
        if self.process:
            self.process.kill()
            self.process.wait()

    def log(self) -> str:
        return "".join(file.read_text() for file in (self._log, *self.home.root.rglob("nanoclaw.log")))

    def resident_kb(self) -> int:
        assert self.process
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])

    def request(self, number: int = -1) -> str:
        return json.dumps(self.model.asked[number].json, ensure_ascii=False)
