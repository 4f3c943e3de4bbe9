"""The table of chat channels: where the spec of each is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

from nanoclaw.core.channel import Channel, ChannelHost, ChannelSpec

BUILT_IN = {name: f"nanoclaw.channels.{name}.settings" for name in ("telegram", "matrix", "email")}
"""Modules with a `SPEC`, which are cheap to import."""


def names() -> list[str]:
    """All that can stand in [channels.NAME]."""
    return [*BUILT_IN, *(name for name in _installed() if name not in BUILT_IN)]


def find(name: str) -> ChannelSpec | None:
    """The spec of a channel; None for a name that nothing brings. A package may bring a plain function in its place,
    which is called with its table of config.toml, nanoclaw's home, and the clock."""
    if name in BUILT_IN:
        built_in: ChannelSpec = import_module(BUILT_IN[name]).SPEC
        return built_in
    point = _installed().get(name)
    found = point.load() if point else None
    return found if found is None or isinstance(found, ChannelSpec) else ChannelSpec(partial(_make_plainly, found))


def _make_plainly(make: Callable[..., Channel], table: Mapping[str, Any], host: ChannelHost) -> Channel:
    return make(table, host.folder.parent, host.clock)


def _installed() -> dict[str, Any]:
    """Entry points of packages that bring channels."""
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group="nanoclaw.channels")}
