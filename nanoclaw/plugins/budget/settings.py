"""The person's limits of money, as the configuration has them."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from nanoclaw.core.errors import ConfigError

Span = Literal["day", "month"]


class BudgetSettings(NamedTuple):
    """US dollars for the person's day and month, 0 for no limit, and the shares that heartbeats and jobs may use, and
    all guests and groups.
    `count_local`: what a server on the person's machine answers may cost money elsewhere, by the model's name."""

    day_usd: float = 0.0
    month_usd: float = 0.0
    heartbeat_share: float = 0.2
    guest_share: float = 0.5
    count_local: bool = False

    @property
    def is_set(self) -> bool:
        return bool(self.day_usd or self.month_usd)

    def of(self, span: Span) -> float:
        return self.day_usd if span == "day" else self.month_usd

    def check(self) -> None:
        """Raises ConfigError for amounts that are none."""
        for name, value in (("day_usd", self.day_usd), ("month_usd", self.month_usd)):
            if not 0 <= value < math.inf:
                raise ConfigError(f"limits.{name} must be an amount of US dollars, 0 for no limit, not {value}.")
        for name, share in (("heartbeat_share", self.heartbeat_share), ("guest_share", self.guest_share)):
            if not 0 <= share <= 1:
                raise ConfigError(f"limits.{name} must be a share from 0 to 1, such as 0.2, not {share}.")
