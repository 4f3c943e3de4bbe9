"""Skills from folders and archives: what leads out, hides or is too much is refused, and nothing is written."""

import gzip
import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from nanoclaw.core.errors import SkillError
from nanoclaw.packages.reading import MOST_BYTES
from nanoclaw.plugins.skills.described import lines
from nanoclaw.plugins.skills.package import read, sha256_of
from tests.examples import examples
from tests.journeys.command import Home

BEWARE = examples(__file__, "beware.jsonl")
SKILL = b"---\nname: tide\ndescription: Tells the tide.\nallowed-tools: all\n---\nLook.\n"


def zipped(path: Path, *entries: tuple[str, bytes], mode: int = 0) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in (("SKILL.md", SKILL), *entries):
            entry = zipfile.ZipInfo(name)
            entry.external_attr, entry.compress_type = mode << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return path


def tarred(path: Path, *entries: tarfile.TarInfo, data: bytes = b"") -> Path:
    with tarfile.open(path, "w:gz") as archive:
        main = tarfile.TarInfo("SKILL.md")
        main.size = len(SKILL)
        archive.addfile(main, io.BytesIO(SKILL))
        for entry in entries:
            entry.size = entry.size or (len(data) if entry.isreg() else 0)
            archive.addfile(entry, io.BytesIO(data))
    return path


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def _linked(path: Path) -> Path:
    path.mkdir()
    (path / "SKILL.md").write_bytes(SKILL)
    (path / "more.md").symlink_to("/etc/passwd")
    return path


def _piped(path: Path) -> Path:
    path.mkdir()
    (path / "SKILL.md").write_bytes(SKILL)
    os.mkfifo(path / "pipe")
    return path


def _long_header(path: Path) -> Path:
    """A header of a gigabyte, which a reader would take into memory."""
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 1_000_000_000
    with gzip.open(path, "wb", 1) as file:
        file.write(header.tobuf(tarfile.USTAR_FORMAT) + bytes(2 * MOST_BYTES + 70_000))
    return path


REFUSED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "slip.zip": (lambda path: zipped(path, ("../evil.md", b"x")), "leads out"),
    "deep.zip": (lambda path: zipped(path, ("a/../../evil.md", b"x")), "leads out"),
    "root.zip": (lambda path: zipped(path, ("/tmp/evil.md", b"x")), "leads out"),
    "drive.zip": (lambda path: zipped(path, ("C:/evil.md", b"x")), "leads out"),
    "back.tar.gz": (lambda path: tarred(path, entry("..\\evil.md")), "leads out"),
    "slip.tar.gz": (lambda path: tarred(path, entry("a/../../evil.md")), "leads out"),
    "link.zip": (lambda path: zipped(path, ("a", b"/etc"), mode=0o120777), "is a link"),
    "link.tar.gz": (lambda path: tarred(path, entry("a", tarfile.SYMTYPE, "/etc")), "is a link"),
    "hard.tar.gz": (lambda path: tarred(path, entry("a", tarfile.LNKTYPE, "/etc/passwd")), "is a link"),
    "device.tar.gz": (lambda path: tarred(path, entry("a", tarfile.CHRTYPE)), "is a link or a device"),
    "many.zip": (lambda path: zipped(path, *((f"{n}", b"") for n in range(1_001))), "more than 1,000 files"),
    "many.tar.gz": (lambda path: tarred(path, *(entry(f"{n}") for n in range(1_001))), "more than 1,000 files"),
    "large.zip": (lambda path: zipped(path, ("a", bytes(MOST_BYTES + 1))), "more than 20 MB"),
    "large.tar.gz": (lambda path: tarred(path, entry("a"), data=bytes(MOST_BYTES + 1)), "more than 20 MB"),
    "header.tar.gz": (_long_header, "more than 20 MB"),
    "nested.zip": (lambda path: zipped(path, ("a/b.zip", b"PK")), "is an archive"),
    "twice.zip": (lambda path: zipped(path, ("a.md", b"1"), ("A.md", b"2")), "twice"),
    "hidden.zip": (lambda path: zipped(path, ("a\u202egpj.sh", b"1")), "not a file name"),
    "escape.zip": (lambda path: zipped(path, ("a\x1b[2J", b"1")), "not a file name"),
    "text.zip": (lambda path: written(path, b"PK\3\4 or not"), "not a complete"),
    "cut.tar.gz": (lambda path: written(path, gzip.compress(bytes(9000))[:-9]), "not a complete"),
    "folder": (_linked, "is a link"),
    "pipes": (_piped, "not a plain file"),
    "nothing": (lambda path: path, "neither a folder nor an archive"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_plain_skill_is_refused_with_a_sentence(tmp_path: Path, name: str) -> None:
    make, said = REFUSED[name]
    path = make(tmp_path / name)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SkillError, match=said):
        read(path)
    assert sorted(tmp_path.rglob("*")) == before


