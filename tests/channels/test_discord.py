"""The Discord channel keeps the contract, and what is Discord's own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from nanoclaw.providers.scripted import Step
from tests.channels.contract import ANNA, Contract, Scene, Shown, scene
from tests.channels.discord_server import TOKEN, DiscordServer
from tests.channels.discord_server import serving as server


class OnDiscord:
    """People on a server of the test's own."""

    name, secret = "discord", "wrong.to.ken"
    keeps = edits = buttons = True

    def __init__(self, server: DiscordServer) -> None:
        self.server, self.people = server, dict[str, Any]()
        self.last: Any = None
        self.settings = self._table(TOKEN)
        self.broken = self._table(self.secret)

    def _table(self, token: str) -> str:
        return f'[channels.discord]\ntoken = "{token}"'

    def person(self, who: str) -> Any:
        if who not in self.people:
            self.people[who] = self.server.person(who)
        return self.people[who]

    async def ready(self) -> None:
        await self.server.until(lambda: any(one.socket for one in self.server.sessions.values()))

    def id_of(self, who: str) -> str:
        return str(self.person(who).id)

    async def write(self, who: str, text: str, *, answers: str = "", file: tuple[str, bytes] | None = None) -> str:
        channel = self.server.private(self.person(who))
        files = self.server.backend.store_attachments(channel, [file]) if file else None
        reference = {"message_id": answers} if answers else None
        self.last = self.server.write(self.person(who), text, attachments=files, reference=reference)
        return str(self.last.id)

    async def edit(self, who: str, id: str, text: str) -> None:
        self.server.backend.edit_message(self.server.private(self.person(who)), int(id), {"content": text})

    async def press(self, who: str, shown: Shown, label: str) -> None:
        message = self.server.backend.get_message(self.server.private(self.person(who)), int(shown.id))
        self.server.press(self.person(who), message, label)

    def shown(self, who: str) -> list[Shown]:
        return [self._shown(one) for one in self.server.messages(self.server.private(self.person(who)))]

    def _shown(self, message: Any) -> Shown:
        buttons = tuple(one["label"] for row in message.components for one in row["components"])
        files = tuple(self.server.backend.cdn.get(one["url"]) or b"" for one in message.attachments)
        return Shown(str(message.id), message.content, files, buttons)

    async def changed(self) -> None:
        await self.server.until_changed()

    async def repeat(self) -> None:
        self.server.repeat()

    async def garble(self) -> None:
        for data in (None, 7, {"author": 5}, {"author": {"id": "x"}, "content": ["a"]}, {"type": 3, "data": []}):
            for kind in ("MESSAGE_CREATE", "MESSAGE_UPDATE", "INTERACTION_CREATE", "OF_NEXT_YEAR"):
                self.server.raw(kind, data)

    async def leave(self) -> None:
        await self.server.leave()

    async def come_back(self) -> None:
        await self.server.start()


@asynccontextmanager
async def serving() -> AsyncIterator[OnDiscord]:
    async with server() as there:
        yield OnDiscord(there)


class TestDiscord(Contract):
    service = staticmethod(serving)

    async def test_a_voice_note_goes_out_as_one_below_its_words(self, tmp_path: Path) -> None:
        async with serving() as there, scene(there, tmp_path) as here:
            note = here.program.workspace / "answer.ogg"
            page = bytes(20)
            note.write_bytes(
                b"OggS\0\2" + page + b"\1\x13OpusHead sound OggS\0\4" + (96_000).to_bytes(8, "little") + page
            )
            here.send("I speak.", files=(str(note),))
            await here.until(lambda: there.shown(ANNA)[-1].files, "a file")
            words, spoken = [body for method, _, body in there.server.asked[-9:] if method == "POST" and body][-2:]
            assert (words["content"], spoken["content"], spoken["flags"]) == ("I speak.", "", 8192)
            (about,) = spoken["attachments"]
            assert (about["duration_secs"], about["filename"]) == (2.0, "answer.ogg")


@asynccontextmanager
async def in_a_server(tmp_path: Path, *steps: Step, **more: Any) -> AsyncIterator[tuple[Scene, OnDiscord, Any]]:
    """Anna and the bot on a server with one channel, whose messages the bot takes."""
    async with server(**more) as discord:
        there = OnDiscord(discord)
        guild = discord.backend.create_guild("Garden", owner_id=there.person(ANNA).id)
        channel = discord.backend.create_channel(guild.id, "plants")
        for user in (discord.bot.id, there.person(ANNA).id):
            if user not in guild.members:
                discord.backend.add_member(guild.id, user)
        rules = f'allow_groups = ["{channel.id}"]'
        async with scene(there, tmp_path, *steps, rules=rules) as here:
            yield here, there, channel


async def answered(here: Scene, there: OnDiscord, channel: int, words: str) -> Any:
    said = there.server.messages
    return await here.until(lambda: next((one for one in said(channel) if words in one.content), None), words)


async def test_in_a_server_it_answers_its_name_by_a_reply_and_says_nothing_to_what_is_not_for_it(
    tmp_path: Path,
) -> None:
    async with in_a_server(tmp_path, "Twice a week.") as (here, there, channel):
        anna = there.person(ANNA)
        there.server.write(anna, "nice weather", channel.id)
        asked = there.server.write(anna, f"<@{there.server.bot.id}> how often?", channel.id)
        answer = await answered(here, there, channel.id, "Twice a week.")
        assert str(answer.reference["message_id"]) == str(asked.id)
        await here.rests()
        assert len(here.model.requests) == 1


async def test_a_thread_is_a_conversation_of_its_own_in_the_channel_that_is_let_in(tmp_path: Path) -> None:
    async with in_a_server(tmp_path, "In the thread.") as (here, there, channel):
        thread = there.server.backend.create_thread(channel.id, "seeds", there.person(ANNA).id)
        there.server.write(there.person(ANNA), f"<@{there.server.bot.id}> and these?", thread.id)
        await answered(here, there, thread.id, "In the thread.")
        assert there.server.messages(channel.id) == []


async def test_a_bot_that_may_not_read_everything_still_hears_its_name(tmp_path: Path) -> None:
    async with in_a_server(tmp_path, "Yes?", approves_content=False) as (here, there, channel):
        there.server.write(there.person(ANNA), f"<@{there.server.bot.id}> hello", channel.id)
        await answered(here, there, channel.id, "Yes?")


async def test_a_connection_that_breaks_is_resumed_and_nothing_is_lost(tmp_path: Path) -> None:
    async with serving() as there, scene(there, tmp_path, "Back.") as here:
        await there.server.close(4000)
        await here.answer(ANNA, "are you there?", "Back.")
        assert len(there.server.sessions) == 1


async def test_a_session_that_discord_forgot_begins_anew_and_asks_what_was_said(tmp_path: Path) -> None:
    async with serving() as there, scene(there, tmp_path, "Back.") as here:
        await there.server.close(4009)
        there.server.sessions.clear()
        await here.answer(ANNA, "are you there?", "Back.")


async def test_discords_wish_to_wait_is_kept_and_the_answer_comes_after_it(tmp_path: Path) -> None:
    async with serving() as there, scene(there, tmp_path, "At last.") as here:
        limited = (429, {"message": "You are being rate limited.", "retry_after": 2.5, "global": False})
        there.server.refusals["POST /channels"] = [limited]
        await here.says(ANNA, "hurry")
        await here.until(lambda: not there.server.refusals["POST /channels"], "it asked")
        here.clock.now += timedelta(seconds=3)
        here.program.app.delivery.wake()
        await here.sees(ANNA, "At last.")
