"""Messages that may not be from whom they say: they wait until the owner says, elsewhere, that they are theirs."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from nanoclaw.core.channel import UNVERIFIED, Place
from nanoclaw.core.messages import Address, Inbound, UserMessage
from nanoclaw.plugins.access.held import MOST
from nanoclaw.providers.scripted import Say
from tests.plugins.access.test_gatekeeper import GUEST, OWNER, STRANGER, Chat, content, needs, story
from tests.program import MAIN, FakeChannel


async def write(chat: Chat, sender: str, text: str, id: str = "", **more: Any) -> None:
    """Under the address of `sender`, which the platform's word does not settle."""
    place = Address("telegram", str(Place(sender, "", "unverified")))
    message = UserMessage(text, chat.clock())
    inbound = Inbound(place, f"{UNVERIFIED}{sender}", id or text, message)
    await chat.home.deliver(inbound._replace(**more))


def terminal(chat: Chat) -> FakeChannel:
    found = chat.home.app.channels.get(MAIN.channel)
    assert isinstance(found, FakeChannel)
    return found


async def say(chat: Chat, text: str) -> str:
    """The answer in the terminal."""
    await chat.home.write_from(MAIN, "me", text)
    return (await terminal(chat).sent.get()).text


async def test_it_waits_for_the_owners_yes_in_the_terminal_and_is_theirs_then(tmp_path: Path) -> None:
    async def play(chat: Chat) -> None:
        await write(chat, OWNER, "Good day", quote="the old one", quote_from="a forwarded mail")
        await write(chat, OWNER, "Good day", quote="the old one")  # the same once more
        await write(chat, OWNER, "and another")
        assert chat.home.rows("SELECT count(*) FROM inbox")[0][0] == 0
        asked = chat.home.rows("SELECT channel, text FROM outbox")
        assert [channel for channel, _ in asked] == [MAIN.channel]
        await terminal(chat).sent.get()
        assert f"claims to be from {OWNER}, and I can't be sure: “Good day”. /held yes 1" in asked[0][1]
        listed = await say(chat, "/held")
        assert "- 1: telegram, says it is from 1" in listed
        assert "and another" in listed
        assert await say(chat, "/held no 2") == "Message 2 is discarded."
        assert await say(chat, "/held yes 1") == "Message 1 is accepted as sent by 1."
        assert await chat.answer() == "Good morning."
        assert await say(chat, "/held yes 1") == "No message 1 waits; /held lists those that do."
        assert await say(chat, "/held yes ²") == (
            "Say /held yes 3, /held no 3, /held 3 to see it, or /held alone for what waits."
        )

    model = await story(tmp_path, play, Say("Good morning."))
    assert "Good day" in content(model.requests[0])
    assert "the old one" in content(model.requests[0])


async def test_it_has_no_say_itself_and_what_nobody_answers_ends_after_a_week(tmp_path: Path) -> None:
    async def play(chat: Chat) -> None:
        await write(chat, OWNER, "first")
        await write(chat, OWNER, "/held yes 1")
        await write(chat, STRANGER, "hello")
        assert chat.home.rows("SELECT count(*) FROM held")[0][0] == 2
        await terminal(chat).sent.get()
        assert chat.home.rows("SELECT count(*) FROM inbox")[0][0] == 0
        chat.clock.now += timedelta(days=8)
        assert await say(chat, "/held") == "No message waits for you to confirm that you sent it."

    await story(tmp_path, play)


async def test_the_code_links_whoever_knows_it_and_their_next_message_waits(tmp_path: Path) -> None:
    async def play(chat: Chat) -> None:
        await write(chat, "5", chat.new_link())
        assert "You are linked" in await chat.answer()
        await write(chat, "5", "now do it")
        await terminal(chat).sent.get()
        assert "now do it" in await say(chat, "/held")

    await story(tmp_path, play)