def test_folder_zip_and_tar_of_one_skill_have_one_hash(tmp_path: Path) -> None:
    folder = tmp_path / "tide"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_bytes(SKILL)
    (folder / "scripts" / "run").write_bytes(b"#!/bin/sh\n")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "x.pyc").write_bytes(b"1")
    with tarfile.open(tmp_path / "tide.tar.gz", "w:gz") as archive:
        archive.add(folder, "tide")
    with zipfile.ZipFile(tmp_path / "tide.zip", "w") as packed:
        for file in ("SKILL.md", "scripts/run"):
            packed.write(folder / file, f"tide/{file}")
    hashes = {read(tmp_path / name).sha256 for name in ("tide", "tide.tar.gz", "tide.zip")}
    assert hashes == {sha256_of(folder)}
    (folder / "scripts" / "run").chmod(0o755)
    assert sha256_of(folder) not in hashes, "that it can be run is part of it"


def test_adding_shows_all_asks_and_pins_and_a_change_is_seen(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    source = zipped(tmp_path / "tide.zip", ("run.sh", b"echo high\n"))
    refused = home.run("skills", "add", str(source), check=1)
    assert "tide: Tells the tide." in refused.out and "run.sh (10 bytes, script)" in refused.out
    assert "echo high" in refused.out and "Ignored, as a skill gives no rights: allowed-tools" in refused.out
    assert "--yes" in refused.err
    assert not (home.root / "skills").exists()
    added = home.run("skills", "add", str(source), "--yes")
    assert "The skill tide is used from now on" in added.out
    assert ["tide", "home", "ready"] in [line.split() for line in home.run("skills").out.splitlines()]
    assert sorted(path.name for path in home.root.glob("*skill*")) == ["skills"]
    (home.root / "skills" / "tide" / "run.sh").write_text("echo low\n")
    assert ["tide", "home", "draft", "(changed)"] in [line.split() for line in home.run("skills").out.splitlines()]
    assert "-echo high\n+echo low" in home.run("skills", "show", "tide").out
    home.run("skills", "trust", "tide")
    assert '"draft": ""' in home.run("skills", "show", "tide", "--json").out
    assert "is deleted" in home.run("skills", "remove", "tide").out
    assert not (home.root / "skills" / "tide").exists()


def test_several_are_trusted_at_once_and_many_are_not_named_in_one_line(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    for number in range(9):
        folder = home.root / f"skills/sk37{number}"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_bytes(SKILL.replace(b"tide", folder.name.encode(), 1))
    assert "sk370, sk371, sk372, sk373, sk374 and 4 more (nanoclaw" in home.run("audit", check=1).out
    assert "sk999" in home.run("skills", "trust", "sk370", "sk999", check=1).err
    assert (
        "2 skills are used from now on, as they are: sk370, sk378." in home.run("skills", "trust", "sk370", "sk378").out
    )
    states = {line.split()[0]: line.split()[2] for line in home.run("skills").out.splitlines()}
    assert [name for name in states if name.startswith("sk3") and states[name] == "ready"] == ["sk370", "sk378"]


@pytest.mark.parametrize("half", BEWARE)
def test_what_runs_downloads_or_turns_the_model_is_pointed_to(tmp_path: Path, half: str) -> None:
    """ "unseen" was put away before the patterns were written: none of its 22 lines was judged wrongly."""
    for number, (is_told, line) in enumerate(BEWARE[half]):
        path = zipped(tmp_path / f"{number}.zip", ("notes.md", f"Look.\n{line}\n".encode()))
        told = [one for one in lines(read(path), "tide") if one.startswith("Careful, it ")]
        assert bool(told) == is_told and all("notes.md:2 “" in one for one in told), line


def test_a_slip_is_told_in_a_shell(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    source = zipped(tmp_path / "slip.zip", ("../../evil.md", b"x"))
    ended = home.run("skills", "add", str(source), "--yes", check=1)
    assert ended.err == "nanoclaw: '../../evil.md' leads out of its folder\n"
    assert not list(tmp_path.rglob("evil.md"))


@pytest.mark.parametrize("name", [".", "..", ".hidden", "-rf", "../tide", "x" * 300])
def test_the_name_of_a_skill_leads_nowhere(tmp_path: Path, name: str) -> None:
    """One called . took the place of the folder with all other skills."""
    home = Home(tmp_path / "home")
    home.run("skills", "add", str(zipped(tmp_path / "tide.zip")), "--yes")
    other = SKILL.replace(b"name: tide", f"name: {name}".encode())
    for file, status in (("other.zip", 0), ("..zip", 1)):
        with zipfile.ZipFile(tmp_path / file, "w") as packed:
            packed.writestr("SKILL.md", other)
        ended = home.run("skills", "add", str(tmp_path / file), "--yes", check=status)
        assert "is not a name for a skill: give it one" in ended.err or not status
    assert sorted(path.name for path in (home.root / "skills").iterdir()) == ["other", "tide"]
