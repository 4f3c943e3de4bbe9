"""A home for each journey."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.journeys.command import Home
from tests.model_server import ModelServer


@pytest.fixture
def home(tmp_path: Path, server: ModelServer) -> Home:
    home = Home(tmp_path / "home")
    home.configure(server.base)
    return home
