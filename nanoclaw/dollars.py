"""Amounts of US dollars in words."""

from __future__ import annotations

import math


def dollars(amount: float) -> str:
    """Two digits that count: $0, $0.0031, $0.42, $12.30."""
    if not 0 < amount < 0.1:
        return f"${amount:,.2f}" if amount else "$0"
    return f"${amount:.{min(6, 1 - math.floor(math.log10(amount)))}f}"
