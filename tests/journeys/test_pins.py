"""A standing rule in whole processes: pinned in one, held in the next."""

from tests.journeys.command import Home
from tests.journeys.test_one_answer import calls
from tests.model_server import ModelServer, says


def test_a_command_that_was_pinned_away_is_refused_in_the_next_process(home: Home, server: ModelServer) -> None:
    server.script(says('{"forbids": [{"command": "touch"}]}'))
    pinned = home.run("-m", "/pin Never run `touch`").out
    assert pinned == "Pinned as rule 1, enforced: commands beginning with `touch`.\n"
    server.script(calls("exec", {"command": "echo begun; sudo env A=1 touch file"}), says("I may not."))
    assert "I may not." in home.run("-m", "make a file").out
    first, second = (asked.json["messages"] for asked in server.asked[1:])
    assert "1. Never run `touch`" in first[0]["content"]
    assert second[-1]["role"] == "tool"
    assert "refused by the person's standing rule “Never run `touch`”" in second[-1]["content"]
    assert "begun" not in second[-1]["content"]
