"""The Telegram server of the tests refuses what Telegram refuses, and two libraries of others understand it."""

import asyncio
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from tests.examples import examples
from tests.live import telegram_bots
from tests.live.telegram_chats import Chat, Message, Person
from tests.live.telegram_methods import NOT_MODIFIED
from tests.live.telegram_schema import make
from tests.live.telegram_server import How, TelegramServer
from tests.live.telegram_text import TextRefused, part, read

TEXTS = examples(__file__, "telegram_server.jsonl")

ANNA, FORUM = 48151623, -1001234567890

BOTS = os.environ.get("NANOCLAW_TEST_BOTS", sys.executable)
"""A Python that has the two libraries."""


class Bot:
    """A bare client, and the person who talks to it."""

    def __init__(self, server: TelegramServer, http: httpx.AsyncClient) -> None:
        self.server, self.http = server, http
        self.anna: Person = server.person(ANNA, "Anna", "anna_b")
        self.forum: Chat = server.group(FORUM, "House", forum=True)

    async def call(self, method: str, files: Any = None, **parameters: Any) -> dict[str, Any]:
        body: dict[str, Any] = {"data": parameters, "files": files} if files else {"json": parameters}
        answer: dict[str, Any] = (await self.http.post(method, **body)).json()
        return answer

    async def done(self, method: str, files: Any = None, **parameters: Any) -> Any:
        answer = await self.call(method, files, **parameters)
        assert answer["ok"], answer
        return answer["result"]

    async def refused(self, method: str, files: Any = None, **parameters: Any) -> str:
        answer = await self.call(method, files, **parameters)
        assert not answer["ok"], answer
        return f"{answer['error_code']} {answer['description']}"

    async def poll(self, **parameters: Any) -> asyncio.Task[dict[str, Any]]:
        """A long poll that has reached the server."""
        before = len(self.server.asked("getUpdates"))
        task = asyncio.create_task(self.call("getUpdates", timeout=30, **parameters))
        await self.server.until(lambda: len(self.server.asked("getUpdates")) > before)
        return task


@asynccontextmanager
async def bot(**options: Any) -> AsyncIterator[Bot]:
    async with TelegramServer(**options) as server:
        url = f"{server.api_base}/bot{server.token}/"
        async with httpx.AsyncClient(base_url=url, timeout=30, trust_env=False) as http:
            yield Bot(server, http)


def play(story: Callable[[Bot], Awaitable[None]], **options: Any) -> None:
    async def whole() -> None:
        async with bot(**options) as one:
            await story(one)

    asyncio.run(whole())


def image(width: int = 200, height: int = 100) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(out, "PNG")
    return out.getvalue()


KEYBOARD = {"inline_keyboard": [[{"text": "Yes", "callback_data": "y"}]]}


TOO_LONG = ("sendMessage", {"chat_id": ANNA, "text": "😀" * 2049}, "400 Bad Request: message is too long")


@pytest.mark.parametrize(("method", "parameters", "description"), [*TEXTS["what telegram refuses"], TOO_LONG])
def test_what_telegram_refuses_is_refused_as_it_does(method: str, parameters: dict[str, Any], description: str) -> None:
    async def story(bot: Bot) -> None:
        # as ASCII, so that half a surrogate pair can be sent
        body = json.dumps(parameters).encode()
        answer = (await bot.http.post(method, content=body, headers={"content-type": "application/json"})).json()
        assert f"{answer['error_code']} {answer['description']}".startswith(description)
        assert bot.server.sent(bot.anna) == []

    play(story)


@pytest.mark.parametrize(("method", "parameters", "violation"), TEXTS["a request that breaks the types"])
def test_a_request_that_breaks_the_types_is_refused_and_fails_the_test(
    method: str, parameters: dict[str, Any], violation: str
) -> None:
    async def story(bot: Bot) -> None:
        assert violation in await bot.refused(method, **parameters)

    with pytest.raises(AssertionError, match=method) as failed:
        play(story)
    assert violation in str(failed.value)


@pytest.mark.parametrize(("html", "reason"), TEXTS["html that telegram cannot parse is refused"])
def test_html_that_telegram_cannot_parse_is_refused(html: str, reason: str) -> None:
    with pytest.raises(TextRefused) as refused:
        read(html, "HTML", None)
    assert str(refused.value) == f"can't parse entities: {reason}"


