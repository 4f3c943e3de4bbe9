"""The table of `nanoclaw usage`: what the models took, with bars or as JSON; no figure is shown that nobody knows."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from datetime import date, timedelta
from typing import Any

from nanoclaw.core.store.usage import By
from nanoclaw.escapes import plain
from nanoclaw.usage_totals import Total

SHADES = "░▓█"
"""Parts of a bar: input from the cache, other input, output."""

_PLAIN_SHADES = "-=#"
_SHORTEST, _LONGEST = 6, 60


def table(
    totals: Sequence[Total],
    by: By,
    since: date,
    today: date,
    width: int,
    dollars: Callable[[float], str],
    encoding: str = "utf-8",
) -> list[str]:
    """Lines that fit a screen of so many columns, in signs that it has."""
    title = f"Tokens by {by}, {since} to {today}"
    if not totals:
        return [f"{title}: none yet."]
    shades = SHADES if _can(encoding, SHADES) else _PLAIN_SHADES
    rows = _every_day(totals, today) if by == "day" else list(totals)
    total = _sum(totals)
    notes = _columns([_figures(row, dollars) for row in (*rows, total)])
    legend = f"{shades[0]} input from the cache  {shades[1]} other input  {shades[2]} output"
    lines = [
        f"{title}    {legend}" if cells(title) + cells(legend) + 4 <= width else f"{title}\n{legend}",
        "",
        *_drawn(rows, total, notes, width, shades),
        *_remarks(total, width),
    ]
    return [line.encode(encoding, "replace").decode(encoding) for line in lines]


def as_json(totals: Iterable[Total], by: By, since: date, today: date) -> dict[str, Any]:
    """`cost_usd` is null where some of it is unknown; `known_cost_usd` is the part that is known."""
    totals = list(totals)
    return {
        "by": by,
        "since": since.isoformat(),
        "until": today.isoformat(),
        "rows": [_object(total) for total in totals],
        "total": _object(_sum(totals)),
    }


def cells(text: str) -> int:
    """Number of columns that a text takes on the screen."""
    return sum(0 if unicodedata.combining(sign) else 1 + (unicodedata.east_asian_width(sign) in "WF") for sign in text)


def _object(total: Total) -> dict[str, Any]:
    return {
        "key": total.key,
        "calls": total.calls,
        "input_tokens": total.input_tokens,
        "output_tokens": total.output_tokens,
        "cached_tokens": total.cached_tokens,
        "estimated_calls": total.unreported,
        "cost_usd": None if total.unpriced else round(total.cost, 9),
        "known_cost_usd": round(total.cost, 9),
        "unknown_prices": total.unpriced,
    }


def _sum(totals: Iterable[Total]) -> Total:
    whole = Total("all")
    for total in totals:
        whole.calls += total.calls
        whole.input_tokens += total.input_tokens
        whole.output_tokens += total.output_tokens
        whole.cached_tokens += total.cached_tokens
        whole.unreported += total.unreported
        whole.cost += total.cost
        for model, count in total.unpriced.items():
            whole.unpriced[model] = whole.unpriced.get(model, 0) + count
    return whole


def _every_day(totals: Sequence[Total], today: date) -> list[Total]:
    """From the first day with a call until today, those without one too."""
    known = {total.key: total for total in totals}
    first = date.fromisoformat(min(known))
    last = max(today, date.fromisoformat(max(known)))  # a day may have begun where the person was before
    days = (first + timedelta(days=number) for number in range((last - first).days + 1))
    return [known.get(day.isoformat(), Total(day.isoformat())) for day in days]


def _figures(total: Total, dollars: Callable[[float], str]) -> tuple[str, ...]:
    """Input, its cached share, output, calls, price."""
    if not total.calls:
        return ("", "", "", "", "")
    cached = f"({100 * total.cached_tokens / total.input_tokens:.0f} % cached)" if total.cached_tokens else ""
    about = "~" if total.unreported else ""
    calls = f"{total.calls:,} call{'s' if total.calls != 1 else ''}"
    spent = f"{short(total.output_tokens)} out"
    return (f"{about}{short(total.input_tokens)} in", cached, spent, calls, _price(total, dollars))


def _price(total: Total, dollars: Callable[[float], str]) -> str:
    if not total.unpriced:
        return dollars(total.cost)
    return f"{dollars(total.cost)} + ?" if total.cost else "price unknown"


def short(count: int) -> str:
    """Three digits that count: 940, 9.4k, 94k, 1.2M."""
    for unit, size in (("", 1), ("k", 1_000), ("M", 1_000_000)):
        if count < 999.5 * size or unit == "M":
            return f"{count / size:.1f}{unit}" if size > 1 and count < 9.95 * size else f"{count / size:,.0f}{unit}"
    raise AssertionError


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Figures below each other, to the right; a column that is empty everywhere is left out."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:>{room}}" for cell, room in zip(row, widths, strict=True) if room) for row in rows]


def _drawn(rows: Sequence[Total], total: Total, notes: Sequence[str], width: int, shades: str) -> list[str]:
    """A line for each row and one for all; on a narrow screen the figures are below the bars."""
    labels = [_fitting(row.key or "(none)", max(10, width // 3)) for row in (*rows, total)]
    label_room, note_room = max(map(cells, labels)), max(map(len, notes))
    is_wide = width - label_room - note_room - 4 >= _SHORTEST
    room = min(_LONGEST, max(_SHORTEST, width - label_room - 2 - (note_room + 2 if is_wide else 0)))
    most = max(row.tokens for row in rows) or 1
    bars = [*(_bar(row, room / most, shades) for row in rows), ""]
    lines = []
    for label, bar, note in zip(labels, bars, notes, strict=True):
        head = f"{label}{' ' * (label_room - cells(label))}  "
        if is_wide:
            lines.append(f"{head}{bar:<{room}}  {note}".rstrip())
        else:
            lines += [f"{head}{bar}".rstrip(), *([f"  {' '.join(note.split())}"] if note.strip() else ())]
    return lines


def _bar(total: Total, scale: float, shades: str) -> str:
    """Each part ends where the sum up to it ends, so that the whole is never a cell too long."""
    cached = min(total.cached_tokens, total.input_tokens)
    drawn, reached = "", 0
    for part, shade in zip((cached, total.input_tokens - cached, total.output_tokens), shades, strict=True):
        reached += part
        drawn += shade * (round(reached * scale) - len(drawn))
    return drawn or (shades[1] if reached else "")


def _remarks(total: Total, width: int) -> list[str]:
    remarks = []
    if total.unreported:
        remarks.append(f"~ {total.unreported:,} of {total.calls:,} calls came without figures: counted here.")
    if total.unpriced:
        models = ", ".join(
            f"{_fitting(model, max(60, width - 40))} ({count:,})" for model, count in sorted(total.unpriced.items())
        )
        remarks.append(f"Price unknown, so not in the sum: {models}.")
    return ["", *remarks] if remarks else []


def _fitting(label: str, room: int) -> str:
    label = " ".join(plain(label).split())
    if cells(label) <= room:
        return label
    while cells(label) > room - 1:
        label = label[:-1]
    return label + "…"


def _can(encoding: str, signs: str) -> bool:
    try:
        signs.encode(encoding)
    except (UnicodeError, LookupError):
        return False
    return True
