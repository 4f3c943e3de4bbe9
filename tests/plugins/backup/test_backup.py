"""One archive of everything, and the way back: nothing is mixed, nothing is written over, nothing is taken on trust."""

import asyncio
import gzip
import io
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

from nanoclaw import scratch_folders
from nanoclaw.core.errors import ConfigError
from nanoclaw.core.plugin import Finding, Plugin
from nanoclaw.plugins.backup.archive import FORMAT
from nanoclaw.plugins.backup.backup import restore
from nanoclaw.start.build import build
from nanoclaw.start.home import seed
from nanoclaw.start.opening import newest_format, read_store
from tests.core.store.test_db import filled, held
from tests.journeys.command import Home
from tests.kills import die_at_step, killed
from tests.program import REPOSITORY, HandClock, Program, config_of, running

Tree = dict[str, bytes | str | None]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with something in every place."""
    home = Home(tmp_path / "home")
    home.root.mkdir()
    (home.root / "config.toml").write_text('[model]\nname = "ollama/x"\n')
    (home.root / "undo").mkdir()
    (home.root / "undo" / "000001.json").write_text("{}")
    seed(home.workspace, REPOSITORY / "workspace_template")
    (home.workspace / "MEMORY.md").write_text("- 2026-03-06: Likes tea\n")
    filled(home.root / "state.db", 20)
    deep = home.workspace / "notes" / "bücher"
    deep.mkdir(parents=True)
    (deep / "a b\n.md").write_bytes(b"\0\xff bytes")
    (home.workspace / os.fsdecode(b"bad \xff name")).write_text("x")
    (home.workspace / "empty").mkdir()
    (home.workspace / "run.sh").write_text("#!/bin/sh\n")
    (home.workspace / "run.sh").chmod(0o755)
    (home.workspace / "inside").symlink_to("notes/bücher")
    (home.workspace / "absolute").symlink_to(home.workspace / "run.sh")
    (home.root / "secrets.env").write_text("OPENAI_API_KEY=sk-12345678\n")
    (home.root / "secrets.env").chmod(0o600)
    return home


def tree(folder: Path) -> Tree:
    """All that is below a folder: contents of files, targets of links, None for folders."""
    found: Tree = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = str(path.readlink())
        else:
            found[name] = None if path.is_dir() else path.read_bytes()
    return found


def calm(found: Tree) -> Tree:
    """Without what looking at a database leaves beside it."""
    return {name: what for name, what in found.items() if not name.endswith((".lock", "-wal", "-shm"))}


def messages(root: Path) -> int:
    store = read_store(root / "state.db")
    try:
        return int(store.rows("SELECT count(*) FROM messages")[0][0])
    finally:
        store.close()


def drafts(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob(".draft-*")]


# -- there and back


def test_a_backup_is_restored_into_an_empty_home_as_it_was(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "all.tar.gz"
    made = home.run("backup", str(file))
    assert "checked by restoring it" in made.out
    assert "Left out: secrets.env (--with-secrets includes it)" in made.out
    assert file.stat().st_mode & 0o077 == 0
    other = Home(tmp_path / "other")
    other.run("restore", str(file))
    before, after = tree(home.workspace), tree(other.workspace)
    assert before.pop("absolute") == str(home.workspace / "run.sh")
    assert after.pop("absolute") == "run.sh"
    assert after == before
    assert os.access(other.workspace / "run.sh", os.X_OK)
    assert messages(other.root) == messages(home.root) == 41
    assert (other.root / "config.toml").read_bytes() == (home.root / "config.toml").read_bytes()
    assert tree(other.root / "undo") == tree(home.root / "undo")
    assert not (other.root / "secrets.env").exists()
    assert "Likes tea" in other.run("memory", "search", "tea").out
    assert drafts(tmp_path) == []


def test_secrets_go_along_only_when_asked_for(home: Home, tmp_path: Path) -> None:
    made = home.run("backup", str(tmp_path / "all.tar.gz"), "--with-secrets")
    assert f"your keys are in {tmp_path / 'all.tar.gz'} (OPENAI_API_KEY)" in made.err
    other = Home(tmp_path / "other")
    other.run("restore", str(tmp_path / "all.tar.gz"))
    assert (other.root / "secrets.env").read_text() == "OPENAI_API_KEY=sk-12345678\n"
    assert (other.root / "secrets.env").stat().st_mode & 0o077 == 0


def test_what_was_there_before_is_kept_aside_and_not_mixed(home: Home, tmp_path: Path) -> None:
    home.run("backup", str(tmp_path / "all.tar.gz"))
    saved = tree(home.workspace)
    (home.workspace / "later.md").write_text("newer")
    (home.workspace / "run.sh").unlink()
    (home.root / "config.toml").write_text("[model\nbroken")
    (home.root / "skills").mkdir()
    told = home.run("restore", str(tmp_path / "all.tar.gz")).out
    (aside,) = home.root.glob("before-restore-*")
    assert str(aside) in told
    now = tree(home.workspace)
    assert now == {**saved, "absolute": "run.sh"}
    assert (aside / "workspace" / "later.md").read_text() == "newer"
    assert (aside / "config.toml").read_text() == "[model\nbroken"
    assert (aside / "skills").is_dir()
    assert not (home.root / "skills").exists()
    assert messages(aside) == messages(home.root) == 41
    assert (home.root / "secrets.env").exists()  # it was not in the archive, so it stays


def test_a_backup_of_nothing_is_restored_to_nothing(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    assert home.run("backup", str(tmp_path / "none.tar.gz")).out.startswith("0 files (0.0 MB)")
    assert not home.root.exists()
    assert home.run("restore", str(tmp_path / "none.tar.gz")).out.startswith("0 files are restored.")
    assert sorted(path.name for path in home.root.iterdir()) == ["state.lock"]


def test_a_running_nanoclaw_is_backed_up_and_not_restored_over(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "all.tar.gz"
    with held(home.root / "state.db") as owner:
        with closing(sqlite3.connect(home.root / "state.db")) as db, db:
            db.execute("PRAGMA wal_autocheckpoint = 0")
            db.execute("INSERT INTO flags VALUES ('just', 'said', 'now')")
            home.run("backup", str(file))
        before = tree(home.root)
        assert f"process {owner.pid}" in home.run("restore", str(file), check=1).err
        assert tree(home.root) == before
    other = Home(tmp_path / "other")
    other.run("restore", str(file))
    with closing(sqlite3.connect(other.root / "state.db")) as db:
        assert db.execute("SELECT count(*) FROM messages").fetchone() == (41,)


def test_a_workspace_elsewhere_goes_along_and_comes_back_where_the_config_says(home: Home, tmp_path: Path) -> None:
    elsewhere = tmp_path / "Documents" / "claw"
    elsewhere.parent.mkdir()
    home.workspace.rename(elsewhere)
    (elsewhere / "absolute").unlink()
    (home.root / "config.toml").write_text(f"[workspace]\npath = {json.dumps(str(elsewhere))}\n")
    home.run("backup", str(tmp_path / "all.tar.gz"))
    saved = tree(elsewhere)
    (elsewhere / "later.md").write_text("newer")
    home.run("restore", str(tmp_path / "all.tar.gz"))
    assert tree(elsewhere) == saved
    (aside,) = elsewhere.parent.glob("claw.before-restore-*")
    assert (aside / "later.md").exists()
    shutil.rmtree(elsewhere.parent)
    Home(tmp_path / "other").run("restore", str(tmp_path / "all.tar.gz"))
    assert tree(elsewhere) == saved


def test_what_is_no_file_and_links_that_lead_out_are_named_and_left_out(home: Home, tmp_path: Path) -> None:
    os.mkfifo(home.workspace / "pipe")
    (home.workspace / "out").symlink_to("/etc/passwd")
    os.chdir(home.workspace)
    for _ in range(1_200):
        Path("d").mkdir()
        os.chdir("d")
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(home.workspace)  # a socket's path must be short
        try:
            listener.bind("sock")
        finally:
            os.chdir(REPOSITORY)
        told = home.run("backup", str(tmp_path / "all.tar.gz")).out
    assert "Left out: workspace/pipe (a named pipe)" in told
    assert "(nested too deeply)" in told
    assert "Left out: workspace/sock (a socket)" in told
    assert "Left out: workspace/out (a link that leads out of it)" in told
    scratch_folders.remove(str(home.workspace / "d"))  # which pytest cannot
    with tarfile.open(tmp_path / "all.tar.gz") as archive:
        assert not [info for info in archive if "passwd" in info.linkname or info.name.endswith(("pipe", "sock"))]


def test_logs_models_and_the_index_are_made_anew_and_not_backed_up(home: Home, tmp_path: Path) -> None:
    for name in ("logs", "models"):
        (home.root / name).mkdir(exist_ok=True)
        (home.root / name / "large").write_text("x")
    (home.root / "forgotten.1").write_text("on its way out")
    home.run("memory", "search", "tea")
    home.run("backup", str(tmp_path / "all.tar.gz"))
    with tarfile.open(tmp_path / "all.tar.gz") as archive:
        tops = {name.split("/")[1] for name in archive.getnames() if name.startswith("home/")}
    assert tops == {"config.toml", "plugins", "state.db", "undo"}


def test_an_archive_in_the_workspace_does_not_hold_itself(home: Home) -> None:
    home.run("backup", str(home.workspace / "all.tar.gz"))
    with tarfile.open(home.workspace / "all.tar.gz") as archive:
        assert not [name for name in archive.getnames() if "all.tar" in name or "draft" in name]


# -- what is refused


@pytest.mark.parametrize("what", ["exists", "no folder", "damaged state"])
def test_a_backup_that_cannot_be_made_is_told_and_leaves_nothing(home: Home, tmp_path: Path, what: str) -> None:
    file = tmp_path / "all.tar.gz"
    if what == "exists":
        file.write_text("thesis")
    elif what == "no folder":
        file = tmp_path / "not" / "there"
    else:
        (home.root / "state.db").write_bytes((home.root / "state.db").read_bytes()[:9000])
    before = calm(tree(tmp_path))
    told = home.run("backup", str(file), check=1).err
    assert "draft" not in told
    assert {
        "exists": "left as it is",
        "no folder": f"no folder {tmp_path}/not.",
        "damaged state": "no backup was made",
    }[what] in told
    assert calm(tree(tmp_path)) == before


def test_a_backup_under_the_name_of_another_kind_of_archive_is_not_made(home: Home, tmp_path: Path) -> None:
    assert "give a name such as all.tar.gz" in home.run("backup", str(tmp_path / "all.zip"), check=1).err
    assert not (tmp_path / "all.zip").exists()


def test_a_backup_of_a_newer_state_is_refused_by_its_own_name(home: Home, tmp_path: Path) -> None:
    with closing(sqlite3.connect(home.root / "state.db")) as db:
        db.execute(f"PRAGMA user_version = {newest_format() + 1}")
    told = home.run("backup", str(tmp_path / "all.tar.gz"), check=1).err
    assert f"{tmp_path}/all.tar.gz is refused: its state.db was written by a newer nanoclaw" in told
    assert "draft" not in told


FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
from nanoclaw.cli import run
sys.exit(run(sys.argv[1:]))
"""


