"""The Telegram server of the tests refuses what Telegram refuses, and two libraries of others understand it."""

from __future__ import annotations

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

from tests.live import telegram_bots
from tests.live.telegram_chats import Chat, Message, Person
from tests.live.telegram_methods import NOT_MODIFIED
from tests.live.telegram_schema import make
from tests.live.telegram_server import CONFLICT, How, TelegramServer
from tests.live.telegram_text import TextRefused, part, read

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


def button(**fields: Any) -> dict[str, Any]:
    return {"inline_keyboard": [[{"text": "A", **fields}]]}


REFUSALS: list[tuple[str, dict[str, Any], str]] = [
    ("sendMessage", {"chat_id": 1, "text": "x"}, "400 Bad Request: chat not found"),
    ("sendMessage", {"chat_id": ANNA, "text": ""}, "400 Bad Request: message text is empty"),
    ("sendMessage", {"chat_id": ANNA, "text": " \n "}, "400 Bad Request: text must be non-empty"),
    ("sendMessage", {"chat_id": ANNA, "text": "😀" * 2049}, "400 Bad Request: message is too long"),
    ("sendMessage", {"chat_id": ANNA, "text": "x\ud83d"}, "400 Bad Request: strings must be encoded in UTF-8"),
    (
        "sendMessage",
        {"chat_id": ANNA, "text": "x", "message_thread_id": 77},
        "400 Bad Request: message thread not found",
    ),
    (
        "sendMessage",
        {"chat_id": ANNA, "text": "x", "reply_parameters": {"message_id": 77}},
        "400 Bad Request: message to be replied not found",
    ),
    (
        "sendMessage",
        {"chat_id": ANNA, "text": "x", "reply_markup": button(callback_data="é" * 33)},
        "400 Bad Request: BUTTON_DATA_INVALID",
    ),
    (
        "sendMessage",
        {"chat_id": ANNA, "text": "x", "reply_markup": button()},
        "400 Bad Request: can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard",
    ),
    ("editMessageText", {"text": "x"}, "400 Bad Request: message identifier is not specified"),
    (
        "editMessageText",
        {"chat_id": ANNA, "message_id": 77, "text": "x"},
        "400 Bad Request: message to edit not found",
    ),
    ("deleteMessage", {"chat_id": ANNA, "message_id": 77}, "400 Bad Request: message to delete not found"),
    ("sendMessageDraft", {"chat_id": FORUM, "draft_id": 1}, "400 Bad Request: TEXTDRAFT_PEER_INVALID"),
    ("sendPhoto", {"chat_id": ANNA, "photo": "nonsense"}, "400 Bad Request: wrong remote file identifier specified"),
    ("getFile", {"file_id": "nonsense"}, "400 Bad Request: invalid file_id"),
    ("answerCallbackQuery", {"callback_query_id": "7"}, "400 Bad Request: query is too old and response timeout"),
    ("setMyCommands", {"commands": [{"command": "Menü", "description": "x"}]}, "400 Bad Request: BOT_COMMAND_INVALID"),
    ("sendNothing", {}, "404 Not Found: method not found"),
]


@pytest.mark.parametrize(("method", "parameters", "description"), REFUSALS)
def test_what_telegram_refuses_is_refused_in_its_words(
    method: str, parameters: dict[str, Any], description: str
) -> None:
    async def story(bot: Bot) -> None:
        # as ASCII, so that half a surrogate pair can be sent
        body = json.dumps(parameters).encode()
        answer = (await bot.http.post(method, content=body, headers={"content-type": "application/json"})).json()
        assert f"{answer['error_code']} {answer['description']}".startswith(description)
        assert bot.server.sent(bot.anna) == []

    play(story)


@pytest.mark.parametrize(
    ("method", "parameters", "violation"),
    [
        ("sendMessage", {"chat_id": ANNA}, "sendMessage lacks text"),
        ("sendMessage", {"chat_id": ANNA, "text": 7}, "sendMessage.text is 7, not of type string"),
        ("sendMessage", {"chat_id": ANNA, "text": "x", "reply_to_message_id": 1}, "has no reply_to_message_id"),
        ("sendMessage", {"chat_id": ANNA, "text": "x", "parse_mode": "html"}, "parse_mode is 'html', not one of HTML"),
        ("sendMessage", {"chat_id": 1.5, "text": "x"}, "sendMessage.chat_id is 1.5, not of type"),
        ("sendChatAction", {"chat_id": ANNA, "action": "thinking"}, "action is 'thinking', not one of typing"),
        ("getUpdates", {"allowed_updates": ["messages"]}, "allowed_updates[0] is 'messages'"),
        (
            "setMessageReaction",
            {"chat_id": ANNA, "message_id": 1, "reaction": [{"type": "emoji", "emoji": "🧭"}]},
            "reaction[0]",
        ),
    ],
)
def test_a_request_that_breaks_the_types_is_refused_and_fails_the_test(
    method: str, parameters: dict[str, Any], violation: str
) -> None:
    async def story(bot: Bot) -> None:
        assert violation in await bot.refused(method, **parameters)

    with pytest.raises(AssertionError, match=method) as failed:
        play(story)
    assert violation in str(failed.value)


