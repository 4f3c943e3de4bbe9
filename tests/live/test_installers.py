"""The README's first command, by the real installers, from a copy of this source; it fetches packages."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
INSTALLS = re.findall(r"^((?:uv|pipx) .*?)(?:  |$)", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
INSTALLS += [INSTALLS[0].replace("uv tool", "pipx")]


@pytest.mark.live
@pytest.mark.parametrize("install", INSTALLS)
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
    if "local" not in install:
        (home / "model.gguf").write_bytes(b"GGUF")
        told = run("--model", f"local/{home / 'model.gguf'}", "-m", "hi").stderr
        assert f"uv tool install '{checkout}[local]'" in told
