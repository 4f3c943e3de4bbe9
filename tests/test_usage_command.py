"""`nanoclaw usage`: what it prints, on any screen, and that it names no price that nobody knows."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from nanoclaw.commands.usage_table import as_json, cells, short, table
from nanoclaw.core.messages import Origin, Usage
from nanoclaw.core.store.db import Store
from nanoclaw.core.store.usage import Call, record
from nanoclaw.dollars import dollars
from nanoclaw.providers import prices
from nanoclaw.usage_totals import Total
from tests.journeys.command import Home

TODAY = date(2026, 3, 6)
SINCE = date(2026, 3, 1)
DAYS = [
    Total("2026-03-03", 12, 1_200_000, 40_000, 900_000, cost=1.5),
    Total("2026-03-05", 1, 900, 100, unreported=1, unpriced={"acme/secret": 1}),
]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home", {"TZ": "UTC"})


def spend(
    home: Home, *calls: Call, days_ago: int = 0, session: str = "terminal:main", origin: Origin = "person"
) -> None:
    home.root.mkdir(exist_ok=True)
    store = Store(home.root / "state.db")
    with store.transaction() as db:
        db.execute("INSERT INTO sessions (key) VALUES (?) ON CONFLICT DO NOTHING", (session,))
        ((id_,),) = db.execute("SELECT id FROM sessions WHERE key = ?", (session,)).fetchall()
        record(db, calls, datetime.now(UTC) - timedelta(days=days_ago), session=id_, origin=origin)
    store.close()


def lines(by_day: list[Total], width: int = 100, encoding: str = "utf-8") -> list[str]:
    return "\n".join(table(by_day, "day", SINCE, TODAY, width, dollars, encoding)).splitlines()


def test_a_label_is_whole_on_a_pipe(home: Home) -> None:
    model = "openrouter/some-provider/a-model-with-a-name-that-is-longer-than-most-lines-on-a-screen-are-wide-2026-03"
    spend(home, Call(model, Usage(1000, 10)), session="telegram:-1001234567890/a-topic-with-a-long-name/and-a-person")
    assert model in home.run("usage", "--by", "model").out
    assert f"Price unknown, so not in the sum: {model} (1)." in home.run("usage", "--by", "day").out
    shown = home.run("usage", "--by", "session").out
    assert "telegram:-1001234567890/a-topic-with-a-long-name/and-a-person" in shown


def test_days_without_a_call_are_shown_between_the_others() -> None:
    assert [line.split()[0] for line in lines(DAYS)[2:7]] == [
        *("2026-03-03", "2026-03-04", "2026-03-05", "2026-03-06", "all"),
    ]


def test_the_longest_bar_is_divided_into_cached_other_and_output() -> None:
    bar = lines(DAYS, 120)[2].split()[1]
    assert bar == "░" * bar.count("░") + "▓" * bar.count("▓") + "█" * bar.count("█")
    assert bar.count("░") == pytest.approx(len(bar) * 900 / 1240, abs=1)
    assert bar.count("█") == pytest.approx(len(bar) * 40 / 1240, abs=1)


def test_a_little_still_has_a_bar_and_nothing_has_none() -> None:
    _, _, _, nothing, little, *_ = lines(DAYS)
    assert nothing == "2026-03-04"
    assert "▓" in little


@pytest.mark.parametrize("width", [30, 40, 60, 80, 100, 200])
def test_every_line_fits_the_screen(width: int) -> None:
    shown = table([Total("ключ" * 40, 1, 10, 1), Total("漢字" * 40, 1, 20, 1)], "session", SINCE, TODAY, width, str)
    assert max(map(cells, "\n".join(shown[2:]).splitlines())) <= width


def test_what_has_no_figures_or_no_price_is_said() -> None:
    text = "\n".join(lines(DAYS))
    assert "price unknown" in lines(DAYS)[4]
    assert "$1.50 + ?" in lines(DAYS)[6]
    assert "~ 1 of 13 calls came without figures: counted here." in text
    assert "Price unknown, so not in the sum: acme/secret (1)." in text


def test_a_screen_without_such_signs_gets_plain_ones() -> None:
    text = "\n".join(lines(DAYS, encoding="ascii"))
    assert text.isascii()
    assert "-=" in text


def test_a_name_from_outside_steers_no_terminal() -> None:
    text = "\n".join(table([Total("tele\x1b[31mgram\n:7", 1, 1, 1)], "session", SINCE, TODAY, 80, str))
    assert "\x1b" not in text
    assert "telegram :7" in text


def test_json_gives_no_sum_where_a_price_is_unknown() -> None:
    found = as_json(DAYS, "day", SINCE, TODAY)
    assert [row["cost_usd"] for row in found["rows"]] == [1.5, None]
    assert found["total"]["cost_usd"] is None
    assert found["total"]["known_cost_usd"] == 1.5
    assert found["total"]["input_tokens"] == 1_200_900


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0"), (999, "999"), (1000, "1.0k"), (9949, "9.9k"), (9950, "10k"), (999_499, "999k"), (999_500, "1.0M")],
)
def test_counts_are_short(count: int, shown: str) -> None:
    assert short(count) == shown


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


def test_a_pipe_gets_the_same_text_without_colour(home: Home) -> None:
    spend(home, Call("openai/gpt-5", Usage(1000, 100)))
    home.environment["COLUMNS"] = "50"
    out = home.run("usage").out
    assert "\x1b" not in out
    assert "▓" in out
    home.environment["PYTHONIOENCODING"] = "ascii"
    assert home.run("usage").out.isascii()


@pytest.mark.parametrize("days", ["0", "-1", "x", "99999999999", ""])
def test_a_number_of_days_that_is_none_is_told(home: Home, days: str) -> None:
    assert "not a number of days" in home.run("usage", f"--days={days}", check=2).err
