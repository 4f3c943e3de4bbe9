"""`nanoclaw import` in a shell: it shows, asks, takes keys only after a yes of their own, and takes all back."""

import json
import shutil
from contextlib import closing
from pathlib import Path

from tests.journeys.command import Home, Running
from tests.plugins.importer.made_homes import nanobot_home


def test_it_shows_asks_imports_with_its_keys_and_takes_all_back(tmp_path: Path) -> None:
    home, other = Home(tmp_path / "home"), nanobot_home(tmp_path)
    home.configure("http://127.0.0.1:9")
    shown = home.run("import", "nanobot", str(other), "--dry-run").out
    assert "From nanobot in" in shown and "--yes" not in shown
    assert "Nobody is here to answer: use --yes" in home.run("import", "nanobot", str(other), check=1).err
    assert "is no folder" in home.run("import", "nanobot", str(other / "none"), check=2).err
    assert not list((home.root / "skills").glob("*"))
    with closing(Running(home, "import", "nanobot", str(other))) as asked:
        asked.expect("Import this? yes or no:")
        asked.say("yes")
        asked.expect("Take OPENROUTER_API_KEY, NANOCLAW_TELEGRAM_TOKEN, too? yes or no:")
        asked.say("yes")
        assert asked.ended() == 0
        assert "canary" not in asked.text
    assert "Pelle" in (home.workspace / "SOUL.md").read_text()
    secrets = home.root / "secrets.env"
    assert "OPENROUTER_API_KEY=sk-or-canary-1" in secrets.read_text()
    secrets.write_text(secrets.read_text().replace("12345:canary", "6:mine"))
    said = json.loads(home.run("import", "undo", "--json").out)
    assert "is taken back" in said["text"]
    assert secrets.read_text() == "NANOCLAW_TELEGRAM_TOKEN=6:mine\n"
    assert "Pelle" not in (home.workspace / "SOUL.md").read_text()
    assert "there is no import to take back" in home.run("import", "undo", check=1).err
    shutil.rmtree(other)
