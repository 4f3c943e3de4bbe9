"""Phrases of tests/time_words read right, asked back or wrong, also by dateparser: python bench/phrases.py [-v]."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from nanoclaw.time_words import At, Cron, Every, TimeWordsError, Unclear, read
from tests.time_words.phrases import Case, cases


def main() -> None:
    for name in ("phrases.tsv", "phrases_held_out.tsv"):
        table = list(cases(name))
        print(f"{name}: {len({case.phrase for case in table})} phrases, {len(table)} cases")
        for who, ask in (("nanoclaw", ours), ("dateparser alone", library)):
            score(who, ask, table)


def score(who: str, ask: Callable[[Case], object], table: list[Case]) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    failures: dict[str, str] = {}
    begun = time.process_time()
    for case in table:
        answer = ask(case)
        verdict = judged(answer, case.expected)
        counts[case.phrase.language, verdict] += 1
        if verdict != "right":
            failures.setdefault(case.phrase.words, f"{verdict}: {answer}, not {case.expected} ({case.now})")
    took = (time.process_time() - begun) / len(table) * 1_000
    totals: Counter[str] = Counter()
    for (_, verdict), count in counts.items():
        totals[verdict] += count
    shares = ", ".join(
        f"{verdict} {totals[verdict] / len(table):.1%}" for verdict in ("right", "asked", "refused", "wrong")
    )
    print(f"  {who}: {shares}; {took:.2f} ms CPU each")
    for language in sorted({language for language, _ in counts}):
        here = {verdict: counts[language, verdict] for verdict in ("right", "asked", "refused", "wrong")}
        print(f"    {language}: {here}")
    if "-v" in sys.argv and who == "nanoclaw":
        for words, failure in failures.items():
            print(f"    {words!r} {failure}")


def judged(answer: object, expected: object) -> str:
    """Right; asked or refused where a meaning was expected; wrong is another time than the one meant."""
    if answer == expected:
        return "right"
    return {"ask": "asked", "refuse": "refused"}.get(str(answer), "wrong")


def ours(case: Case) -> object:
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


def library(case: Case) -> object:
    import dateparser

    found: datetime | None = dateparser.parse(
        case.phrase.words,
        languages=[case.phrase.language],
        settings={
            "PREFER_DATES_FROM": "future",
            "RELATIVE_BASE": case.now.replace(tzinfo=None),
        },
    )
    if found is None:
        return "refuse"
    return found.replace(tzinfo=found.tzinfo or case.now.tzinfo, microsecond=0).astimezone(UTC)


if __name__ == "__main__":
    main()
