"""The limit of money in whole processes: spent over several of them, and held when one is killed in a request."""

import json
from pathlib import Path

import pytest

from tests.journeys.command import Home
from tests.model_server import ModelServer, says

PRICED = {"prompt_tokens": 2_000, "completion_tokens": 5_500}
"""Of openai/gpt-4o: 2,000 × $2.50 and 5,500 × $10 for a million tokens are 6 cents."""


@pytest.fixture
def home(tmp_path: Path, server: ModelServer) -> Home:
    home = Home(tmp_path / "home")
    elsewhere = server.base.replace("127.0.0.1", "0.0.0.0")  # an address that leads here, and isn't known to
    home.configure(elsewhere, more="[limits]\nday_usd = 0.14\n")
    config = home.root / "config.toml"
    config.write_text(config.read_text().replace("openai/scripted", "openai/gpt-4o"))
    return home


def test_a_server_on_this_machine_is_free_unless_the_person_says_that_it_costs(
    tmp_path: Path, server: ModelServer
) -> None:
    home = Home(tmp_path / "home")
    home.configure(server.base, more="[limits]\nday_usd = 0.14\n")
    config = home.root / "config.toml"
    config.write_text(config.read_text().replace("openai/scripted", "openai/gpt-4o"))
    server.script(says("One.", usage=PRICED), says("Two.", usage=PRICED))
    home.run("-m", "hello")
    told = home.run("-m", "/budget").out
    assert "Today: $0" in told and "1 request of this month went to this machine and counts as free" in told
    config.write_text(config.read_text() + "count_local = true\n")
    home.run("-m", "hello")
    assert "Today: $0.06" in home.run("-m", "/budget").out


def test_several_runs_share_a_limit_and_a_yes_goes_beyond_it(home: Home, server: ModelServer) -> None:
    server.script(*(says(f"Answer {number}.", usage=PRICED) for number in range(1, 5)))
    for number in (1, 2):
        assert f"Answer {number}." in home.run("-m", "hello").out
    third = home.run("-m", "hello")
    assert "$0.12 of the $0.14 for today are spent" in third.err
    assert "Answer 3." in third.out
    refused = home.run("-m", "hello", check=1)
    assert "$0.18 of the $0.14 for today are spent" in refused.err and "/budget yes" in refused.err
    home.run("-m", "/budget yes")
    assert "Answer 4." in home.run("-m", "hello").out
    assert server.left == 0
    assert "Today: $0.24 spent of $0.14." in home.run("-m", "/budget").out
    assert json.loads(home.run("usage", "--json").out)["total"]["cost_usd"] == pytest.approx(0.24)


@pytest.mark.parametrize("tokens", [10**30, -5, 1.5e300, float("nan"), float("inf"), "many", None, [3]])
def test_figures_that_no_request_can_have_taken_cost_no_answer(home: Home, server: ModelServer, tokens: object) -> None:
    figures = {"prompt_tokens": tokens, "completion_tokens": tokens, "prompt_tokens_details": {"cached_tokens": tokens}}
    server.script(says("Yes.", usage=figures), says("Still.", usage=PRICED))
    assert home.run("-m", "are you there?").out == "Yes.\n"
    assert home.run("-m", "and now?").out == "Still.\n"
    assert "10^" not in home.run("usage").out
