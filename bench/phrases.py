"""Phrases of tests/time_words read right, asked back or wrong: python bench/phrases.py [-v]."""

from __future__ import annotations

import sys
import time
from collections import Counter
from datetime import UTC
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from nanoclaw.time_words import At, Cron, Every, TimeWordsError, Unclear, read
from tests.time_words.phrases import Case, cases


def main() -> None:
    for name in ("phrases.tsv", "phrases_held_out.tsv"):
        table = list(cases(name))
        print(f"{name}: {len({case.phrase for case in table})} phrases, {len(table)} cases")
        score(table)


def score(table: list[Case]) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    failures: dict[str, str] = {}
    begun = time.process_time()
    for case in table:
        answer = ours(case)
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
    print(f"  {shares}; {took:.2f} ms CPU each")
    for language in sorted({language for language, _ in counts}):
        here = {verdict: counts[language, verdict] for verdict in ("right", "asked", "refused", "wrong")}
        print(f"    {language}: {here}")
    if "-v" in sys.argv:
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


if __name__ == "__main__":
    main()
