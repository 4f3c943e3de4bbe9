"""Sums of what requests to models took: tokens, and dollars as far as the price is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

Row = tuple[str, str, Any, bool, bool]
"""One request: what it counts for, its model, its tokens (`input_tokens`, `output_tokens`, `cached_tokens`), if the
provider reported them, and if the model runs on this machine and costs nothing."""


@dataclass(slots=True)
class Total:
    """The sum of some calls. `cost` is that of the calls with a known price; `unpriced` counts the others by model."""

    key: str
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    unreported: int = 0
    cost: float = 0.0
    unpriced: dict[str, int] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


def totals(rows: Iterable[Row], price: Callable[[str, Any], float | None]) -> list[Total]:
    """A total for each key, the largest first; `price` is a model's in US dollars for some tokens, None if unknown."""
    found: dict[str, Total] = {}
    for key, model, tokens, is_reported, is_local in rows:
        total = found.setdefault(key, Total(key))
        total.calls += 1
        total.input_tokens += tokens.input_tokens
        total.output_tokens += tokens.output_tokens
        total.cached_tokens += tokens.cached_tokens
        total.unreported += not is_reported
        if (cost := 0.0 if is_local else price(model, tokens)) is None:
            total.unpriced[model] = total.unpriced.get(model, 0) + 1
        else:
            total.cost += cost
    return sorted(found.values(), key=lambda total: -total.tokens)
