"""Memory that a background process takes whose output is 1 GB, and what is kept of it.

Usage: processes.py [MEGABYTES]. Prints the growth of this process's peak memory, beside that of `subprocess.run` with
captured output in a process of its own, and the CPU that reading took.
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from nanoclaw.core.messages import Address
from nanoclaw.core.plugin import PERSON, ToolOutput
from nanoclaw.core.tool import ToolContext
from nanoclaw.start.build import build
from nanoclaw.start.config import load

CAPTURED = """
import resource, subprocess, sys
subprocess.run(["true"], capture_output=True)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
kept = subprocess.run(sys.argv[1], shell=True, capture_output=True)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


async def measure(folder: Path, megabytes: int) -> None:
    app = build(load({"NANOCLAW_HOME": str(folder), "PATH": "/usr/bin:/bin"}), provider=())
    shell = next(one for one in app.plugins if one.name == "shell")
    tools = {one.name: one for one in app.chain.tools(PERSON)}
    main = Address("terminal", "main")
    context = ToolContext(main, "me", "person", conversation=main)
    serving = asyncio.create_task(shell.run())
    await asyncio.sleep(0)

    async def run(command: str, number: int) -> str:
        await tools["exec"].run(context, command=command, background=True)
        told = await tools["process"].run(context, action="wait", id=number, seconds=600)
        return told.text if isinstance(told, ToolOutput) else told

    command = f"head -c {megabytes * 1_000_000} /dev/zero | tr '\\0' x"
    try:
        await run("head -c 5000000 /dev/zero | tr '\\0' x", 1)  # what is imported and made once
        before, began = _peak_kb(), time.process_time()
        told = await run(command, 2)
        assert "exit status 0" in told, told
        spent = time.process_time() - began
        kept = max(path.stat().st_size for path in (app.config.workspace_path / "outputs").iterdir())
        print(f"{megabytes} MB of output: peak memory +{(_peak_kb() - before) / 1000:.1f} MB, {spent:.2f} s of CPU")
        print(f"its file: {kept / 1e6:.1f} MB")
        beside = subprocess.run([sys.executable, "-c", CAPTURED, command], capture_output=True, text=True)  # noqa: ASYNC221
        print(f"subprocess.run beside it: peak memory +{int(beside.stdout) / 1000:.0f} MB")
    finally:
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
        await app.aclose()


def _peak_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    megabytes = int(sys.argv[1]) if sys.argv[1:] else 1_000
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder), megabytes))


if __name__ == "__main__":
    main()
