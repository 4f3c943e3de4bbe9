"""Terminals whose process ends: by a kill, a stop, or the person at another terminal. Real processes."""

import re
import signal
import socket
import threading
from contextlib import closing

import pytest

from nanoclaw import home_socket
from nanoclaw.channels import attach
from nanoclaw.core.errors import StoreBusy
from tests.core.store.test_db import held
from tests.journeys.command import Home, Running
from tests.journeys.conftest import Start
from tests.model_server import ModelServer, says


def test_a_terminal_goes_on_when_the_one_it_attached_to_is_left(home: Home, server: ModelServer, start: Start) -> None:
    owner, other, third = start(), start(), start("--session", "work")
    owner.say("/exit")
    assert owner.ended() == 0
    server.script(says("A heron."), says("A bittern."))
    other.say("which bird?")
    other.expect("A heron.")
    third.say("and which one here?")
    third.expect("A bittern.")
    gone = f"process {owner.process.pid}, which was answering, has ended; "
    lines = [re.search(f"(?m){re.escape(gone)}(.*)$", one.text) for one in (other, third)]
    said = sorted(line[1].partition(" process ")[0] for line in lines if line)
    assert said == ["attached to", "this terminal continues on its own."]


def test_what_comes_while_nobody_answers_waits_and_is_shown_once(home: Home, server: ModelServer, start: Start) -> None:
    owner, other = start("gateway"), start()
    other.process.send_signal(signal.SIGSTOP)
    owner.process.kill()
    owner.process.wait()
    server.script(says("A heron."))
    other.say("/note one")
    other.say("/note two")
    assert home.run("-m", "which bird?").out == "A heron.\n"
    other.process.send_signal(signal.SIGCONT)
    other.say("/note three")
    shown = other.expect("Noted in", times=3)
    other.say("/exit")
    assert (other.ended(), shown.count("A heron.")) == (0, 1)
    notes = "".join(path.read_text() for path in (home.workspace / "memory").glob("*.md"))
    assert [notes.count(word) for word in ("one", "two", "three")] == [1, 1, 1]


def test_a_gateway_gets_the_home_from_a_terminal_and_all_attach(home: Home, server: ModelServer, start: Start) -> None:
    owner, other = start(), start()
    gateway = start("gateway")
    for one in (owner, other):
        one.expect(f"attached to process {gateway.process.pid}")
    server.script(says("A heron."))
    owner.say("which bird?")
    owner.expect("A heron.")
    other.expect("A heron.")


def test_of_a_process_that_is_still_ending_nothing_else_is_said(home: Home) -> None:
    home.root.mkdir(exist_ok=True)
    with held(home.root / "state.db") as ending, closing(socket.socket(socket.AF_UNIX)) as listening:
        home_socket.in_reach(str(home.root), listening.bind)
        listening.listen()
        with closing(Running(home)) as one:
            line, _ = listening.accept()
            listening.close()
            line.sendall(b'{"nanoclaw": 1, "model": "some/model", "pid": %d}\n' % ending.pid)
            one.expect("attached to process")
            line.close()
            assert "has ended" not in one.expect(f"process {ending.pid}, which was answering, is still ending")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_terminal_outlives_a_gateway_that_is_started_again(home: Home, start: Start, number: signal.Signals) -> None:
    first, one = start("gateway"), start()
    first.process.send_signal(number)
    assert first.ended() == 0
    one.expect("nobody answers: this terminal takes over …")
    second = start("gateway")
    one.expect(f"a gateway takes over; attached to process {second.process.pid}")
    one.say("/note still here")
    one.expect("Noted in")


def test_a_process_that_ends_while_it_is_greeted_is_not_there(home: Home, server: ModelServer) -> None:
    server.script(says("A heron."))
    with closing(socket.socket(socket.AF_UNIX)) as ending:
        home_socket.in_reach(str(home.root), ending.bind)
        ending.listen()
        threading.Thread(target=lambda: [ending.accept() and None for _ in range(2)], daemon=True).start()
        assert home.run("-m", "which bird?").out == "A heron.\n"


def test_a_gateway_waits_for_one_that_does_not_answer_as_it_gives_the_home_up(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attach, "HELLO_SECONDS", 0.05)
    home.root.mkdir(exist_ok=True)
    with closing(socket.socket(socket.AF_UNIX)) as silent:
        home_socket.in_reach(str(home.root), silent.bind)
        silent.listen()
        assert attach.connect(str(home.root), "home") is None
        with pytest.raises(StoreBusy, match="does not answer: wait for it"):
            attach.connect(str(home.root), "chat")
