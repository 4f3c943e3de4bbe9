"""Profiles: the kinds of turn (a person's, a guest's, a task's …) and how each is treated. `open_to` of each tool and
command says what a guest may use."""

from __future__ import annotations

import json

from nanoclaw.core.messages import Inbound, Limits
from nanoclaw.core.plugin import Profile

GUEST = Profile("guest", mode="guest", can_allow=False)
"""The profile of guests and groups. They may use only tools and commands whose `open_to` names the guest."""

PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile("person"),
        GUEST,
        Profile("job", mode="minimal", purpose="tasks", can_allow=False, words="task {}"),
        Profile(
            "heartbeat",
            mode="minimal",
            purpose="heartbeat",
            can_ask=False,
            can_allow=False,
            words="a heartbeat",
            again="A heartbeat was interrupted.{} Its lines come up again at the next one.",
            blocks=False,
        ),
        Profile("helper", mode="minimal", purpose="helpers", blocks=False),
        Profile("incognito", only=frozenset(), can_ask=False, can_allow=False),
        Profile("rehearsal", mode="minimal", purpose="tasks", can_ask=False, can_allow=False, acts=False, keeps=False),
    )
}


def profile_of(inbound: Inbound) -> Profile:
    """The profile of a message: that of its origin's name, else a helper's; everything of a guest's is a guest's. In a
    group others read the answer, so everybody is a guest there. Who waits only so long (`nanoclaw -m`) can't be asked.
    """
    found = GUEST
    if inbound.profile:
        found = load(inbound.profile)
    elif inbound.role == "owner" and not inbound.is_group:
        found = PROFILES.get(inbound.message.origin, PROFILES["helper"])
    return found._replace(can_ask=False, wait=inbound.wait_limit) if inbound.wait_limit else found


def dump(profile: Profile) -> str:
    """A profile as it is stored with a message: its name, or the whole profile if it is not in the table."""
    if PROFILES.get(profile.name) == profile:
        return profile.name
    limits = profile.limits._asdict() if profile.limits else None
    only = sorted(profile.only) if profile.only is not None else None
    return json.dumps(profile._replace(limits=limits, only=only)._asdict())  # type: ignore[arg-type]


def load(text: str) -> Profile:
    """The profile that `dump` wrote; the guest's for an unknown one."""
    if not text.startswith("{"):
        return PROFILES.get(text, GUEST)
    try:
        fields = json.loads(text)
        limits, only = fields.pop("limits"), fields.pop("only")
        only = None if only is None else frozenset(only)
        return Profile(**fields, limits=Limits(**limits) if limits else None, only=only)
    except (ValueError, TypeError, KeyError):
        return GUEST
