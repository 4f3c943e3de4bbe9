"""The process that makes a voice note of a WAV file: encode_child.py WAV OGG."""

from __future__ import annotations

import sys


def encode(wav: str, ogg: str) -> None:
    try:
        import av
    except ImportError:
        sys.exit("the extra voice, which has it, is not installed")
    with av.open(wav) as source, av.open(ogg, "w", format="ogg") as target:
        stream = target.add_stream("libopus", rate=48_000, layout="mono")
        stream.bit_rate = 32_000
        for frame in source.decode(audio=0):
            target.mux(stream.encode(frame))
        target.mux(stream.encode(None))


if __name__ == "__main__":
    encode(*sys.argv[1:])
