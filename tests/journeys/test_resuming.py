"""`nanoclaw -c` and `-r`: going on with an earlier conversation of the terminal."""

from contextlib import closing
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from nanoclaw.channels.terminal.picker import pick
from tests.journeys.command import Home, Running
from tests.model_server import ModelServer, says, slowly


@pytest.fixture
def home(tmp_path: Path, server: ModelServer) -> Home:
    made = Home(tmp_path / "home")
    made.configure(server.base)
    server.script(says("Here."), says("There."), says("Where?"))
    made.run("-m", "Where are the boots?")
    made.run("-m", "Where is the tent?", "--session", "camp")
    return made


def test_c_goes_on_with_the_last_conversation_and_r_with_the_one_that_is_named(home: Home) -> None:
    assert home.run("-c", "-m", "And now?").out.strip() == "Where?"
    assert "And now?" in home.run("sessions", "show", "camp").out
    home.run("-r", "boots", "-m", "/rename Boots")
    home.run("-r", "tent", "-m", "/rename Boots and a tent")
    assert "terminal:main is now called" in home.run("-r", "boots", "-m", "/rename Boots").out
    assert "there is no conversation 'sea'" in home.run("-r", "sea", "-m", "Hi", check=2).err


def test_r_on_a_pipe_lists_them_and_says_how_to_name_one(home: Home) -> None:
    lines = home.run("-r").out.splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["camp", "main"]
    assert "just now, 2 messages" in lines[0] and lines[0].endswith("Where is the tent?")
    assert lines[2].endswith("-r NAME goes on with one.")


def test_an_answer_that_broke_off_is_not_told_as_the_one_before(home: Home, server: ModelServer) -> None:
    server.script(slowly("It rains all", " day.")[0])  # a word is shown when it is whole
    home.pace = 1.0  # or the model, which says no more, is soon asked again
    with closing(Running(home, "-c")) as killed:
        killed.say("And now?")
        killed.expect("Where?")
        killed.say("And the weather?")
        killed.expect("It rains")
    with closing(Running(home, "-c")) as again:
        again.expect("you: And the weather?\nnanoclaw: (the answer broke off, ")


def test_a_new_home_has_no_earlier_conversation(tmp_path: Path) -> None:
    assert "there is no earlier conversation" in Home(tmp_path / "home").run("-c", check=2).err


@pytest.mark.parametrize(
    ("keys", "place"),
    [("\r", 0), ("\x1b[B\r", 1), ("tent\r", 1), ("te\x1b[B\x1b[B\x1b[A\r", 1), ("sea\r\x03", None), ("\x04", None)],
)
def test_one_types_to_search_for_a_conversation(keys: str, place: int | None) -> None:
    lines = [("Boots", "main, just now"), ("Tent", "camp, 3 days ago"), ("Teeth", "dentist, a year ago")]
    with create_pipe_input() as typed, create_app_session(input=typed, output=DummyOutput()):
        typed.send_text(keys)
        assert pick(lines) == place
