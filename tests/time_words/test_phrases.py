import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanoclaw import time_words
from nanoclaw.time_words import (
    At,
    Cron,
    Every,
    Result,
    TimeWordsError,
    Unclear,
    distance,
    in_words,
    late,
    read,
    repeat_in_words,
    upcoming,
)
from nanoclaw.time_words.evaluate import LONGEST
from nanoclaw.time_words.lexicon import LANGUAGES, lexicon
from tests.examples import examples
from tests.time_words.phrases import Case, cases, lines, phrases

HEARD = examples(__file__, "heard.jsonl")

BERLIN = "Europe/Berlin"


def at(text: str, zone: str = BERLIN) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))


NOW = at("2026-11-18T10:00")
"""A Wednesday."""


def said(words: str, now: datetime = NOW, zone: str = BERLIN) -> str:
    """The words that a person would read back."""
    match read(words, now, zone):
        case At() as reading:
            return in_words(reading.when, now, zone)
        case Unclear(question):
            return question
        case reading:
            return repeat_in_words(reading, now, zone)


def outcome(case: Case) -> object:
    try:
        heard = read(case.phrase.words, case.now, case.zone)
    except TimeWordsError:
        return "refuse"
    match heard:
        case At(when):
            return when.astimezone(UTC)
        case Every(seconds):
            return "every", seconds
        case Cron(expression):
            return "cron", expression
        case Unclear():
            return "ask"


@pytest.mark.hypothesis
@pytest.mark.parametrize("name", ["phrases.tsv", "phrases_held_out.tsv"])
def test_phrases_in_six_languages_are_read_right_and_never_silently_wrong(name: str) -> None:
    """Each at fifteen moments in five zones, many of them before the clocks change; in the suite at every fourth."""
    table = list(cases(name))[:: 1 if settings.get_current_profile_name() == "random" else 4]
    wrong, right = [], 0
    for case in table:
        found = outcome(case)
        right += found == case.expected
        if found != case.expected and found not in ("ask", "refuse"):
            wrong.append((case.phrase.words, str(case.now), found, case.expected))
    assert wrong == []
    assert right / len(table) >= 0.97


def test_the_table_has_two_hundred_phrases_and_25_of_each_language() -> None:
    counts = Counter(phrase.language for phrase in phrases())
    assert len(counts) == 6
    assert sum(counts.values()) >= 200
    assert min(counts.values()) >= 25


@pytest.mark.parametrize(("words", "read_back"), lines("said_back.tsv"))
def test_what_was_understood_is_said_back_with_day_zone_and_distance(words: str, read_back: str) -> None:
    assert said(words) == read_back


@pytest.mark.parametrize(("words", "asked"), HEARD["what has two meanings is asked"])
def test_what_has_two_meanings_is_asked(words: str, asked: list[str]) -> None:
    heard = read(words, NOW, BERLIN)
    assert isinstance(heard, Unclear)
    assert [part for part in asked if part not in heard.question] == []


@pytest.mark.parametrize(("words", "reason"), HEARD["what cannot be a job is refused with the reason"])
def test_what_cannot_be_a_job_is_refused_with_the_reason(words: str, reason: str) -> None:
    with pytest.raises(TimeWordsError) as caught:
        read(words, NOW, BERLIN)
    assert reason in str(caught.value)


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(TimeWordsError, match="Unknown time zone 'Mars/Olympus'"):
        read("tomorrow at 9", NOW, "Mars/Olympus")


@pytest.mark.parametrize(("words", "now", "read_back"), HEARD["near midnight and the change of clocks"])
def test_near_midnight_and_the_change_of_clocks(words: str, now: str, read_back: str) -> None:
    assert said(words, at(now)) == read_back


@pytest.mark.parametrize(("words", "read_back"), HEARD["a weekday of a month that is named is one day"])
def test_a_weekday_of_a_month_that_is_named_is_one_day(words: str, read_back: str) -> None:
    assert said(words) == read_back


