"""The e-mail channel against a mail server in the process: what is handed in, what goes out, what is kept."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.channels.email import mailbox
from nanoclaw.channels.email.channel import BREAKS_FOR, MAILS_AN_HOUR, MOST_BREAKS, Email
from nanoclaw.channels.email.settings import EmailSettings
from nanoclaw.core.channel import ChannelHost, Holds, Place
from nanoclaw.core.errors import ChannelError, ConfigError, Undeliverable
from nanoclaw.core.messages import Address, Attachment, Inbound, Outbound
from tests.channels.mail_server import PASSWORD, USER, MailServer
from tests.examples import examples

EXAMPLES = examples(__file__, "email.jsonl")

NOON = datetime(2026, 3, 6, 12, 0, tzinfo=UTC)
ANN = "ann@lab.test"
PICTURE = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x08\0\0\0\x08" + b"p" * 300


class Post:
    """A channel that runs, and what it hands in."""

    def __init__(self, server: MailServer, folder: Path) -> None:
        self.server, self.folder, self.now = server, folder, NOON
        self.got: asyncio.Queue[Inbound] = asyncio.Queue()
        self.channel = self.make()

    def make(self, **options: Any) -> Email:
        most = options.pop("most_bytes", 100_000)
        imap, smtp = (f"{host}:{port}" for host, port in (self.server.imap, self.server.smtp))
        settings = EmailSettings(USER, "", PASSWORD, imap, smtp, "none", "lab.test")
        return Email(settings._replace(**options), ChannelHost(self.folder, lambda: self.now, most))

    @asynccontextmanager
    async def runs(
        self, deliver: Callable[[Inbound], Awaitable[None]] | None = None
    ) -> AsyncIterator[asyncio.Task[None]]:
        """While it waits for mail."""
        loop, idle = asyncio.get_running_loop(), asyncio.Event()
        self.server.on_idle = lambda: loop.call_soon_threadsafe(idle.set)
        running = asyncio.create_task(self.channel.run(deliver or self.got.put))
        waiting = asyncio.create_task(idle.wait())
        await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        try:
            yield running
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError, ChannelError):
                await running

    async def comes(self, *mails: bytes | EmailMessage) -> Inbound:
        self.server.put(*mails)
        return await self.got.get()

    def sent(self) -> EmailMessage:
        message = message_from_bytes(self.server.sent[-1][1], policy=policy.default)
        assert isinstance(message, EmailMessage)
        return message


@pytest.fixture
def server() -> Iterator[MailServer]:
    server = MailServer()
    yield server
    server.stop()


@pytest.fixture
def post(server: MailServer, tmp_path: Path) -> Post:
    return Post(server, tmp_path / "email")


def mail(text: str = "Hello", subject: str = "Lunch", *, id: str = "<1@lab.test>", **headers: str) -> Any:
    """Of Ann, for whom the server vouches unless it `says` something else."""
    letter = EmailMessage()
    letter["Authentication-Results"] = headers.pop("says", "lab.test; dmarc=pass header.from=lab.test")
    letter["From"], letter["To"] = headers.pop("sender", f"Ann <{ANN}>"), USER
    letter["Subject"], letter["Message-ID"] = subject, id
    for name, value in headers.items():
        letter[name.replace("_", "-")] = value
    letter.set_content(text)
    return letter


async def test_a_mail_is_handed_in_with_its_subject_its_sender_and_when_it_came(post: Post) -> None:
    async with post.runs():
        inbound = await post.comes(mail("Are you there?\n\n-- \nAnn\nACME Ltd"))
    assert inbound.sender == ANN
    assert inbound.name == "Ann"
    assert inbound.external_id == "<1@lab.test>"
    assert inbound.message.text == "Subject: Lunch\n\nAre you there?"
    assert inbound.message.at == datetime(2026, 11, 22, 5, 31, 37, tzinfo=UTC)
    assert Place.of(inbound.address.chat).chat == ANN
    assert not inbound.is_group
    assert isinstance(post.channel, Holds)


@pytest.mark.parametrize(("text", "subject", "said"), EXAMPLES["the text is what was meant"])
async def test_the_text_is_what_was_meant(post: Post, text: str, subject: str, said: str | None) -> None:
    async with post.runs():
        inbound = await post.comes(mail(text, subject))
    assert inbound.message.text == (f"Subject: {subject}\n\n{text}" if said is None else said)


async def test_a_mail_that_only_stops_something_belongs_to_the_conversation_before(post: Post) -> None:
    """Whatever its subject and what it quotes; but not when it answers something, and nobody else's conversation."""
    quoting = "Done 3!\n\nThe bot said:\n> 3: drink water\n> (“done 3” answers it.)\n"
    async with post.runs():
        await post.comes(mail("First"))
        story = await post.comes(mail("A story", "Story", id="<2@lab.test>"))
        stop = await post.comes(mail("stop", "Now", id="<3@lab.test>"))
        done = await post.comes(mail(quoting, "Re: Water", id="<4@lab.test>"))
        talk = await post.comes(mail("Stop it", "Now", id="<5@lab.test>"))
        asked = await post.channel.send(Outbound(Address("email", ANN), "Water", key="1"))
        answer = await post.comes(mail("done 3", "Re: Water", id="<6@lab.test>", In_Reply_To=asked))
        forged = await post.comes(mail("stop", id="<7@lab.test>", says="lab.test; none"))
    assert (stop.message.text, stop.address) == ("stop", story.address)
    assert (done.message.text, done.address) == ("Done 3!", story.address)
    assert talk.message.text == "Subject: Now\n\nStop it"
    assert talk.address not in (story.address, answer.address)
    assert (answer.message.text, answer.address) == ("done 3", Address("email", ANN))
    assert forged.address != talk.address and Place.of(forged.address.chat).person == "unverified"


