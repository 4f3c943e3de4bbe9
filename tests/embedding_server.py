"""A server for embeddings on loopback, in OpenAI's form: its vectors have a direction for each word, the same for words
that mean the same, and one that all texts share, as those of real models have."""

import json
import math
import random
import re
import threading
from collections.abc import Callable, Sequence
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SYNONYMS = (
    {"physician", "doctor", "gp", "medic"},
    {"automobile", "car", "vehicle"},
    {"repaired", "fixed", "mended"},
    {"faucet", "tap"},
    {"spouse", "wife", "husband"},
    {"holiday", "vacation", "trip"},
)
_LITTLE = frozenset(
    re.findall(r"\w+", "a an the is was my our your i you we who what when where did do to in of and it has")
)
_CONCEPT = {word: min(group) for group in SYNONYMS for word in group}

Reply = tuple[int, Any]
"""A status, and JSON or bytes."""


def vector(text: str, size: int = 128) -> list[float]:
    words = [word for word in re.findall(r"\w+", text.lower()) if word not in _LITTLE]
    parts = [_direction(_CONCEPT.get(word, word), size) for word in words] or [_direction(text, size)]
    said = [sum(numbers) for numbers in zip(*parts, strict=True)]
    return [a / math.hypot(*said) + b for a, b in zip(said, _direction("", size), strict=True)]


@cache
def _direction(word: str, size: int) -> tuple[float, ...]:
    chance = random.Random(word)
    return tuple(chance.gauss(0, 1) / math.sqrt(size) for _ in range(size))


def reply(texts: Sequence[str], size: int = 128) -> Reply:
    data = [{"object": "embedding", "index": at, "embedding": vector(text, size)} for at, text in enumerate(texts)]
    tokens = sum(len(text.split()) for text in texts)
    return 200, {"object": "list", "data": data, "usage": {"prompt_tokens": tokens, "total_tokens": tokens}}


class EmbeddingServer:
    """`answer` makes the replies, in threads; a test puts its own in its place."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.answer: Callable[[list[str]], Reply] = reply
        self.stopped = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                owner.asked.append(body)
                owner.keys.append(self.headers.get("authorization", ""))
                status, said = owner.answer(body["input"]) if self.path == "/v1/embeddings" else (404, {})
                data = said if isinstance(said, bytes) else json.dumps(said).encode()
                try:
                    self.send_response(status)
                    self.send_header("content-type", "application/json")
                    self.send_header("content-length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:  # the client has left
                    self.close_connection = True

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def texts(self) -> list[str]:
        """All that it was sent."""
        return [text for body in self.asked for text in body["input"]]

    def forget(self) -> None:
        self.asked.clear()
        self.keys.clear()
        self.answer = reply

    def stop(self) -> None:
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()
