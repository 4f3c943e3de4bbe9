"""The README's first command, by the real installers, from a copy of this source; it fetches packages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
LIGHT = "uv tool install . --excludes <(echo litellm)"


@pytest.mark.live
@pytest.mark.parametrize("install", ["uv tool install .", "pipx install .", LIGHT])
def test_one_command_leaves_nanoclaw_on_the_path_of_every_folder(install: str, tmp_path: Path) -> None:
    if not shutil.which(install.split()[0]):
        pytest.skip(f"{install.split()[0]} is not here")
    checkout, home = tmp_path / "checkout", tmp_path / "home"
    home.mkdir()
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(checkout)], check=True)
    environment = {**os.environ, "HOME": str(home), "PATH": f"{home}/.local/bin:{os.environ['PATH']}"}
    environment.pop("PYTHONPATH", None)
    subprocess.run(["bash", "-c", install], cwd=checkout, env=environment, check=True, capture_output=True, timeout=600)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["nanoclaw", *arguments]
        return subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, input="", timeout=100)

    assert run("--version").returncode == 0
    skills = json.loads(run("skills", "list", "--json").stdout)["skills"]
    assert {path.parent.name for path in (ROOT / "skills").glob("*/SKILL.md")} <= {skill["name"] for skill in skills}
    assert "SOUL.md" in run("init").stdout
    assert "  With a provider's key: nanoclaw init" in run("-m", "hi").stderr
    extra = run("--model", f"local/{_gguf(home)}", "-m", "hi").stderr
    assert f"{'pipx install --force' if 'pipx' in install else 'uv tool install'} '{checkout}[local]'" in extra


def _gguf(folder: Path) -> Path:
    path = folder / "model.gguf"
    path.write_bytes(b"GGUF")
    return path