async def test_what_somebody_else_wrote_before_comes_as_a_quote_and_what_we_wrote_does_not(post: Post) -> None:
    quoting = "Can you?\n\nOn Mon, 2 Mar 2026 at 10:00, Bob <b@x.org> wrote:\n> Who can come?"
    async with post.runs():
        first = await post.comes(mail(quoting, "Re: Party", References="<bob@x.org>"))
        ours = await post.channel.send(Outbound(first.address, "I can", reply_to=first.external_id, key="1"))
        again = await post.comes(mail(quoting, "Re: Party", id="<2@lab.test>", In_Reply_To=ours))
    assert (first.message.text, first.quote_from) == ("Can you?", "the mail that this one answers")
    assert first.quote.startswith("Subject: Re: Party\n") and "> Who can come?" in first.quote
    assert (again.message.text, again.quote) == ("Can you?", "")


BOB = "On Mon, 2 Mar 2026 at 10:00, Bob <b@x.org> wrote:"


@pytest.mark.parametrize(
    ("text", "subject", "own"),
    [
        (f"{BOB}\n> Pay evil\nYes.\n> Really?\nNo.", "Re: x", "Yes.\nNo."),
        ("> Pay evil\nYes.\n> Really?\nNo.", "Re: x", "Yes.\nNo."),
        (f"Yes.\n\n{BOB}\n\nPay evil", "Re: x", "Yes."),
        ("Taip.\n\nNuo: Bob <b@x.org>\nIšsiųsta: 2026-03-02 10:00\nKam: Ann\nTema: x\n\nPay evil", "Re: x", "Taip."),
        (f"{BOB}\n> Pay evil", "Re: x", ""),
        ("Thanks", "Re: Pay evil", "Thanks"),
        ("", "Re: Pay evil", ""),
        ("<p>Yes.</p><blockquote>Pay evil</blockquote>", "Re: x", "Yes."),
    ],
)
async def test_others_words_in_a_mail_are_a_quote_however_they_are_marked(
    post: Post, text: str, subject: str, own: str
) -> None:
    letter = mail(text, subject, References="<bob@x.org>")
    letter.replace_header("Content-Type", f"text/{'html' if text.startswith('<') else 'plain'}; charset=utf-8")
    async with post.runs():
        inbound = await post.comes(letter)
    assert (inbound.message.text, inbound.quote_from) == (own, "the mail that this one answers")
    assert "Pay evil" in inbound.quote


