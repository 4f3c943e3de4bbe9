"""What the model knows of the channel it talks through, and that it is told once."""

from pathlib import Path

import pytest

from nanoclaw.core.channel import Hints
from nanoclaw.core.messages import Address, Inbound, UserMessage
from nanoclaw.core.plugin import BACKGROUND, PERSON, Plugin, Profile, Section, Tx
from nanoclaw.core.prompt_snapshot import EMPTY, channel_line
from nanoclaw.providers.scripted import ScriptedProvider
from nanoclaw.tokens import estimate
from tests.core.builders import builder_for
from tests.program import MAIN, FakeChannel, bare

TELEGRAM = Hints(length=4096, units="utf-16", markup="markdown", buttons=True, threads=True, remark="It is read late.")
LINE = (
    "You talk through telegram: Markdown is shown; messages over 4,096 characters are split; questions and reminders "
    "have buttons; each thread is a conversation of its own. It is read late. When nothing needs to be said, answer "
    "NO_REPLY alone."
)


HINTS = {"telegram": TELEGRAM, "terminal": Hints(markup="markdown")}


class Jobs(Plugin):
    name = "jobs"

    def __init__(self) -> None:
        pass

    def sections(self, query: str, profile: Profile) -> list[Section]:
        return [Section("capabilities", "Capabilities", "Reminders can be set.")]


def test_the_line_is_short_and_says_what_matters() -> None:
    assert channel_line("telegram", TELEGRAM) == LINE
    assert estimate(LINE) <= 60
    assert channel_line("sms", Hints(length=160, edits=True)) == (
        "You talk through sms: markup is not shown, so write plain text; messages over 160 characters are split. "
        "When nothing needs to be said, answer NO_REPLY alone."
    )


@pytest.mark.parametrize("found", [None, Hints(), Hints(markup="markdown"), Hints(stays=False)])
def test_of_a_terminal_there_is_nothing_to_say(found: Hints | None) -> None:
    assert channel_line("terminal", found) == ""


def test_the_channel_that_began_the_conversation_is_in_the_system_message(tmp_path: Path) -> None:
    builder = builder_for(tmp_path, channels=HINTS, plugins=[Jobs()])
    snapshot = builder.resume(EMPTY, "hello", PERSON, "telegram")
    assert f"# In this run\n- Reminders can be set.\n- {LINE}" in snapshot.system.text
    assert builder.introduce(snapshot, "telegram") == (snapshot, "")
    (section,) = [one for one in snapshot.sections if one.id == "capabilities"]
    assert section.stable
    assert "You talk through" not in builder.begin("hello", PERSON, "terminal").system.text
    assert "You talk through" not in builder.begin("", BACKGROUND, "telegram").system.text


def test_an_edited_file_does_not_make_the_channel_forgotten(tmp_path: Path) -> None:
    builder = builder_for(tmp_path, channels=HINTS)
    begun = builder.begin("hello", PERSON, "telegram")
    (tmp_path / "workspace" / "SOUL.md").write_text("Be bold.")
    snapshot = builder.resume(begun, "and", PERSON, "telegram")
    assert "Be bold." in snapshot.system.text
    assert LINE in snapshot.system.text


class Together(Plugin):
    """The owner's chat is one conversation with his terminal."""

    name = "together"

    def on_message(self, inbound: Inbound, tx: Tx) -> Inbound:
        return inbound._replace(role="owner", conversation=MAIN)


async def test_a_conversation_that_moves_to_a_chat_is_told_in_the_metadata(tmp_path: Path) -> None:
    provider, telegram = (
        ScriptedProvider("one", "two", "three"),
        FakeChannel("telegram", TELEGRAM._replace(bursts=False)),
    )
    async with bare(tmp_path, provider, others=(telegram,), plugins=[Together]) as program:
        await program.ask("hello")
        for number in (1, 2):
            await program.write_from(Address("telegram", "5"), "5", f"and {number}")
            await telegram.sent.get()
        texts = [message.text for message in program.history if isinstance(message, UserMessage)]
        assert [LINE in text for text in texts] == [False, False, True, False, False, False]
        assert len({request.system.text for request in provider.requests}) == 1


async def test_a_conversation_of_a_chat_has_its_channel_in_the_system_message(tmp_path: Path) -> None:
    provider, terminal = ScriptedProvider("one"), FakeChannel(hints=Hints(4096, markup="markdown", bursts=False))
    async with bare(tmp_path, provider, channel=terminal) as program:
        await program.ask("hello")
        system = provider.requests[0].system
        assert "You talk through terminal: Markdown is shown; messages over 4,096" in system.stable
        assert "You talk through" not in program.history[0].text
