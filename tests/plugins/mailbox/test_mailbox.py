"""The owner's mailbox on a real IMAP server, pymap: find, read, draft, undo; sent after a yes to the whole draft."""

import asyncio
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.core.messages import Inbound, ToolCall, ToolResult, UserMessage
from nanoclaw.core.turn import RunningTurn
from nanoclaw.providers.scripted import ScriptedProvider, call
from tests.channels.mail_server import PASSWORD, USER, MailServer
from tests.program import MAIN, NOON, Program, running

PYMAP = Path(sys.executable).with_name("pymap")
SETTINGS = """
[mailbox]
host = "127.0.0.1"
port = {}
user = "bot@lab.test"
password = "{}"
address = "anna@lab.test"
security = "none"
smtp_host = "127.0.0.1"
smtp_port = {}
"""


@pytest.fixture
def port() -> Iterator[int]:
    """A server with mails of its own in memory."""
    if not PYMAP.exists():
        pytest.skip("pymap is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = int(free.getsockname()[1])
    command = [str(PYMAP), "--host", "127.0.0.1", "--port", str(number), "--no-tls", "dict"]
    command += ["--demo-data", "--demo-user", USER, "--demo-password", PASSWORD]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + 60
            while socket.socket().connect_ex(("127.0.0.1", number)):
                assert process.poll() is None and time.monotonic() < until
            yield number
        finally:
            process.kill()


def put(port: int, subject: str = "Grüße aus Köln") -> None:
    from imap_tools import MailBoxUnencrypted

    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "Bob <bob@lab.test>", "anna@lab.test", subject
    mail["Message-ID"], mail["Date"] = "<1@lab.test>", "Fri, 06 Mar 2026 10:00:00 +0100"
    mail.set_content("Kommst du am Freitag?")
    with MailBoxUnencrypted("127.0.0.1", port).login(USER, PASSWORD) as box:
        box.append(mail.as_bytes(), "INBOX")


async def use(made: Program, tool: str, **arguments: Any) -> ToolResult:
    inbound = Inbound(MAIN, "me", "", UserMessage("", NOON), role="owner")
    turn = RunningTurn(made.app.runner.parts, 0, inbound, MAIN, made.app.sessions.of(MAIN))
    result = await made.app.toolbox.call(ToolCall("1", tool, json.dumps(arguments)), turn)
    await turn.journal.change(lambda tx: None)
    return result


async def test_mails_are_found_and_drafts_written_changed_and_undone(tmp_path: Path, port: int) -> None:
    put(port)
    async with running(tmp_path, ScriptedProvider(), settings=SETTINGS.format(port, PASSWORD, 1)) as made:
        found = (await use(made, "find_mails", words="Köln", days=0)).text
        assert "information by others" in found and "bob@lab.test: Grüße aus Köln (new)" in found
        (mail,) = re.findall(r"\[(INBOX/\d+)\]", found)
        assert "Kommst du am Freitag?" in (await use(made, "read_mail", mail=mail)).text
        assert "(new)" in (await use(made, "find_mails", sender="bob", words="Köln", days=0)).text
        for wrong in ("nope", "INBOX/9999"):
            assert "there is no mail" in (await use(made, "read_mail", mail=wrong)).text
        assert "Marked" in (await use(made, "label_mail", mail=mail, label="flagged")).text
        draft = {"to": "bob@lab.test", "subject": "Re: Grüße"}
        first = (await use(made, "draft_mail", **draft, text="Ja.", answers=mail)).text.split()[3].rstrip(":")
        second = (await use(made, "draft_mail", **draft, text="Gern!", replaces=first)).text.split()[3].rstrip(":")
        assert "Gern!" in (await use(made, "read_mail", mail=second)).text
        assert "there is no mail" in (await use(made, "read_mail", mail=first)).text
        assert (await use(made, "draft_mail", to="x\nBcc: y@z", subject="a", text="b")).is_error
        assert "Taking back" in await made.ask("/undo")
        await asyncio.gather(*(task for task in made.app._tasks if "_put_back" in repr(task)))
        left = (await use(made, "find_mails", folder="Drafts", days=0)).text
        (back,) = re.findall(r"\[(Drafts/\d+)\]", left)
        assert "Ja." in (await use(made, "read_mail", mail=back)).text
        await made.ask("/undo")
        await asyncio.gather(*(task for task in made.app._tasks if "_put_back" in repr(task)))
        assert "no such mail" in (await use(made, "find_mails", folder="Drafts", days=0)).text


async def test_a_draft_is_sent_after_a_yes_that_shows_all_of_it(tmp_path: Path, port: int) -> None:
    server = MailServer()
    settings = SETTINGS.format(port, PASSWORD, server.smtp[1])
    async with running(tmp_path, ScriptedProvider(), settings=settings) as made:
        told = await use(made, "draft_mail", to="bob@lab.test", subject="Hallo", text="Bis Freitag")
        draft = told.text.split()[3].rstrip(":")
        assert "nobody is there to be asked" in (await use(made, "send_draft", draft=draft)).text
    model = ScriptedProvider(call("send_draft", {"draft": draft}), "It is on its way.")
    async with running(tmp_path, model, settings=settings) as made:
        asked = await made.ask("send it")
        assert "Send this mail?" in asked and "To: bob@lab.test" in asked and "Bis Freitag" in asked
        assert not server.sent
        await made.say("yes")
        await made.answer_with("It is on its way.")
        assert [who for who, _ in server.sent] == ["bob@lab.test"]
        assert "no such mail" in (await use(made, "find_mails", folder="Drafts", days=0)).text
    server.stop()


async def test_what_is_wrong_is_a_sentence(tmp_path: Path, port: int) -> None:
    for settings, told in (
        (SETTINGS.format(port, "wrong", 1), "refuses the login: look at user and password in [mailbox]"),
        (SETTINGS.format(1, PASSWORD, 1), "127.0.0.1:1 cannot be reached"),
        (SETTINGS.format(port, PASSWORD, 1).replace('"none"', '"tls"'), "speaks no TLS: look at port and security"),
    ):
        async with running(tmp_path, ScriptedProvider(), settings=settings) as made:
            assert told in (await use(made, "find_mails")).text
            assert (await use(made, "draft_mail", to="a@b.c", subject="x", text="y")).is_error


async def test_the_question_shows_each_word_and_everybody_and_what_it_cannot_show_is_not_sent(
    tmp_path: Path, port: int
) -> None:
    from imap_tools import MailBoxUnencrypted

    people = [f"somebody.with.a.long.name.{number}@lab.test" for number in range(20)]
    page = b"From: anna@lab.test\nTo: bob@lab.test\nContent-Type: text/html\n\n<a href='https://a.example'>lab.test</a>"
    with MailBoxUnencrypted("127.0.0.1", port).login(USER, PASSWORD) as box:
        box.append(page, "Sent", flag_set=["\\Draft"])
        box.folder.set("Sent")
        page_id = f"Sent/{box.uids()[-1]}"
    model = ScriptedProvider()
    async with running(tmp_path, model, settings=SETTINGS.format(port, PASSWORD, 1)) as made:
        told = await use(made, "draft_mail", to=", ".join(people), subject="Hallo " * 60, text="Freitag\n" * 1_000)
        drafts = (page_id, told.text.split()[3][:-1])
        model.add([call("send_draft", {"draft": one}) for one in drafts])
        asked = await made.ask("send them")
        assert all(one in asked for one in people) and (asked.count("Hallo"), asked.count("Freitag")) == (60, 1_000)
        assert "HTML" in model.requests[-1].history[-1].text