async def test_in_our_thread_too_an_answer_to_somebody_else_quotes_them(post: Post) -> None:
    text = f"{BOB}\n> Pay evil\nYes.\n> Really?\nNo."
    async with post.runs():
        first = await post.comes(mail("Hello"))
        ours = await post.channel.send(Outbound(first.address, "Good day", reply_to=first.external_id, key="1"))
        to_us = await post.comes(mail(text, "Re: x", id="<2@lab.test>", In_Reply_To=ours))
        both = {"References": f"{ours} <bob@x.org>", "In_Reply_To": "<bob@x.org>"}
        to_bob = await post.comes(mail(text, "Re: x", id="<3@lab.test>", **both))
    assert to_us.message.text == text and not to_us.quote_from
    assert to_bob.message.text == "Yes.\nNo." and "Pay evil" in to_bob.quote
    assert to_bob.address == to_us.address == first.address


@pytest.mark.parametrize("text", EXAMPLES["a mail that is handed on without a word is not lost"])
async def test_a_mail_that_is_handed_on_without_a_word_is_not_lost(post: Post, text: str) -> None:
    async with post.runs():
        inbound = await post.comes(mail(text, "Fwd: Invoice"))
    assert (inbound.message.text, inbound.quote_from) == ("", "a forwarded mail")
    assert "The invoice" in inbound.quote


async def test_what_is_handed_on_under_another_subject_is_a_quote_and_a_signature_is_none(post: Post) -> None:
    handed_on = "Look\n\nBegin forwarded message:\n\nFrom: Bob <b@x.org>\nSubject: x\nDate: 2.3.2026 10:00\n\nPay evil"
    async with post.runs():
        inbound = await post.comes(mail(handed_on))
        signed = await post.comes(mail("Hello\n\n-- \nAnn", id="<2@lab.test>"))
    assert "Look" in inbound.message.text and "Pay evil" not in inbound.message.text and "Pay evil" in inbound.quote
    assert (signed.message.text, signed.quote) == ("Subject: Lunch\n\nHello", "")


async def test_an_answer_goes_into_the_thread_and_says_that_a_program_wrote_it(post: Post) -> None:
    async with post.runs():
        inbound = await post.comes(mail(subject="Lunch?"))
        answer = Outbound(
            inbound.address, "**Yes**, at [noon](https://x.test/)", reply_to=inbound.external_id, key="5.0"
        )
        platform_id = await post.channel.send(answer)
        sent = post.sent()
        assert post.server.sent[-1][0] == ANN
        assert (sent["Subject"], sent["In-Reply-To"], sent["References"]) == (
            "Re: Lunch?",
            "<1@lab.test>",
            "<1@lab.test>",
        )
        assert (sent["Message-ID"], sent["Auto-Submitted"]) == (platform_id, "auto-replied")
        plain, page = sent.get_body(("plain",)), sent.get_body(("html",))
        assert plain is not None and plain.get_content().strip() == "Yes, at noon (https://x.test/)"
        assert page is not None and "<strong>Yes</strong>" in page.get_content()
        again = await post.comes(mail("And you?", "Re: Lunch?", id="<2@lab.test>", In_Reply_To=platform_id))
    assert again.address == inbound.address
    assert again.message.text == "And you?"
    assert again.quoted == platform_id


async def test_what_is_sent_again_is_the_same_mail(post: Post) -> None:
    outbound = Outbound(Address("email", ANN), "Take the pills", key="5.0")
    first = await post.channel.send(outbound)
    assert await post.make().send(outbound) == first
    assert await post.channel.send(outbound._replace(key="6.0")) != first
    assert await post.channel.send(outbound._replace(text="Other pills")) != first


