"""Commands that only show something, where nothing can be written: a disk that is full, a home that is read-only."""

import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.journeys.command import Ended, Home, remind
from tests.model_server import ModelServer, says

READ_ONLY = "mount --bind {home} {home} && mount -o remount,bind,ro {home}"
FULL = "mount -t tmpfs -o size=8m none {home} && cp -a {kept}/. {home} && ! cat /dev/zero > {home}/filler 2> /dev/null"


def has_mounts() -> bool:
    return (
        bool(shutil.which("unshare"))
        and not subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode
    )


@dataclass
class Mounted(Home):
    """A home over which something is mounted, for each command alone."""

    mount: str = ""
    program = "tests.journeys.command:mounted"

    def variables(self) -> Mapping[str, str]:
        kept = shlex.quote(str(self.root.with_name("kept")))
        return {**super().variables(), "MOUNT": self.mount.format(home=shlex.quote(str(self.root)), kept=kept)}


@pytest.fixture(scope="module")
def lived_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    server, home = ModelServer(), Home(tmp_path_factory.mktemp("lived") / "home")
    home.configure("http://127.0.0.1:9/v1")
    config = (home.root / "config.toml").read_text()
    home.configure(server.base)
    server.script(says("Green tea."))
    home.run("-m", "Which tea is green?")
    home.run("memory", "add", "The plumber came")
    server.stop()
    remind(home, "water the plants", datetime.now(UTC) + timedelta(days=2))
    (home.root / "config.toml").write_text(config)
    return home.root


def killed(folder: Path) -> None:
    """Leave a write in the store's journal, as a kill does."""
    write = (
        "import os, sys; from pathlib import Path; from nanoclaw.start.opening import open_store;"
        "s = open_store(Path(sys.argv[1])); s.db.execute(\"UPDATE jobs SET text = 'water them all'\"); os._exit(1)"
    )
    subprocess.run([*Home(folder).command()[:1], "-c", write, str(folder / "state.db")], check=False)
    assert (folder / "state.db-wal").stat().st_size


@pytest.mark.skipif(not has_mounts(), reason="nothing can be mounted here")
def test_a_backup_on_a_full_disk_blames_that_disk(tmp_path: Path, lived_in: Path) -> None:
    (full := tmp_path / "full").mkdir()
    mount = f"mount -t tmpfs -o size=64k none {shlex.quote(str(full))}"
    home = Mounted(lived_in, mount=mount)
    said = home.run("backup", str(full / "all.tar.gz"), check=1).err
    assert said.startswith(f"nanoclaw: no backup was made in {full / 'all.tar.gz'}: the disk is full")


@pytest.mark.skipif(not has_mounts(), reason="nothing can be mounted here")
@pytest.mark.parametrize("mount", [READ_ONLY, FULL], ids=["read-only", "full"])
@pytest.mark.parametrize("is_killed", [False, True])
def test_what_only_shows_something_works(tmp_path: Path, lived_in: Path, mount: str, is_killed: bool) -> None:
    kept = tmp_path / "kept"
    shutil.copytree(lived_in, kept)
    if is_killed:
        killed(kept)
        (kept / "state.db-shm").unlink()
    home = Mounted(tmp_path / "home", mount=mount)
    shutil.copytree(kept, home.root)

    def says_(*arguments: str) -> str:
        ended: Ended = home.run(*arguments)
        assert "damaged" not in ended.err + ended.out
        return ended.out

    assert ("water them all" if is_killed else "water the plants") in says_("cron", "list")
    assert "Which tea is green?" in says_("sessions", "show")
    assert "terminal:main" in says_("sessions", "list")
    assert "Green tea." in says_("sessions", "export")
    assert "Sessions       1" in says_("status")
    assert "openai/scripted" in says_("usage", "--by", "model")
    assert "plumber" in says_("memory", "search", "plumber")
    assert "Which tea is green?" in says_("context")
    assert "schedule" in says_("plugins")
    assert ["memory", "shipped", "ready"] in map(str.split, says_("skills", "list").splitlines())
    looked = home.run("doctor", check=1)
    assert "ok    store" in looked.out
    assert ("wrong workspace" if mount == READ_ONLY else "wrong disk") in looked.out
    assert sorted(path.name for path in home.root.iterdir()) == sorted(path.name for path in kept.iterdir())
