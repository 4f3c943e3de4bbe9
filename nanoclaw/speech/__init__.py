"""Makes text of speech and speech of text, each by a child program that ends with its work."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from nanoclaw import scratch_folders
from nanoclaw.spawn import Bounds, Exit, Process

HEARING_SECONDS, SPEAKING_SECONDS = 280.0, 60.0
"""For one recording, and for one text."""
BOUNDS = Bounds(processes=4, memory_bytes=2_000_000_000, file_bytes=200_000_000)
"""Of a child: five times what the model takes for a minute of speech."""

LISTEN, ENCODE = (
    (sys.executable, "-I", str(Path(__file__).with_name(name))) for name in ("listen_child.py", "encode_child.py")
)
"""The commands of the children."""
_GIVEN = ("PATH", "HOME", "LD_LIBRARY_PATH", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OMP_NUM_THREADS")
"""Variables of the environment that a child gets; it reads what anybody may have sent."""


class SpeechError(Exception):
    """A sentence about what could not be heard or said."""


class Listener:
    """Writes down what is said in recordings with a Whisper model in CTranslate2's format, one after the other."""

    def __init__(self, model: Path, command: Sequence[str] = LISTEN) -> None:
        """`model` is its folder. `command` gets that, the recording and the language, and prints JSON."""
        self._model, self._command, self._gate = model, tuple(command), asyncio.Lock()

    async def hear(self, sound: bytes, language: str = "") -> str:
        """The words, '' for none; '' is a language that the model finds out. Raises SpeechError."""
        async with self._gate:
            with TemporaryDirectory(prefix=scratch_folders.prefix("voice")) as folder:
                recording = Path(folder, "sound")
                await asyncio.to_thread(recording.write_bytes, sound)
                command = (*self._command, str(self._model), str(recording), language)
                said = _last_line(await _run(command, Path(folder), HEARING_SECONDS, "the speech model"))
        if "error" in said:
            raise SpeechError(said["error"])
        return said["text"]


async def speak(text: str, program: Sequence[str]) -> bytes:
    """Opus in Ogg of what a program says. Its arguments name two files: {text}, which it reads, and {sound}, the WAV
    file that it writes. Raises SpeechError."""
    with TemporaryDirectory(prefix=scratch_folders.prefix("voice")) as name:
        folder = Path(name)
        words, wav, ogg = (folder / one for one in ("text.txt", "sound.wav", "sound.ogg"))
        await asyncio.to_thread(words.write_text, text, "utf-8")
        command = [one.replace("{text}", str(words)).replace("{sound}", str(wav)) for one in program]
        await _run(command, folder, SPEAKING_SECONDS, program[0])
        if not wav.is_file():
            raise SpeechError(f"{program[0]} wrote no sound file")
        await _run((*ENCODE, str(wav), str(ogg)), folder, SPEAKING_SECONDS, "the Opus encoder")
        return await asyncio.to_thread(ogg.read_bytes)


async def _run(command: Sequence[str], folder: Path, seconds: float, name: str) -> Exit:
    """Raises SpeechError unless it ended well."""
    environment = {one: os.environ[one] for one in _GIVEN if one in os.environ} | {"HF_HUB_OFFLINE": "1"}
    try:
        ended = await Process(command, folder=folder, environment=environment, bounds=BOUNDS).run(seconds)
    except OSError as error:
        raise SpeechError(f"{name} cannot be started: {error.strerror}") from None
    if ended.why == "timeout":
        raise SpeechError(f"{name} took more than {seconds:.0f} s")
    if ended.why == "memory":
        raise SpeechError(f"{name} took more than {BOUNDS.memory_bytes / 1e9:.0f} GB of memory")
    if ended.status == 127:
        raise SpeechError(f"{name} is not installed")
    if ended.why != "exited" or ended.status:
        last = _output(ended).decode("utf-8", "replace").strip().splitlines() or [f"it ended with {ended.status}"]
        raise SpeechError(f"{name} failed: {last[-1][:300]}")
    return ended


def _output(ended: Exit) -> bytes:
    return ended.head + ended.tail


def _last_line(ended: Exit) -> dict[str, str]:
    """Read the JSON that the child printed last; its libraries may print before."""
    try:
        said = json.loads(_output(ended).splitlines()[-1])
        return {str(name): str(one) for name, one in said.items()}
    except (ValueError, IndexError, AttributeError):
        raise SpeechError("the speech model gave no answer that can be read") from None
