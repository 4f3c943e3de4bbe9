"""Messages to Telegram, through a server that checks every request and shows what a person would see."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.channels.telegram import channel as module
from nanoclaw.core.errors import ChannelError, Undeliverable
from nanoclaw.core.events import Event, Queued, Settled, TextDelta, TurnBegan, TurnEnded
from nanoclaw.core.messages import Address, Attachment, Button, Inbound, Outbound
from tests.channels.telegram_talk import GROUP, Talk, opened, picture, talking

# --- texts -----------------------------------------------------------------------------------------------------------


@talking
async def test_the_id_of_what_was_sent_is_the_one_that_a_quote_of_it_names(talk: Talk) -> None:
    sent = await talk.send("Water the roses.")
    inbound = await talk.said("done", reply_to=talk.server.sent(talk.anna)[0])
    assert inbound.quoted == sent == "1001:1"


@talking
async def test_links_show_no_preview(talk: Talk) -> None:
    await talk.send("see https://example.org")
    assert talk.server.asked("sendMessage")[0].parameters["link_preview_options"] == {"is_disabled": True}


@talking
async def test_markup_that_telegram_refuses_is_left_away(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    beyond = [{"type": "bold", "offset": 0, "length": 999}]
    monkeypatch.setattr(module, "to_telegram", lambda text: (text, beyond))
    await talk.send("A heron.")
    assert [(message.text, message.entities) for message in talk.server.sent(talk.anna)] == [("A heron.", [])]


@talking
async def test_half_a_character_is_no_reason_to_refuse_the_rest(talk: Talk) -> None:
    await talk.send("bad \ud83d half, whole 😀")
    assert talk.server.sent(talk.anna)[0].text.endswith("half, whole 😀")


@talking
async def test_in_a_private_chat_an_answer_to_the_newest_message_quotes_nothing(talk: Talk) -> None:
    first, second = await talk.said("one"), await talk.said("two")
    await talk.send("1", reply_to=first.external_id)
    await talk.send("2", reply_to=second.external_id)
    await talk.send("by the way")
    assert [message.reply_to for message in talk.server.sent(talk.anna)] == [1, None, None]


@talking
async def test_in_a_group_an_answer_quotes_what_it_answers_and_does_without_when_that_is_gone(talk: Talk) -> None:
    group = talk.server.group(GROUP, "Garden")
    inbound = await talk.said("one", chat=group)
    await talk.send("1", group, reply_to=inbound.external_id)
    group.messages[1].deleted = True
    await talk.send("1 again", group, reply_to=inbound.external_id)
    assert [message.reply_to for message in talk.server.sent(group)] == [1, None]


@talking
async def test_an_answer_to_a_press_quotes_nothing(talk: Talk) -> None:
    await talk.send("done", reply_to="cb:4711")
    await talk.send("stopped", reply_to="update:4711")
    assert [message.reply_to for message in talk.server.sent(talk.anna)] == [None, None]


@talking
async def test_an_answer_in_a_topic_stays_in_it_and_survives_its_end(talk: Talk) -> None:
    forum = talk.server.group(GROUP, "Garden", forum=True)
    topic = talk.server.topic(forum, "Roses", talk.anna)
    inbound = await talk.said("when?", chat=forum, topic=topic)
    await talk.channel.send(Outbound(inbound.address, "now", reply_to=inbound.external_id))
    del forum.topics[topic]
    await talk.channel.send(Outbound(inbound.address, "or later"))
    assert [(message.text, message.topic) for message in talk.server.sent(forum)] == [
        ("now", topic),
        ("or later", None),
    ]


@talking
async def test_buttons_stand_in_a_row_and_one_that_telegram_cannot_carry_is_left_out(talk: Talk) -> None:
    long = Button("All", "/yes " + "é" * 30)
    await talk.send("Sure?", buttons=(Button("Yes", "/yes 3"), long, Button("No", "/no 3")))
    buttons = talk.server.sent(talk.anna)[0].buttons
    assert [(one["text"], one["callback_data"]) for one in buttons] == [("Yes", "/yes 3"), ("No", "/no 3")]


@talking
async def test_long_buttons_stand_below_one_another(talk: Talk) -> None:
    labels = ("red", "blue", "the green one of last year", "the one that Anna likes best of all of them")
    await talk.send("Which?", buttons=tuple(Button(one, f"/answer 3 #{number}") for number, one in enumerate(labels)))
    rows = (talk.server.sent(talk.anna)[0].markup or {})["inline_keyboard"]
    assert [[one["text"] for one in row] for row in rows] == [[*labels[:3]], [labels[3]]]


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.jpg", picture(), "photo"),
        ("a.PNG", picture(), "photo"),
        ("a.ogg", b"OggS and so on", "voice"),
        ("a.pdf", b"%PDF-1.7", "document"),
        ("broken.jpg", b"no image at all", "document"),
        ("panorama.jpg", picture(3000, 20), "document"),
        ("naïve 😀 \"name'.txt", b"x", "document"),
    ],
)
@talking
async def test_a_file_is_shown_as_what_it_is(talk: Talk, name: str, content: bytes, kind: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    sent = await talk.send("Here you are.", files=(str(tmp_path / name),))
    message = talk.server.sent(talk.anna)[0]
    assert message.file
    assert (message.file.kind, message.text, sent) == (kind, "Here you are.", "1001:1")
    assert message.file.content == content
    if kind == "document":
        assert message.file.name.replace("%22", '"') == name


@talking
async def test_a_file_without_words_and_with_a_quote_and_buttons(talk: Talk, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7")
    group = talk.server.group(GROUP, "Garden")
    inbound = await talk.said("the plan?", chat=group)
    await talk.send(
        "", group, files=(str(tmp_path / "a.pdf"),), reply_to=inbound.external_id, buttons=(Button("A", "b"),)
    )
    message = talk.server.sent(group)[0]
    assert (message.text, message.reply_to, [one["text"] for one in message.buttons]) == ("", 1, ["A"])


@talking
async def test_a_file_that_is_gone_or_empty_is_told_of_and_not_tried_again(talk: Talk, tmp_path: Path) -> None:
    with pytest.raises(Undeliverable, match="cannot be read"):
        await talk.send("x", files=(str(tmp_path / "a.txt"),))
    (tmp_path / "empty.jpg").touch()
    with pytest.raises(Undeliverable, match="non-empty"):
        await talk.send("x", files=(str(tmp_path / "empty.jpg"),))
    assert talk.server.sent(talk.anna) == []


# --- fetching --------------------------------------------------------------------------------------------------------


@talking
async def test_a_file_that_is_larger_than_wanted_is_not_even_asked_for(talk: Talk) -> None:
    talk.server.document(talk.anna, b"x", "film.mkv", "video/x-matroska", size=3_000_000_000)
    attachment = (await talk.next()).attachments[0]
    with pytest.raises(Undeliverable, match="larger than 20 MB"):
        await talk.channel.fetch(attachment, 20_000_000)
    assert talk.server.asked("getFile") == []


@talking
async def test_a_file_that_telegram_gives_no_bot_says_so(talk: Talk) -> None:
    talk.server.document(talk.anna, b"x", "film.mkv", "video/x-matroska", size=30_000_000)
    with pytest.raises(Undeliverable, match="20 MB, the most that Telegram lets"):
        await talk.channel.fetch((await talk.next()).attachments[0], 50_000_000)


@talking
async def test_a_file_that_lies_about_its_size_is_cut_off(talk: Talk) -> None:
    talk.server.document(talk.anna, b"x" * 300_000, "a.bin", "application/octet-stream", size=10)
    with pytest.raises(Undeliverable, match="larger than 0 MB"):
        await talk.channel.fetch((await talk.next()).attachments[0], 100_000)


@talking
async def test_a_file_of_no_bytes_is_no_bytes_and_one_that_is_gone_is_told_of(talk: Talk) -> None:
    talk.server.document(talk.anna, b"", "empty.txt", "text/plain")
    assert await talk.channel.fetch((await talk.next()).attachments[0], 100) == b""
    with pytest.raises(Undeliverable, match="invalid file_id"):
        await talk.channel.fetch(Attachment("", "x", ref="nonsense"), 100)


@pytest.mark.parametrize(
    ("method", "how", "retry_after", "is_final"),
    [("file", 500, None, False), ("file", 429, 7, False), ("getFile", 429, 7, False), ("file", 403, None, True)],
)
@talking
async def test_of_a_download_that_fails_it_is_known_whether_another_try_may_help(
    talk: Talk, method: str, how: Any, retry_after: float | None, is_final: bool
) -> None:
    talk.server.document(talk.anna, b"abc", "a.txt", "text/plain")
    attachment = (await talk.next()).attachments[0]
    talk.server.fail(method, how=how, retry_after=7)
    with pytest.raises(ChannelError) as failed:
        await talk.channel.fetch(attachment, 100)
    assert (failed.value.retry_after, isinstance(failed.value, Undeliverable)) == (retry_after, is_final)


@talking
async def test_a_download_that_breaks_off_is_told_without_the_token(talk: Talk) -> None:
    talk.server.document(talk.anna, b"abc", "a.txt", "text/plain")
    attachment = (await talk.next()).attachments[0]
    talk.server.fail("file", how="reset")
    with pytest.raises(ChannelError) as failed:
        await talk.channel.fetch(attachment, 100)
    assert talk.server.token not in str(failed.value)
    assert await talk.channel.fetch(attachment, 100) == b"abc"


# --- what is refused -------------------------------------------------------------------------------------------------


@talking
async def test_who_blocked_the_bot_is_not_written_to_again(talk: Talk) -> None:
    talk.server.block(talk.anna.chat)
    with pytest.raises(Undeliverable, match="blocked by the user"):
        await talk.send("hello?")


@pytest.mark.parametrize("chat", ["999", "nonsense", "", "-1/2/3"])
@talking
async def test_a_chat_that_is_none_is_told_of(talk: Talk, chat: str) -> None:
    with pytest.raises(Undeliverable, match="chat"):
        await talk.channel.send(Outbound(Address("telegram", chat), "hello?"))


@talking
async def test_a_text_that_telegram_finds_empty_or_too_long_is_told_of(talk: Talk) -> None:
    for text in ("   ", "x" * 5000):
        with pytest.raises(Undeliverable):
            await talk.send(text)


@talking
async def test_a_group_that_moved_is_followed_at_once_and_ever_after(talk: Talk) -> None:
    group = talk.server.group(-77, "Garden")
    moved = talk.server.upgrade(group, GROUP)
    assert await talk.send("one", group) == f"{GROUP}:1"
    assert await talk.send("two", group) == f"{GROUP}:2"
    assert [message.text for message in talk.server.sent(moved)] == ["one", "two"]
    assert len(talk.server.asked("sendMessage")) == 3


@talking
async def test_two_groups_that_each_moved_to_the_other_end_somewhere(talk: Talk) -> None:
    one, other = talk.server.group(-77, "One"), talk.server.group(-78, "Other")
    one.refusal = (400, "group chat was upgraded to a supergroup chat", {"migrate_to_chat_id": -78})
    other.refusal = (400, "group chat was upgraded to a supergroup chat", {"migrate_to_chat_id": -77})
    with pytest.raises(Undeliverable):
        await talk.send("one", one)


@talking
async def test_telegrams_wish_to_wait_is_passed_on(talk: Talk) -> None:
    talk.server.fail("sendMessage", how=429, retry_after=17)
    with pytest.raises(ChannelError) as failed:
        await talk.send("hello")
    assert (failed.value.retry_after, isinstance(failed.value, Undeliverable)) == (17, False)
    await talk.send("hello")


@pytest.mark.parametrize("how", [500, 502, "reset"])
@talking
async def test_what_is_not_telegrams_last_word_can_be_tried_again(talk: Talk, how: Any) -> None:
    talk.server.fail("sendMessage", how=how)
    with pytest.raises(ChannelError) as failed:
        await talk.send("hello")
    assert not isinstance(failed.value, Undeliverable)
    assert talk.server.token not in str(failed.value)
    await talk.send("hello")


async def test_an_address_where_nobody_listens_or_that_is_none_is_told_without_the_token() -> None:
    for base in ("http://127.0.0.1:9", "nonsense", "http://[::1", "http://127.0.0.1:99999999", "ftp://127.0.0.1"):
        async with opened("1:secret_token", api_base=base) as talk:
            with pytest.raises(ChannelError, match="cannot be reached") as failed:
                await talk.send("hello")
            assert "secret_token" not in str(failed.value)


# --- while an answer is written --------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pauses, as nobody has to read along."""
    for name in ("PAUSE_SECONDS", "GROUP_PAUSE_SECONDS"):
        monkeypatch.setattr(module, name, 0.02)


