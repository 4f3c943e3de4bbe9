"""A ContextBuilder over a fresh workspace, with the plugins and channels of a test."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path

from nanoclaw.beneath.reach import Reach
from nanoclaw.core.chain import Chain
from nanoclaw.core.channel import Hints
from nanoclaw.core.channel_registry import Channels
from nanoclaw.core.context import ContextBuilder, PromptLimits
from nanoclaw.core.plugin import Plugin
from nanoclaw.start.home import make_home, shipped
from tests.program import FakeChannel, HandClock, config_of


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
    limits: PromptLimits | None = None,
) -> ContextBuilder:
    now = clock or HandClock()
    places = Channels([FakeChannel(name, hints) for name, hints in (channels or {}).items()], now)
    template = shipped("workspace_template")
    return ContextBuilder(
        Reach(new_home(root) / "workspace"), template, now, Chain(list(plugins), list), places, limits or PromptLimits()
    )