def test_tomorrow_said_after_midnight_asks_which_day() -> None:
    heard = read("tomorrow at 9", at("2026-11-19T00:30"), BERLIN)
    assert isinstance(heard, Unclear)
    assert [upcoming(reading, NOW) for reading in heard.readings] == [at("2026-11-19T09:00"), at("2026-11-20T09:00")]


def test_a_time_that_the_clocks_skip_or_repeat_says_what_was_decided() -> None:
    skipped = read("tomorrow at 02:30", at("2027-03-27T10:00"), BERLIN)
    assert isinstance(skipped, At)
    assert (skipped.when, skipped.note) == (
        at("2027-03-28T03:00"),
        "The clocks skip 02:30 that day: the first moment after is 03:00.",
    )
    twice = read("tomorrow at 02:30", at("2026-10-24T10:00"), BERLIN)
    assert isinstance(twice, At)
    assert (twice.when.utcoffset(), twice.note) == (
        timedelta(hours=2),
        "The clocks show 02:30 twice that day: the first time is taken.",
    )


def test_in_the_hour_that_comes_twice_the_next_one_is_taken() -> None:
    first, second = at("2026-10-25T02:40"), at("2026-10-25T02:40").replace(fold=1)
    for now, minutes in ((first, 10), (second, 10), (first, 50), (second, 50)):
        clock = (now + timedelta(minutes=minutes)).strftime("%H:%M")
        heard = read(f"at {clock}", now, BERLIN)
        assert isinstance(heard, At)
        ahead = heard.when.astimezone(UTC) - now.astimezone(UTC)
        assert ahead == timedelta(minutes=minutes + (60 if now is first and minutes == 50 else 0))


@pytest.mark.parametrize("words", ["every other day at 9", "alle 2 Tage um 9", "cada dos días a las 9", "1日おきの9時"])
def test_an_interval_of_days_begins_at_the_hour_that_was_said(words: str) -> None:
    heard = read(words, NOW, BERLIN)
    assert isinstance(heard, Every)
    assert (heard.seconds, heard.start) == (172_800, at("2026-11-19T09:00"))


def test_every_other_day_keeps_the_phase_of_its_first_time() -> None:
    heard = read("every other day at 18:00", NOW, BERLIN)
    assert isinstance(heard, Every)
    assert (heard.seconds, heard.start) == (172_800, at("2026-11-18T18:00"))
    assert upcoming(heard, at("2026-11-18T18:00")) == at("2026-11-20T18:00")
    assert upcoming(heard, at("2026-11-25T09:00")) == at("2026-11-26T18:00")


def test_distance_and_lateness_in_words() -> None:
    ahead = [20, 60, 90 * 60, 14 * 3600 + 100, 23.9 * 3600, 39 * 3600, 47.9 * 3600, 71 * 3600, 9 * 86_400, -3 * 3600]
    assert [distance(timedelta(seconds=seconds)) for seconds in ahead] == [
        "in 20 seconds",
        "in 1 minute",
        "in 1 hour 30 minutes",
        "in 14 hours",
        "in 23 hours",
        "in 1 day 15 hours",
        "in 1 day 23 hours",
        "in 2 days",
        "in 9 days",
        "3 hours ago",
    ]
    assert [distance(timedelta(seconds=seconds)) for seconds in (0, -59, -170)] == ["now", "just now", "2 minutes ago"]
    behind = [59, 12 * 60, 95 * 60, 3 * 3600, 50 * 3600]
    assert [late(timedelta(seconds=seconds)) for seconds in behind] == [
        "",
        "12 min late",
        "1 h 35 min late",
        "3 h late",
        "2 days late",
    ]


@pytest.mark.parametrize(("words", "bound"), HEARD["what bounds a repeat is asked back and never dropped"])
def test_what_bounds_a_repeat_is_asked_back_and_never_dropped(words: str, bound: str) -> None:
    heard = read(words, NOW, BERLIN)
    assert isinstance(heard, Unclear)
    assert repr(bound) in heard.question
    assert heard.readings == ()


