"""Matrix with the real program: `nanoclaw gateway` as a process of its own, Synapse, a scripted model, and people who
use another client."""

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.channels.telegram_talk import picture
from tests.journeys.command import make_owner
from tests.live.matrix_person import PASSWORD, Person, folder, homeserver, new_name, person, register
from tests.live.served import Served
from tests.model_server import ModelServer, delta, events, says, slowly
from tests.program import config_of

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

SECONDS = 40.0


@pytest.fixture(scope="module")
def server() -> str:
    return homeserver()


class Program(Served):
    """The gateway with an account on the server; Anna is its owner unless the story says otherwise."""

    def __init__(self, folder: Path, server: str, model: ModelServer, bot: str) -> None:
        super().__init__(folder, model)
        self.server, self.bot = server, bot
        self.home.environment["NANOCLAW_MATRIX_PASSWORD"] = PASSWORD
        self.configure()

    def configure(self, *lines: str) -> None:
        table = ["[channels.matrix]", f'homeserver = "{self.server}"', f'user = "{self.bot}"', *lines]
        self.home.configure(self.model.base, more="\n".join(table) + "\n")

    def make_owner(self, sender: str) -> None:
        make_owner(config_of(self.home.root, **self.home.environment), "matrix", sender)

    async def until(self, condition: Callable[[], Any]) -> None:
        """For what happens in another process."""
        async with asyncio.timeout(SECONDS):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def asks(self, count: int) -> None:
        await self.until(lambda: len(self.model.asked) >= count)


@asynccontextmanager
async def begun(
    server: str, tmp_path: Path, *lines: str, owner: bool = True, encrypted: bool = False
) -> AsyncIterator[tuple[Program, Person, str]]:
    """The running program, Anna, and their private room."""
    model = ModelServer()
    program = Program(tmp_path, server, model, register(server, new_name("bot")))
    program.configure(*lines)
    async with person(server, folder(tmp_path, "anna")) as anna:
        if owner:
            program.make_owner(anna.id)
        try:
            program.launch()
            room = await anna.room(program.bot, encrypted=encrypted, is_direct=True)
            if owner:
                await anna.joined(room, program.bot)
            yield program, anna, room
        finally:
            await asyncio.to_thread(program.close)
            model.stop()
    assert PASSWORD not in program.log()
    assert "Traceback" not in program.log(), program.log()


@pytest.mark.parametrize("encrypted", [False, True])
async def test_talk(server: str, tmp_path: Path, encrypted: bool) -> None:
    """A question; the answer grows by edits and is one message in the end."""
    async with begun(server, tmp_path, encrypted=encrypted) as (program, anna, room):
        answer, gate = slowly("A **heron** is a", " bird.")
        program.model.script(answer)
        await anna.say(room, "What is a heron?")
        await anna.hears(room, program.bot, "A **heron** is a")
        gate.set()
        await anna.hears(room, program.bot, "A **heron** is a bird.")
        assert "What is a heron?" in program.request()
        newest = anna.messages(room, program.bot)[-1]["content"]
        assert newest["m.new_content"]["formatted_body"] == "<p>A <strong>heron</strong> is a bird.</p>"
        assert anna.undecrypted == []


async def test_the_owner_links_the_account_with_a_code(server: str, tmp_path: Path) -> None:
    async with begun(server, tmp_path, owner=False) as (program, anna, room):
        await program.until(lambda: "serves" in program.log())
        linking = program.home.start("link", "matrix")
        try:
            assert linking.stdout
            shown = ""
            while not (found := re.search(r"\b[A-Z2-9]{4}[- ]?[A-Z2-9]{4}\b", shown)):
                line = await asyncio.to_thread(linking.stdout.readline)
                assert line, shown
                shown += line
            await anna.joined(room, program.bot)
            await anna.say(room, found[0])
            await anna.until(lambda: "You are linked" in "".join(anna.texts(room, program.bot)))
        finally:
            linking.terminate()
            linking.communicate()
        program.model.script(says("Yours."))
        await anna.say(room, "Whose are you?")
        await anna.until(lambda: anna.texts(room, program.bot)[1:] == ["Yours."])


