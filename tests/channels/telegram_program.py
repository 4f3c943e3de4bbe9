"""The whole program in front of a test server that is as strict as Telegram: its owner Anna, people, and a terminal."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast

from nanoclaw.channels.telegram.channel import Telegram
from nanoclaw.channels.telegram.settings import TelegramSettings
from nanoclaw.core.channel import ChannelAccess, ChannelHost, Hints
from nanoclaw.core.conversation import QueuePolicy
from nanoclaw.providers.scripted import ScriptedProvider
from tests.channels.telegram_talk import ANNA, GROUP
from tests.live.telegram_chats import Chat, Message, Person
from tests.live.telegram_server import TelegramServer
from tests.program import FakeChannel, HandClock, Program, running

BOB, CYD = 1002, 1003
RULES = f'allow_from = ["{BOB}"]\nallow_groups = ["{GROUP}"]'


class Late:
    """What a channel asks of the program, which is made after it."""

    def __init__(self) -> None:
        self.program: Program | None = None

    def __getattr__(self, name: str) -> Any:
        assert self.program
        return getattr(self.program.public("access").people_of("telegram"), name)


class Scene:
    """Anna, Bob and Cyd at the server, and the program."""

    def __init__(self, server: TelegramServer, home: Program, clock: HandClock) -> None:
        self.server, self.home, self.clock = server, home, clock
        self.terminal = home.channel
        self.anna, self.bob = server.person(ANNA, "Anna", "anna"), server.person(BOB, "Bob", "bob")
        self.cyd = server.person(CYD, "Cyd", "cyd")
        self.garden = server.group(GROUP, "Garden")

    async def hears(self, person: Person, text: str, chat: Chat | None = None, **more: Any) -> str:
        """The answer that somebody gets."""
        self.server.say(person, text, chat, **more)
        return (await self.server.next(chat or person)).text

    async def taken(self) -> None:
        """Wait until all that was said was taken in and what follows on it is done."""
        await self.server.until(lambda: not self.server.unconfirmed)
        await self.home.app.conversations.idle()
        await self.home.app.delivery.flush("telegram")

    async def is_silent(self, person: Person, text: str, chat: Chat | None = None, **more: Any) -> None:
        """Nothing is sent after it, anywhere."""
        before = len(self.server.posted)
        self.server.say(person, text, chat, **more)
        await self.taken()
        assert [one.text for one in self.server.posted[before:]] == []

    async def last(self) -> Message:
        return await self.server.next()


@asynccontextmanager
async def scene(
    root: Path,
    *steps: Any,
    rules: str = RULES,
    server: TelegramServer | None = None,
    clock: HandClock | None = None,
    owner: bool = True,
    model: Any = None,
    **more: Any,
) -> AsyncIterator[Scene]:
    """Anna is the owner, if there is one. `server` is one that is there already, as after a restart."""
    hand, late = clock or HandClock(), Late()
    async with AsyncExitStack() as stack:
        there = server if server else await stack.enter_async_context(TelegramServer())
        assert there
        settings = f'[channels.telegram]\ntoken = "{there.token}"\napi_base = "{there.api_base}"\n{rules}\n'
        host = ChannelHost(root / "telegram", hand, menu={"help": "what there is"}, access=cast(ChannelAccess, late))
        chat = Telegram(TelegramSettings(there.token, there.api_base), host)
        stack.push_async_callback(chat.aclose)
        program = running(
            root,
            model or ScriptedProvider(*steps),
            settings=settings,
            channel=FakeChannel(hints=Hints(buttons=True, bursts=False)),
            others=[chat],  # type: ignore[list-item]
            clock=hand,
            policy=QueuePolicy(burst_seconds=0, burst_most_seconds=0),
            **more,
        )
        home = await stack.enter_async_context(program)
        late.program = home
        made = Scene(there, home, hand)
        if owner and not home.public("access").accounts.all():
            accounts = home.public("access").accounts
            code = home.app.transactions.write_now(lambda tx: accounts.new_link(tx, "telegram"))
            assert (await made.hears(made.anna, code)).startswith("You are linked as Anna")
        yield made
        if not home.app.is_gateway:  # which leaves what it does to the next start
            await home.app.conversations.idle()
