"""Globs, and walking that follows no link."""

import os
import re
from pathlib import Path

import pytest

from nanoclaw.beneath.paths import open_folder_beneath
from nanoclaw.beneath.walk import matches, search, walk
from tests.examples import examples

GLOBS = examples(__file__, "globs.jsonl")


@pytest.mark.parametrize(("name", "pattern", "found"), GLOBS["globs"])
def test_globs(name: str, pattern: str, found: bool) -> None:
    assert matches(tuple(name.split("/")), pattern) is found


def test_a_pathological_glob_is_quick() -> None:
    assert not matches(tuple("a" * 30), "/".join(["**", "a"] * 30 + ["b"]))
    assert not matches(("a" * 200,), "*a" * 40 + "b")


def test_walking_follows_no_link_and_skips_what_nobody_wrote(tmp_path: Path) -> None:
    for name in ("a/b/1.txt", "a/2.txt", "3.txt", ".git/x", "node_modules/x", "outside/x"):
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / name).write_text("x")
    (tmp_path / "root/outside").rename(tmp_path / "outside")
    (tmp_path / "root/link").symlink_to(tmp_path / "outside")
    (tmp_path / "root/file-link").symlink_to(tmp_path / "outside/x")
    top = open_folder_beneath(str(tmp_path / "root"), ())
    try:
        assert ["/".join(parts) for parts, _ in walk(top)] == ["3.txt", "a/2.txt", "a/b/1.txt"]
    finally:
        os.close(top)


def test_lines_are_found_in_every_encoding_and_binary_files_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "1-utf8").write_bytes(b"\xef\xbb\xbfcaf\xc3\xa9\r\nb\n")
    (tmp_path / "2-latin").write_bytes(b"caf\xe9")
    (tmp_path / "3-utf16").write_bytes("x\ncafé\n".encode("utf-16"))
    (tmp_path / "4-binary").write_bytes(b"caf\xc3\xa9\0\0")
    (tmp_path / "5-long").write_bytes(b"x" * 250_000 + "café".encode() + b"\nend\n")
    os.mkfifo(tmp_path / "6-pipe")
    top = open_folder_beneath(str(tmp_path), ())
    try:
        hits = [(file, number, line[-4:]) for file, number, line in search(top, re.compile("^café|café$"))]
    finally:
        os.close(top)
    assert hits == [("1-utf8", 1, "café"), ("2-latin", 1, "café"), ("3-utf16", 2, "café"), ("5-long", 1, "café")]
