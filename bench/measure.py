"""What a process costs: CPU, memory, instructions, from outside and by the kernel's own account."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PYTHON = sys.executable
NANOCLAW = str(Path(sys.executable).parent / "nanoclaw")
"""The installed console script: what a person starts."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one run: CPU and wall seconds, with its children's, and the peak of resident memory."""

    cpu: float
    wall: float
    peak_mb: float
    output: str


def environment(home: Path) -> dict[str, str]:
    """Nothing of the person's own settings or keys; hashes alike in every run, so that counts can be compared."""
    return {
        "HOME": str(home),
        "NANOCLAW_HOME": str(home / "nanoclaw"),
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "OPENAI_API_KEY": "",
    }


def run(command: Sequence[str], env: dict[str, str]) -> Cost:
    """Run to the end; raises RuntimeError with the output when that was a failure."""
    started = time.monotonic()
    process = subprocess.Popen(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout
    output = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}: {output}")
    return Cost(used.ru_utime + used.ru_stime, time.monotonic() - started, used.ru_maxrss / 1024, output)


def instructions(command: Sequence[str], env: dict[str, str]) -> float | None:
    """Millions of instructions, which noise does not touch; None without valgrind."""
    if not shutil.which("valgrind"):
        return None
    tool = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    output = run([*tool, *command], env).output
    found = re.search(r"I\s+refs:\s+([\d,]+)", output)
    return int(found[1].replace(",", "")) / 1e6 if found else None


def cpu_of(pid: int) -> float:
    """CPU seconds that a running process has used so far, by its own clock (finer than /proc/PID/stat)."""
    return time.clock_gettime(~pid << 3 | 2)


def cpu_of_children(pid: int) -> float:
    """CPU seconds of the ended children of a running process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")
