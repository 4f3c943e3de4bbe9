"""`nanoclaw -m` while the model is down or hangs: it waits, says why, and leaves nothing open."""

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nanoclaw.start.opening import read_store
from tests.journeys.command import Home, Running
from tests.model_server import ModelServer, events, failing, says

BUSY = {"error": {"message": "the owl is moulting"}}
Start = Callable[..., Running]


@pytest.fixture(params=["alone", "attached"])
def where(request: pytest.FixtureRequest, home: Home) -> Iterator[str]:
    """In a process of its own, and by way of a gateway."""
    gateway = Running(home, "gateway") if request.param == "attached" else None
    if gateway:
        gateway.expect("serves")
    yield request.param
    if gateway:
        gateway.close()


def open_things(home: Home) -> list[int]:
    """Messages that are not done with, and turns that are not ended."""
    store = read_store(home.root / "state.db")
    try:
        return [
            store.rows(f"SELECT count(*) FROM {what}")[0][0]
            for what in ("inbox WHERE state != 'done'", "turns WHERE ended IS NULL")
        ]
    finally:
        store.close()


def test_a_server_that_fails_is_told_in_its_own_words_and_nothing_stays_open(
    home: Home, server: ModelServer, where: str
) -> None:
    server.script(*[failing(503, BUSY)] * 9)
    ended = home.run("-m", "hi", "--timeout", "4", check=1)
    assert ended.out == ""
    assert "the owl is moulting" in ended.err
    assert "I answer when it is back" not in ended.err
    assert open_things(home) == [0, 0]


def test_a_server_that_hangs_is_left_after_the_time(home: Home, server: ModelServer, where: str) -> None:
    server.script(events(done=False, hang=True))
    ended = home.run("-m", "hi", "--timeout", "0.3", "--json", check=1)
    told = json.loads(ended.out)
    assert told["reason"] == "failed"
    assert "openai/scripted has sent nothing for 0.3 s" in told["error"]
    assert open_things(home) == [0, 0]


def test_a_server_that_comes_back_in_time_answers(home: Home, server: ModelServer, where: str) -> None:
    server.script(*[failing(503, BUSY)] * 3, says("Four."))
    ended = home.run("-m", "two and two?")
    assert ended.out == "Four.\n"
    assert "the owl is moulting" in ended.err and "It is asked again in 5 s." in ended.err


def test_a_question_behind_one_that_waits_for_the_model_is_not_answered_later(home: Home, server: ModelServer) -> None:
    server.script(*[failing(503, BUSY)] * 20)
    gateway, chat = Running(home, "gateway"), None
    try:
        gateway.expect("serves")
        chat = Running(home)
        chat.expect("> ")
        chat.say("Which bird is the first?")
        chat.expect("I answer when it is back")
        ended = home.run("-m", "Which bird is the second?", check=1)
        assert "“Which bird is the first?” waits for an answer here first" in ended.err
        assert open_things(home)[0] == 1
        server._script[:] = [says("A heron."), says("A bittern.")]
        assert home.run("-m", "Which bird is the third?").out == "A bittern.\n"
        chat.expect("A heron.")
        assert open_things(home) == [0, 0]
        assert "Which bird is the second?" not in json.dumps(server.asked[-1].json)
    finally:
        for one in (chat, gateway):
            if one:
                one.close()


def test_nobody_at_the_address_is_said(home: Home, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        home.configure(f"http://{address}/v1")
        ended = home.run("-m", "hi", "--timeout", "4", check=1)
    assert f"openai/scripted cannot be reached: nothing listens at {address}." in ended.err
    assert open_things(home) == [0, 0]


@pytest.mark.parametrize("given", ["0", "-1", "soon", "inf", "nan"])
def test_a_time_that_is_none_is_refused(home: Home, given: str) -> None:
    assert "not a number of seconds above 0" in home.run("-m", "hi", f"--timeout={given}", check=2).err