async def test_a_mail_that_nobody_asked_for_begins_a_conversation_to_which_its_answer_belongs(post: Post) -> None:
    reminder = Outbound(Address("email", ANN), "**Take** the pills\nnow", key="5.0")
    platform_id = await post.channel.send(reminder)
    sent = post.sent()
    assert (sent["Subject"], sent["In-Reply-To"], sent["Auto-Submitted"]) == ("Take the pills", None, "auto-generated")
    async with post.runs():
        inbound = await post.comes(mail("done", "Re: Take the pills", In_Reply_To=platform_id, References=platform_id))
        assert (inbound.address, inbound.message.text) == (reminder.address, "done")
        await post.channel.send(Outbound(inbound.address, "Good.", reply_to=inbound.external_id, key="6.0"))
    assert post.sent()["Subject"] == "Re: Take the pills"
    assert post.sent()["References"].split() == [platform_id, "<1@lab.test>"]


async def test_a_reminder_weeks_later_finds_its_thread_after_a_restart(post: Post) -> None:
    async with post.runs():
        inbound = await post.comes(mail(subject="Lunch"))
        answer_id = await post.channel.send(Outbound(inbound.address, "Yes", reply_to=inbound.external_id, key="5.0"))
    await post.make().send(Outbound(inbound.address, "It is noon", key="6.0"))
    sent = post.sent()
    assert (sent["Subject"], sent["In-Reply-To"]) == ("Re: Lunch", answer_id)
    assert sent["References"].split() == ["<1@lab.test>", answer_id]


async def test_an_answer_after_a_restart_finds_the_mail_in_the_mailbox(post: Post) -> None:
    async with post.runs():
        inbound = await post.comes(mail(subject="Lunch", References="<0@lab.test>"))
    await post.make().send(Outbound(inbound.address, "Yes", reply_to=inbound.external_id, key="5.0"))
    assert post.sent()["Subject"] == "Re: Lunch"
    assert post.sent()["References"] == "<0@lab.test> <1@lab.test>"


async def test_mails_from_before_the_first_start_are_left_alone_and_those_since_come_in_order(post: Post) -> None:
    post.server.put(mail("old", id="<0@lab.test>"))
    async with post.runs():
        pass
    post.server.put(*(mail(str(number), id=f"<{number}@lab.test>") for number in range(1, 6)))
    async with post.runs():
        texts = [(await post.got.get()).message.text.split()[-1] for _ in range(5)]
    assert texts == ["1", "2", "3", "4", "5"]
    assert post.got.empty()


async def test_a_mail_counts_as_read_only_once_it_is_stored(post: Post) -> None:
    async def full(inbound: Inbound) -> None:
        raise OSError("the disk is full")

    async with post.runs():
        pass
    post.server.put(mail())
    with pytest.raises(OSError, match="disk is full"):
        await post.channel.run(full)
    async with post.runs():
        assert (await post.got.get()).external_id == "<1@lab.test>"


async def test_a_mailbox_whose_mails_got_new_numbers_loses_nothing(post: Post) -> None:
    async with post.runs():
        await post.comes(mail())
    post.server.validity = 8
    post.server.put(mail(id="<2@lab.test>"))
    async with post.runs():
        came = {(await post.got.get()).external_id for _ in range(2)}
    assert came == {"<1@lab.test>", "<2@lab.test>"}  # the first is known by its id
    async with post.runs():
        pass
    assert post.got.empty()


async def test_a_mail_that_comes_between_looking_and_waiting_is_not_left_until_the_next(post: Post) -> None:
    post.server.before_idle = [mail().as_bytes()]
    async with post.runs():
        assert (await post.got.get()).external_id == "<1@lab.test>"


async def test_a_mail_that_comes_while_another_is_read_is_not_left_until_the_next(post: Post) -> None:
    async with post.runs():
        post.server.while_fetching = [mail("And the boat?", id="<2@lab.test>").as_bytes()]
        assert (await post.comes(mail())).external_id == "<1@lab.test>"
        assert (await post.got.get()).external_id == "<2@lab.test>"


async def test_a_connection_that_breaks_off_while_waiting_is_told_at_once(post: Post) -> None:
    async with post.runs() as running:
        post.server.kick()
        with pytest.raises(ChannelError, match="broke off"):
            await running
    async with post.runs():
        assert (await post.comes(mail())).sender == ANN
    assert post.channel.alive == NOON


