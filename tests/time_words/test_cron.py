import random
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from nanoclaw.time_words import TimeWordsError
from nanoclaw.time_words.cron import LONGEST, check, next_due
from tests.examples import examples

CRON = examples(__file__, "cron.jsonl")


def due_times(expression: str, zone: str, after: str, count: int) -> list[str]:
    """The next times there, as a clock there shows them with its offset."""
    at, found = datetime.fromisoformat(after).replace(tzinfo=ZoneInfo(zone)), []
    for _ in range(count):
        at = next_due(expression, zone, at)
        assert at.tzinfo is UTC
        found.append(at.astimezone(ZoneInfo(zone)).strftime("%m-%d %H:%M %z"))
    return found


@pytest.mark.parametrize(
    ("expression", "zone", "after", "times"), CRON["the next times are those of a clock on the wall"]
)
def test_the_next_times_are_those_of_a_wall_clock(expression: str, zone: str, after: str, times: list[str]) -> None:
    assert due_times(expression, zone, after, len(times)) == times


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/St_Johns"])
@pytest.mark.parametrize("clock", ["15 1", "30 1", "45 1", "0 2", "10 2", "30 2", "59 2", "0 3"])
@pytest.mark.parametrize("before", [date(2027, 2, 28), date(2027, 9, 30)], ids=["spring", "autumn"])
def test_a_daily_job_is_due_once_on_every_day_of_the_months_in_which_clocks_change(
    zone: str, clock: str, before: date
) -> None:
    at = datetime.combine(before, time(23, 59), ZoneInfo(zone)).astimezone(UTC)
    days = []
    for _ in range(61):
        at = next_due(f"{clock} * * *", zone, at)
        days.append(at.astimezone(ZoneInfo(zone)).date())
    assert days == [before + timedelta(days=number) for number in range(1, 62)]


@pytest.mark.parametrize("expression", CRON["a job may have what comes at most once a minute"])
def test_a_job_may_have_what_comes_at_most_once_a_minute(expression: str) -> None:
    check(expression)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("", "no field"),
        ("0 9 * *", "4 fields"),
        ("nonsense", "'nonsense'"),
        ("0 24 * * *", "24 is not a hour (0 to 23)"),
        ("*/0 * * * *", "its fields cannot be read"),
        ("0 9 * * lundi", "'0 9 * * lundi'"),
        ("* * * * * *", "a field for seconds"),
        ("0 9 * * * 30", "a field for seconds"),
        ("0 9 1 1 * 0 2030", "7 fields"),
        ("0 0 30 2 *", "never comes"),
        ("0 0 31 2,4,6 *", "never comes"),
        ("*/90 * * * *", "every 90 minutes"),
        ("0 */36 * * *", "every 36 hours"),
        ("R * * * *", "'R * * * *'"),
        ("H 9 * * *", "'H 9 * * *'"),
        ("0 9 * * \N{FULLWIDTH DIGIT ONE}", "Not a cron"),
        ("@reboot", "'@reboot'"),
        ("1," * 50_000 + "1 * * * *", f"at most {LONGEST}"),
    ],
)
def test_what_no_job_can_have_is_refused_with_the_reason(expression: str, reason: str) -> None:
    with pytest.raises(TimeWordsError) as caught:
        check(expression)
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_zone_that_nobody_knows_is_refused() -> None:
    with pytest.raises(TimeWordsError, match="Unknown time zone 'Europe/Atlantis'"):
        next_due("0 9 * * *", "Europe/Atlantis", datetime(2026, 1, 1, tzinfo=UTC))


def test_no_text_raises_anything_else_or_takes_long() -> None:
    """Evil ones too; the suite's time limit would end a search without end."""
    chance = random.Random(5)
    start = datetime(2026, 11, 22, tzinfo=UTC)
    for _ in range(3_000):
        fields = ["".join(chance.choice("0123456789*/,-#?LWlw") for _ in range(chance.randint(1, 6))) for _ in range(5)]
        expression = " ".join(fields[: chance.choice((5, 5, 5, 4))] + ["*"] * chance.choice((0, 0, 1, 2)))
        try:
            assert next_due(expression, "Europe/Berlin", start) > start
        except TimeWordsError:
            continue


def test_the_end_of_the_calendar_is_a_refusal() -> None:
    with pytest.raises(TimeWordsError, match="never comes"):
        next_due("0 9 1 1 *", "UTC", datetime(9999, 12, 30, tzinfo=UTC))
