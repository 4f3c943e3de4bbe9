"""Speech is heard and made by child programs; here they are scripts of the shell."""

import asyncio
import os
from pathlib import Path

import pytest

from nanoclaw import speech
from nanoclaw.speech import Listener, SpeechError, speak
from tests.virtual_time import skip


def scripted(script: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", script, "child")


def listener(folder: Path, script: str) -> Listener:
    return Listener(folder, scripted(script))


async def test_the_words_of_a_recording_come_back(tmp_path: Path) -> None:
    script = 'echo "a library says this"; printf \'{"text": "%s, %s, %s"}\' "$(cat "$2")" "$3" "$1"'
    assert await listener(tmp_path, script).hear(b"OggS", "de") == f"OggS, de, {tmp_path}"


async def test_the_child_may_reach_no_hub_and_gets_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k-secret")
    script = 'printf \'{"text": "%s"}\' "$(env | cut -d= -f1 | sort | tr "\\n" " ")"'
    names = (await listener(tmp_path, script).hear(b"")).split()
    assert {"HF_HUB_OFFLINE", "PATH"} <= set(names) <= {*speech._GIVEN, "HF_HUB_OFFLINE", "NANOCLAW_RUN", "PWD", "_"}


async def test_recordings_are_heard_one_after_the_other(tmp_path: Path) -> None:
    """The model would be there twice otherwise."""
    lock = tmp_path / "lock"
    ear = listener(tmp_path, f'mkdir {lock} && printf \'{{"text": "alone"}}\'; rmdir {lock}')
    assert await asyncio.gather(*(ear.hear(b"x") for _ in range(3))) == ["alone"] * 3


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ('echo \'{"error": "it is no recording"}\'', "it is no recording"),
        ("echo nonsense", "no answer that can be read"),
        ("echo '[1]'", "no answer that can be read"),
        ("echo 'No module named x' >&2; exit 1", "the speech model failed: No module named x"),
        ("kill -9 $$", "the speech model failed: it ended with -9"),
    ],
)
async def test_what_goes_wrong_is_one_sentence(tmp_path: Path, script: str, told: str) -> None:
    with pytest.raises(SpeechError, match=told):
        await listener(tmp_path, script).hear(b"x")


async def test_a_child_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    hearing = asyncio.ensure_future(
        listener(tmp_path, f"echo $$ > {pid}.new; mv {pid}.new {pid}; sleep 600").hear(b"x")
    )
    while not pid.exists():  # noqa: ASYNC110 - only the other process knows when
        await asyncio.sleep(0.01)
    skip(speech.HEARING_SECONDS + 1)
    with pytest.raises(SpeechError, match="took more than 280 s"):
        await hearing
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


async def test_a_program_says_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speech, "ENCODE", ("/bin/cp",))
    program = (*scripted('tr a-z A-Z < "$1" > "$2"'), "{text}", "{sound}")
    assert await speak("good morning", program) == b"GOOD MORNING"


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (("/bin/no-such-program",), "no-such-program is not installed"),
        (("/bin/true",), "/bin/true wrote no sound file"),
        (scripted("echo 'no voice de' >&2; exit 2"), "/bin/sh failed: no voice de"),
    ],
)
async def test_a_program_that_says_nothing_is_told(program: tuple[str, ...], told: str) -> None:
    with pytest.raises(SpeechError, match=told):
        await speak("good morning", program)
