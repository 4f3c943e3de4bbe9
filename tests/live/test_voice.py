"""Real speech by a real model: pytest -m live tests/live/test_voice.py, where espeak-ng and the extra `voice` are
installed and NANOCLAW_TEST_WHISPER names a folder that `nanoclaw local pull whisper-base` has filled. Of a recording
that NANOCLAW_TEST_SPEECH names, the words in the file beside it (.txt) are heard."""

import os
import re
import shutil
from pathlib import Path

import pytest

from nanoclaw.plugins.voice.plugin import ESPEAK
from nanoclaw.speech import Listener, SpeechError, speak

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

MODEL, RECORDING = Path(os.environ.get("NANOCLAW_TEST_WHISPER", "")), Path(os.environ.get("NANOCLAW_TEST_SPEECH", ""))
if not (MODEL / "model.bin").is_file() or not shutil.which("espeak-ng"):
    pytest.skip("NANOCLAW_TEST_WHISPER names no model, or there is no espeak-ng", allow_module_level=True)
pytest.importorskip("faster_whisper", reason="the extra `voice` is not installed")

SAID = {
    "en": "Please buy three bottles of milk on the way home, and bring some bread.",
    "de": "Bitte kaufe drei Flaschen Milch auf dem Weg nach Hause.",
}


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


@pytest.mark.parametrize("language", SAID)
async def test_what_is_spoken_is_heard(language: str) -> None:
    program = [one.replace("{language}", language) for one in ESPEAK]
    sound = await speak(SAID[language], program)
    assert sound[:4] == b"OggS"
    heard, said = words(await Listener(MODEL).hear(sound, language)), words(SAID[language])
    assert sum(one in heard for one in said) >= len(said) / 2  # it speaks like a machine


async def test_a_person_is_heard() -> None:
    if not RECORDING.is_file():
        pytest.skip("NANOCLAW_TEST_SPEECH names no recording")
    heard = await Listener(MODEL).hear(RECORDING.read_bytes())
    assert words(heard) == words(RECORDING.with_suffix(".txt").read_text())


async def test_what_is_no_recording_is_told() -> None:
    for sound in (b"", b"no sound", b"OggS" + bytes(1000)):
        with pytest.raises(SpeechError, match="no recording"):
            await Listener(MODEL).hear(sound)


async def test_an_unknown_language_is_told() -> None:
    with pytest.raises(SpeechError, match="knows no language 'xx'"):
        await Listener(MODEL).hear(await speak("Hello", [one.replace("{language}", "en") for one in ESPEAK]), "xx")