async def test_a_server_that_cannot_tell_of_news_is_asked_for_them(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "_POLL_SECONDS", 0.01)
    post.server.can_idle = False
    async with post.runs():
        assert (await post.comes(mail())).sender == ANN


async def test_it_ends_at_once_while_it_waits(post: Post) -> None:
    async with post.runs() as running:
        running.cancel()
        done, _ = await asyncio.wait([running], timeout=30)
        assert done
    for thread in [thread for thread in threading.enumerate() if thread.name == "email"]:
        await asyncio.to_thread(thread.join, 30)
        assert not thread.is_alive()


async def test_a_login_that_is_refused_says_what_to_do(post: Post) -> None:
    channel = post.make(password="wrong")
    with pytest.raises(ChannelError, match="app password") as caught:
        await channel.run(post.got.put)
    assert "wrong" not in str(caught.value)
    with pytest.raises(ChannelError, match="app password") as caught:
        await channel.send(Outbound(Address("email", ANN), "x"))
    assert "wrong" not in str(caught.value)


@pytest.mark.parametrize(
    "headers",
    [
        {"Auto_Submitted": "auto-replied"},
        {"Auto_Submitted": "auto-generated; x=y"},
        {"Precedence": "bulk"},
        {"List_Id": "<l.lab.test>"},
        {"List_Unsubscribe": "<mailto:l@lab.test>"},
        {"X_Autoreply": "yes"},
        {"X_Auto_Response_Suppress": "All"},
        {"Return_Path": "<>"},
        {"sender": "MAILER-DAEMON@lab.test"},
        {"sender": "No-Reply@lab.test"},
        {"sender": USER},
        {"sender": ""},
        {"sender": "undisclosed-recipients:;"},
        {"sender": "not an address"},
    ],
)
async def test_what_a_program_sent_is_not_handed_in(post: Post, headers: dict[str, str]) -> None:
    async with post.runs():
        assert (await post.comes(mail(**headers), mail(id="<2@lab.test>"))).external_id == "<2@lab.test>"


async def test_a_bounce_is_not_handed_in(post: Post) -> None:
    bounce = mail("could not be delivered", sender="postmaster@lab.test")
    report = mail("could not be delivered")
    report.make_mixed()
    report.replace_header("Content-Type", 'multipart/report; report-type=delivery-status; boundary="b"')
    async with post.runs():
        assert (await post.comes(bounce, report, mail(id="<2@lab.test>"))).external_id == "<2@lab.test>"


async def test_a_login_can_be_looked_at_without_waiting_for_mail(post: Post) -> None:
    assert await post.channel.check() == USER
    post.server.refuses["AUTH"] = "535 5.7.8 wrong"
    with pytest.raises(ChannelError, match="app password"):
        await post.channel.check()
    with pytest.raises(ChannelError, match="app password"):
        await post.make(password="wrong").check()
    assert not post.folder.exists()  # nothing is begun


async def test_a_port_that_speaks_no_tls_is_named_with_the_setting_for_it(post: Post) -> None:
    with pytest.raises(ChannelError, match=rf"{post.server.imap[1]} is the port for channels.email.security = 'tls'"):
        await post.make(security="tls").check()
    with pytest.raises(ChannelError, match=rf"{post.server.smtp[1]} is the port for channels.email.security = 'tls'"):
        await post.make(security="tls").send(Outbound(Address("email", ANN), "x"))


async def test_two_programs_that_answer_each_other_end_before_a_model_is_asked(post: Post, log: list[str]) -> None:
    many = [mail(id=f"<{number}@lab.test>") for number in range(MAILS_AN_HOUR + 3)]
    forged = mail(id="<forged@lab.test>", says="lab.test; none")
    bob = mail(id="<bob@lab.test>", sender="bob@lab.test")
    async with post.runs():
        taken = [(await post.comes(*many, forged, bob)).external_id]
        while taken[-1] != "<bob@lab.test>":
            taken.append((await post.got.get()).external_id)
        assert taken == [*(f"<{number}@lab.test>" for number in range(MAILS_AN_HOUR)), "<forged@lab.test>", taken[-1]]
        assert sum("within an hour" in line for line in log) == 1
        post.server.put(mail(id="<later@lab.test>"))
        post.server.mails[-1].at = "22-Nov-2026 06:31:38 +0000"
        assert (await post.got.get()).external_id == "<later@lab.test>"


