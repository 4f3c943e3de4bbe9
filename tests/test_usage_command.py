"""`nanoclaw usage`: what it prints, and that it names no price that nobody knows."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nanoclaw.core.messages import Origin, Usage
from nanoclaw.core.store.sessions import Call, record
from nanoclaw.providers import prices
from nanoclaw.start.opening import open_store
from tests.journeys.command import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home", {"TZ": "UTC"})


def spend(
    home: Home, *calls: Call, days_ago: int = 0, session: str = "terminal:main", origin: Origin = "person"
) -> None:
    home.root.mkdir(exist_ok=True)
    store = open_store(home.root / "state.db")
    with store.transaction() as db:
        db.execute("INSERT INTO sessions (key) VALUES (?) ON CONFLICT DO NOTHING", (session,))
        ((id_,),) = db.execute("SELECT id FROM sessions WHERE key = ?", (session,)).fetchall()
        record(db, calls, datetime.now(UTC) - timedelta(days=days_ago), session=id_, origin=origin)
    store.close()


def test_a_label_is_whole_on_a_pipe(home: Home) -> None:
    model = "openrouter/some-provider/a-model-with-a-name-that-is-longer-than-most-lines-on-a-screen-are-wide-2026-03"
    spend(home, Call(model, Usage(1000, 10)), session="telegram:-1001234567890/a-topic-with-a-long-name/and-a-person")
    assert model in home.run("usage", "--by", "model").out
    assert f"Price unknown, so not in the sum: {model} (1)." in home.run("usage", "--by", "day").out
    shown = home.run("usage", "--by", "session").out
    assert "telegram:-1001234567890/a-topic-with-a-long-name/and-a-person" in shown


def test_what_has_no_figures_or_no_price_is_said_and_json_gives_no_sum_then(home: Home) -> None:
    spend(home, Call("openai/gpt-5", Usage(1_000_000, 100_000, 900_000)), days_ago=2)
    spend(home, Call("acme/secret", Usage(900, 100), 0, False))
    said = home.run("usage").out
    first, last, everything = said.splitlines()[1:4]
    assert re.search(r"1,000,000 in  \(90 % cached\)  100,000 out +1 call +\$1", first)
    assert "~900 in" in last and last.endswith("price unknown")
    assert everything.startswith("all ") and everything.endswith(" + ?")
    assert "~ 1 of 2 calls came without figures: counted here." in said
    assert "Price unknown, so not in the sum: acme/secret (1)." in said
    found = json.loads(home.run("usage", "--json").out)
    assert found["rows"][1]["cost_usd"] is None is found["total"]["cost_usd"]
    assert found["total"]["known_cost_usd"] == found["rows"][0]["cost_usd"] > 0
    assert found["total"]["input_tokens"] == 1_000_900


def test_a_name_from_outside_steers_no_terminal(home: Home) -> None:
    spend(home, Call("acme/x", Usage(1, 1)), session="tele\x1b[31mgram\n:7")
    assert "telegram :7  " in (said := home.run("usage", "--by", "session").out) and "\x1b" not in said


def test_before_any_call_there_is_nothing_to_show_and_nothing_is_made(home: Home) -> None:
    assert "none yet" in home.run("usage").out
    assert json.loads(home.run("usage", "--json").out)["rows"] == []
    assert not home.root.exists()


def test_the_command_prices_calls_by_the_shipped_table(home: Home) -> None:
    spend(home, Call("openai/gpt-5", Usage(1_000_000, 100_000, 500_000)), Call("local/tiny", Usage(1000, 1000)))
    spend(home, Call("acme/secret", Usage(10, 1)), days_ago=3)
    rows = json.loads(home.run("usage", "--by", "model", "--json").out)["rows"]
    costs = {row["key"]: row["cost_usd"] for row in rows}
    assert costs["local/tiny"] == 0
    assert costs["acme/secret"] is None
    assert costs["openai/gpt-5"] == prices.cost("openai/gpt-5", Usage(1_000_000, 100_000, 500_000))


def test_days_and_groups_can_be_chosen(home: Home) -> None:
    spend(home, Call("a/b", Usage(10, 1)), days_ago=10, session="telegram:7", origin="heartbeat")
    spend(home, Call("a/b", Usage(20, 1)))
    assert "telegram:7" in home.run("usage", "--by", "session").out
    assert "telegram:7" not in home.run("usage", "--by", "session", "--days", "10").out
    assert "heartbeat" in home.run("usage", "--by", "origin", "--days", "11").out


@pytest.mark.parametrize("days", ["0", "-1", "x", "99999999999", ""])
def test_a_number_of_days_that_is_none_is_told(home: Home, days: str) -> None:
    assert "is not a whole number" in home.run("usage", f"--days={days}", check=2).err
