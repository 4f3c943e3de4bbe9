"""Files that pages give and take: downloads into the workspace under safe names, uploads from there only."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import unicodedata
from pathlib import Path

from nanoclaw.beneath.paths import Reach, open_for_reading, open_named, open_parent_named

FOLDER = "downloads"
UPLOAD_BYTES = 45_000_000
STEM_BYTES = 100
_ENDING = re.compile(r"(?:\.tar)?\.[A-Za-z0-9]{1,10}$")


def safe_name(name: str) -> str:
    """A name that any file system takes, that hides nothing and leads nowhere."""
    base = unicodedata.normalize("NFC", name.replace("\\", "/")).rpartition("/")[2]
    base = "".join(sign if sign.isalnum() or sign in "-+()._ " else "_" for sign in base)
    base = re.sub(r"_{2,}", "_", re.sub(r"\s+", " ", base)).strip(" ._-")
    found = _ENDING.search(base)
    ending = found[0] if found and found.start() else ""
    stem = base.removesuffix(ending).encode()[:STEM_BYTES].decode("utf-8", "ignore").strip(" ._-")
    return f"{stem or 'file'}{ending}"


def place(root: Path, name: str, source: Path) -> tuple[str, int, str]:
    """Copy a download into the workspace; nothing there is replaced. Its path, its size and its SHA-256. Raises
    OSError."""
    name = safe_name(name)
    ending = found[0] if (found := _ENDING.search(name)) and found.start() else ""
    stem = name.removesuffix(ending)
    with open_parent_named(root, f"{FOLDER}/{name}") as (folder, _):
        draft = f".draft-{os.getpid()}-{os.urandom(6).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with source.open("rb") as given, os.fdopen(os.open(draft, flags, 0o666, dir_fd=folder), "wb") as taken:
                shutil.copyfileobj(given, taken, 1 << 20)
                size = taken.tell()
                taken.flush()
                os.fsync(taken.fileno())
            for number in range(1, 1000):
                free = name if number == 1 else f"{stem}-{number}{ending}"
                try:
                    os.link(draft, free, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
                    break
                except FileExistsError:
                    continue
            else:
                raise FileExistsError(f"{FOLDER}/ has a thousand files called {name}")
        finally:
            os.unlink(draft, dir_fd=folder)
    with open_named(root, f"{FOLDER}/{free}") as file:
        digest = hashlib.file_digest(file, "sha256")  # type: ignore[arg-type]
    return f"{FOLDER}/{free}", size, digest.hexdigest()


def file_to_upload(reach: Reach, path: str) -> tuple[str, bytes]:
    """Name and content of a file of the workspace. Raises PathError; ValueError for one that is too large."""
    with open_for_reading(reach, path) as file:
        data = file.read(UPLOAD_BYTES + 1)
    if len(data) > UPLOAD_BYTES:
        raise ValueError(f"{path!r} has more than {UPLOAD_BYTES // 10**6} MB, which is the most that is uploaded.")
    return Path(path).name, data