def limited(home: Home, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command where no file can grow beyond 40 kB."""
    return subprocess.run(
        [sys.executable, "-c", FULL, *arguments], capture_output=True, text=True, env=home.variables(), cwd=REPOSITORY
    )


def test_where_files_cannot_grow_neither_way_changes_anything(home: Home, tmp_path: Path) -> None:
    (home.workspace / "large").write_bytes(os.urandom(100_000))
    home.run("backup", str(tmp_path / "all.tar.gz"))
    before = calm(tree(tmp_path))
    saved = limited(home, "backup", str(tmp_path / "more.tar.gz"))
    assert saved.returncode == 1
    assert "no backup was made" in saved.stderr
    assert "draft" not in saved.stderr
    assert "Traceback" not in saved.stderr
    restored = limited(home, "restore", str(tmp_path / "all.tar.gz"))
    assert restored.returncode == 1
    assert "was not restored" in restored.stderr
    assert "draft" not in restored.stderr
    assert "Nothing was changed" in restored.stderr
    assert calm(tree(tmp_path)) == before


Member = tuple[tarfile.TarInfo, bytes]


def member(name: str, kind: bytes = tarfile.REGTYPE, body: bytes = b"x", link: str = "") -> Member:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(body) if kind == tarfile.REGTYPE else 0
    return info, body


def forge(path: Path, *members: Member, listed: dict[str, Any] | None = None) -> None:
    """An archive of these members, with a manifest that says so, but for what `listed` says."""
    listing = {"format": FORMAT, "state": newest_format(), **(listed or {})}
    with tarfile.open(path, "w:gz") as archive:
        for info, body in (*members, member("manifest.json", body=json.dumps(listing).encode())):
            archive.addfile(info, io.BytesIO(body))


BAD: dict[str, Callable[[Path], object]] = {
    "no place": lambda path: forge(path, member("../evil")),
    "not a place": lambda path: forge(path, member("/etc/evil")),
    "slips": lambda path: forge(path, member("workspace/../../evil")),
    "empty part": lambda path: forge(path, member("workspace//evil")),
    "lock": lambda path: forge(path, member("home/state.lock")),
    "journal": lambda path: forge(path, member("home/state.db-wal")),
    "link out": lambda path: forge(path, member("workspace/l", tarfile.SYMTYPE, link="../../evil")),
    "absolute link": lambda path: forge(path, member("workspace/l", tarfile.SYMTYPE, link="/etc/passwd")),
    "link over link": lambda path: forge(
        path,
        member("workspace/a/b/up", tarfile.SYMTYPE, link="../../top"),
        member("workspace/top", tarfile.DIRTYPE),
        member("workspace/l", tarfile.SYMTYPE, link="a/b/up/../../evil"),
    ),
    "link in home": lambda path: forge(path, member("home/undo", tarfile.SYMTYPE, link="/tmp")),
    "hard link": lambda path: forge(path, member("workspace/l", tarfile.LNKTYPE, link="/etc/passwd")),
    "device": lambda path: forge(path, member("workspace/null", tarfile.CHRTYPE)),
    "pipe": lambda path: forge(path, member("workspace/pipe", tarfile.FIFOTYPE)),
    "through a link": lambda path: forge(
        path, member("workspace/l", tarfile.SYMTYPE, link="."), member("workspace/l/evil")
    ),
    "twice": lambda path: forge(path, member("workspace/a"), member("workspace/a", body=b"y")),
    "two links": lambda path: forge(
        path, member("workspace/a", tarfile.SYMTYPE, link="b"), member("workspace/a", tarfile.SYMTYPE, link="c")
    ),
    "no state": lambda path: forge(path, listed={"state": None}),
    "newer": lambda path: forge(path, listed={"format": FORMAT + 1}),
    "newer state": lambda path: forge(path, listed={"state": newest_format() + 1}),
    "no database": lambda path: forge(path, member("home/state.db", body=b"dear diary" * 100)),
    "late config": lambda path: forge(path, member("workspace/a"), member("home/config.toml", body=b"")),
    "bad config": lambda path: forge(path, member("home/config.toml", body=b"[model"), member("workspace/a")),
    "around home": lambda path: forge(
        path, member("home/config.toml", body=b'[workspace]\npath = ".."'), member("workspace/a")
    ),
    "no list": lambda path: shutil.copy(make_tar(path.with_suffix(".other")), path),
    "no archive": lambda path: path.write_text("thesis"),
    "empty": lambda path: path.write_bytes(b""),
    "packed nonsense": lambda path: path.write_bytes(gzip.compress(b"nonsense" * 1000)),
    "a folder": lambda path: path.mkdir(),
    "a pipe": lambda path: os.mkfifo(path),
    "missing": lambda path: None,
}


def make_tar(path: Path) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        info, body = member("workspace/a")
        archive.addfile(info, io.BytesIO(body))
    return path


@pytest.mark.parametrize("what", BAD)
def test_an_archive_that_is_not_as_it_should_be_is_refused_and_nothing_changes(
    tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from nanoclaw.cli import run

    file = tmp_path / "bad.tar.gz"
    BAD[what](file)
    home = Home(tmp_path / "home")
    (home.workspace / "memory").mkdir(parents=True)
    (home.workspace / "MEMORY.md").write_text("- mine\n")
    (home.root / "config.toml").write_text("")
    filled(home.root / "state.db", 2)
    before = calm(tree(home.root))
    monkeypatch.setenv("NANOCLAW_HOME", str(home.root))
    assert run(["restore", str(file)]) in (1, 2)
    assert "bad.tar.gz" in (said := capsys.readouterr().err) or "config.toml" in said or "home itself" in said
    assert calm(tree(home.root)) == before
    assert not (tmp_path / "evil").exists()


def test_an_archive_cut_at_any_byte_is_refused(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from nanoclaw.cli import run

    home.run("backup", str(tmp_path / "all.tar.gz"))
    whole = (tmp_path / "all.tar.gz").read_bytes()
    other = tmp_path / "other"
    monkeypatch.setenv("NANOCLAW_HOME", str(other))
    for cut in [0, 1, 5, 18, *range(100, len(whole), len(whole) // 12), len(whole) - 9, len(whole) - 1]:
        (tmp_path / "cut.tar.gz").write_bytes(whole[:cut])
        assert run(["restore", str(tmp_path / "cut.tar.gz")]) == 1
        assert "Nothing was changed" in capsys.readouterr().err
        assert [path.name for path in other.iterdir()] == ["state.lock"]
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0x10
    (tmp_path / "cut.tar.gz").write_bytes(flipped)
    assert run(["restore", str(tmp_path / "cut.tar.gz")]) == 1


# -- of the version before, and in a chat


def test_a_backup_of_the_version_before_is_restored(tmp_path: Path) -> None:
    """Its manifest has check sums."""
    file, other = tmp_path / "all.tar.gz", Home(tmp_path / "other")
    sums = {"home/config.toml": [0, "e3b0"], "workspace/a.md": [2, "35b7"]}
    listed = {"format": 1, "state": 4, "files": sums, "links": {}}
    forge(file, member("home/config.toml", body=b""), member("workspace/a.md", body=b"hi"), listed=listed)
    assert other.run("restore", str(file)).out.startswith("2 files are restored.")
    assert (other.workspace / "a.md").read_text() == "hi"


async def test_an_owner_makes_one_in_a_chat_without_what_plugins_can_make_anew(tmp_path: Path) -> None:
    class Diary(Plugin):
        name = "diary"

        def files(self) -> dict[Path, Literal["kept", "derived"]]:
            home = tmp_path / "home"
            return {home / "diary.cache": "derived", tmp_path / "diary": "kept"}

    file = tmp_path / "all.tar.gz"
    async with running(tmp_path / "home", plugins=["backup", Diary]) as program:
        (tmp_path / "home" / "diary.cache").write_text("made anew")
        assert "say where to" in await program.ask("/backup all.tar.gz")
        said = await program.ask(f"/backup {file}")
        assert f"are in {file}, checked by restoring it." in said
        assert f"Left out: {tmp_path}/diary (it lies elsewhere)" in said
    with tarfile.open(file) as archive:
        names = archive.getnames()
    assert "home/state.db" in names
    assert "home/diary.cache" not in names


async def test_what_is_restored_from_a_backup_of_a_chat_does_not_make_that_backup_again(tmp_path: Path) -> None:
    file = tmp_path / "all.tar.gz"
    async with running(tmp_path / "home", plugins=["backup"]) as program:
        await program.ask(f"/backup {file}")
    restore(file, tmp_path / "home", lambda home: tmp_path / "home" / "workspace")
    file.unlink()
    async with running(tmp_path / "home", plugins=["backup"]) as program:
        await program.app.conversations.idle()
        assert program.rows("SELECT state FROM inbox") == [("done",)]
    assert not file.exists()


# -- a kill


async def restored(archive: Path, at: int) -> None:
    """Restore, and kill this process at that step of what is done to files."""
    from nanoclaw.cli import run

    die_at_step(at, lambda event, given: event == "os.rename" or (event == "os.remove" and "restoring" in given))
    assert run(["restore", str(archive)]) == 0


def test_a_restore_that_is_killed_anywhere_is_not_begun_or_completed_at_the_next_start(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from nanoclaw.cli import run

    monkeypatch.setenv("NANOCLAW_HOME", str(home.root))
    home.run("backup", str(tmp_path / "all.tar.gz"))
    saved = tree(home.workspace) | {"absolute": "run.sh"}
    (home.workspace / "later.md").write_text("newer")
    (home.root / "config.toml").write_text('[model]\nname = "ollama/later"\n')
    pristine = tmp_path / "pristine"
    shutil.copytree(home.root, pristine, symlinks=True)
    later = tree(home.workspace)
    outcomes = set()
    for at in range(1, 30):
        shutil.rmtree(home.root)
        shutil.copytree(pristine, home.root, symlinks=True)
        was_killed = killed(restored(tmp_path / "all.tar.gz", at))
        assert run(["status", "--json"]) == 0
        model = json.loads(capsys.readouterr().out)["model"]
        is_restored = tree(home.workspace) == saved
        assert is_restored or tree(home.workspace) == later
        assert model == ("ollama/x" if is_restored else "ollama/later")
        assert messages(home.root) == 41
        if is_restored:
            (aside,) = home.root.glob("before-restore-*")
            assert (aside / "workspace" / "later.md").read_text() == "newer"
        outcomes.add((was_killed, is_restored))
        if not was_killed:
            break
    assert outcomes == {(True, False), (True, True), (False, True)}


async def told_by(program: Program, holds: Callable[[Finding], bool]) -> str:
    """What the plugin tells, once that holds."""
    while True:
        (found,) = [one for name, one in await program.app.findings() if name == "backup"]
        if holds(found):
            return found.text
        await asyncio.sleep(0)


async def test_a_backup_is_made_by_itself_when_it_is_due_and_only_as_many_are_kept(tmp_path: Path) -> None:
    disk, clock = tmp_path / "disk", HandClock()
    disk.mkdir()
    (disk / "nanoclaw-mine.tar.gz").write_text("of the person")
    settings = f'[backup]\nfolder = "{disk}"\n'
    days = [(24, f"03-{day:02d} 13:00") for day in range(8, 15)]
    for hours, newest in (0, "03-06 12:00"), (23, "03-06 12:00"), (2, "03-07 13:00"), *days:
        clock.now += timedelta(hours=hours)
        async with running(tmp_path / "home", settings=settings, clock=clock, wakes=True) as program:
            text = await told_by(program, lambda found, newest=newest: newest in found.text)  # type: ignore[misc]
            assert text == f"the newest in {disk} is of 2026-{newest}"
            await told_by(program, lambda found: len(list(disk.glob("nanoclaw-2*"))) <= 7)
    made = sorted(path.name for path in disk.glob("nanoclaw-2*"))
    assert made == [f"nanoclaw-2026-03-{day:02d}-1300.tar.gz" for day in range(8, 15)]
    assert (disk / "nanoclaw-mine.tar.gz").exists()
    restore(disk / made[-1], tmp_path / "other", lambda folder: folder / "workspace")
    assert (tmp_path / "other" / "state.db").exists()


async def test_a_disk_that_is_not_there_is_told_and_nothing_else_fails(tmp_path: Path) -> None:
    settings = f'[backup]\nfolder = "{tmp_path / "gone"}"\n'
    async with running(tmp_path / "home", settings=settings, wakes=True) as program:
        assert "there is no folder" in await told_by(program, lambda found: not found.is_well)
    assert not (tmp_path / "gone").exists()


@pytest.mark.parametrize("wrong", ['folder = "backups"', 'folder = "HOME/workspace/x"'])
def test_a_schedule_that_cannot_be_is_named(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"backup\.\w+"):
        build(config_of(tmp_path, f"[backup]\n{wrong.replace('HOME', str(tmp_path))}\n"), provider=())