def begin(talk: Talk, inbound: Inbound, *pieces: str) -> None:
    events: list[Event] = [TurnBegan(inbound.external_id), *map(TextDelta, pieces)]
    for event in events:
        talk.channel.show(inbound.address, event)


def end(talk: Talk, inbound: Inbound, answer: str) -> None:
    talk.channel.show(inbound.address, TurnEnded(answer, "answered"))


@talking
async def test_in_a_private_chat_the_answer_grows_as_a_draft_and_then_stays_as_a_message(talk: Talk) -> None:
    inbound = await talk.said("tell me")
    begin(talk, inbound, "A **heron** ")
    await talk.server.until(lambda: talk.server.draft(talk.anna))
    assert talk.server.actions[0].action == "typing"
    begun = talk.server.drafts[-1]
    assert (begun.text, [one["type"] for one in begun.entities], begun.can_stop) == ("A heron", ["bold"], True)
    talk.channel.show(inbound.address, TextDelta("is a bird."))
    await talk.server.until(lambda: talk.server.drafts[-1].text == "A heron is a bird.")
    end(talk, inbound, "A **heron** is a bird.")
    await talk.send("A **heron** is a bird.", reply_to=inbound.external_id)
    assert [message.text for message in talk.server.sent(talk.anna)] == ["A heron is a bird."]
    assert talk.server.draft(talk.anna) is None
    assert len({draft.id for draft in talk.server.drafts}) == 1
    again = await talk.said("and now?")
    begin(talk, again, "Another")
    await talk.server.until(lambda: talk.server.draft(talk.anna))
    assert talk.server.drafts[-1].id != begun.id


