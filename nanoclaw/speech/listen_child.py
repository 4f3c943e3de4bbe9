"""The process that writes down speech: listen_child.py MODEL SOUND LANGUAGE. It loads the model and prints JSON."""

from __future__ import annotations

import json
import sys


def heard(model: str, sound: str, language: str) -> dict[str, str]:
    from av.error import FFmpegError
    from faster_whisper import WhisperModel

    whisper = WhisperModel(model, device="cpu", compute_type="int8", local_files_only=True)
    if language and language not in whisper.supported_languages:
        return {"error": f"Whisper knows no language {language!r}: give its two letters, such as de"}
    try:
        # without its filter silence becomes words, and a text that feeds the next part repeats itself
        parts, _ = whisper.transcribe(
            sound, language=language or None, vad_filter=True, condition_on_previous_text=False, temperature=(0.0, 0.4)
        )
        return {"text": " ".join(one.text.strip() for one in parts)}
    except (FFmpegError, IndexError):  # IndexError: it has no track with sound
        return {"error": "it is no recording that can be read"}


if __name__ == "__main__":
    print(json.dumps(heard(*sys.argv[1:])))  # noqa: T201
