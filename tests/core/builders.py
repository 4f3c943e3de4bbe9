"""A ContextBuilder over a fresh workspace, with the plugins and channels of a test."""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from nanoclaw.beneath.paths import Reach
from nanoclaw.core.chain import Chain
from nanoclaw.core.channel import Hints
from nanoclaw.core.channel_registry import Channels
from nanoclaw.core.context import ContextBuilder
from nanoclaw.core.messages import Address, Inbound, ModelRequest, UserMessage
from nanoclaw.core.plugin import Draft, Plugin
from nanoclaw.core.provider import chat_messages
from nanoclaw.start.home import make_home, shipped
from tests.program import NOON, FakeChannel, HandClock, config_of


def new_home(root: Path) -> Path:
    """A home whose workspace is seeded; the same folder may be opened again."""
    make_home(config_of(root))
    return root


def builder_for(
    root: Path,
    clock: Callable[[], datetime] | None = None,
    *,
    plugins: Iterable[Plugin] = (),
    channels: Mapping[str, Hints] | None = None,
    off: Collection[str] = (),
) -> ContextBuilder:
    now = clock or HandClock()
    places = Channels([FakeChannel(name, hints) for name, hints in (channels or {}).items()], now)
    template = shipped("workspace_template")
    return ContextBuilder(Reach(new_home(root) / "workspace"), template, now, Chain(list(plugins), list), places, off)


def asked(
    builder: ContextBuilder, text: str, history: Iterable[Any] = (), channel: str = "", chat: str = "", **given: Any
) -> list[dict[str, Any]]:
    """The whole request in the OpenAI chat form: system, history, runtime metadata, content."""
    message = UserMessage(text, NOON, images=tuple(given.get("images", ())))
    inbound = Inbound(Address(channel, chat), given.get("sender", ""), "", message)
    new = builder.frame(Draft(message, tuple(given.get("files", ())), inbound=inbound))
    return chat_messages(ModelRequest(builder.begin(text, channel=channel).system, (*history, *new)))