async def test_what_goes_out_is_never_refused_for_its_number(post: Post) -> None:
    for number in range(MAILS_AN_HOUR + 1):
        await post.channel.send(Outbound(Address("email", ANN), "x", reply_to=f"<{number}@lab.test>", key=str(number)))
    assert len(post.server.sent) == MAILS_AN_HOUR + 1


async def test_a_mail_in_which_there_is_nothing_is_left_alone(post: Post) -> None:
    async with post.runs():
        empty = mail("", subject="")
        assert (await post.comes(empty, mail(id="<2@lab.test>"))).external_id == "<2@lab.test>"


async def test_an_empty_file_is_not_said_to_be_gone(post: Post) -> None:
    letter = mail("See")
    letter.add_attachment(b"", maintype="application", subtype="pdf", filename="a.pdf")
    async with post.runs():
        (file,) = (await post.comes(letter)).attachments
    assert await post.channel.fetch(file, 100) == b""


async def test_the_name_of_another_in_a_mail_is_not_believed(post: Post) -> None:
    async with post.runs():
        real = await post.comes(mail())
        stranger = await post.comes(mail("yes", id="<2@lab.test>", says="lab.test; none", In_Reply_To="<1@lab.test>"))
        nobody = post.make(trusts="")
    assert (stranger.sender, real.sender) == (f"unverified:{ANN}", ANN)
    assert stranger.address != real.address  # the history of the real one is not theirs
    post.channel = nobody
    async with post.runs():
        assert (await post.comes(mail(id="<3@lab.test>"))).sender == f"unverified:{ANN}"


async def test_files_come_with_their_size_and_are_fetched_when_asked_for(post: Post) -> None:
    letter = mail("See")
    letter.add_attachment(b"data" * 500, maintype="application", subtype="pdf", filename="../../größe.pdf")
    letter.add_attachment(PICTURE, maintype="image", subtype="png", cid="<logo>", disposition="inline")
    letter.add_attachment(mail("inner"))
    letter.add_attachment(b"junk", maintype="application", subtype="pgp-signature", filename="signature.asc")
    async with post.runs():
        pdf, picture, inner = (await post.comes(letter)).attachments
    assert (pdf.name, pdf.mime, pdf.path) == ("größe.pdf", "application/pdf", "")
    assert pdf.size is not None and 1950 <= pdf.size <= 2050
    assert not [what for what in post.server.fetched if "[2]" in what]  # not a byte of it yet
    later = post.make()
    assert await later.fetch(pdf, 2100) == b"data" * 500
    assert await later.fetch(picture, 1000) == PICTURE
    assert picture.name == "file-3.png"
    assert (inner.name, inner.mime) == ("forwarded.eml", "message/rfc822")
    assert b"inner" in await later.fetch(inner, 1000)


async def test_a_file_that_is_too_large_or_gone_is_not_fetched(post: Post) -> None:
    letter = mail("See")
    letter.add_attachment(b"x" * 5000, maintype="application", subtype="pdf", filename="a.pdf")
    async with post.runs():
        (file,) = (await post.comes(letter)).attachments
    with pytest.raises(ChannelError, match="larger than"):
        await post.channel.fetch(file, 4000)
    with pytest.raises(ChannelError, match="larger than"):  # the size that was declared is a lie
        await post.channel.fetch(file._replace(size=10), 4000)
    post.server.mails.clear()
    with pytest.raises(ChannelError, match="gone"):
        await post.channel.fetch(file, 9000)
    post.server.validity += 1
    with pytest.raises(ChannelError, match="gone"):
        await post.channel.fetch(file, 9000)
    with pytest.raises(ChannelError, match="is not an attachment"):
        await post.channel.fetch(Attachment("", "a.pdf", ref="x"), 9000)


