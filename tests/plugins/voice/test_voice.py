"""What was heard is quoted in the answer, which is spoken, too; a program that speaks is a script here."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nanoclaw import speech
from nanoclaw.channels.terminal.dropped_files import extract_files
from nanoclaw.core.errors import ConfigError
from nanoclaw.core.events import Notice
from nanoclaw.core.messages import AssistantMessage, Attachment
from nanoclaw.plugins.voice import plugin
from nanoclaw.plugins.voice.plugin import for_ears, language_of
from nanoclaw.providers.scripted import ScriptedProvider
from tests.examples import examples
from tests.program import Program, running

EXAMPLES = examples(__file__, "voice.jsonl")

PLUGINS = ("media", "silence", "voice", "basics")
NOTE = Attachment("", "v.ogg", "audio/ogg", "r1", is_voice=True)


class Hearing(ScriptedProvider):
    """A model that writes down voice notes."""

    def __init__(self) -> None:
        super().__init__(model="scripted/ear")

    async def transcribe(self, name: str, sound: bytes) -> str:
        return sound.decode()


def settings(program: Sequence[str] = ("/bin/cp", "{text}", "{sound}"), more: str = "") -> str:
    return f"[models]\ntranscription = 'scripted/ear'\n[voice]\nprogram = {json.dumps(program)}\n{more}"


@pytest.fixture(autouse=True)
def encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speech, "ENCODE", ("/bin/cp",))


@asynccontextmanager
async def chat(root: Path, provider: ScriptedProvider, settings: str) -> AsyncIterator[Program]:
    """The program with a chat app that takes files and shows no notices."""
    async with running(root, provider, Hearing(), plugins=PLUGINS, settings=settings) as home:
        home.channel.hints = home.channel.hints._replace(notices=False, files=20, file_bytes=1_000_000)
        yield home


async def heard(home: Program, words: str) -> str:
    """The answer to a voice note."""
    home.channel.held["r1"] = words.encode()
    return await home.ask("", files=(NOTE,))


def spoken(home: Program) -> list[str]:
    """What is said in the voice notes that were made."""
    return [path.read_text() for path in (home.workspace / "media").rglob("answer-*.ogg")]


async def test_an_answer_to_a_voice_note_quotes_it_and_is_spoken(tmp_path: Path) -> None:
    provider = ScriptedProvider("**Noted**: milk, see https://shop.example/milk?id=1\n```\nmilk\n```\nAnything else?")
    async with chat(tmp_path, provider, settings()) as home:
        answer = await heard(home, "Buy milk.")
        assert answer.startswith("> Buy milk.\n\n**Noted**: milk")
        assert [one.split() for one in spoken(home)] == [["Noted:", "milk,", "see", "Anything", "else?"]]
        (last,) = [one for one in home.history if isinstance(one, AssistantMessage)]
        assert "> Buy milk." not in last.text  # the history keeps the model's own words
        (path,) = (home.workspace / "media").rglob("answer-*.ogg")
        assert [json.loads(files) for (files,) in home.rows("SELECT files FROM outbox")] == [[str(path)]]


async def test_a_written_message_is_answered_in_writing_alone(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedProvider("Yes."), settings()) as home:
        assert await home.ask("Are you there?") == "Yes."
        assert spoken(home) == []


async def test_where_notices_are_shown_one_says_what_was_heard(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedProvider("Yes."), settings()) as home:
        home.channel.hints = home.channel.hints._replace(notices=True)
        assert await heard(home, "Hello.") == "Yes."
        assert [event.text for _, event in home.channel.events if isinstance(event, Notice)] == ["Heard: Hello."]


@pytest.mark.parametrize("name", ["note.ogg", "my note.M4A"])
async def test_a_recording_handed_to_the_terminal_alone_is_heard_and_its_answer_is_spoken(
    tmp_path: Path, name: str
) -> None:
    recording = tmp_path / name
    recording.write_text("Hello.")
    async with chat(tmp_path, ScriptedProvider("Yes."), settings()) as home:
        home.channel.hints = home.channel.hints._replace(notices=True)
        text, files = extract_files(str(recording))
        assert await home.ask(text, files=files) == "Yes."
        assert [event.text for _, event in home.channel.events if isinstance(event, Notice)] == ["Heard: Hello."]
        assert spoken(home) == ["Yes."]


async def test_a_recording_that_words_are_about_stays_a_file(tmp_path: Path) -> None:
    recording = tmp_path / "note.ogg"
    recording.write_text("Hello.")
    assert extract_files(f"how long is '{recording}'?")[1] == ()
    async with chat(tmp_path, ScriptedProvider("It is short."), settings()) as home:
        file = Attachment(str(recording), recording.name, "audio/ogg")
        assert await home.ask("how long is it?", files=(file,)) == "It is short."
        assert spoken(home) == []


async def test_a_silent_answer_is_not_spoken(tmp_path: Path) -> None:
    provider = ScriptedProvider("NO_REPLY", "Yes.")
    async with chat(tmp_path, provider, settings()) as home:
        home.channel.held["r1"] = b"Nothing to say."
        await home.say("", files=(NOTE,))
        assert await home.ask("And now?") == "Yes."
        assert spoken(home) == []


@pytest.mark.parametrize("program", [[], ["/bin/false", "{text}", "{sound}"], ["/no/program", "{text}", "{sound}"]])
async def test_without_a_program_that_works_the_answer_is_written(tmp_path: Path, program: list[str]) -> None:
    async with chat(tmp_path, ScriptedProvider("Yes."), settings(program)) as home:
        assert await heard(home, "Hello.") == "> Hello.\n\nYes."
        assert spoken(home) == []
        said = await home.ask("/voice")
        assert said.startswith("It cannot be spoken: " if program else "No program for speech is set")


async def test_the_last_answer_is_spoken_when_asked_for(tmp_path: Path) -> None:
    program = ["/bin/sh", "-c", 'echo "$0: $(cat "$1")" > "$2"', "{language}", "{text}", "{sound}"]
    async with chat(tmp_path, ScriptedProvider("Guten Tag."), settings(program, "language = 'zh'\n")) as home:
        assert await home.ask("/voice") == "There is no answer yet that could be spoken."
        await home.ask("Hello")
        await home.say("/voice")
        sent = [await home.channel.sent.get() for _ in range(2)]
        assert [(one.text, len(one.files)) for one in sent] == [("", 1), ("The last answer as a voice note.", 0)]
        assert spoken(home) == ["cmn: Guten Tag.\n"]


@pytest.mark.parametrize(("program", "has_encoder", "told"), EXAMPLES["of programs"])
async def test_doctor_says_whether_answers_are_spoken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, has_encoder: bool, told: str
) -> None:
    monkeypatch.setattr(plugin, "find_spec", lambda name: has_encoder or None)
    async with chat(tmp_path, ScriptedProvider(), settings([program, "{text}", "{sound}"])) as home:
        (found,) = await next(one for one in home.app.plugins if one.name == "voice").check(deep=True)
        assert found.text.startswith(told) and found.is_well == told.startswith("answers")


@pytest.mark.parametrize(
    ("setting", "told"),
    [("language = 'German'", "code of a language"), ("program = ['espeak-ng']", "{text} and {sound}")],
)
async def test_wrong_settings_are_told(tmp_path: Path, setting: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        async with running(tmp_path, ScriptedProvider(), plugins=PLUGINS, settings=f"[voice]\n{setting}\n"):
            pass


@pytest.mark.parametrize(("text", "language"), EXAMPLES["heard in"])
def test_a_text_tells_its_language_by_its_letters(text: str, language: str) -> None:
    assert language_of(text) == language


def test_of_a_long_answer_whole_sentences_are_spoken() -> None:
    words = for_ears("This is one sentence. " * 100 + "[Here](https://example.com/a) it ends.")
    assert 1_400 < len(words) <= 1_500 and words.endswith("sentence.")
    assert for_ears("word " * 400) == ("word " * 300)[:1_500]
    assert for_ears("[Here](https://example.com/a) it is.\n~~~\ncode") == "Here it is."
