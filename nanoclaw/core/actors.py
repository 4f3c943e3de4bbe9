"""All conversations: makes their actors, and stops, resumes and closes them together."""

from __future__ import annotations

import asyncio

from nanoclaw.core.channel_registry import Channels
from nanoclaw.core.commands import Commands
from nanoclaw.core.conversation import Conversation
from nanoclaw.core.message_queue import QueuePolicy
from nanoclaw.core.messages import Address, Inbound
from nanoclaw.core.profiles import profile_of
from nanoclaw.core.runner import Runner
from nanoclaw.core.store.inbox import Inbox


class Actors:
    """One actor for each conversation, made when its first message arrives."""

    def __init__(
        self, runner: Runner, commands: Commands, channels: Channels, policy: QueuePolicy, inbox: Inbox
    ) -> None:
        self._runner, self._commands = runner, commands
        self._channels, self.policy, self._inbox = channels, policy, inbox
        self._actors: dict[Address, Conversation] = {}

    def of(self, address: Address) -> Conversation:
        if address not in self._actors:
            parts = self._runner, self._commands, self._channels, self, self.policy
            self._actors[address] = Conversation(address, *parts)
        return self._actors[address]

    def for_message(self, inbound: Inbound) -> Conversation:
        """The conversation that a message is part of."""
        return self.of(inbound.conversation or inbound.address)

    def background_elsewhere(self, inbound: Inbound, here: Address) -> dict[Address, str]:
        """Conversations except `here`, in words, that run something nobody asked for just now, such as a task; only
        where the sender of a message may stop them."""
        from_owner = inbound.message.origin == "person" and inbound.role == "owner" and not inbound.is_group
        found = ((address, actor.at_work_on) for address, actor in self._actors.items() if from_owner)
        works = {one: work for one, work in found if work and work.message.origin != "person" and one != here}
        return {one: profile_of(work).words.format(one.chat) or f"a turn in {one}" for one, work in works.items()}

    def resume(self, turn: int) -> None:
        """The owner has answered all questions of a turn."""
        if cut := self._inbox.open_turn(turn):
            self.for_message(cut.inbound).go_on(cut)

    def halt_all(self) -> dict[Address, bool]:
        """Stop every conversation. Returns by address whether something was running there."""
        return {address: actor.halt() for address, actor in list(self._actors.items())}

    async def idle(self) -> None:
        """Wait until every accepted message is answered, except those that wait for a model or the owner."""
        await asyncio.gather(*(actor.idle() for actor in list(self._actors.values())))

    async def close(self, *, leave: bool = False) -> None:
        """Stop what runs, or `leave` it to the next start; waiting messages are always left to it."""
        for actor in self._actors.values():
            actor.leaves_turn_open = leave
        await asyncio.gather(*(actor.close() for actor in list(self._actors.values())))
