"""Prices and windows, as the table that comes with litellm has them."""

import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pytest

from nanoclaw.core.messages import Usage
from nanoclaw.providers import prices

TABLE = """{
    "plain": {"litellm_provider": "acme", "input_cost_per_token": 1e-06, "output_cost_per_token": 2e-06,
        "cache_read_input_token_cost": 1e-07, "max_input_tokens": 1000, "max_tokens": 10},
    "tiered": {"litellm_provider": "acme", "input_cost_per_token": 1e-06, "output_cost_per_token": 2e-06,
        "input_cost_per_token_above_200k_tokens": 2e-06, "output_cost_per_token_above_200k_tokens": 4e-06},
    "no-price": {"litellm_provider": "acme", "max_tokens": 500},
    "acme/own": {"input_cost_per_token": 1e-06, "output_cost_per_token": 1e-06},
    "half": {"litellm_provider": "acme", "input_cost_per_token":
"""


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    prices._model.cache_clear()
    monkeypatch.setattr(prices, "_table", lambda: BytesIO(TABLE.encode()))
    monkeypatch.setattr(prices, "_model", prices._model.__wrapped__)


@pytest.mark.usefixtures("table")
def test_cached_tokens_have_a_price_of_their_own() -> None:
    assert prices.cost("acme/plain", Usage(1_000_000, 100_000, 400_000)) == pytest.approx(0.6 + 0.04 + 0.2)


@pytest.mark.usefixtures("table")
def test_where_the_table_has_no_price_for_cached_tokens_they_cost_as_others_do() -> None:
    assert prices.cost("acme/own", Usage(1_000_000, 0, 400_000)) == pytest.approx(1)


@pytest.mark.usefixtures("table")
def test_a_long_request_is_priced_by_its_tier() -> None:
    assert prices.cost("acme/tiered", Usage(200_000, 0)) == pytest.approx(0.2)
    assert prices.cost("acme/tiered", Usage(200_001, 1000)) == pytest.approx(0.404, rel=1e-4)


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("model", ["acme/no-price", "acme/other", "other/plain", "acme/half", "plain", "", "acme/"])
def test_what_the_table_does_not_price_is_unknown(model: str) -> None:
    assert prices.cost(model, Usage(10, 10)) is None


@pytest.mark.usefixtures("table")
def test_a_window_is_what_goes_in() -> None:
    assert prices.window("acme/plain") == 1000
    assert prices.window("acme/no-price") == 500
    assert prices.window("acme/own") is None


def test_a_model_on_the_person_s_machine_costs_nothing() -> None:
    assert prices.cost("local/tiny", Usage(10**6, 10**6)) == 0
    assert prices.cost("ollama/llama3", Usage(10**6, 10**6)) == 0
    assert prices.window("ollama/llama3") is None


@pytest.mark.parametrize("model", ["openai/gpt-5", "anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-pro"])
def test_models_that_people_use_are_known(model: str) -> None:
    cost = prices.cost(model, Usage(1_000_000, 0))
    assert cost and 0.1 < cost < 50
    assert (prices.window(model) or 0) >= 100_000


def test_without_the_table_everything_is_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    prices._model.cache_clear()
    monkeypatch.setattr(prices, "_TABLE", "no-such-file.json")
    assert prices.cost("openai/gpt-5", Usage(1, 1)) is None
    prices._model.cache_clear()


def test_litellm_is_not_imported_for_a_price() -> None:
    code = (
        "import sys; from nanoclaw.core.messages import Usage; from nanoclaw.providers import prices;"
        "assert prices.cost('openai/gpt-5', Usage(1, 1)); sys.exit('litellm' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
