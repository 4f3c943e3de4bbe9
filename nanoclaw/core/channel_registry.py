"""The channels of this run: what they can show, whom they reach, and how they are kept running."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from nanoclaw.clock import pause
from nanoclaw.core.channel import Channel, Deliver, Hints
from nanoclaw.core.errors import FAULTS, ChannelError, ChannelUnavailable
from nanoclaw.core.events import Event, ToolFinished, ToolProgress, ToolStarted
from nanoclaw.core.messages import Address, Outbound
from nanoclaw.log import logger

OFFLINE_SECONDS = 3.0
"""Seconds before an unreachable or failing platform is tried again, so that messages flow soon after it is back."""

RESTART_SECONDS = (2, 4, 8, 16, 32, 60)
"""Seconds before a failed channel is restarted, the last one for every further time; a sign of life resets them."""


class Channels:
    """The channels of this run by name; an address whose channel does not run gets nothing shown."""

    def __init__(
        self, channels: Iterable[Channel], clock: Callable[[], datetime], redact: Callable[[str], str] = str
    ) -> None:
        """`redact` hides known secrets in the calls that a model wrote."""
        self._channels = {channel.name: channel for channel in channels}
        self._clock, self._redact = clock, redact
        self._troubles: dict[str, tuple[datetime | None, str]] = {}  # the last sign of life before, and the reason
        self._watchers: list[Callable[[Address, Event], None]] = []

    def add(self, channel: Channel) -> None:
        self._channels[channel.name] = channel

    def watch(self, watcher: Callable[[Address, Event], None]) -> None:
        """Tell it of each event, wherever that is shown."""
        self._watchers.append(watcher)

    def all(self) -> list[Channel]:
        return list(self._channels.values())

    def get(self, name: str) -> Channel | None:
        return self._channels.get(name)

    def hints(self, channel: str) -> Hints | None:
        found = self._channels.get(channel)
        return found.hints if found else None

    def show(self, address: Address, event: Event) -> None:
        if isinstance(event, ToolStarted | ToolProgress | ToolFinished):
            call = event.call
            given, said = self._redact(call.arguments), self._redact(call.said)
            event = event._replace(call=call._replace(arguments=given, said=said))
        if channel := self._channels.get(address.channel):
            channel.show(address, event)
        for watcher in self._watchers:
            try:
                watcher(address, event)
            except FAULTS as error:  # nothing that a turn does may fail by it
                logger.opt(exception=error).error("what watches the events failed")

    def stays(self, address: Address) -> bool:
        """False if nobody is there for an answer that comes much later."""
        hints = self.hints(address.channel)
        return hints is None or hints.stays

    def collects(self, address: Address) -> bool:
        """True if messages in quick succession are answered as one."""
        hints = self.hints(address.channel)
        return hints is not None and hints.bursts

    def reaches(self, outbound: Outbound) -> bool:
        """True if somebody is there now to receive a message."""
        channel = self._channels.get(outbound.address.channel)
        return channel is not None and channel.serves(outbound)

    async def run(self, channel: Channel, deliver: Deliver, *, again: bool) -> None:
        """Run a channel; with `again` each time it is interrupted."""
        if not again:
            await channel.run(deliver)
            return
        pauses, before = iter(RESTART_SECONDS), channel.alive
        while True:
            try:
                await channel.run(deliver)
                return
            except Exception as error:
                if channel.alive != before:
                    pauses, before = iter(RESTART_SECONDS), channel.alive
                asked = error.retry_after if isinstance(error, ChannelError) else None
                seconds = max(next(pauses, RESTART_SECONDS[-1]), min(asked or 0, 3600))
                if isinstance(error, ChannelUnavailable) and not asked:
                    seconds = OFFLINE_SECONDS
                self._broke_off(channel, error, seconds)
            await pause(seconds)

    def _broke_off(self, channel: Channel, error: Exception, seconds: float) -> None:
        """Remember an interruption, and log it unless it is the same outage as before."""
        said = str(error) or type(error).__name__
        before, self._troubles[channel.name] = self._troubles.get(channel.name), (channel.alive, said)
        if isinstance(error, ChannelUnavailable) and before == self._troubles[channel.name]:
            return
        log = logger if isinstance(error, ChannelError) else logger.opt(exception=error)
        log.warning("{} failed and is restarted in {:.0f} s: {}", channel.name, seconds, said)

    def trouble(self, name: str) -> str:
        """Why a channel was interrupted, until its next sign of life; '' for no trouble."""
        alive, trouble = self._troubles.get(name, (None, ""))
        return trouble if alive == self._channels[name].alive else ""

    def status(self) -> list[dict[str, Any]]:
        """Name, seconds since the last sign of life, and trouble of each."""
        found = []
        for channel in self._channels.values():
            alive = channel.alive and round((self._clock() - channel.alive).total_seconds())
            found.append({"name": channel.name, "alive": alive, "trouble": self.trouble(channel.name)})
        return found