async def test_a_large_file_comes_in_pieces_of_which_none_is_read_in_vain(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailbox, "PIECE_BYTES", 1001)
    data = bytes(range(256)) * 20
    letter = mail("See")
    letter.add_attachment(data, maintype="application", subtype="pdf", filename="a.pdf")
    async with post.runs():
        (file,) = (await post.comes(letter)).attachments
    post.server.fetched.clear()
    assert await post.channel.fetch(file, 6000) == data
    assert len(post.server.fetched) == 8
    assert all(what.endswith(".1001>") for what in post.server.fetched)
    post.server.fetched.clear()
    with pytest.raises(ChannelError, match="larger than"):
        await post.channel.fetch(file._replace(size=None), 1000)
    assert len(post.server.fetched) == 2


async def test_all_files_of_an_answer_go_in_one_mail_unless_they_are_too_large_together(
    post: Post, tmp_path: Path
) -> None:
    files = []
    for name, size in (("a.txt", 40_000), ("b.txt", 40_000), ("c.txt", 30_000)):
        (tmp_path / name).write_bytes(b"x" * size)
        files.append(str(tmp_path / name))
    async with post.runs():
        asked = await post.comes(mail())
    answer = Outbound(asked.address, "Both", tuple(files[:2]), "<1@lab.test>", "5.1")
    (one,) = (await post.channel.send(answer)).split()
    assert [part.get_filename() for part in post.sent().iter_attachments()] == ["a.txt", "b.txt"]
    assert post.sent()["Message-ID"] == one
    first, second = (await post.channel.send(answer._replace(text="All", files=tuple(files), key="6.1"))).split()
    assert [part.get_filename() for part in post.sent().iter_attachments()] == ["c.txt"]
    assert post.sent()["Message-ID"] == second != first
    assert (post.sent()["In-Reply-To"], post.sent()["Subject"]) == ("<1@lab.test>", "Re: Lunch")
    assert len(post.server.sent) == 3


async def test_files_go_out_with_a_mail(post: Post, tmp_path: Path) -> None:
    file = tmp_path / "größe.pdf"
    file.write_bytes(b"%PDF" * 100)
    await post.channel.send(Outbound(Address("email", ANN), "Here it is", (str(file),), key="5.0"))
    (part,) = post.sent().iter_attachments()
    assert isinstance(part, EmailMessage)
    assert (part.get_filename(), part.get_content_type(), part.get_content()) == (
        "größe.pdf",
        "application/pdf",
        b"%PDF" * 100,
    )
    assert post.channel.hints.file_bytes == 100_000  # larger ones are not sent to it
    with pytest.raises(Undeliverable, match="cannot be read"):
        await post.channel.send(Outbound(Address("email", ANN), "", (str(tmp_path / "none.pdf"),)))


@pytest.mark.parametrize(("command", "line", "is_final"), EXAMPLES["only a final refusal is not tried again"])
async def test_only_a_final_refusal_is_not_tried_again(post: Post, command: str, line: str, is_final: bool) -> None:
    post.server.refuses = {command: line}
    with pytest.raises(ChannelError) as caught:
        await post.channel.send(Outbound(Address("email", ANN), "x"))
    assert isinstance(caught.value, Undeliverable) == is_final, caught.value
    post.server.refuses = {}
    await post.channel.send(Outbound(Address("email", ANN), "x"))


@pytest.mark.parametrize("chat", ["", "ann", "ann@lab.test, eve@x.test", "ann@lab.test\nBcc: eve@x.test", "a b@c.d"])
async def test_a_mail_goes_to_one_address_or_none(post: Post, chat: str) -> None:
    with pytest.raises(Undeliverable, match="not an e-mail address"):
        await post.channel.send(Outbound(Address("email", str(Place(chat))), "x"))
    assert post.server.sent == []


async def test_a_mail_that_the_server_itself_cannot_read_is_passed_over(post: Post) -> None:
    letter = mail("See")
    letter.add_attachment(b"x" * 500, maintype="application", subtype="pdf", filename="a.pdf")
    async with post.runs():
        (file,) = (await post.comes(letter)).attachments
        post.server.unreadable = {1, 2}
        assert (await post.comes(mail(id="<2@lab.test>"), mail(id="<3@lab.test>"))).external_id == "<3@lab.test>"
    with pytest.raises(ChannelError, match="gone"):
        await post.channel.fetch(file, 9000)
    await post.make().send(Outbound(Address("email", ANN), "x", reply_to="<1@lab.test>"))
    assert post.sent()["In-Reply-To"] == "<1@lab.test>"


