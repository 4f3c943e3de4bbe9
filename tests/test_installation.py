"""Hints name commands that work in the installation that they are said by: here real ones, from a wheel."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from nanoclaw.installation import install_command, start_command
from tests.model_server import ModelServer, says

ROOT = Path(__file__).parent.parent
LEFT_OUT = ("litellm", "xllamacpp", "pypdf", "nanoclaw", "_nanoclaw", "__editable__", "pip")


@dataclass
class Installed:
    prefix: Path
    home: Path
    path: str = ""

    def run(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": self.path or os.environ["PATH"], "HOME": str(self.home)}
        command = [str(self.prefix / "bin" / "nanoclaw"), *arguments]
        return subprocess.run(
            command, env=environment, cwd=cwd or self.home, capture_output=True, text=True, input="", timeout=100
        )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel in it; the libraries come from the one of the tests, but for some extras."""
    prefix = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(prefix)], check=True)
    python = str(prefix / "bin" / "python")
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(prefix)}))
    for library in Path(sysconfig.get_path("purelib")).iterdir():
        if not library.name.startswith(LEFT_OUT):
            (site / library.name).symlink_to(library)
    return prefix


@pytest.fixture
def installed(environment: Path, tmp_path: Path) -> Installed:
    """An environment of the test's own: a copy whose launcher starts the Python in it."""
    prefix, home = tmp_path / "environment", tmp_path / "home"
    home.mkdir()
    shutil.copytree(environment, prefix, symlinks=True)
    launcher = prefix / "bin" / "nanoclaw"
    launcher.write_text(launcher.read_text().replace(str(environment), str(prefix)))
    return Installed(prefix, home)


def test_away_from_the_path_hints_name_the_whole_launcher_or_its_place_in_this_folder(installed: Installed) -> None:
    assert f"{installed.prefix}/bin/nanoclaw local pull" in installed.run("-m", "hi").stderr
    here = installed.run("-m", "hi", cwd=installed.prefix).stderr
    assert " bin/nanoclaw local pull" in here


def test_on_the_path_hints_say_nanoclaw_though_only_a_link_lies_there(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nanoclaw").symlink_to(installed.prefix / "bin" / "nanoclaw")
    installed.path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    assert "  With a provider's key: nanoclaw init" in installed.run("-m", "hi").stderr


def test_another_nanoclaw_on_the_path_is_not_named(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nanoclaw").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "nanoclaw").chmod(0o755)
    installed.path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    assert f"{installed.prefix}/bin/nanoclaw init" in installed.run("-m", "hi").stderr


@pytest.mark.parametrize(
    ("left", "command"),
    [
        ("uv-receipt.toml", "uv tool install"),
        ("pipx_metadata.json", "pipx install --force"),
        ("", "uv pip install --python"),
        ("bin/pip", "bin/pip install"),
    ],
)
def test_an_extra_is_added_by_what_installed_the_program(installed: Installed, left: str, command: str) -> None:
    if left:
        (installed.prefix / left).write_text("")
    model = installed.home / "model.gguf"
    model.write_bytes(b"GGUF")
    told = installed.run("--model", f"local/{model}", "-m", "hi").stderr
    assert command in told
    assert "local" in told.rpartition("[")[2]
    assert ".whl[" in told
    assert "nanoclaw-assistant[" not in told


def test_an_extra_that_came_with_another_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    extras = {"local": "xllamacpp>=1 nanoclaw-assistant[page,mcp]", "page": "starlette>=1,<2 websockets>=15"}
    extras |= {"mcp": "mcp>=2.3", "discord": "websockets>=15", "slack": "websockets>=15", "email": "imap-tools>=1"}
    requires = [f"{one}; extra == '{extra}'" for extra, needs in extras.items() for one in needs.split()]
    program = SimpleNamespace(requires=requires, read_text=lambda name: None)

    def distribution(name: str) -> SimpleNamespace:
        if name == "imap-tools":
            raise metadata.PackageNotFoundError
        return program

    monkeypatch.setattr(metadata, "distribution", distribution)
    assert install_command("email").endswith("'nanoclaw-assistant[email,local]'")


def test_in_a_container_an_extra_is_added_to_its_image(installed: Installed) -> None:
    (installed.prefix / "container").write_text("")
    (installed.home / "model.gguf").write_bytes(b"GGUF")
    told = installed.run("--model", f"local/{installed.home / 'model.gguf'}", "-m", "hi").stderr
    assert "podman build --build-arg EXTRAS=" in told and "local" in told.rpartition("EXTRAS=")[2].split()[0]


def test_an_environment_without_pip_downloads_with_the_one_that_python_carries(installed: Installed) -> None:
    code = "import subprocess, sys; from nanoclaw.providers.pull import _pip; print(*_pip()); "
    code += "sys.exit(subprocess.run([sys.executable, *_pip(), 'download', '--help'], stdout=-3).returncode)"
    done = subprocess.run([str(installed.prefix / "bin" / "python"), "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "pip-" in done.stdout


def test_shipped_skills_and_templates_are_there_from_another_folder(installed: Installed) -> None:
    skills = json.loads(installed.run("skills", "list", "--json").stdout)
    shipped = {path.parent.name for path in (ROOT / "skills").glob("*/SKILL.md")}
    assert shipped <= {skill["name"] for skill in skills["skills"]}
    installed.run("init")
    workspace = installed.home / ".nanoclaw" / "workspace"
    assert {path.name for path in workspace.glob("*.md")} == {
        path.name for path in (ROOT / "workspace_template").glob("*.md")
    }


def test_without_litellm_a_direct_provider_answers_and_another_says_how_to_get_it(installed: Installed) -> None:
    server = ModelServer()
    server.script(*[says("Hello.")] * 3)
    installed.run("init", "--model", "openai/some-model", "--api-base", server.base)
    answered = installed.run("-m", "hi")
    server.stop()
    assert (answered.returncode, answered.stdout) == (0, "Hello.\n"), answered.stderr
    installed.run("init", "--model", "gemini/gemini-2.5-flash")
    secrets = installed.home / ".nanoclaw" / "secrets.env"
    secrets.write_text("GEMINI_API_KEY=k\n")
    secrets.chmod(0o600)
    told = installed.run("-m", "hi")
    assert told.returncode == 1
    assert "needs litellm" in told.stderr
    assert ".whl" in told.stderr


def test_a_service_that_runs_in_the_root_names_the_launcher_by_its_whole_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    monkeypatch.setenv("PATH", "")
    assert start_command().startswith("/")


def test_what_a_library_asks_for_by_an_extra_that_old_pip_does_not_know_is_asked_for_by_us() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert any(one.startswith("lxml_html_clean") for one in extras["web"])  # else trafilatura cannot be imported
