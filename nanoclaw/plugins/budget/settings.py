"""The person's spending limits in the configuration."""

from __future__ import annotations

from typing import Literal, NamedTuple

from nanoclaw.core.errors import ConfigError

Span = Literal["day", "month"]

GUEST_SHARE = 0.5
"""Share of the money that all guests and groups together may spend."""


class BudgetSettings(NamedTuple):
    """Limits of spending."""

    day_usd: float = 0.0  # US dollars a day; 0: no limit
    month_usd: float = 0.0  # US dollars a month; 0: no limit
    heartbeat_share: float = 0.2  # share of this money that heartbeats and jobs may spend
    count_local: bool = False  # count requests to a server on this machine too, if it passes them on to a paid provider

    @property
    def is_set(self) -> bool:
        return bool(self.day_usd or self.month_usd)

    def of(self, span: Span) -> float:
        return self.day_usd if span == "day" else self.month_usd

    def check(self) -> None:
        """Raises ConfigError for an invalid share."""
        if not 0 <= (share := self.heartbeat_share) <= 1:
            raise ConfigError(f"limits.heartbeat_share must be a share from 0 to 1, such as 0.2, not {share}.")