@talking
async def test_what_a_draft_said_before_a_stop_stays_above_what_is_said_of_that(talk: Talk) -> None:
    inbound = await talk.said("tell me")
    begin(talk, inbound, "A **heron** ")
    await talk.server.until(lambda: talk.server.draft(talk.anna))
    talk.channel.show(inbound.address, TextDelta("is"))
    talk.channel.show(inbound.address, TurnEnded("Stopped.", "cancelled"))
    await talk.send("Stopped.", reply_to=inbound.external_id)
    assert [message.text for message in talk.server.sent(talk.anna)] == ["A heron is", "Stopped."]


@talking
async def test_the_button_below_a_draft_is_the_persons_own_stop(talk: Talk) -> None:
    begin(talk, await talk.said("tell me"), "An endless story")
    await talk.server.until(lambda: talk.server.draft(talk.anna))
    talk.server.stop(talk.anna.chat)
    stop = await talk.next()
    assert (stop.message.text, stop.sender, stop.address.chat) == ("/stop", "1001", "1001")
    assert stop.external_id.startswith("update:")


async def test_what_is_shown_of_a_running_turn_is_erased_when_the_program_ends() -> None:
    """The next one shows it anew."""
    async with asyncio.timeout(100), opened() as talk:
        async with talk.running():
            talk.server.fail("sendMessageDraft", how=403)
            begin(talk, await talk.said("tell me"), "A heron")
            await talk.server.until(lambda: len(talk.server.sent(talk.anna)) == 1)
        assert talk.server.posted[-1].deleted


