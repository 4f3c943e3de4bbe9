"""Tools stay inside the workspace, whatever path they are given."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nanoclaw.beneath.paths import (
    PathError,
    PathRefused,
    open_folder,
    open_for_reading,
    open_parent_for_writing,
    resolve,
)

LEAVING = [
    "../outside.txt",
    "../../etc/passwd",
    "notes/../../outside.txt",
    "/etc/passwd",
    "//etc/passwd",
    "~/.ssh/id_rsa",
    "~root/x",
    "notes/\0/../x",
    "link-to-file",
    "link-to-folder/outside.txt",
    "link-to-folder/../outside.txt",
    "chain",
    "/proc/self/mem",
    "/dev/zero",
    "/proc/self/cwd/../../etc/passwd",
]


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
            resolve(root, path, for_writing=for_writing)
    with pytest.raises(PathRefused):
        open_for_reading(root, path)
    with pytest.raises(PathRefused), open_parent_for_writing(root, path):
        pass
    assert (root.parent / "outside.txt").read_text() == "outside"


@pytest.mark.parametrize("path", ["notes/a.md", "./notes//a.md", "notes/../notes/a.md", "link-inside"])
def test_ways_to_a_file_inside_all_lead_there(root: Path, path: str) -> None:
    assert resolve(root, path, for_writing=True) == root / "notes/a.md"
    assert resolve(root, str(root / path), for_writing=False) == root / "notes/a.md"
    with open_for_reading(root, path) as file:
        assert file.read() == b"inside"


def test_odd_names_are_names_and_nothing_more(root: Path) -> None:
    for name in ("..\\..\\etc\\passwd", "%2e%2e%2fpasswd", "....", "..;", "con", "a\nb", "-rf", "$HOME", "…/x"):
        assert resolve(root, name, for_writing=True) == root / name


def test_a_name_that_is_too_long_is_an_error_with_a_reason(root: Path) -> None:
    with pytest.raises(PathError, match="too long"):
        open_for_reading(root, "x" * 5000)


def test_a_circle_of_links_ends_in_a_sentence(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    with pytest.raises(PathError):
        open_for_reading(root, "a")


def test_a_hard_link_may_be_read_but_not_written(root: Path) -> None:
    (root / "hard.txt").hardlink_to(root.parent / "outside.txt")
    with open_for_reading(root, "hard.txt") as file:
        assert file.read() == b"outside"
    with pytest.raises(PathRefused, match="hard link"):
        resolve(root, "hard.txt", for_writing=True)
    with pytest.raises(PathRefused, match="hard link"), open_parent_for_writing(root, "hard.txt"):
        pass


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
            open_for_reading(root, name)
        with pytest.raises(PathRefused, match="only plain files"), open_parent_for_writing(root, name):
            pass


def test_devices_and_process_files_are_refused_even_where_they_are_inside() -> None:
    with pytest.raises(PathRefused, match="a device"):
        open_for_reading(Path("/dev"), "zero")


def test_shipped_folders_can_be_read_but_not_written(root: Path, tmp_path: Path) -> None:
    skills = tmp_path / "skills"
    skills.mkdir()
    (skills / "SKILL.md").write_text("how")
    path = str(skills / "SKILL.md")
    with open_for_reading(root, path, [skills]) as file:
        assert file.read() == b"how"
    with open_folder(root, str(skills), [skills]) as folder:
        assert os.listdir(folder) == ["SKILL.md"]  # noqa: PTH208  (a descriptor)
    with pytest.raises(PathRefused), open_parent_for_writing(root, path):
        pass
    with pytest.raises(PathRefused):
        resolve(root, path, for_writing=True, read_roots=[skills])


def test_a_folder_whose_name_only_begins_alike_is_outside(tmp_path: Path, root: Path) -> None:
    (tmp_path / "workspace-2").mkdir()
    with pytest.raises(PathRefused):
        resolve(root, "../workspace-2/x", for_writing=False)


def test_missing_folders_are_made_for_writing(root: Path) -> None:
    with open_parent_for_writing(root, "new/deep/file.txt") as (folder, name):
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
        for _ in range(2_000):
            try:
                with open_for_reading(root, "notes/a.md") as file:
                    assert file.read() == b"inside"
            except PathError:
                pass
            try:
                with open_parent_for_writing(root, "notes/b.md") as (opened, name):
                    os.close(os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=opened))
            except (PathError, FileNotFoundError):  # refused, or the opened folder is deleted by now
                pass
    finally:
        done.set()
        thread.join()
    assert [path.name for path in secret.iterdir()] == ["a.md"]
