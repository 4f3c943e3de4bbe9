"""Files that an installed nanoclaw has with it."""

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_wheel_holds_skills_and_the_workspace_template(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("nanoclaw_assistant-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    shipped = [*(ROOT / "workspace_template").glob("*.md"), *(ROOT / "skills").glob("*/SKILL.md")]
    assert shipped
    assert {f"nanoclaw/shipped/{path.relative_to(ROOT)}" for path in shipped} <= names
    assert {"nanoclaw/cli.py", "nanoclaw/providers/services.toml", "nanoclaw/providers/local_models.toml"} <= names
    assert "nanoclaw/time_words/languages/en.json" in names