@talking
async def test_where_drafts_are_refused_one_message_grows_and_is_the_answer(talk: Talk) -> None:
    talk.server.fail("sendMessageDraft", how=403)
    for number, answer in enumerate(("one", "two"), 1):
        inbound = await talk.said("tell me")
        begin(talk, inbound, answer)
        await talk.server.until(lambda number=number: len(talk.server.sent(talk.anna)) == number)  # type: ignore[misc]
        end(talk, inbound, f"**{answer}** more")
        sent = await talk.send(f"**{answer}** more", reply_to=inbound.external_id, buttons=(Button("A", "b"),))
        shown = talk.server.sent(talk.anna)[-1]
        assert (shown.text, sent, len(shown.buttons)) == (f"{answer} more", f"1001:{shown.id}", 1)
    assert len(talk.server.asked("sendMessageDraft")) == 1


@talking
async def test_in_a_group_one_message_grows_that_quotes_what_it_answers(talk: Talk) -> None:
    group = talk.server.group(GROUP, "Garden")
    inbound = await talk.said("tell me", chat=group)
    begin(talk, inbound, "A heron")
    shown = await talk.server.next(group)
    talk.channel.show(inbound.address, TextDelta(" is a bird."))
    await talk.server.until(lambda: shown.text == "A heron is a bird.")
    end(talk, inbound, "A heron is a bird!")
    await talk.channel.send(Outbound(inbound.address, "A heron is a bird!", reply_to=inbound.external_id))
    assert [(one.text, one.reply_to) for one in talk.server.sent(group)] == [("A heron is a bird!", 1)]


