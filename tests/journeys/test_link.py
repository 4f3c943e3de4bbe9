"""`nanoclaw link` as the owner goes through it: the program in a pseudo-terminal, a Telegram server on loopback."""

import asyncio
import re
import signal
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from nanoclaw.start.opening import read_store
from tests.channels.mail_server import PASSWORD, USER, MailServer
from tests.journeys.command import Home, Running
from tests.live.telegram_server import TelegramServer
from tests.model_server import ModelServer, says

ANNA, MALLORY = 1001, 666
PEOPLE = "SELECT channel, sender, role, name FROM people ORDER BY id"


async def shows(process: Running, pattern: str) -> re.Match[str]:
    """The match, once it is there; the server beside it runs on in this thread."""
    return await asyncio.to_thread(process.match, pattern)


async def ended(process: Running) -> int:
    return await asyncio.to_thread(process.ended)


Start = Callable[..., Running]


@asynccontextmanager
async def telegram(
    home: Home, model: ModelServer, *, with_token: bool = True
) -> AsyncIterator[tuple[TelegramServer, Start]]:
    """A Telegram server that the home is configured for, and how to start the program."""
    running: list[Running] = []

    def start(*arguments: str, stdout: int | None = None) -> Running:
        running.append(Running(home, *arguments, stdout=stdout))
        return running[-1]

    async with TelegramServer() as server:
        home.configure(model.base, more=f'[channels.telegram]\napi_base = "{server.api_base}"\n')
        if with_token:
            home.environment["NANOCLAW_TELEGRAM_TOKEN"] = server.token
        try:
            yield server, start
        finally:
            for one in running:
                one.close()


def play(story: Awaitable[None]) -> None:
    async def run() -> None:
        async with asyncio.timeout(60):
            await story

    asyncio.run(run())


def linked(home: Home) -> list[str]:
    store = read_store(home.root / "state.db")
    try:
        return [f"{channel}:{sender} {role} {name}" for channel, sender, role, name in store.rows(PEOPLE)]
    finally:
        store.close()


async def test_from_no_token_to_the_first_answer(home: Home, server: ModelServer) -> None:
    async with telegram(home, server, with_token=False) as (chats, start):
        (home.root / "secrets.env").write_text("# mine\nOTHER_API_KEY=sk-other\n")
        (home.root / "secrets.env").chmod(0o600)
        piped = start("link", "telegram", stdout=-1).process.stdout
        assert piped and b"a token:" in await asyncio.to_thread(piped.readline)
        linking = start("link", "telegram")
        await shows(linking, "BotFather")
        await shows(linking, "Token")
        linking.say(chats.token)
        await shows(linking, "This is @nano_test_bot")
        code = (await shows(linking, r"Code: (\w{4}-\w{4})"))[1]
        anna, mallory = chats.person(ANNA, "Anna", "anna"), chats.person(MALLORY, "Mallory")
        chats.say(mallory, "let me in")
        chats.say(mallory, "/start ABCD2345")
        await shows(linking, "a wrong code came over telegram")
        chats.say(anna, code.lower().replace("-", " "))
        assert "You are linked" in (await chats.next(anna)).text
        await shows(linking, rf"linked: Anna \(id {ANNA}\)\n.*gateway serves telegram")
        assert await ended(linking) == 0
        assert chats.sent(mallory) == [] and chats.token not in linking.text
        secrets = home.root / "secrets.env"
        assert secrets.read_text() == f"# mine\nOTHER_API_KEY=sk-other\nNANOCLAW_TELEGRAM_TOKEN={chats.token}\n"
        assert stat.S_IMODE(secrets.stat().st_mode) == 0o600
        server.script(says("Hello Anna."))
        start("gateway")
        chats.say(anna, "hello")
        assert (await chats.next(anna)).text == "Hello Anna."
    assert linked(home) == [f"telegram:{ANNA} owner Anna"]
    left = b"".join(path.read_bytes() for path in home.root.rglob("*") if path.is_file() and "secrets" not in path.name)
    assert b"AAF3kQm0zv9" not in left


