"""`nanoclaw attach`: a terminal with a home of its own talks over the page of a gateway. Real processes and sockets."""

from __future__ import annotations

import json
import signal
import socket
from contextlib import closing
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from tests.journeys.command import Home, Running
from tests.journeys.conftest import Start
from tests.model_server import ModelServer, delta, events, says


@pytest.fixture
def url(home: Home, server: ModelServer) -> str:
    """The page of a gateway that is about to start."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    home.configure(server.base, more=f"[page]\nport = {port}\n")
    return f"http://127.0.0.1:{port}"


@pytest.fixture
def other(tmp_path: Path) -> Home:
    """The home of another machine."""
    return Home(tmp_path / "elsewhere" / "home")


@pytest.fixture
def gateway(url: str, start: Start) -> Running:
    return start("gateway")


@pytest.fixture
def token(home: Home, gateway: Running, tmp_path: Path) -> Path:
    """The file with a token of the gateway that runs."""
    (tmp_path / "token").write_text(home.run("web", "token", "laptop").out)
    return tmp_path / "token"


def test_a_terminal_elsewhere_talks_attaches_again_after_a_kill_and_ends_with_its_token(
    home: Home, server: ModelServer, url: str, gateway: Running, token: Path, start: Start, other: Home, tmp_path: Path
) -> None:
    server.script(says("A heron."), says("A bittern."))
    with closing(Running(other, "attach", url, "--token-file", str(token), "--session", "work")) as terminal:
        terminal.expect("attached to process")
        terminal.say("which bird?")
        terminal.expect("A heron.")
        (tmp_path / "bird.txt").write_text("pelican")
        terminal.say(f"read {tmp_path / 'bird.txt'}")
        terminal.expect("not accepted: files don't come this way")
        gateway.process.kill()
        gateway.process.wait()
        terminal.expect("the connection is gone: trying again …")
        terminal.expect(f"the connection to {url[7:]} was lost, and nobody can answer yet: ")
        terminal.say("and which one here?")
        start("gateway")
        terminal.expect("A bittern.")
        home.run("web", "token", "--revoke", "laptop")
        terminal.expect("nanoclaw takes no connection: There is no such token")
        assert terminal.ended() == 2
    assert "A heron." in home.run("sessions", "show", "work").out and not (other.root / "state.db").exists()


@pytest.mark.parametrize("is_far", [False, True])
def test_a_terminal_that_comes_back_shows_once_what_another_was_shown_meanwhile(
    home: Home, server: ModelServer, url: str, gateway: Running, token: Path, start: Start, other: Home, is_far: bool
) -> None:
    where, options = (other, ("attach", url, "--token-file", str(token))) if is_far else (home, ())
    server.script(events(delta(content="A heron can "), done=False, hang=True), says("It can fly."), says("A bittern."))
    with closing(Running(where, *options)) as asks, closing(Running(where, *options)) as looks:
        looks.expect("> ")
        asks.expect("> ")
        asks.say("what is a heron?")
        asks.expect("A heron can")
        asks.process.send_signal(signal.SIGSTOP)
        gateway.process.kill()
        gateway.process.wait()
        _ = start("gateway") if is_far else looks.expect("this terminal continues on its own")
        looks.expect("It can fly.")
        asks.process.send_signal(signal.SIGCONT)
        asks.expect("It can fly.")
        looks.say("and which one here?")
        for one in (asks, looks):
            shown = one.expect("A bittern.")
            assert shown.count("It can fly.") == 1 and shown.index("It can fly.") < shown.index("A bittern.")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://home.example", "has no TLS, so anybody between could read all"),
        ("https://", "is no address of a page"),
        ("ftp://home.example", "is no address of a page"),
        ("http://127.0.0.1:9", "nanoclaw at 127.0.0.1:9 cannot be reached"),
    ],
)
def test_an_address_that_is_wrong_or_not_safe_is_a_sentence(other: Home, tmp_path: Path, url: str, told: str) -> None:
    (tmp_path / "token").write_text("nc-1")
    ended = other.run("attach", url, "--token-file", str(tmp_path / "token"), check=None)
    assert ended.status in (1, 2) and told in ended.err and "nc-1" not in ended.err


def test_without_a_token_nobody_attaches_and_with_one_a_terminal_may_only_talk(
    home: Home, url: str, token: Path, other: Home, tmp_path: Path
) -> None:
    for lines, told in (("nc-wrong", "There is no such token"), ("", "there is no token in")):
        (tmp_path / "wrong").write_text(lines)
        ended = other.run("attach", url, "--token-file", str(tmp_path / "wrong"), check=None)
        assert ended.status in (1, 2) and told in ended.err
    assert "attach needs --token-file" in other.run("attach", url, check=2).err
    told = other.run("attach", url.replace("http:", "https:"), "--token-file", str(token), check=1).err
    assert "what is there speaks no TLS: its address begins with http:" in told and f"chmod 600 {token}" in told
    told = other.run("attach", url, "--token-file", str(token), "--session", "telegram:1", check=1).err
    assert "there is no conversation 'telegram:1' for a terminal; there " in told
    where = f"ws{url[4:]}/attach"
    with pytest.raises(InvalidStatus):
        connect(where)
    header = {"Authorization": f"Bearer {token.read_text().split()[0]}"}
    for said in (json.dumps({"nanoclaw": 1, "want": "home"}), "[]", "{", b"\xff\x00"):
        with connect(where, additional_headers=header) as line, pytest.raises(ConnectionClosed):
            line.send(said)
            line.recv(10)
    assert json.loads(home.run("status", "--json").out)["process"]["role"] == "gateway"