@pytest.mark.parametrize(
    ("html", "reason"),
    [
        ("<b>x", 'Can\'t find end tag corresponding to start tag "b"'),
        ("é<int>", 'Unsupported start tag "int" at byte offset 2'),
        ("a <", "Unclosed start tag at byte offset 2"),
        ("<b", "Unclosed start tag at byte offset 0"),
        ("x</b>", "Unexpected end tag at byte offset 1"),
        ("<b>x</i>", 'Unmatched end tag at byte offset 4, expected "</b>", found "</i>"'),
        ("<span>x</span>", 'Tag "span" must have class "tg-spoiler" at byte offset 0'),
    ],
)
def test_html_that_telegram_cannot_parse_is_refused(html: str, reason: str) -> None:
    with pytest.raises(TextRefused) as refused:
        read(html, "HTML", None)
    assert str(refused.value) == f"can't parse entities: {reason}"


@pytest.mark.parametrize(
    ("html", "text", "marked"),
    [
        ("<b>😀 a</b>b &lt;i&gt; &copy;", "😀 a" + "b <i> &copy;", [("bold", "😀 a")]),
        ("<b>x<i>y</i></b>", "xy", [("bold", "xy"), ("italic", "y")]),
        ('<pre><code class="language-py">a &amp; b</code></pre>', "a & b", [("pre", "a & b")]),
        ("<code>a <b>b</b></code>", "a b", [("code", "a b")]),
        ('<a href="https://x.org/?a=1&amp;b=2">here</a>', "here", [("text_link", "here")]),
        ("<blockquote expandable>long</blockquote>", "long", [("expandable_blockquote", "long")]),
        ("  <b> </b><i>z</i>  ", "z", [("italic", "z")]),
        (
            "<b>@anna_b</b> <code>@anna_b</code>",
            "@anna_b @anna_b",
            [("bold", "@anna_b"), ("mention", "@anna_b"), ("code", "@anna_b")],
        ),
    ],
)
def test_html_is_read_as_telegram_reads_it(html: str, text: str, marked: list[tuple[str, str]]) -> None:
    shown, entities = read(html, "HTML", None)
    assert (shown, [(one["type"], part(shown, one)) for one in entities]) == (text, marked)


@pytest.mark.parametrize(
    ("offset", "length", "reason"),
    [(0, 4, "ends after the end"), (1, 2, "begins in a middle"), (0, 1, "ends in a middle"), (2, 0, "ends after")],
)
def test_entities_lie_within_the_text_and_cut_no_character(offset: int, length: int, reason: str) -> None:
    with pytest.raises(TextRefused, match=reason):
        read("😀x", None, [{"type": "bold", "offset": offset, "length": length}])


def test_4096_units_after_parsing_are_not_too_long() -> None:
    async def story(bot: Bot) -> None:
        await bot.done("sendMessage", chat_id=ANNA, text=f"<b>{'😀' * 2048}</b>", parse_mode="HTML")
        assert len((await bot.server.next()).text) == 2048

    play(story)


def test_a_long_poll_ends_when_the_person_writes() -> None:
    async def story(bot: Bot) -> None:
        poll = await bot.poll()
        assert not poll.done()
        bot.server.say(bot.anna, "hello")
        [update] = (await poll)["result"]
        assert update["message"]["text"] == "hello"

    play(story)


def test_an_offset_confirms_what_lies_before_it_and_nothing_else_does() -> None:
    async def story(bot: Bot) -> None:
        for text in ("one", "two", "three"):
            bot.server.say(bot.anna, text)
        first = await bot.done("getUpdates", limit=2)
        assert [update["message"]["text"] for update in first] == ["one", "two"]
        assert await bot.done("getUpdates", limit=2) == first
        last = await bot.done("getUpdates", offset=first[0]["update_id"] + 1)
        assert [update["message"]["text"] for update in last] == ["two", "three"]
        assert bot.server.unconfirmed == [update["update_id"] for update in last]
        assert await bot.done("getUpdates", offset=-1) == last[1:]
        assert await bot.done("getUpdates") == last[1:]

    play(story)