async def test_a_gateway_that_runs_takes_the_code_while_the_command_waits(home: Home, server: ModelServer) -> None:
    async with telegram(home, server) as (chats, start):
        await shows(start("gateway"), "serves terminal, telegram")
        linking = start("link", "telegram")
        code = (await shows(linking, r"Code: (\w{4}-\w{4})"))[1]
        await shows(linking, "@nano_test_bot in Telegram")
        anna = chats.person(ANNA, "Anna")
        chats.say(anna, f"/link {code}")
        await shows(linking, rf"linked: Anna \(id {ANNA}\)")
        assert await ended(linking) == 0
        assert "You are linked" in (await chats.next(anna)).text
        chats.say(anna, "/model")
        assert "scripted" in (await chats.next(anna)).text
        assert re.search(rf"telegram:{ANNA}, owner: Anna, since \d{{4}}-", home.run("pair").out)
        assert "not linked any more" in home.run("pair", "remove", f"telegram:{ANNA}").out
        asked = len(chats.asked("sendMessage"))
        chats.say(anna, "/model")
        await chats.until(lambda: not chats.unconfirmed)
        assert len(chats.asked("sendMessage")) == asked
    assert server.asked == []


async def test_a_gateway_that_ends_and_ctrl_c_end_the_waiting_and_the_code(home: Home, server: ModelServer) -> None:
    async with telegram(home, server) as (chats, start):
        gateway = start("gateway")
        await shows(gateway, "serves terminal, telegram")
        linking = start("link", "telegram")
        await shows(linking, "Waiting")
        gateway.process.send_signal(signal.SIGTERM)
        await shows(linking, "the gateway has ended")
        assert await ended(linking) == 1
        assert await ended(gateway) == 0
        alone = start("link", "telegram")
        code = (await shows(alone, r"Code: (\w{4}-\w{4})"))[1]
        await shows(alone, "Waiting")
        alone.press_ctrl_c()
        assert await ended(alone) == 130
        await shows(start("gateway"), "serves terminal, telegram")
        chats.say(chats.person(ANNA, "Anna"), code)
        await chats.until(lambda: not chats.unconfirmed)
    assert linked(home) == []


async def test_what_known_people_say_while_the_command_serves_is_answered_by_the_next_gateway(
    home: Home, server: ModelServer
) -> None:
    async with telegram(home, server) as (chats, start):
        config = home.root / "config.toml"
        config.write_text(config.read_text() + f'allow_from = ["{MALLORY}"]\n')
        linking = start("link", "telegram")
        code = (await shows(linking, r"Code: (\w{4}-\w{4})"))[1]
        guest, anna = chats.person(MALLORY, "Gus"), chats.person(ANNA, "Anna")
        chats.say(guest, "are you there?")
        chats.say(anna, code)
        assert await ended(linking) == 0
        server.script(says("Yes."))
        start("gateway")
        assert (await chats.next(guest)).text == "Yes."


async def test_strangers_who_ask_are_let_in_by_their_code(home: Home, server: ModelServer) -> None:
    async with telegram(home, server) as (chats, start):
        config = home.root / "config.toml"
        config.write_text(config.read_text() + 'policy = "pairing"\n')
        await shows(start("gateway"), "serves terminal, telegram")
        gus = chats.person(MALLORY, "Gus")
        chats.say(gus, "hello")
        code = re.search(r"code: (\w{4}-\w{4})", (await chats.next(gus)).text)
        assert code
        assert f"/pair {code[1]} lets them in" in home.run("pair").out
        said = home.run("pair", code[1]).out
        assert said.startswith(f"Gus (id {MALLORY}) may talk to me on telegram now, as a guest")
        assert (await chats.next(gus)).text == "You may talk to me now."
        home.run("pair", code[1], check=2)
        chats.say(gus, "/panic")
        assert (await chats.next(gus)).text == "Only the owner can do that."


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "say which channel: there are telegram, matrix, email"),
        (("telegram",), "telegram has no token yet"),
        (("telegramm",), "did you mean 'telegram'?"),
        (("matrix",), "[channels.matrix]"),
        (("email",), "[channels.email]"),
    ],
)
def test_what_cannot_be_done_is_said(home: Home, arguments: tuple[str, ...], sentence: str) -> None:
    assert sentence in home.run("link", *arguments, check=2).err


