"""The channel of docs/channels.md, installed as its own package beside nanoclaw, in a real gateway."""

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys.command import Home
from tests.model_server import ModelServer, says
from tests.program import REPOSITORY

DOCUMENT = (REPOSITORY / "docs" / "channels.md").read_text(encoding="utf-8")
SECONDS = 100.0  # until which what is expected must be there


def block(language: str, having: str) -> str:
    found = re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT, re.DOTALL | re.MULTILINE)
    (code,) = [code for code in found if having in code]
    return str(code)


@pytest.fixture
def letters(home: Home, server: ModelServer, tmp_path: Path) -> Iterator[Path]:
    """The folder of a gateway that has the example channel; anna is let in."""
    site = tmp_path / "site"
    about = site / "nanoclaw_folder-1.dist-info"
    about.mkdir(parents=True)
    (site / "nanoclaw_folder.py").write_text(block("python", "class Folder"))
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: nanoclaw-folder\nVersion: 1\n")
    (about / "entry_points.txt").write_text(
        "[nanoclaw.channels]\n" + block("toml", "entry-points").split("]\n")[-1].replace('"', "")
    )
    home.configure(server.base, more=block("toml", "[channels.folder]"))
    variables = {**home.variables(), "PYTHONPATH": str(site)}
    gateway = subprocess.Popen(  # a fresh interpreter: its path is that of PYTHONPATH
        home.command("gateway"), env=variables, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True
    )
    folder = Path(variables["NANOCLAW_HOME"]) / "letters"
    until(lambda: (folder / "out").is_dir() or gateway.poll() is not None)
    assert gateway.poll() is None, gateway.stderr and gateway.stderr.read()
    yield folder
    gateway.send_signal(signal.SIGTERM)
    gateway.communicate(timeout=SECONDS)


def until(is_there: object) -> None:
    assert callable(is_there)
    while not is_there():
        time.sleep(0.02)


def put(folder: Path, name: str, text: str) -> None:
    """As a whole: nobody sees half of it."""
    draft = folder / f"{name}.draft"
    draft.write_text(text)
    draft.replace(folder / "in" / f"{name}.txt")


def test_a_letter_of_somebody_who_is_let_in_is_answered_once(letters: Path, server: ModelServer) -> None:
    server.script(says("Good morning, Anna."))
    put(letters, "stranger", "Who are you?")
    until(lambda: not list((letters / "in").iterdir()))
    put(letters, "anna", "Good morning!")
    until(lambda: list((letters / "out").iterdir()))
    (answer,) = (letters / "out").iterdir()
    assert (answer.name.startswith("anna-"), answer.read_text()) == (True, "Good morning, Anna.")
    (request,) = server.asked
    assert "Answers are read as text files." in json.dumps(request.json)