def test_a_second_poll_ends_the_first_with_a_conflict() -> None:
    async def story(bot: Bot) -> None:
        first = await bot.poll()
        second = await bot.poll()
        assert await first == {"ok": False, "error_code": 409, "description": CONFLICT}
        bot.server.say(bot.anna, "hello")
        assert len((await second)["result"]) == 1

    play(story)


def test_polling_beside_a_webhook_is_a_conflict() -> None:
    async def story(bot: Bot) -> None:
        bot.server.webhook = "https://example.org/hook"
        assert "409 Conflict: can't use getUpdates method while webhook is active" in await bot.refused("getUpdates")
        assert (await bot.done("getWebhookInfo"))["url"] == "https://example.org/hook"
        await bot.done("deleteWebhook")
        assert await bot.done("getUpdates") == []

    play(story)


def test_only_allowed_updates_come_and_reactions_only_when_asked() -> None:
    async def story(bot: Bot) -> None:
        said = bot.server.say(bot.anna, "hello")
        bot.server.react(said, bot.anna, "👍")
        assert len(await bot.done("getUpdates", allowed_updates=["message_reaction"])) == 1
        bot.server.say(bot.anna, "not asked for")
        bot.server.react(said, bot.anna, "🔥")
        assert "message_reaction" in (await bot.done("getUpdates"))[-1]
        assert len(bot.server.unconfirmed) == 2

    play(story)


def test_a_wrong_token_is_unauthorized_and_a_malformed_one_is_not_found() -> None:
    async def story(bot: Bot) -> None:
        other = bot.server.token[:-1] + "X"
        answer = await bot.http.post(f"{bot.server.api_base}/bot{other}/getMe")
        assert answer.json() == {"ok": False, "error_code": 401, "description": "Unauthorized"}
        assert (await bot.http.post(f"{bot.server.api_base}/botnonsense/getMe")).status_code == 404

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


def test_a_button_is_pressed_and_answered_once() -> None:
    async def story(bot: Bot) -> None:
        await bot.done("sendMessage", chat_id=ANNA, text="Sure?", reply_markup=KEYBOARD)
        id = bot.server.press(await bot.server.next(), "Yes", bot.anna)
        [update] = await bot.done("getUpdates")
        assert update["callback_query"]["data"] == "y"
        await bot.done("answerCallbackQuery", callback_query_id=id, text="noted")
        assert bot.server.callbacks[id] == {"callback_query_id": id, "text": "noted"}
        assert "query is too old" in await bot.refused("answerCallbackQuery", callback_query_id=id)

    play(story)


def test_files_go_in_and_out_and_back_by_their_id() -> None:
    async def story(bot: Bot) -> None:
        bot.server.photo(bot.anna, image(), "look @nano_test_bot")
        [update] = await bot.done("getUpdates")
        small, large = update["message"]["photo"]
        assert small["width"] < large["width"] == 200
        assert update["message"]["caption_entities"] == [{"type": "mention", "offset": 5, "length": 14}]
        file = await bot.done("getFile", file_id=large["file_id"])
        url = f"{bot.server.api_base}/file/bot{bot.server.token}/{file['file_path']}"
        assert (await bot.http.get(url)).content == image()
        sent = await bot.done("sendDocument", {"document": ("a.txt", b"\r\n--a\r\n\0", "text/plain")}, chat_id=ANNA)
        assert (sent["document"]["file_name"], sent["document"]["mime_type"]) == ("a.txt", "text/plain")
        posted = await bot.server.next()
        assert posted.file and posted.file.content == b"\r\n--a\r\n\0"
        await bot.done("sendDocument", chat_id=ANNA, document=sent["document"]["file_id"])
        again = await bot.server.next()
        assert again.file == posted.file
        assert "can't use file of type Document as Photo" in await bot.refused(
            "sendPhoto", chat_id=ANNA, photo=sent["document"]["file_id"]
        )

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


def test_an_album_is_one_message_for_each_photo() -> None:
    async def story(bot: Bot) -> None:
        bot.server.album(bot.anna, [image(), image(), image()], "holidays")
        messages = [update["message"] for update in await bot.done("getUpdates")]
        assert len({message["media_group_id"] for message in messages}) == 1
        assert [message.get("caption") for message in messages] == ["holidays", None, None]

    play(story)


def test_messages_of_a_topic_stay_in_it() -> None:
    async def story(bot: Bot) -> None:
        topic = bot.server.topic(bot.forum, "Garden", bot.anna)
        bot.server.say(bot.anna, "water", bot.forum, topic=topic)
        message = (await bot.done("getUpdates"))[-1]["message"]
        assert (message["message_thread_id"], message["is_topic_message"]) == (topic, True)
        assert message["reply_to_message"]["forum_topic_created"]["name"] == "Garden"
        await bot.done("sendMessage", chat_id=FORUM, message_thread_id=topic, text="wet")
        assert (await bot.server.next(bot.forum)).topic == topic

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


