"""Folders before and after: what is listed and copied, and that putting back follows no link."""

import os
import shutil
from pathlib import Path

import pytest

from nanoclaw.snapshots import places
from nanoclaw.snapshots.copies import FileCopies, name_of
from nanoclaw.snapshots.listing import FileLister, FileListing, changes


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "a" / "b").mkdir(parents=True)
    for name in ("one", "a/two", "a/b/three"):
        (root / name).write_text(name * 10)
    return root


def copied(root: Path, most_bytes: int = 10_000, largest_bytes: int = 5_000) -> tuple[FileListing, FileCopies]:
    copies = FileCopies(root.parent / "copies", most_bytes=most_bytes, largest_bytes=largest_bytes)
    listing = FileLister().scan([root])
    copies.update(listing, 10)
    return listing, copies


def test_two_lists_tell_what_is_gone_changed_and_new(root: Path) -> None:
    before = FileLister().scan([root])
    (root / "one").unlink()
    (root / "a/two").write_text("other")
    (root / "new").touch()
    found = changes(before, FileLister().scan([root]))
    assert found == ([str(root / "one")], [str(root / "a/two")], [str(root / "new")])


def test_what_is_closed_skipped_or_too_much_is_not_listed(root: Path) -> None:
    closed = FileLister().scan([root], [root / "a" / "b"])
    assert sorted(closed.files) == [str(root / "a/two"), str(root / "one")]
    skipped = FileLister(lambda name, beside: name == "b", ("three", "four")).scan([root])
    assert str(root / "a/b/three") in skipped.marks and str(root / "a/b/three") not in skipped.files
    assert FileLister(most=2).scan([root]).tops == ()
    assert FileLister().scan([root, root / "a"]).tops == (str(root),)


def test_only_what_changed_is_copied_again_also_by_the_next_process(root: Path) -> None:
    listing, _ = copied(root)
    made = {one.name: one.stat().st_mtime_ns for one in (root.parent / "copies").iterdir()}
    assert set(made) == {name_of(found) for found in listing.files.values()}
    (root / "one").write_text("other")
    copied(root)
    again = {one.name: one.stat().st_mtime_ns for one in (root.parent / "copies").iterdir()}
    assert len(again) == 3 and len(made.items() & again.items()) == 2


def test_copies_that_somebody_deletes_are_made_again(root: Path) -> None:
    listing, copies = copied(root)
    shutil.rmtree(root.parent / "copies")
    copies.update(listing, 10)
    assert copies.read(name_of(listing.files[str(root / "one")])) == b"one" * 10


def test_small_files_come_first_and_large_ones_and_names_of_files_elsewhere_are_left_out(root: Path) -> None:
    (root.parent / "secret").write_text("s" * 10)
    os.link(root.parent / "secret", root / "link")
    os.link(root / "one", root / "second")
    (root / "large").write_text("x" * 6_000)
    (root / "medium").write_text("x" * 3_000)
    listing, copies = copied(root, most_bytes=3_100)
    has = {name: copies.has(listing.files[str(root / name)]) for name in ("one", "second", "link", "large", "medium")}
    assert has == {"one": True, "second": True, "link": False, "large": False, "medium": False}


def test_a_file_is_put_back_with_its_mode_and_time_where_folders_are_gone_or_in_the_way(root: Path) -> None:
    path = root / "a/b/three"
    path.chmod(0o640)
    os.utime(path, ns=(1, 5_000_000_000))
    listing, copies = copied(root)
    for command in ("gone", "file", "link", "folder"):
        os.system(f"rm -rf {root}/a {root}/a.*")
        if command == "file":
            (root / "a").write_text("in the way")
        elif command == "link":
            (root / "a").symlink_to(root.parent)
        elif command == "folder":
            path.mkdir(parents=True)
        copies.put_back(name_of(listing.files[str(path)]), str(root), str(path))
        found = path.lstat()
        assert (path.read_text(), found.st_mode & 0o777, found.st_mtime_ns) == ("a/b/three" * 10, 0o640, 5_000_000_000)
    assert not (root.parent / "b").exists()


def test_nothing_is_removed_through_a_link(root: Path) -> None:
    (root.parent / "outside").mkdir()
    (root.parent / "outside/two").write_text("theirs")
    os.system(f"rm -rf {root}/a && ln -s {root.parent}/outside {root}/a")
    with pytest.raises(OSError):
        places.remove(str(root), str(root / "a/two"))
    with pytest.raises(OSError):
        places.content(str(root), str(root / "a/two"))
    assert (root.parent / "outside/two").read_text() == "theirs"


def test_a_damaged_copy_is_not_put_back(root: Path) -> None:
    listing, copies = copied(root)
    name = name_of(listing.files[str(root / "one")])
    (root.parent / "copies" / name).write_text("")
    with pytest.raises(OSError, match="damaged"):
        copies.put_back(name, str(root), str(root / "one"))
    assert (root / "one").read_text() == "one" * 10
