"""The Slack channel keeps the contract of chat apps, and what is Slack's own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nanoclaw.channels.slack.events import words
from tests.channels.contract import ANNA, Contract, Shown, scene
from tests.channels.slack_server import APP_TOKEN, BOT, TOKEN, SlackMessage, SlackServer, private
from tests.channels.slack_server import serving as server
from tests.examples import examples

MARKS = examples(__file__, "slack_marks.jsonl")


class OnSlack:
    name, secret = "slack", "xoxb-0-0-wrong"
    keeps = edits = buttons = True

    def __init__(self, server: SlackServer) -> None:
        self.server = server
        self.settings, self.broken = (
            f'[channels.slack]\ntoken = "{token}"\napp_token = "{APP_TOKEN}"' for token in (TOKEN, self.secret)
        )
        self.last: SlackMessage | None = None

    async def ready(self) -> None:
        await self.server.until(lambda: self.server.socket)

    def id_of(self, who: str) -> str:
        return self.server.person(who)

    async def write(self, who: str, text: str, *, answers: str = "", file: tuple[str, bytes] | None = None) -> str:
        user, files = self.id_of(who), [self.server.upload(*file)] if file else []
        self.last = self.server.write(user, text, thread_ts=answers, files=files)
        return self.last.ts

    def _found(self, id: str) -> SlackMessage:
        return next(one for one in self.server.messages if one.ts == id)

    async def edit(self, who: str, id: str, text: str) -> None:
        self.server.edit(self._found(id), text)

    async def press(self, who: str, shown: Shown, label: str) -> None:
        self.server.press(self.id_of(who), self._found(shown.id), label)

    def shown(self, who: str) -> list[Shown]:
        return [
            Shown(
                one.ts,
                one.shown,
                tuple(self.server.files[file["id"]] for file in one.files),
                tuple(button["text"]["text"] for button in one.buttons),
            )
            for one in self.server.shown_in(private(self.id_of(who)))
        ]

    async def changed(self) -> None:
        await self.server.changed.wait()

    async def repeat(self) -> None:
        assert self.last
        self.server.tell(self.last.fields(), self.last.channel)

    async def garble(self) -> None:
        for payload in (None, 7, {"event": 5}, {"event": {"type": "message", "user": {}}}, {"type": "block_actions"}):
            for kind in ("events_api", "interactive", "of_next_year"):
                self.server.envelope(kind, payload)

    async def leave(self) -> None:
        await self.server.leave()

    async def come_back(self) -> None:
        await self.server.start()


@asynccontextmanager
async def serving() -> AsyncIterator[OnSlack]:
    async with server() as there:
        yield OnSlack(there)


class TestSlack(Contract):
    service = staticmethod(serving)


async def test_in_a_channel_a_mention_is_answered_in_its_thread_and_all_is_acknowledged(tmp_path: Path) -> None:
    rules = 'allow_groups = ["C1"]'
    async with serving() as there, scene(there, tmp_path, "In the thread.", rules=rules) as here:
        said = there.server.write(there.id_of(ANNA), f"<@{BOT}> where?", "C1")
        await here.until(lambda: [one for one in there.server.shown_in("C1") if "In the thread." in one.shown])
        assert {one.thread_ts for one in there.server.shown_in("C1")} == {said.ts}
        await here.until(lambda: not there.server.open)


async def test_when_slack_wants_another_connection_nothing_is_lost(tmp_path: Path) -> None:
    async with serving() as there, scene(there, tmp_path, "Here.") as here:
        await there.server.disconnect()
        await here.answer(ANNA, "still there?", "Here.")


@pytest.mark.parametrize(("text", "read"), MARKS["slacks marks are read"])
def test_slacks_marks_are_read(text: str, read: str) -> None:
    assert words(text) == read