@pytest.mark.parametrize(
    ("runs", "sentence"),
    [
        ((), r"a chat is open \(process \d+\): leave it with /exit, then run \S*nanoclaw link telegram again\."),
        (("gateway",), r"a gateway runs without telegram \(process \d+\): end it, then run \S*nanoclaw link telegram"),
    ],
)
def test_what_has_to_end_first_is_said(
    home: Home, start: Callable[..., Running], runs: tuple[str, ...], sentence: str
) -> None:
    start(*runs)
    home.environment["NANOCLAW_TELEGRAM_TOKEN"] = "123456:" + "a" * 35
    assert re.search(sentence, home.run("link", "telegram", check=1).err)


def test_an_empty_list_says_how_to_link(home: Home) -> None:
    assert "nanoclaw link CHANNEL links you" in home.run("pair").out


def test_a_name_in_place_of_an_id_is_an_error_that_says_why(home: Home, server: ModelServer) -> None:
    home.configure(server.base, more='[channels.telegram]\ntoken = "1:x"\nallow_from = ["@ann"]\n')
    said = home.run("gateway", check=2).err
    assert "allow_from" in said
    assert "'@ann': a name can be taken over by somebody else" in said


async def test_a_token_that_telegram_does_not_know_is_told_and_not_kept(home: Home, server: ModelServer) -> None:
    async with telegram(home, server, with_token=False) as (_, start):
        for token, said in (
            ("hello", "that is not a token"),
            (f"12345:{'x' * 35}", "Telegram does not know this token"),
        ):
            linking = start("link", "telegram")
            await shows(linking, "Token")
            linking.say(token)
            await shows(linking, said)
            assert await ended(linking) in (1, 2)
            assert not (home.root / "secrets.env").exists()


def configured_for_mail(home: Home, model: ModelServer, mail: MailServer) -> None:
    """With a Matrix account, too, that cannot work."""
    (imap_host, imap_port), (smtp_host, smtp_port) = mail.imap, mail.smtp
    home.configure(
        model.base,
        more='[channels.matrix]\nhomeserver = "http://127.0.0.1:1"\nuser = "wrong"\n'
        f'[channels.email]\naddress = "{USER}"\nimap_host = "{imap_host}:{imap_port}"\n'
        f'smtp_host = "{smtp_host}:{smtp_port}"\nsecurity = "none"\ntrusts = "lab.test"\n',
    )


def test_no_code_is_shown_where_the_login_does_not_work(home: Home, server: ModelServer) -> None:
    mail = MailServer()
    try:
        configured_for_mail(home, server, mail)
        home.environment["NANOCLAW_EMAIL_PASSWORD"] = "wrong-one"
        ended = home.run("link", "email", check=1)
        assert "Code:" not in ended.out
        assert f"127.0.0.1 refuses the login of {USER}" in ended.err

        async def story() -> None:
            home.environment["NANOCLAW_EMAIL_PASSWORD"] = PASSWORD
            linking = Running(home, "link", "email")
            try:
                await shows(linking, r"Code: (\w{4}-\w{4})")
            finally:
                linking.close()

        play(story())
    finally:
        mail.stop()


def test_doctor_looks_at_the_login_of_each_chat_app(home: Home, server: ModelServer) -> None:
    mail = MailServer()
    server.script(says("hello"), says("hello"))
    try:
        configured_for_mail(home, server, mail)
        home.environment["NANOCLAW_EMAIL_PASSWORD"] = PASSWORD
        found = home.run("doctor", check=1).out
        assert f"ok    email: logged in as {USER}" in found
        assert "wrong matrix: channels.matrix.user must be a whole id" in found
        assert "telegram" not in found
        home.environment["NANOCLAW_EMAIL_PASSWORD"] = "wrong-one"
        assert f"wrong email: 127.0.0.1 refuses the login of {USER}" in home.run("doctor", check=1).out
    finally:
        mail.stop()


def test_a_token_is_not_taken_from_a_pipe(home: Home) -> None:
    ended = home.run("link", "telegram", stdin=f"12345:{'x' * 35}\n", check=2)
    assert "Run this in a terminal" in ended.err
    assert not (home.root / "secrets.env").exists()
