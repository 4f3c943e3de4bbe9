"""Heartbeat: code looks at HEARTBEAT.md now and then, and wakes the model only for what is due or has changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

from nanoclaw.core.errors import ToolError
from nanoclaw.core.plugin import Command, Ended, Hears, Host, NamedTuple, Plugin, Profile, Said, Section, Tool, Turn, Tx
from nanoclaw.core.tool import ToolContext, tool
from nanoclaw.plugins.heartbeat.hours import HeartbeatTimes, times_of
from nanoclaw.plugins.heartbeat.tables import MARKS, MIGRATIONS

if TYPE_CHECKING:
    from nanoclaw.plugins.heartbeat.beats import Beats

CAPABILITY = (
    "HEARTBEAT.md is read every {} ({}) and wakes you for what is due. To keep watching something add a line there: "
    "`- [ ] what to do` with `every 1d`, or, for changes alone, with `watch notes/inbox.md`, `watch https://…` or "
    "`watch $ COMMAND`."
)


class HeartbeatSettings(NamedTuple):
    """The heartbeat: the checklist in HEARTBEAT.md, checked from time to time."""

    every: str = "30m"  # time between two checks, such as "30m" or "2h"; "0": never
    active: str = "08:00-22:00"  # hours of the day in which it checks
    target: str = ""  # conversation that gets the news, such as "terminal:main"; empty: the one you used last

    def check(self) -> None:
        self.times()

    def times(self) -> HeartbeatTimes:
        return times_of(self.every, self.active, self.target)


class Heartbeat(Plugin):
    name = "heartbeat"
    needs = ("access",)
    settings = HeartbeatSettings
    migrations = MIGRATIONS
    profiles = (
        Profile(
            "heartbeat", "minimal", purpose="heartbeat", can_ask=False, can_allow=False, words="a heartbeat"
        )._replace(again="A heartbeat was interrupted.{} Its lines come up again at the next one.", blocks=False),
    )
    marks = MARKS
    hears: Mapping[str, Hears] = {"on_end": Hears(origins=("heartbeat",))}
    stamp = "the profile alone"

    def __init__(self, host: Host, settings: HeartbeatSettings) -> None:
        self._host, self._settings = host, settings
        self._times = settings.times()

    @cached_property
    def public(self) -> Beats:
        from nanoclaw.plugins.heartbeat.beats import Beats

        return Beats(self._host, self._times)

    def tools(self) -> Iterable[Tool]:
        return [tool(self._report, reach="none", open_to=("heartbeat",))._replace(ends=True)]

    async def _report(
        self,
        context: ToolContext,
        notify: Annotated[bool, "whether to tell the person"],
        text: Annotated[str, "for the person, in their language; '' without notify"] = "",
    ) -> str:
        """End this heartbeat: tell the person one thing, or (notify false) nothing."""
        if notify and not text.strip():
            raise ToolError("report with notify needs a text for the person. Nothing was sent.")
        self.public.report(context.turn, text if notify else "")
        return "reported" if notify else "nothing is told"

    def commands(self) -> Iterable[Command]:
        help_ = "look at HEARTBEAT.md now, and ask the model about what is due"
        return [Command("heartbeat", help_, self._beat, waits=True, private=True, part_of="jobs")]

    async def _beat(self, said: Said) -> str:
        return await self.public.command()

    def sections(self, query: str, profile: Profile) -> Iterable[Section]:
        is_told = self._times.every is not None and profile.name == "person"
        text = CAPABILITY.format(self._settings.every, self._settings.active)
        return [Section("capabilities", "Heartbeat", text if is_told else "")]

    async def run(self) -> None:
        await self.public.run()

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> Ended | None:
        return self.public.on_end(ended, turn, tx)