def test_with_privacy_the_bot_hears_in_groups_only_what_is_for_it() -> None:
    async def story(bot: Bot) -> None:
        for text in ("chatter", "/start", "ask @Nano_Test_Bot"):
            bot.server.say(bot.anna, text, bot.forum)
        texts = [update["message"]["text"] for update in await bot.done("getUpdates")]
        assert texts == ["/start", "ask @Nano_Test_Bot"]

    play(story, privacy=True)


def test_a_draft_is_shown_until_the_message_comes_or_the_person_stops_it() -> None:
    async def story(bot: Bot) -> None:
        await bot.done("sendMessageDraft", chat_id=ANNA, draft_id=5)
        await bot.done("sendMessageDraft", chat_id=ANNA, draft_id=5, text="so far", can_stop=True)
        shown = bot.server.draft(bot.anna)
        assert shown and shown.text == "so far"
        bot.server.stop(bot.anna.chat)
        [update] = await bot.done("getUpdates")
        assert update["stopped_message_generation"]["draft_id"] == 5
        await bot.done("sendMessageDraft", chat_id=ANNA, draft_id=6, text="again")
        await bot.done("sendMessage", chat_id=ANNA, text="done")
        assert bot.server.draft(bot.anna) is None
        assert [draft.text for draft in bot.server.drafts] == ["", "so far", "again"]

    play(story)


def test_a_person_who_blocked_the_bot_and_a_group_that_moved_are_refused() -> None:
    async def story(bot: Bot) -> None:
        group = bot.server.group(-4711, "Old")
        bot.server.upgrade(group, -1009876543210)
        moved = await bot.call("sendMessage", chat_id=-4711, text="x")
        assert moved["parameters"] == {"migrate_to_chat_id": -1009876543210}
        bot.server.block(bot.anna.chat)
        assert await bot.refused("sendMessage", chat_id=ANNA, text="x") == "403 Forbidden: bot was blocked by the user"

    play(story)


def test_ordered_failures_come_as_often_as_ordered() -> None:
    async def story(bot: Bot) -> None:
        hello = {"chat_id": ANNA, "text": "hello"}
        bot.server.fail("sendMessage", 2, 429, retry_after=7)
        for _ in range(2):
            answer = await bot.http.post("sendMessage", json=hello)
            assert (answer.status_code, answer.json()["parameters"]) == (429, {"retry_after": 7})
        bot.server.fail("sendMessage", 1, 502)
        assert b"502 Bad Gateway" in (await bot.http.post("sendMessage", json=hello)).content
        bot.server.fail("*", 1, "reset")
        with pytest.raises(httpx.ReadError):
            await bot.call("getMe")
        assert bot.server.sent(bot.anna) == []
        bot.server.fail("sendMessage", 1, "lost")
        with pytest.raises(httpx.ReadError):
            await bot.call("sendMessage", **hello)
        assert [message.text for message in bot.server.sent(bot.anna)] == ["hello"]
        bot.server.fail("getMe", 1, "hang")
        with pytest.raises(httpx.ReadTimeout):
            await bot.http.post("getMe", timeout=0.05)
        assert [one.status for one in bot.server.log] == [429, 429, 502, 0, 0, 0]

    play(story)


def test_a_failure_reaches_a_poll_that_waits() -> None:
    async def story(bot: Bot) -> None:
        poll = await bot.poll()
        bot.server.fail("getUpdates", 1, 500)
        assert (await poll)["error_code"] == 500

    play(story)


def test_a_malformed_update_is_given_as_it_is() -> None:
    async def story(bot: Bot) -> None:
        id = bot.server.raw({"message": {"text": 7}, "surprise": None})
        assert await bot.done("getUpdates") == [{"update_id": id, "message": {"text": 7}, "surprise": None}]

    play(story)


def test_waiting_in_vain_names_the_last_requests() -> None:
    async def story(bot: Bot) -> None:
        await bot.done("getMe")
        with pytest.raises(AssertionError, match="getMe"):
            await bot.server.next(seconds=0.01)

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
def test_a_bot_written_with_a_library_of_others_understands_the_server(library: str) -> None:
    if not has(library):
        pytest.skip(f"{BOTS} has no {library}: install it there, or name another Python in NANOCLAW_TEST_BOTS")

    async def whole() -> None:
        async with TelegramServer() as server:
            command = (BOTS, str(Path(telegram_bots.__file__)), library, server.api_base, server.token)
            process = await asyncio.create_subprocess_exec(*command)
            try:
                await visit(server)
            finally:
                process.kill()
                await process.wait()

    asyncio.run(whole())


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