@pytest.mark.parametrize("encrypted", [False, True])
async def test_restart_in_the_middle(server: str, tmp_path: Path, encrypted: bool) -> None:
    """Killed while a turn runs, and 50 messages while it was down: all answered, in order, once."""
    async with begun(server, tmp_path, encrypted=encrypted) as (program, anna, room):
        program.model.script(events(delta(content="A heron is a"), done=False, hang=True))
        await anna.say(room, "What is a heron?")
        await anna.hears(room, program.bot, "A heron is a")
        await program.end(signal.SIGKILL)
        words = [f"/zz{first}{second}" for first in "abcde" for second in "klmnopqrst"]
        for word in words:
            await anna.say(room, word)  # no such command: each is answered by itself
        program.model.script(says("A heron is a bird."))
        program.launch()
        await anna.until(lambda: len(_answered(anna, room, program.bot)) >= 50)
        await anna.until(lambda: "A heron is a bird." in "".join(anna.texts(room, program.bot)))
        assert _answered(anna, room, program.bot) == words
        answers = [text for text in anna.texts(room, program.bot) if "/zz" not in text]
        assert len(answers) == 1, answers  # what it had begun to say is gone
        assert anna.undecrypted == []
        assert len(program.model.asked) == 2


def _answered(anna: Person, room: str, sender: str) -> list[str]:
    texts = [text for text in anna.texts(room, sender) if "/zz" in text]
    return [text[text.index("/zz") :][:5] for text in texts]


async def test_stranger(server: str, tmp_path: Path) -> None:
    """An invitation is not accepted. In a group that is not allowed 1,000 messages that call the assistant, half of
    them pictures: no model is asked, nothing is fetched, kept or sent, and memory stays flat."""
    async with begun(server, tmp_path) as (program, anna, room), person(server, folder(tmp_path, "mo")) as mo:
        strange = await mo.room(program.bot, is_direct=True)
        group = await anna.room(program.bot, mo.id, name="garden")
        await mo.client.join(group)
        await mo.joined(group, program.bot)
        await anna.say(room, "/help")
        await anna.until(lambda: len(anna.texts(room, program.bot)) == 1)
        before, files = program.resident_kb(), files_of(program.home.root)
        picked = await mo.show(group, picture(), "image/jpeg", "evil.jpg")
        image = next(e for e in await _own(mo, group, picked) if e["event_id"] == picked)["content"]
        call = {"m.mentions": {"user_ids": [program.bot]}}
        for start in range(0, 1_000, 20):
            await asyncio.gather(
                *(
                    mo.client.room_send(
                        group,
                        "m.room.message",
                        {**image, **call} if number % 2 else {"msgtype": "m.text", "body": f"{number}!", **call},
                    )
                    for number in range(start, start + 20)
                )
            )
        await anna.say(room, "/help")
        await anna.until(lambda: len(anna.texts(room, program.bot)) == 2)
        assert mo.messages(group, program.bot) == []
        assert program.bot not in _members(mo, strange)
        assert program.model.asked == []
        assert files_of(program.home.root) == files
        grown = program.resident_kb() - before
        print(f"resident {before} kB, {grown} kB more after 1,000 messages")
        assert grown < 10_000
        assert program.log().count("not known here") <= 2


async def _own(mo: Person, room: str, event_id: str) -> list[dict[str, Any]]:
    await mo.until(lambda: any(event["event_id"] == event_id for event in mo.seen))
    return mo.seen


def _members(somebody: Person, room: str) -> set[str]:
    return {user for user, member in somebody.client.rooms[room].users.items() if not member.invited}


def files_of(home: Path) -> set[Path]:
    return {path for path in home.rglob("*") if path.is_file() and path.suffix not in (".log", ".db-wal", ".db-shm")}


async def test_a_group_is_answered_when_it_calls(server: str, tmp_path: Path) -> None:
    async with begun(server, tmp_path) as (program, anna, _room), person(server, folder(tmp_path, "mo")) as mo:
        group = await anna.room(program.bot, mo.id, name="kitchen")
        await mo.client.join(group)
        await mo.joined(group, program.bot)
        await anna.joined(group, mo.id)
        await program.end()
        program.configure(f'allow_groups = ["{group}"]')
        program.launch()
        program.model.script(says("Soup."))
        await mo.say(group, "There are leeks.")
        asked = await anna.say(group, f"{program.bot}: what shall we eat?")
        await anna.hears(group, program.bot, "Soup.")
        request = program.request()
        assert "what shall we eat?" in request
        assert "There are leeks." in request  # overheard
        first = anna.messages(group, program.bot)[0]["content"]
        assert first["m.relates_to"].get("m.in_reply_to", {}).get("event_id") in (asked, None)
        assert len(program.model.asked) == 1
