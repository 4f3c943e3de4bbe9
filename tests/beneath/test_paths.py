"""Tools stay inside the workspace, whatever path they are given."""

import contextlib
import os
import re
import shutil
import socket
import threading
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.beneath.paths import (
    PathError,
    PathMissing,
    PathRefused,
    Reach,
    open_again,
    open_beneath,
    open_folder,
    open_for_reading,
    open_named,
    open_parent_for_writing,
    open_parent_named,
    place_to_search,
    resolve,
)
from nanoclaw.beneath.walk import SearchBounds, search, walk
from tests.examples import examples

PATHS = examples(__file__, "paths.jsonl")

LEAVING = PATHS["leaving"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    (root / "notes").mkdir(parents=True)
    (root / "notes/a.md").write_text("inside")
    (tmp_path / "outside.txt").write_text("outside")
    (root / "link-to-file").symlink_to(tmp_path / "outside.txt")
    (root / "link-to-folder").symlink_to(tmp_path)
    (root / "chain").symlink_to("link-to-file")
    (root / "link-inside").symlink_to("notes/a.md")
    return root


@pytest.mark.parametrize("path", LEAVING)
def test_a_path_that_leaves_is_refused_for_reading_and_writing(root: Path, path: str) -> None:
    for for_writing in (False, True):
        with pytest.raises(PathRefused):
            resolve(Reach(root), path, for_writing=for_writing)
    with pytest.raises(PathRefused):
        open_for_reading(Reach(root), path)
    with pytest.raises(PathRefused), open_parent_for_writing(Reach(root), path):
        pass
    assert (root.parent / "outside.txt").read_text() == "outside"


@pytest.mark.parametrize("path", ["notes/a.md", "./notes//a.md", "notes/../notes/a.md", "link-inside"])
def test_ways_to_a_file_inside_all_lead_there(root: Path, path: str) -> None:
    assert resolve(Reach(root), path, for_writing=True) == root / "notes/a.md"
    assert resolve(Reach(root), str(root / path), for_writing=False) == root / "notes/a.md"
    with open_for_reading(Reach(root), path) as file:
        assert file.read() == b"inside"


def test_odd_names_are_names_and_nothing_more(root: Path) -> None:
    for name in ("..\\..\\etc\\passwd", "%2e%2e%2fpasswd", "....", "..;", "con", "a\nb", "-rf", "$HOME", "…/x"):
        assert resolve(Reach(root), name, for_writing=True) == root / name


def test_a_name_that_is_too_long_is_an_error_with_a_reason(root: Path) -> None:
    with pytest.raises(PathError, match="too long"):
        open_for_reading(Reach(root), "x" * 5000)


def test_a_circle_of_links_ends_in_a_sentence(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    with pytest.raises(PathError):
        open_for_reading(Reach(root), "a")


def test_a_file_with_a_name_outside_is_neither_read_nor_written(root: Path) -> None:
    (root / "hard.txt").hardlink_to(root.parent / "outside.txt")
    with pytest.raises(PathRefused, match="second name outside"):
        open_for_reading(Reach(root), "hard.txt")
    with pytest.raises(PathRefused, match="second name outside"):
        open_named(root, "hard.txt")
    with pytest.raises(PathRefused, match="hard link"):
        resolve(Reach(root), "hard.txt", for_writing=True)
    with pytest.raises(PathRefused, match="hard link"), open_parent_for_writing(Reach(root), "hard.txt"):
        pass


def test_a_file_all_of_whose_names_are_in_reach_is_read(root: Path, tmp_path: Path) -> None:
    (root / "deep/er").mkdir(parents=True)
    (root / "deep/er/same.md").hardlink_to(root / "notes/a.md")
    with open_for_reading(Reach(root), "notes/a.md") as file:
        assert file.read() == b"inside"
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "third.md").hardlink_to(root / "notes/a.md")
    with pytest.raises(PathRefused, match="second name outside"):
        open_for_reading(Reach(root), "notes/a.md")
    with open_for_reading(Reach(root, read=(beside,)), "notes/a.md") as file:
        assert file.read() == b"inside"


def test_copies_that_git_and_package_managers_share_are_read_but_private_files_are_not(
    root: Path, tmp_path: Path
) -> None:
    store, packages = tmp_path / "store", root / "node_modules/left-pad"
    packages.mkdir(parents=True)
    store.mkdir()
    (store / "index.js").write_text("pad")
    (store / "id_rsa").write_text("key")
    (store / "index.js").chmod(0o644)
    (store / "id_rsa").chmod(0o600)
    for name in ("index.js", "id_rsa"):
        (packages / name).hardlink_to(store / name)
    with open_for_reading(Reach(root), "node_modules/left-pad/index.js") as file:
        assert file.read() == b"pad"
    with pytest.raises(PathRefused, match="second name outside"):
        open_for_reading(Reach(root), "node_modules/left-pad/id_rsa")
    with pytest.raises(PathRefused, match="second name outside"):  # a store that is closed
        open_for_reading(Reach(root, closed=(store,)), "node_modules/left-pad/index.js")


@pytest.mark.parametrize("around", [False, True], ids=["workspace in the home", "home in the workspace"])
def test_nothing_of_a_closed_folder_is_opened_by_any_name(tmp_path: Path, around: bool) -> None:
    home, root = (tmp_path / "ws/home", tmp_path / "ws") if around else (tmp_path / "home", tmp_path / "home/ws")
    home.mkdir(parents=True)
    root.mkdir(exist_ok=True)
    (home / "config.toml").write_text("key")
    (home / "config.toml").chmod(0o644)
    reach = Reach(root, closed=(home,))
    (root / "link").symlink_to(home)
    (root / "file-link").symlink_to(home / "config.toml")
    (root / "site-packages").mkdir()
    (root / "site-packages/hard").hardlink_to(home / "config.toml")
    (root / "hard").hardlink_to(home / "config.toml")
    config = home / "config.toml"
    ways = [os.path.relpath(config, root), "link/config.toml", "file-link", str(config), "hard", "site-packages/hard"]
    for path in ways:
        with pytest.raises(PathRefused):
            open_for_reading(reach, path)
        with pytest.raises(PathRefused), open_parent_for_writing(reach, path):
            pass
    with pytest.raises(PathRefused), open_parent_for_writing(reach, "link/plugins/new.py"):
        pass
    with pytest.raises(PathRefused), open_folder(reach, "link"):
        pass
    with open_folder(reach, ".") as folder:
        assert not [parts for parts, _ in walk(folder, reach.closed) if "config.toml" in parts]
    place = place_to_search(reach, ".")
    bounds = SearchBounds(tuple(place["folders"]), tuple(place["closed"]))
    with open_folder(reach, ".") as folder:
        assert list(search(folder, re.compile("key"), bounds=bounds)) == []
    assert {path.name for path in home.iterdir()} <= {"config.toml", "ws"}


@pytest.fixture
def specials(root: Path) -> Iterator[list[str]]:
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(root)  # a socket's path is short
        server.bind("socket")
        os.chdir(here)
        yield ["pipe", "socket"]


def test_pipes_and_sockets_are_refused_at_once(root: Path, specials: list[str]) -> None:
    for name in specials:
        with pytest.raises(PathRefused, match="only plain files"):
            open_for_reading(Reach(root), name)
        with pytest.raises(PathRefused, match="only plain files"), open_parent_for_writing(Reach(root), name):
            pass


def test_devices_and_process_files_are_refused_even_where_they_are_inside() -> None:
    with pytest.raises(PathRefused, match="a device"):
        open_for_reading(Reach(Path("/dev")), "zero")


def test_shipped_folders_can_be_read_but_not_written(root: Path, tmp_path: Path) -> None:
    skills = tmp_path / "skills"
    skills.mkdir()
    (skills / "SKILL.md").write_text("how")
    path = str(skills / "SKILL.md")
    reach = Reach(root, read=(skills,))
    with open_for_reading(reach, path) as file:
        assert file.read() == b"how"
    with open_folder(reach, str(skills)) as folder:
        assert os.listdir(folder) == ["SKILL.md"]  # noqa: PTH208  (a descriptor)
    with pytest.raises(PathRefused), open_parent_for_writing(reach, path):
        pass
    with pytest.raises(PathRefused):
        resolve(reach, path, for_writing=True)


def test_a_folder_whose_name_only_begins_alike_is_outside(tmp_path: Path, root: Path) -> None:
    (tmp_path / "workspace-2").mkdir()
    with pytest.raises(PathRefused):
        resolve(Reach(root), "../workspace-2/x", for_writing=False)


def test_further_folders_are_read_or_written_as_they_are_given(root: Path, tmp_path: Path, monkeypatch: Any) -> None:
    read, write = tmp_path / "read", tmp_path / "write"
    for folder in (read, write):
        folder.mkdir()
        (folder / "a.txt").write_text("there")
    (read / "out").symlink_to(tmp_path / "outside.txt")
    (write / "out").symlink_to(tmp_path / "outside.txt")
    reach = Reach(root, (read,), (write,))
    monkeypatch.setenv("HOME", str(tmp_path))
    for path in (str(read / "a.txt"), "../write/a.txt", "~/read/a.txt"):
        with open_for_reading(reach, path) as file:
            assert file.read() == b"there"
    with open_parent_for_writing(reach, "~/write/new/b.txt") as (_, name):
        assert name == "b.txt"
    for path in ("~/read/a.txt", "~/read/new.txt", "../read/new.txt", "~/outside.txt", "~/write/out", "../write/../x"):
        with pytest.raises(PathRefused), open_parent_for_writing(reach, path):
            pass
    for path in ("~/outside.txt", "~/read/out", "~root/x", "~/read/../outside.txt"):
        with pytest.raises(PathRefused):
            open_for_reading(reach, path)


def test_a_name_of_the_program_leads_through_no_link(root: Path) -> None:
    (root / "memory").symlink_to("notes")
    for name in ("memory/a.md", "../outside.txt"):
        with pytest.raises(PathRefused):
            open_named(root, name)
    with pytest.raises(PathRefused), open_parent_named(root, "memory/b.md"):
        pass
    with pytest.raises(PathMissing):
        open_named(root, "notes/none.md")
    with open_named(root, "notes/a.md") as file:
        assert file.read() == b"inside"


def test_a_file_that_was_found_is_not_followed_elsewhere_later(root: Path) -> None:
    real = resolve(Reach(root), "notes/a.md", for_writing=False)
    with open_again(real) as file:
        assert file.read() == b"inside"
    shutil.rmtree(root / "notes")
    (root / "notes").symlink_to(root.parent)
    (root.parent / "a.md").write_text("outside")
    with pytest.raises(PathRefused):
        open_again(real)


EXOTIC = PATHS["the folder above"]
"""Ways in which something may be written that somebody takes for “the folder above”."""


def test_no_spelling_of_the_folder_above_leads_out(root: Path, tmp_path: Path) -> None:
    """Each way, from one to eight times, before each target, at each kind of beginning; read and written."""
    names = ("outside.txt", "etc/passwd", "proc/self/environ", "etc\\passwd", "outside.txt\0.md", "%6futside.txt")
    escapes, opened, tries = [], 0, 0
    for way, times, separator, name in product(EXOTIC, (1, 8), ("/", "\\"), names):
        for start in ("", "/", "notes/", "link-to-folder/"):
            tries += 1
            path = start + separator.join([way] * times) + separator + name
            with contextlib.suppress(PathError), open_for_reading(Reach(root), path) as file:
                escapes += [path] if file.read() != b"inside" else []
                opened += 1
            with contextlib.suppress(PathError):
                real = resolve(Reach(root), path, for_writing=True)
                escapes += [] if real.is_relative_to(root) else [path]
    assert (escapes, opened, tries) == ([], 0, len(EXOTIC) * 2 * 2 * 6 * 4)
    assert (tmp_path / "outside.txt").read_text() == "outside"


def test_missing_folders_are_made_for_writing(root: Path) -> None:
    with open_parent_for_writing(Reach(root), "new/deep/file.txt") as (folder, name):
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    assert (root / "new/deep/file.txt").exists()


def test_a_folder_swapped_for_a_link_while_reading_never_shows_the_outside(root: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "a.md").write_text("secret")
    folder, aside, done = root / "notes", root / "aside", threading.Event()

    def swap() -> None:
        while not done.is_set():
            folder.rename(aside)
            with contextlib.suppress(FileExistsError):  # the writer may have made a new one in between
                folder.symlink_to(secret)
                folder.unlink()
            while aside.exists():
                shutil.rmtree(folder, ignore_errors=True)
                with contextlib.suppress(OSError):
                    aside.rename(folder)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(300):
            try:
                with open_for_reading(Reach(root), "notes/a.md") as file:
                    assert file.read() == b"inside"
            except PathError:
                pass
            try:
                with open_parent_for_writing(Reach(root), "notes/b.md") as (opened, name):
                    os.close(os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=opened))
            except (PathError, FileNotFoundError):  # refused, or the opened folder is deleted by now
                pass
    finally:
        done.set()
        thread.join()
    assert [path.name for path in secret.iterdir()] == ["a.md"]


@pytest.mark.parametrize(
    "parts", [["..", "secret.txt"], ["inner", "..", "..", "secret.txt"], ["inner/../../secret.txt"]]
)
def test_no_part_of_a_way_leads_up_or_is_a_way_itself(tmp_path: Path, parts: list[str]) -> None:
    (tmp_path / "root" / "inner").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("secret")
    with pytest.raises(OSError, match="Invalid cross-device link"):
        open_beneath(str(tmp_path / "root"), parts, os.O_RDONLY)