@talking
async def test_a_message_that_the_person_deleted_while_it_grew_is_sent_anew(talk: Talk) -> None:
    group = talk.server.group(GROUP, "Garden")
    inbound = await talk.said("tell me", chat=group)
    begin(talk, inbound, "A heron")
    (await talk.server.next(group)).deleted = True
    end(talk, inbound, "A heron.")
    await talk.channel.send(Outbound(inbound.address, "A heron.", reply_to=inbound.external_id))
    assert [one.text for one in talk.server.sent(group)] == ["A heron."]


@talking
async def test_a_draft_that_fades_while_tools_run_is_shown_again(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    inbound = await talk.said("tell me")
    begin(talk, inbound, "Let me look.")
    await talk.server.until(lambda: talk.server.draft(talk.anna))
    await talk.channel.typing(inbound.address.chat)
    assert len(talk.server.drafts) == 1
    monkeypatch.setattr(module, "DRAFT_SECONDS", 0.0)
    await talk.channel.typing(inbound.address.chat)
    assert [draft.text for draft in talk.server.drafts] == ["Let me look."] * 2
    await talk.send("By the way.", reply_to="another")
    await talk.channel.typing(inbound.address.chat)
    assert len(talk.server.drafts) == 2


@talking
async def test_the_draft_of_an_answer_that_never_came_is_not_shown_again(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbound = await talk.said("tell me")
    begin(talk, inbound, "Let me look.")
    await talk.server.until(lambda: talk.server.draft(talk.anna))
    await talk.channel.typing(inbound.address.chat)
    monkeypatch.setattr(module, "DRAFT_SECONDS", 0.0)
    talk.channel.show(inbound.address, TurnBegan("another"))
    await talk.channel.typing(inbound.address.chat)
    assert len(talk.server.drafts) == 1


@talking
async def test_a_message_that_waits_is_marked_as_seen(talk: Talk) -> None:
    group = talk.server.group(GROUP, "Garden")
    for inbound in (await talk.said("and this"), await talk.said("mine too", chat=group)):
        talk.channel.show(inbound.address, Queued(inbound.external_id))
    talk.channel.show(inbound.address, Queued("cb:4711"))  # a button that was pressed
    seen = (talk.anna.chat.messages[1], group.messages[1])
    await talk.server.until(lambda: all(message.reactions == ["👀"] for message in seen))
    assert len(talk.server.asked("setMessageReaction")) == 2


@talking
async def test_buttons_go_when_what_they_ask_is_settled_elsewhere(talk: Talk) -> None:
    sent = await talk.send("Run it?", buttons=(Button("Yes", "/yes 3"), Button("No", "/no 3")))
    question = talk.server.sent(talk.anna)[-1]
    for _ in range(2):  # the second time there is nothing to take away
        talk.channel.show(Address("telegram", "1001"), Settled(sent))
    await talk.server.until(
        lambda: len([one for one in talk.server.asked("editMessageReplyMarkup") if one.status]) == 2
    )
    assert (question.buttons, question.text) == ([], "Run it?")


async def test_a_channel_that_ends_leaves_nothing_running() -> None:
    async with opened() as talk:
        group = talk.server.group(GROUP, "Garden")
        async with talk.running():
            begin(talk, await talk.said("tell me"), "A heron")
            begin(talk, await talk.said("tell me", chat=group), "A heron")
            await talk.server.until(lambda: len(talk.server.actions) == 2)
        left = [task for task in asyncio.all_tasks() if "Live" in getattr(task.get_coro(), "__qualname__", "")]
        assert left == []
