"""A mail server's word on who wrote: tried with a forged mail, kept, and not counted where it is not known to hold."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from nanoclaw.channels.email import proof
from tests.channels.mail_server import RESULTS, MailServer, stamped, stripped
from tests.channels.test_email import ANN, NOON, Post, mail, post, server

__all__ = ["post", "server"]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "LOOK_SECONDS", 0.01)


@pytest.mark.parametrize(
    ("stamps", "is_good", "said"),
    [
        (stamped, True, "adds Authentication-Results as lab.test and removes forged ones (tested 2026-03-06)"),
        (lambda data: RESULTS + data, False, "leaves forged Authentication-Results of lab.test"),
        (lambda data: data, False, "leaves forged Authentication-Results of lab.test"),
        (stripped, False, "added none as lab.test"),
        (lambda data: stripped(data, b"X-Old-"), False, "added none as lab.test"),
        (lambda data: RESULTS + stripped(data, b"X-Old-"), True, "removes forged ones"),
        (lambda data: RESULTS.replace(b"lab", b"mx") + stripped(data), False, "added none as lab.test"),
        (lambda data: RESULTS + data.replace(b": lab.test;", b": other;"), False, "leaves forged"),
    ],
    ids=[
        "good",
        "adds alone",
        "nothing",
        "strips alone",
        "renames",
        "adds and renames",
        "another name",
        "one spelling",
    ],
)
async def test_the_server_is_known_by_what_it_did_with_a_forged_mail(
    post: Post, server: MailServer, stamps: Callable[[bytes], bytes], is_good: bool, said: str
) -> None:
    server.stamps = stamps
    found, text = await post.channel.prove()
    assert (found, said in text) == (is_good, True), text
    assert ("/held" in text) is not is_good
    assert server.mails == []
    assert post.make().proof == (found, text)


async def test_a_test_mail_that_is_late_is_waited_for(post: Post, server: MailServer) -> None:
    server.late = 3
    assert (await post.channel.prove())[0]


async def test_one_that_does_not_come_is_said_and_taken_out_when_it_comes_at_last(
    post: Post, server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.late = 1_000_000
    monkeypatch.setattr(proof, "ARRIVE_SECONDS", 0.2)
    is_good, text = await post.channel.prove()
    assert not is_good
    assert "was not in the INBOX" in text
    assert "spam" in text
    monkeypatch.setattr(proof, "ARRIVE_SECONDS", 60.0)
    server.late = 0
    assert not (await post.channel.prove())[0]  # not due yet
    assert (await post.channel.prove(anew=True))[0]
    assert server.mails == []


async def test_a_server_that_refuses_the_test_mail_is_not_known(post: Post, server: MailServer) -> None:
    server.refuses = {".": "554 5.7.1 spam"}
    is_good, text = await post.channel.prove()
    assert not is_good
    assert "could not be tested: " in text and "554" in text


async def test_what_was_good_goes_on_to_count_where_trying_again_fails(post: Post, server: MailServer) -> None:
    assert (await post.channel.prove())[0]
    server.refuses = {".": "451 later"}
    post.now = NOON + timedelta(days=31)
    is_good, text = await post.channel.prove()
    assert is_good
    assert "(tested 2026-03-06; trying it again did not work: " in text and "451" in text
    server.refuses, server.stamps = {}, lambda data: data
    post.now += timedelta(hours=7)
    assert not (await post.channel.prove())[0]


async def test_a_gateway_tries_it_at_its_start_and_hands_in_no_test_mail(post: Post, server: MailServer) -> None:
    async with post.runs():
        inbound = await post.comes(mail())
    assert inbound.sender == ANN
    assert post.got.empty()


async def test_a_mail_is_not_its_senders_where_the_server_leaves_forged_results(post: Post, server: MailServer) -> None:
    server.stamps, server.can_delete = lambda data: data, False
    async with post.runs():
        inbound = await post.comes(mail())
        stranger = await post.comes(mail(says="other.test; dmarc=pass", id="<2@lab.test>"))
    assert inbound.sender == f"unverified:{ANN}"
    assert stranger.sender == f"unverified:{ANN}"


@pytest.mark.parametrize("kept", ["", "[]", '{"of": 1}', '{"of": "x", "at": 3, "due": 4}'])
async def test_what_was_kept_and_cannot_be_read_is_tried_anew(
    post: Post, server: MailServer, tmp_path: Path, kept: str
) -> None:
    (tmp_path / "email").mkdir()
    (tmp_path / "email" / "proof.json").write_text(kept)
    assert not post.channel.proof[0]
    assert (await post.channel.prove())[0]
