"""Who is let in, by rules and links alone."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.core.messages import Address, Inbound, UserMessage
from nanoclaw.plugins.access.accounts import Accounts
from nanoclaw.plugins.access.gatekeeper import Gatekeeper
from nanoclaw.plugins.access.plugin import Access, Admission, ChannelRules, account, creator
from tests.plugins.paper_host import PaperHost

PRIVATE, GROUP = Address("telegram", "9"), Address("telegram", "-100//9")


def access(**rules: ChannelRules) -> Gatekeeper:
    """On telegram, 1 is linked as the owner and 2 as a guest."""
    host: Any = PaperHost(Path(":memory:"), Access)
    for sender, role in (("1", "owner"), ("2", "guest")):
        host.read("INSERT INTO people VALUES (NULL, 'telegram', ?, ?, '', '')", sender, role)
    return Gatekeeper(host, Accounts(host), rules)


def said(sender: str, *, group: bool = False, mention: bool = False, name: str = "", channel: str = "") -> Inbound:
    address = GROUP if group else PRIVATE
    message = UserMessage("hello", datetime(2026, 5, 3, tzinfo=UTC))
    where = Address(channel, address.chat) if channel else address
    return Inbound(where, sender, "m1", message, name=name, is_group=group, is_mention=mention)


def rules(**given: object) -> Gatekeeper:
    return access(telegram=ChannelRules(**given))  # type: ignore[arg-type]


def test_an_empty_list_is_nobody_but_the_terminal() -> None:
    nobody = access()
    nobody._host.read("DELETE FROM people")
    assert nobody.role("telegram", "1") is None
    assert nobody.admission(said("1")) == "refused"
    assert nobody.admission(said("1", group=True, mention=True)) == "refused"
    assert nobody.role("terminal", "whoever sits there") == "owner"


def test_the_linked_and_the_listed_are_let_in_by_their_stable_id() -> None:
    gatekeeper = rules(allow_from=("3",))
    assert [gatekeeper.role("telegram", sender) for sender in "1234"] == ["owner", "guest", "guest", None]
    assert [gatekeeper.admission(said(sender)) for sender in "1234"] == ["in", "in", "in", "refused"]


def test_a_name_lets_nobody_in_whoever_bears_it_now() -> None:
    gatekeeper = rules(allow_from=("@ann", "Ann", "3"))
    assert gatekeeper.admission(said("666", name="@ann")) == "refused"
    assert gatekeeper.admission(said("666", name="Ann")) == "refused"
    assert gatekeeper.admission(said("666", name="3")) == "refused"


def test_an_id_of_one_channel_means_nothing_on_another() -> None:
    assert rules(allow_from=("3",)).role("matrix", "3") is None
    assert rules().role("matrix", "1") is None


@pytest.mark.parametrize("sender", ["", "unverified:ann@example.org"])
def test_who_is_not_known_for_certain_is_never_anybody(sender: str) -> None:
    gatekeeper = access(email=ChannelRules((sender,), "pairing"))
    gatekeeper._host.read("INSERT INTO people VALUES (NULL, 'email', ?, 'owner', '', '')", sender)
    assert gatekeeper.role("email", sender) is None
    assert gatekeeper.admission(said(sender, channel="email")) == "refused"


@pytest.mark.parametrize(("policy", "verdict"), [("silent", "refused"), ("pairing", "pairing"), ("open", "in")])
def test_the_policy_decides_on_strangers_who_write_alone(policy: str, verdict: Admission) -> None:
    gatekeeper = rules(policy=policy)
    assert gatekeeper.admission(said("4")) == verdict
    assert gatekeeper.admission(said("4", group=True, mention=True)) == "refused"


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
    gatekeeper = rules(groups=groups, allow_groups=("-100",))
    assert gatekeeper.admission(said(sender, group=True, mention=mention)) == verdict


def test_a_job_knows_the_account_that_made_it() -> None:
    assert account(creator(PRIVATE, "owner")) == ("telegram", "owner")  # an id that only looks like it
    assert account(creator(Address("matrix", "!r:x"), "@ann:x")) == ("matrix", "@ann:x")
    assert access().role(*account(creator(Address("terminal", "main"), "me"))) == "owner"
    assert access().role(*account(creator(PRIVATE, "owner"))) is None
