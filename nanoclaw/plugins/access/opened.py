"""Findings about who may talk to the assistant, for `nanoclaw audit`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nanoclaw.core.plugin import Finding
from nanoclaw.escapes import one_line
from nanoclaw.plugins.access.accounts import Accounts
from nanoclaw.plugins.access.rules import ChannelRules


def opened(accounts: Accounts, rules: Mapping[str, ChannelRules]) -> Iterator[Finding]:
    """A line for each way in, by channel."""
    linked, waiting = accounts.all(), accounts.requests()
    for channel in sorted({*rules, *(one.channel for one in linked)}):
        for role in ("owner", "guest"):
            those = [one for one in linked if (one.channel, one.role) == (channel, role)]
            people = [f"{one_line(one.name, 64) or 'no name'} (id {one.sender})" for one in those]
            if people:
                yield Finding(True, f"{role}s: {', '.join(people)}", channel, risk="note")
        if (rule := rules.get(channel)) is None:
            text = "accounts are linked, and the channel is not configured: they count again once it is"
            yield Finding(True, text, channel, risk="note")
            continue
        if rule.allow_from:
            yield Finding(True, f"guests by allow_from: {', '.join(rule.allow_from)}", channel, risk="note")
        if rule.policy == "open":
            yield Finding(False, 'anybody who writes is answered as a guest: policy = "open"', channel, risk="warning")
        if rule.policy == "open" and not rule.per_hour:
            text = "without a limit: per_hour = 0 lets anybody spend as much of your money as they like"
            yield Finding(False, text, channel, risk="bad")
        if rule.allow_groups and rule.groups != "off":
            heard = "all that is said" if rule.groups == "all" else "who mentions it"
            text = f"groups, {heard}: {', '.join(rule.allow_groups)}"
            yield Finding(True, text, channel, risk="warning" if rule.groups == "all" else "note")
        if (code := accounts.link(channel)) and code.state == "open":
            text = f"a link code is open until {code.until:%H:%M}: whoever sends it becomes the owner"
            yield Finding(True, text, channel, risk="warning")
        if count := sum(one.address.channel == channel for one in waiting):
            yield Finding(True, f"{count} waiting for your approval: /pair lists them", channel, risk="note")