@pytest.mark.parametrize(("html", "text", "marked"), TEXTS["html is read as telegram reads it"])
def test_html_is_read_as_telegram_reads_it(html: str, text: str, marked: list[list[str]]) -> None:
    shown, entities = read(html, "HTML", None)
    assert (shown, [[one["type"], part(shown, one)] for one in entities]) == (text, marked)


@pytest.mark.parametrize(("offset", "length", "reason"), TEXTS["entities lie within the text and cut no character"])
def test_entities_lie_within_the_text_and_cut_no_character(offset: int, length: int, reason: str) -> None:
    with pytest.raises(TextRefused, match=reason):
        read("😀x", None, [{"type": "bold", "offset": offset, "length": length}])


def test_4096_units_after_parsing_are_not_too_long() -> None:
    async def story(bot: Bot) -> None:
        await bot.done("sendMessage", chat_id=ANNA, text=f"<b>{'😀' * 2048}</b>", parse_mode="HTML")
        assert len((await bot.server.next()).text) == 2048

    play(story)


def test_an_edit_that_changes_nothing_is_refused_and_one_without_keyboard_takes_it_away() -> None:
    async def story(bot: Bot) -> None:
        sent = await bot.done("sendMessage", chat_id=ANNA, text="Sure?", reply_markup=KEYBOARD)
        where = {"chat_id": ANNA, "message_id": sent["message_id"]}
        assert await bot.refused("editMessageText", **where, text="Sure?", reply_markup=KEYBOARD) == (
            f"400 Bad Request: {NOT_MODIFIED}"
        )
        await bot.done("editMessageText", **where, text="Sure?")
        [message] = bot.server.sent(bot.anna)
        assert (message.text, message.buttons, message.edits) == ("Sure?", [], 1)
        await bot.done("deleteMessage", **where)
        assert bot.server.sent(bot.anna) == []
        assert "message to edit not found" in await bot.refused("editMessageText", **where, text="late")

    play(story)


@pytest.mark.parametrize(
    ("method", "content", "caption", "description"),
    [
        ("sendPhoto", b"no image", "", "IMAGE_PROCESS_FAILED"),
        ("sendPhoto", b"", "", "file must be non-empty"),
        ("sendPhoto", image(2100, 100), "", "PHOTO_INVALID_DIMENSIONS"),
        ("sendDocument", b"x", "y" * 1025, "message caption is too long"),
    ],
)
def test_files_that_telegram_refuses(method: str, content: bytes, caption: str, description: str) -> None:
    async def story(bot: Bot) -> None:
        kind = method.removeprefix("send").lower()
        files = {kind: ("file", content, "application/octet-stream")}
        assert await bot.refused(method, files, chat_id=ANNA, caption=caption) == f"400 Bad Request: {description}"

    play(story)


def test_a_file_above_20_mb_cannot_be_fetched() -> None:
    async def story(bot: Bot) -> None:
        said = bot.server.document(bot.anna, b"x", "film.mkv", "video/x-matroska", size=20 * 2**20 + 1)
        assert said.file
        assert await bot.refused("getFile", file_id=said.file.id) == "400 Bad Request: file is too big"

    play(story)


def test_an_upload_above_50_mb_is_too_large() -> None:
    async def story(bot: Bot) -> None:
        body = {"document": ("film.mkv", bytes(50 * 2**20), "video/x-matroska")}
        assert await bot.refused("sendDocument", body, chat_id=ANNA) == "413 Request Entity Too Large"

    play(story)


def test_a_reply_shows_what_it_answers_and_a_quote_must_be_in_it() -> None:
    async def story(bot: Bot) -> None:
        said = bot.server.say(bot.anna, "water the roses")
        answer = {"message_id": said.id, "quote": "roses"}
        sent = await bot.done("sendMessage", chat_id=ANNA, text="done", reply_parameters=answer)
        assert sent["quote"] == {"text": "roses", "position": 10, "is_manual": True}
        assert (await bot.server.next()).reply_to == said.id
        wrong = {"message_id": said.id, "quote": "tulips"}
        assert "QUOTE_TEXT_INVALID" in await bot.refused("sendMessage", chat_id=ANNA, text="x", reply_parameters=wrong)

    play(story)


@pytest.mark.live
@pytest.mark.skipif(not shutil.which("npm"), reason="npm is not here; it fetches the types of the Bot API")
def test_the_schema_is_what_its_script_makes(tmp_path: Path) -> None:
    make.make(tmp_path / "made.json")
    assert (tmp_path / "made.json").read_bytes() == make.TARGET.read_bytes()


