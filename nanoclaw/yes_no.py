"""The words of yes and no in the languages of people: yes_no.txt has them."""

import re
from functools import cache
from pathlib import Path


def yes_or_no(text: str) -> bool | None:
    """The meaning of a plain yes or no with polite words around it; None for words that have anything else in them."""
    (kinds, part), said, found, at = _words(), " ".join(text.replace("’", "'").casefold().split()), set[str](), 0
    while at < len(said) <= 60 and (match := part.match(said, at)):
        found, at = {*found, kinds[match[1]]}, match.end()
    return "yes" in found if at == len(said) and found - {"with"} in ({"yes"}, {"no"}, {"no", "beside no"}) else None


@cache
def _words() -> tuple[dict[str, str], re.Pattern[str]]:
    lines = (line.split(": ") for line in Path(__file__).with_suffix(".txt").read_text("utf-8").casefold().splitlines())
    kinds = {word: kind for kind, words in lines for word in words.split(", ")}
    one, signs = "|".join(map(re.escape, sorted(kinds, key=len, reverse=True))), "👍✅👌🆗👎❌🚫🙏🙂😊"
    return kinds, re.compile(rf"[^\w?？]*?({one})(?:(?!\w)|(?<=[\u3040-\u9fff]))[^\w?？{signs}]*")