@pytest.mark.parametrize("words", ["every day at 9 friday", "every day at 9 and friday", "jeden Tag freitags um 9"])
def test_every_day_and_one_day_of_the_week_are_never_one_of_both(words: str) -> None:
    heard = read(words, NOW, BERLIN)
    assert isinstance(heard, Unclear)
    assert "Say only one" in heard.question


@pytest.mark.parametrize("words", HEARD["days from one to another are a repeat"])
def test_days_from_one_to_another_are_a_repeat(words: str) -> None:
    heard = read(words, NOW, BERLIN)
    assert isinstance(heard, Cron)
    assert heard.expression == "0 9 * * 1-5"


@pytest.mark.parametrize(
    ("words", "strange"), HEARD["words for the time that are not known are quoted and no time is made up"]
)
def test_words_for_the_time_that_are_not_known_are_quoted_and_no_time_is_made_up(words: str, strange: str) -> None:
    with pytest.raises(TimeWordsError) as caught:
        read(words, NOW.replace(minute=3), BERLIN)
    assert str(caught.value).startswith(f"Cannot read {strange} as a time.")


def test_now_is_no_later_time() -> None:
    with pytest.raises(TimeWordsError, match=r"That is now\. Name a later time\."):
        read("in 0 minutes", NOW, BERLIN)


def test_a_time_that_has_seconds_is_said_with_them() -> None:
    assert said("in 10 seconds") == "Wed 18 Nov 2026, 10:00:10 Europe/Berlin, in 10 seconds"


@pytest.mark.parametrize("words", ["every 2 weeks on friday at 9", "alle 14 Tage freitags um 9"])
def test_every_so_many_days_is_at_the_same_time_of_the_clock_all_year(words: str) -> None:
    heard = read(words, NOW, BERLIN)
    assert isinstance(heard, Every)
    due, dates = NOW, []
    for _ in range(26):
        due = upcoming(heard, due)
        dates.append(due)
    assert {f"{one:%a %H:%M}" for one in dates} == {"Fri 09:00"}
    assert {(later.date() - one.date()).days for one, later in pairwise(dates)} == {14}


@pytest.mark.parametrize("words", ["every year on march 29 at 9", "every year on april 30 at 9"])
def test_a_day_that_each_year_has_is_not_said_to_be_left_out(words: str) -> None:
    heard = read(words, NOW, BERLIN)
    assert isinstance(heard, Cron)
    assert heard.note == ""


@pytest.mark.parametrize("words", ["every year on february 29 at 9", "every 31st of the month at 9"])
def test_a_day_that_not_each_year_or_month_has_is_said_to_be_left_out(words: str) -> None:
    heard = read(words, NOW, BERLIN)
    assert isinstance(heard, Cron)
    assert heard.note == "Left out where the calendar has no such day."


def test_the_example_of_the_readme_runs() -> None:
    readme = Path(time_words.__file__).with_name("README.md").read_text(encoding="utf-8")
    example = readme.partition("```python\n")[2].partition("```")[0]
    names: dict[str, object] = {}
    exec(example, names)
    assert names["once"] == At(at("2026-11-19T09:00"))


# -- nothing of a phrase is dropped


def meaning(words: str) -> Result | None:
    """The time that is set without a question, or None."""
    try:
        heard = read(words, NOW, BERLIN)
    except TimeWordsError:
        return None
    return None if isinstance(heard, Unclear) else heard


@pytest.mark.parametrize("words", HEARD["a letter or a sign beside a number is never dropped"])
def test_a_letter_or_a_sign_beside_a_number_is_never_dropped(words: str) -> None:
    assert meaning(words) is None


SIGNS = "bdegijklnopqrsuvwxyz'\"°+*^_=<>|\\%#€~"
UNDERSTOOD = [
    *("9", "tomorrow at 9:30", "in 5 minutes", "morgen um 9 Uhr", "le 5 mai à 9h", "mañana a las 9", "domani alle 9"),
    *("amanhã às 9", "every day at 9", "2029-11-27 17:05", "27.11.2029 9:00", "明天9点"),
]


