"""Slack's Web API as another program understands it: the emulator `emulate` (npm, 0.12.2; needs Node 22), started with
`--service slack`. NANOCLAW_TEST_SLACK is its address, such as http://localhost:9030/api; it has no socket mode."""

import os
from pathlib import Path

import pytest

from nanoclaw.channels.slack.api import SlackApi, SlackRefusal
from nanoclaw.channels.slack.channel import _shown
from nanoclaw.core.messages import Button

ADDRESS = os.environ.get("NANOCLAW_TEST_SLACK", "")
pytestmark = [pytest.mark.live, pytest.mark.skipif(not ADDRESS, reason="needs NANOCLAW_TEST_SLACK")]


async def test_a_message_is_posted_changed_answered_with_a_file_and_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nanoclaw.channels.slack.api.BASE", ADDRESS)
    api = SlackApi(os.environ.get("NANOCLAW_TEST_SLACK_TOKEN", "xoxb-lab-bot"))
    (channel, *_) = (await api.call("conversations.list"))["channels"]
    where = channel["id"]
    posted = await api.call("chat.postMessage", channel=where, **_shown("**hello**", [Button("Yes", "/yes 1")]))
    await api.call("chat.update", channel=where, ts=posted["ts"], **_shown("bye", []))
    await api.call("reactions.add", channel=where, timestamp=posted["ts"], name="eyes")
    found = (await api.call("conversations.history", channel=where, oldest="0", limit=100))["messages"]
    assert [one["text"] for one in found if one["ts"] == posted["ts"]] == ["bye"]
    file = tmp_path / "plan.txt"
    file.write_text("dig, sow, wait")
    assert await api.upload(file, channel_id=where, initial_comment="the plan")
    await api.call("chat.delete", channel=where, ts=posted["ts"])
    with pytest.raises(SlackRefusal, match="message_not_found"):
        await api.call("chat.update", channel=where, ts=posted["ts"], **_shown("too late", []))
    await api.aclose()