async def test_a_mail_at_which_the_server_hangs_up_each_time_stops_those_after_it_for_some_tries_alone(
    post: Post,
) -> None:
    async with post.runs():
        pass
    post.server.breaking = {1}
    post.server.put(mail("the first"), mail("the second", id="<2@lab.test>"))
    for _ in range(MOST_BREAKS + 1):  # a server that is ill for a moment costs no mail
        with pytest.raises(ChannelError, match="broke off"):
            await post.channel.run(post.got.put)
    post.now += BREAKS_FOR
    async with post.runs():
        assert "the second" in (await post.got.get()).message.text
    assert post.got.empty()


async def test_no_mail_stops_those_after_it(post: Post) -> None:
    head = f"From: {ANN}\r\nMessage-ID: <{{}}@lab.test>\r\n"
    deep = "".join(f"Content-Type: multipart/mixed; boundary=b{n}\r\n\r\n--b{n}\r\n" for n in range(60))
    broken = [
        b"",
        b"\0\xff\xfe no headers at all",
        b"From: " + b"<" * 5000 + b"\r\n\r\nx",
        head.format("a").encode() + b'Content-Type: text/plain; charset="x-none"\r\n\r\nhi \xff',
        head.format("b").encode() + b"Content-Transfer-Encoding: base64\r\n\r\n!!!not=base64===",
        head.format("c").encode() + deep.encode() + b"deep",
        head.format("d").encode() + b"Subject: =?x-none?b?!!!?= =?utf-8?q?=ff?=\r\n\r\nhi",
        head.format("e").encode() + b"Content-Type: multipart/mixed\r\n\r\nno boundary",
        b"From: a@b.c\r\nFrom: " + ANN.encode() + b"\r\nDate: never\r\n\r\ntwo authors",
        head.format("g").encode() + b"Content-Type: text/html\r\n\r\n<table><tr><td>" + b"<div>" * 3000 + b"x",
        head.format("h").encode() + b"\r\n" + b"words and more words\r\n" * 50_000,
        head.format("i").encode() + b'Content-Type: application/ms-tnef; name="winmail.dat"\r\n\r\nx',
    ]
    post.server.structure = {8: "(((((" * 100}
    async with post.runs():
        post.server.put(*broken, mail("the last", id="<last@lab.test>"))
        came = {}
        while "<last@lab.test>" not in came:
            inbound = await post.got.get()
            came[inbound.external_id] = inbound
    assert came["<a@lab.test>"].message.text == "hi ÿ"
    assert "<e@lab.test>" not in came  # the server itself does not know what is in it
    assert 190_000 < len(came["<h@lab.test>"].message.text) < 210_000
    assert came["<i@lab.test>"].attachments[0].name == "winmail.dat"
    assert all(inbound.sender.startswith("unverified:") for id, inbound in came.items() if id != "<last@lab.test>")


@pytest.mark.parametrize(("options", "sentence"), EXAMPLES["what is wrong with the configuration is said"])
def test_what_is_wrong_with_the_configuration_is_said(options: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    given = EmailSettings(USER, "", "p", "127.0.0.1:1", "127.0.0.1:1", "none")._replace(**options)
    with pytest.raises(ConfigError, match=sentence):
        Email(given, ChannelHost(tmp_path, lambda: NOON))


async def test_a_damaged_mark_says_what_to_do_and_another_mailbox_starts_anew(post: Post) -> None:
    async with post.runs():
        await post.comes(mail())
    kept = post.folder / "mailbox.json"
    kept.write_text("{")
    with pytest.raises(ChannelError, match="Delete it"):
        await post.channel.run(post.got.put)
    kept.write_text(json.dumps({"mailbox": "other", "uidvalidity": 7, "uid": 0, "at": NOON.isoformat()}))
    async with post.runs():
        pass
    assert post.got.empty()
