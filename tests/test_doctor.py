"""`nanoclaw doctor --fix` and `--json`, on real files with real modes."""

from __future__ import annotations

import json
from pathlib import Path

from tests.journeys.command import Home
from tests.model_server import ModelServer, failing


def test_modes_that_let_others_read_are_mended_and_said(tmp_path: Path) -> None:
    home, server = Home(tmp_path / "home"), ModelServer()
    server.script(failing(401), failing(401))
    home.configure(server.base)
    secrets = home.root / "secrets.env"
    secrets.write_text("OTHER_API_KEY=sk-other\n")
    secrets.chmod(0o644)
    home.root.chmod(0o755)
    assert "wrong secrets: " in home.run("doctor", check=1).out
    assert secrets.stat().st_mode & 0o777 == 0o644
    said = json.loads(home.run("doctor", "--fix", "--json", check=1).out)  # a wrong key, which nobody mends
    states = {one["name"]: one["state"] for one in said["findings"]}
    assert said["is_well"] is False
    assert [states[name] for name in ("keys", "files", "secrets", "model")] == ["fixed", "fixed", "ok", "wrong"]
    assert (secrets.stat().st_mode & 0o777, home.root.stat().st_mode & 0o777) == (0o600, 0o700)
    server.stop()
