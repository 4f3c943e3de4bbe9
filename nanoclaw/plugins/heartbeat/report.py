"""The tool with which a heartbeat ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Literal

from nanoclaw.core.errors import ToolError
from nanoclaw.core.tool import Tool, tool

Urgency = Literal["low", "normal", "high"]


def report_tool(take: Callable[[bool, str, Urgency], None]) -> Tool:
    """`report`, for heartbeats alone; a call of it ends the turn. `take(notify, text, urgency)` gets what is said."""

    async def report(
        notify: Annotated[bool, "whether the person is to hear of it"],
        text: Annotated[str, "for the person, in their language; '' without notify"] = "",
        urgency: Annotated[Urgency, "low: with other news or tomorrow; high: first of all"] = "normal",
    ) -> str:
        """End this heartbeat: tell the person one thing, or (notify false) nothing."""
        if notify and not text.strip():
            raise ToolError("report with notify needs a text for the person. Nothing was told.")
        take(notify, text, urgency)
        return "reported" if notify else "nothing is told"

    return replace(tool(report, effect="none"), ends=True)