@given(
    words=st.sampled_from(UNDERSTOOD),
    sign=st.sampled_from(SIGNS),
    glue=st.sampled_from(["{0}{1}", "{0} {1}", "{1}{0}"]),
)
@settings(max_examples=60, deadline=None)
def test_no_phrase_is_set_with_a_letter_or_a_sign_beside_its_last_number(words: str, sign: str, glue: str) -> None:
    assert meaning(words) is not None
    last = re.findall(r"\d+", words)[-1]
    before, _, after = words.rpartition(last)
    if (said := meaning(before + glue.format(last, sign) + after)) is not None:
        # the Z of an ISO time, and nine seconds, as 9m are nine minutes
        assert (words[-6:], sign) in ((" 17:05", "z"), ("9", "s")), said


LITTLE = {word for language in LANGUAGES for word, marks in lexicon(language).items() if marks[0][0] in ",a&j"}


@pytest.mark.parametrize(("words", "language"), HEARD["a word that leads on is not the last one"])
def test_a_word_that_leads_on_is_not_the_last_one(words: str, language: str) -> None:
    (known,) = (lexicon(one) for one in LANGUAGES if one == language)
    unread = [
        word for word in LITTLE if word.isascii() and word != "am" and word in known and known[word][0][0] in ",a&j"
    ]
    assert unread
    assert [word for word in unread if meaning(f"{words} {word}") is not None] == []


# -- any text at all

VOCABULARY = sorted({word for language in LANGUAGES for word in lexicon(language)})
FIGURES = HEARD["figures"]
TIMELY = st.lists(st.sampled_from(VOCABULARY) | st.sampled_from(FIGURES), max_size=7).map(" ".join)
MOMENTS = st.builds(
    lambda minutes, zone: (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)).astimezone(ZoneInfo(zone)),
    st.integers(0, 1_500_000),
    st.sampled_from([BERLIN, "Australia/Lord_Howe", "America/New_York", "Pacific/Apia", "UTC"]),
)


def check_heard(heard: Result, now: datetime) -> None:
    for reading in heard.readings if isinstance(heard, Unclear) else (heard,):
        due = upcoming(reading, now)
        assert due.tzinfo is not None
        assert due.astimezone(UTC) > now.astimezone(UTC)
        assert in_words(due, now, BERLIN)


@given(words=TIMELY | st.text(max_size=40), now=MOMENTS)
def test_any_text_is_a_future_time_a_question_or_a_refusal(words: str, now: datetime) -> None:
    try:
        heard = read(words, now, str(now.tzinfo))
    except TimeWordsError as error:
        assert len(str(error)) < 600
        return
    check_heard(heard, now)


@pytest.mark.parametrize(
    "words",
    [
        *("9 " * 50_000, "x" * 100_000, "🕘" * 150, "9" * LONGEST, "1.1." * 50, "/" * LONGEST, "-", "²", "½", "９時"),
        *("\x00\x1b[31m tomorrow", "tomorrow\u202eat 9", "٣ مساء", "every " * 30, "in " * 60, "in 1 hour " * 19),
    ],
)
def test_strange_texts_are_answered_at_once(words: str) -> None:
    try:
        check_heard(read(words, NOW, BERLIN), NOW)
    except TimeWordsError as error:
        assert len(str(error)) < 600


@pytest.mark.parametrize("phrase", ["tomorrow until 9", "morgen bis 9", "mañana hasta las 9"])
def test_a_time_with_an_end_in_place_of_a_beginning_is_not_read_as_one(phrase: str) -> None:
    with pytest.raises(TimeWordsError):
        read(phrase, datetime(2026, 11, 22, 10, tzinfo=ZoneInfo("Europe/Berlin")), "Europe/Berlin")