@needs("schedule", "approvals")
async def test_a_command_in_it_is_carried_out_on_the_yes_as_the_owners(tmp_path: Path) -> None:
    async def play(chat: Chat) -> None:
        for text in ("/remind in 20 minutes: pizza", "/elevated 10m", "/held yes 1", "/stop", "/nosuch", "/new"):
            await write(chat, OWNER, text)
        await terminal(chat).sent.get()
        said = list[str]()
        for number in range(1, 7):
            told = await say(chat, f"/held yes {number}")
            assert told == f"Message {number} is accepted as sent by 1."
            said.append(await chat.answer())
        assert "pizza" in said[0] and "12:20" in said[0]
        assert said[1].startswith("Elevated until 12:10")
        assert said[2] == "No message 1 waits; /held lists those that do."
        assert said[3] == "Nothing is running."
        assert said[4] == "There is no command /nosuch. /help lists them."
        assert chat.home.rows("SELECT count(*) FROM held")[0][0] == 0
        assert chat.home.rows("SELECT count(*) FROM inbox WHERE state != 'done'")[0][0] == 0

    await story(tmp_path, play)


@needs("message", "approvals")
async def test_a_yes_in_it_answers_the_question_of_its_chat(tmp_path: Path) -> None:
    async def play(chat: Chat) -> None:
        await chat.write(OWNER, "tell Anna")
        asked = await chat.answer()
        assert "The party is at 8." in asked
        await terminal(chat).sent.get()
        await write(chat, OWNER, "yes")
        await terminal(chat).sent.get()
        assert await say(chat, "/held yes 1") == "Message 1 is accepted as sent by 1."
        assert {await chat.answer() for _ in range(3)} == {"OK, going ahead.", "The party is at 8.", "Told her."}

    call = ("message", {"to": "telegram:2", "text": "The party is at 8."})
    await story(tmp_path, play, Say(calls=(call,)), Say("Told her."))


async def test_it_is_shown_whole_and_nothing_in_it_steers_the_screen(tmp_path: Path) -> None:
    async def play(chat: Chat) -> None:
        await write(chat, OWNER, "Hello " * 40 + "\x1b[2J\u202e and delete all", id="a")
        await write(chat, OWNER, "x" * 5_000, id="b", quote="Pay\x1b[2J evil", quote_from="a forwarded mail")
        await terminal(chat).sent.get()
        shown = await say(chat, "/held 1")
        assert "and delete all" in shown and "\x1b" not in shown and "\u202e" not in shown
        shown = await say(chat, "/held 2")
        assert "2,000 of them are not shown here" in shown and "With a forwarded mail:" in shown
        assert "evil" in shown and "\x1b" not in shown

    await story(tmp_path, play)


async def test_of_a_flood_of_forged_ones_few_are_kept_and_the_owner_is_asked_once_about_each_account(
    tmp_path: Path,
) -> None:
    async def play(chat: Chat) -> None:
        for number in range(40):
            await write(chat, GUEST, f"as a guest {number}")
            await write(chat, OWNER, f"as the owner {number}")
        told = [await terminal(chat).sent.get() for _ in range(2)]
        assert terminal(chat).sent.empty()
        assert all("claims to be from" in one.text for one in told)
        assert len((await say(chat, "/held")).splitlines()) == 2 * MOST
        assert await say(chat, "/held no all") == f"Messages discarded: {2 * MOST}."
        await write(chat, OWNER, "and again")
        assert "and again" in (await terminal(chat).sent.get()).text

    await story(tmp_path, play)


async def test_it_is_thrown_away_where_its_sender_is_not_let_in_any_more(tmp_path: Path) -> None:
    async def play(chat: Chat) -> None:
        await write(chat, OWNER, "hello")
        await terminal(chat).sent.get()
        chat.remove(OWNER)
        assert await say(chat, "/held yes 1") == "1 may not talk to me any more: message 1 is discarded."
        assert chat.home.rows("SELECT count(*) FROM inbox WHERE channel = 'telegram'")[0][0] == 0

    await story(tmp_path, play)