def has(library: str) -> bool:
    module = {"python-telegram-bot": "telegram", "aiogram": "aiogram"}[library]
    return subprocess.run([BOTS, "-c", f"import {module}"], capture_output=True).returncode == 0


@pytest.mark.live
@pytest.mark.parametrize("library", ["python-telegram-bot", "aiogram"])
async def test_a_bot_written_with_a_library_of_others_understands_the_server(library: str) -> None:
    if not has(library):
        pytest.skip(f"{BOTS} has no {library}: install it there, or name another Python in NANOCLAW_TEST_BOTS")
    async with TelegramServer() as server:
        command = (BOTS, str(Path(telegram_bots.__file__)), library, server.api_base, server.token)
        process = await asyncio.create_subprocess_exec(*command)
        try:
            await visit(server)
        finally:
            process.kill()
            await process.wait()


def polled(server: TelegramServer, times: int) -> bool:
    return len(server.asked("getUpdates")) >= times


async def visit(server: TelegramServer) -> None:
    """Anna tries everything that the bot can do."""
    anna = server.person(ANNA, "Anna", "anna_b")
    forum = server.group(FORUM, "House", forum=True)
    await server.until(lambda: server.asked("getUpdates"), 30)
    assert [command["command"] for command in server.commands['{"type": "default"}']] == ["menu"]

    said = server.say(anna, "hi 😀 @nano_test_bot")
    answer = await server.next()
    await server.until(lambda: server.asked("deleteMessage"))
    assert server.sent(anna) == [answer]
    assert (answer.text, answer.edits, answer.reply_to) == ("hi 😀 @nano_test_bot mention", 1, said.id)
    assert [one["type"] for one in answer.entities] == ["bold", "mention"]
    assert part(answer.text, answer.entities[0]) == "hi 😀 @nano_test_bot"
    assert said.reactions == ["👀"]
    assert [action.action for action in server.actions] == ["typing"]
    await server.next()  # the one that was deleted

    server.edit(said, "hello")
    assert (await server.next()).text == "edited to hello"

    shown = server.photo(anna, image(), "look")
    back, again = await server.next(), await server.next()
    assert (back.text, back.reply_to) == (f"{len(image())} bytes", shown.id)
    assert back.file and back.file.content == image()
    assert (again.text, again.file) == ("again", shown.file)

    server.document(anna, b"\r\n\0list", "Liste für Anna.txt", "text/plain")
    listed = await server.next()
    assert listed.file and (listed.file.name, listed.file.content) == ("Liste für Anna.txt", b"\r\n\0list")

    server.say(anna, "/menu")
    menu: Message = await server.next()
    pressed = server.press(menu, "Yes", anna)
    await server.until(lambda: menu.edits)
    assert (menu.text, menu.buttons) == ("pressed y", [])
    assert (server.callbacks[pressed] or {})["text"] == "noted"

    server.say(anna, "/media")
    voice, audio, video = [await server.next() for _ in range(3)]
    assert [draft.text for draft in server.drafts] == ["recording"]
    assert (voice.fields["voice"]["duration"], voice.file and voice.file.content) == (2, telegram_bots.OGG)
    assert (audio.fields["audio"]["title"], audio.fields["audio"]["file_name"]) == ("Song", "song.mp3")
    assert (video.fields["video"]["width"], video.file and video.file.content) == (64, telegram_bots.ANY)

    server.say(anna, "/long")
    assert (await server.next()).text.lower() == "refused: message is too long"
    server.fail("sendMessage", 1, 429, retry_after=3)
    server.say(anna, "/flood")
    assert (await server.next()).text == "wait: 3"

    hows: tuple[How, ...] = (502, 409, "reset")
    for how in hows:
        enough = len(server.asked("getUpdates")) + 1
        server.fail("getUpdates", 1, how)
        await server.until(partial(polled, server, enough), 20)
    assert {502, 409} <= {one.status for one in server.asked("getUpdates")}

    topic = server.topic(forum, "Garden", anna)
    assert (await server.next(forum)).text == "topic Garden"
    server.say(anna, "water", forum, topic=topic)
    wet = await server.next(forum)
    await server.until(lambda: wet.edits)
    assert (wet.text, wet.topic) == ("water", topic)
