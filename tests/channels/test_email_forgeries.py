"""Forged mails through the channel: none of them is the owner's."""

import pytest

from tests.channels.forged_mails import forged
from tests.channels.mail_server import MailServer, stripped
from tests.channels.test_email import Post, mail, post, server

__all__ = ["post", "server"]

KIM, MX = "kim@lab.test", "mx.kiosk.test"
TRUE = f"{MX}; dmarc=pass header.from=lab.test"


def stamped(data: bytes) -> bytes:
    return f"Authentication-Results: {MX}; auth=pass\r\n".encode() + stripped(data)


async def test_no_forged_mail_is_the_owners_and_the_owners_own_is(post: Post, server: MailServer) -> None:
    server.stamps, post.channel = stamped, post.make(trusts=MX)
    tried = forged(KIM, MX)
    assert len(tried) >= 40
    async with post.runs():
        server.put(*tried.values())
        seen = dict[str, str]()
        inbound = await post.comes(mail(says=TRUE, sender=f"Kim <{KIM}>"))
        while inbound.external_id != "<1@lab.test>":
            seen[inbound.external_id] = inbound.sender
            inbound = await post.got.get()
    assert inbound.sender == KIM
    names = {f"<forged-{number}@evil.test>": name for number, name in enumerate(tried)}
    assert [names[one] for one, sender in seen.items() if sender == KIM] == []
    waits = [names[one] for one, sender in seen.items() if sender == f"unverified:{KIM}"]
    assert "a mail to somebody else, sent on" in waits


@pytest.mark.parametrize(
    ("sender", "says", "to"),
    [
        (f"Kim <{KIM}>", TRUE, "bot@lab.test"),
        (KIM.upper(), TRUE.upper().replace("PASS", "pass"), "Ann <ann@x.org>, Bot <BOT+home@lab.test>"),
        (f"=?utf-8?q?K=C3=AFm?= <{KIM}>", f"{MX} 1; dkim=fail; dkim=pass header.i=@lab.test", "jarvis@x.org"),
        (
            f"{KIM} (Kim)",
            f"(checked) {MX}; dmarc=none header.from=lab.test; spf=pass smtp.mailfrom=lab.test",
            "bot@lab.test",
        ),
        (f'"Kim, of the lab" <{KIM}>', f"{MX};\r\n dmarc=bestguesspass; dkim=pass header.d=lab.test", "bot@lab.test"),
    ],
)
async def test_a_true_mail_of_the_owner_counts_however_it_is_written(
    post: Post, server: MailServer, sender: str, says: str, to: str
) -> None:
    server.stamps, post.channel = stamped, post.make(trusts=MX, aliases=("jarvis@x.org",))
    head = f"Authentication-Results: {says}\r\nFrom: {sender}\r\nTo: {to}\r\nMessage-ID: <1@x>\r\n\r\nHello\r\n"
    async with post.runs():
        assert (await post.comes(head.encode())).sender == KIM
