"""Who is let in, by rules and links alone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from nanoclaw.core.messages import Address, Inbound, Role, UserMessage
from nanoclaw.plugins.access.access import AccessRules, Admission, ChannelRules, account, creator

LINKED: dict[tuple[str, str], Role] = {("telegram", "1"): "owner", ("telegram", "2"): "guest"}
PRIVATE, GROUP = Address("telegram", "9"), Address("telegram", "-100//9")


def access(**rules: ChannelRules) -> AccessRules:
    return AccessRules(rules, lambda channel, sender: LINKED.get((channel, sender)))


def said(sender: str, *, group: bool = False, mention: bool = False, name: str = "", channel: str = "") -> Inbound:
    address = GROUP if group else PRIVATE
    message = UserMessage("hello", datetime(2026, 5, 3, tzinfo=UTC))
    where = Address(channel, address.chat) if channel else address
    return Inbound(where, sender, "m1", message, name=name, is_group=group, is_mention=mention)


def rules(**given: object) -> AccessRules:
    return access(telegram=ChannelRules(**given))  # type: ignore[arg-type]


def test_an_empty_list_is_nobody_but_the_terminal() -> None:
    nobody = AccessRules({}, lambda channel, sender: None)
    assert nobody.role("telegram", "1") is None
    assert nobody.verdict(said("1"), "9") == "refused"
    assert nobody.verdict(said("1", group=True, mention=True), "-100") == "refused"
    assert nobody.role("terminal", "whoever sits there") == "owner"


def test_the_linked_and_the_listed_are_let_in_by_their_stable_id() -> None:
    gatekeeper = rules(allow_from=frozenset({"3"}))
    assert [gatekeeper.role("telegram", sender) for sender in "1234"] == ["owner", "guest", "guest", None]
    assert [gatekeeper.verdict(said(sender), "9") for sender in "1234"] == ["in", "in", "in", "refused"]


def test_a_name_lets_nobody_in_whoever_bears_it_now() -> None:
    gatekeeper = rules(allow_from=frozenset({"@ann", "Ann", "3"}))
    assert gatekeeper.verdict(said("666", name="@ann"), "9") == "refused"
    assert gatekeeper.verdict(said("666", name="Ann"), "9") == "refused"
    assert gatekeeper.verdict(said("666", name="3"), "9") == "refused"


def test_an_id_of_one_channel_means_nothing_on_another() -> None:
    assert rules(allow_from=frozenset({"3"})).role("matrix", "3") is None
    assert rules().role("matrix", "1") is None


@pytest.mark.parametrize("sender", ["", "unverified:ann@example.org"])
def test_who_is_not_known_for_certain_is_never_anybody(sender: str) -> None:
    linked: Role = "owner"
    gatekeeper = AccessRules({"email": ChannelRules(frozenset({sender}), "pairing")}, lambda channel, who: linked)
    assert gatekeeper.role("email", sender) is None
    assert gatekeeper.verdict(said(sender, channel="email"), "9") == "refused"


@pytest.mark.parametrize(("policy", "verdict"), [("silent", "refused"), ("pairing", "pairing"), ("open", "in")])
def test_the_policy_decides_on_strangers_who_write_alone(policy: str, verdict: Admission) -> None:
    gatekeeper = rules(policy=policy)
    assert gatekeeper.verdict(said("4"), "9") == verdict
    assert gatekeeper.verdict(said("4", group=True, mention=True), "-100") == "refused"


@pytest.mark.parametrize(
    ("groups", "mention", "verdict"),
    [
        ("off", True, "refused"),
        ("mention", True, "in"),
        ("mention", False, "overheard"),
        ("all", True, "in"),
        ("all", False, "in"),
    ],
)
@pytest.mark.parametrize("sender", ["1", "2", "4"])
def test_in_an_allowed_group_all_are_heard_alike(sender: str, groups: str, mention: bool, verdict: Admission) -> None:
    gatekeeper = rules(groups=groups, allow_groups=frozenset({"-100"}))
    assert gatekeeper.verdict(said(sender, group=True, mention=mention), "-100") == verdict


def test_in_another_group_only_the_owner_hears_why_nothing_happens() -> None:
    gatekeeper = rules(allow_groups=frozenset({"-200"}))
    assert gatekeeper.verdict(said("1", group=True, mention=True), "-100") == "elsewhere"
    assert gatekeeper.verdict(said("1", group=True), "-100") == "refused"
    assert gatekeeper.verdict(said("2", group=True, mention=True), "-100") == "refused"
    assert gatekeeper.verdict(said("4", group=True, mention=True), "-100") == "refused"
    assert rules(groups="off").verdict(said("1", group=True, mention=True), "-100") == "refused"


def test_a_job_knows_the_account_that_made_it() -> None:
    assert account(creator(PRIVATE, "owner")) == ("telegram", "owner")  # an id that only looks like it
    assert account(creator(Address("matrix", "!r:x"), "@ann:x")) == ("matrix", "@ann:x")
    assert access().role(*account(creator(Address("terminal", "main"), "me"))) == "owner"
    assert access().role(*account(creator(PRIVATE, "owner"))) is None
