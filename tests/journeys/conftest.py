"""A home for each journey."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.journeys.command import Home, Running
from tests.model_server import ModelServer

Start = Callable[..., Running]


@pytest.fixture
def home(tmp_path: Path, server: ModelServer) -> Home:
    home = Home(tmp_path / "home")
    home.configure(server.base)
    return home


@pytest.fixture
def start(home: Home) -> Iterator[Start]:
    """`start("gateway")` and the like; all are ended after the test."""
    running: list[Running] = []

    def begin(*arguments: str) -> Running:
        running.append(Running(home, *arguments))
        running[-1].expect({"gateway": "serves"}.get(arguments[0] if arguments else "", "> "))
        return running[-1]

    yield begin
    for one in running:
        one.close()
