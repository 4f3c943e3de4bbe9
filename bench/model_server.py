"""A model on loopback that answers at once: scripted replies, every request body kept.

A reply is a text, or a list of tool calls such as [("read_file", {"path": "a.txt"})]. When the script is used up the
answer is "Hello.".
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Reply = str | Sequence[tuple[str, dict[str, Any]]]


class ModelServer:
    """`bodies` are the requests in order; `on_request` is called as each one has arrived."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.on_request: Callable[[], None] = lambda: None
        self._replies: deque[Reply] = deque()
        self._http = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"model": self}))
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"

    def __enter__(self) -> ModelServer:
        Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def script(self, *replies: Reply) -> None:
        """Begin anew: forget the bodies, answer with these."""
        self.bodies.clear()
        self._replies = deque(replies)

    def reply(self, body: dict[str, Any]) -> Reply:
        """The next of the script."""
        return self._replies.popleft() if self._replies else "Hello."

    def answer(self, body: dict[str, Any]) -> bytes:
        self.on_request()
        self.bodies.append(body)
        reply = self.reply(body)
        number = len(self.bodies)
        if isinstance(reply, str):
            delta: dict[str, Any] = {"role": "assistant", "content": reply}
        else:
            calls = [
                {
                    "index": index,
                    "id": f"call_{number}_{index}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
                for index, (name, arguments) in enumerate(reply)
            ]
            delta = {"role": "assistant", "tool_calls": calls}
        finish = "stop" if isinstance(reply, str) else "tool_calls"
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        chunks: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
            {"choices": [], "usage": usage},
        ]
        common = {"id": f"answer-{number}", "object": "chat.completion.chunk", "created": 0, "model": "bench"}
        if not body.get("stream"):
            choice = {"index": 0, "message": delta, "finish_reason": finish}
            return json.dumps({**common, "object": "chat.completion", "choices": [choice], "usage": usage}).encode()
        events = [json.dumps({**common, **chunk}) for chunk in chunks]
        return "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"]).encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was ended in mid-request is nothing to report."""


class _Handler(BaseHTTPRequestHandler):
    model: ModelServer
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body leave together

    def do_GET(self) -> None:
        self._send(json.dumps({"object": "list", "data": [{"id": "bench", "object": "model"}]}).encode(), False)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self._send(self.model.answer(body), bool(body.get("stream")))

    def _send(self, data: bytes, is_stream: bool) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if is_stream else "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == "__main__":
    import time

    with ModelServer() as server:
        print(server.url, flush=True)
        time.sleep(1e9)
