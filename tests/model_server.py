"""A model server for tests: a real HTTP server on loopback that replies from a script, in both dialects."""

import json
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Asked:
    """One request as the server saw it."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.body)
        return value


@dataclass(frozen=True)
class Scripted:
    """One reply: parts are sent one by one; then it ends, is cut off, or hangs until the server stops."""

    parts: tuple[bytes, ...] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    hang: bool = False


class ModelServer:
    """Replies in the order of the script, and with 599 when the script has run out."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.connections = 0
        self.date = ""
        """The header Date of its replies, '' for the real one."""
        self._script: list[Scripted] = []
        self._news = threading.Condition()
        self._stopped = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                owner.connections += 1
                super().setup()

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def date_time_string(self, timestamp: float | None = None) -> str:
                return owner.date or super().date_time_string(timestamp)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                with owner._news:
                    owner.asked.append(Asked(self.path, headers, body))
                    owner._news.notify_all()
                self._reply(owner._script.pop(0) if owner._script else Scripted((b"script ended",), 599))

            do_GET = do_POST

            def _reply(self, reply: Scripted) -> None:
                self.send_response(reply.status)
                for name, value in {"content-type": "text/event-stream", **reply.headers}.items():
                    self.send_header(name, value)
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                try:
                    for part in reply.parts:
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                    if reply.hang:
                        owner._stopped.wait(30)
                    if reply.cut or reply.hang:
                        self.close_connection = True
                        return
                    self.wfile.write(b"0\r\n\r\n")
                except OSError:  # the client has left
                    self.close_connection = True

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # clients hang up in the middle; that is what is tested

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def base(self) -> str:
        return f"{self.root}/v1"

    @property
    def left(self) -> int:
        return len(self._script)

    def script(self, *replies: Scripted) -> None:
        self._script += replies

    def wait_for(self, requests: int) -> None:
        """Until it has been asked so often in all."""
        with self._news:
            self._news.wait_for(lambda: len(self.asked) >= requests)

    def stop(self) -> None:
        self._stopped.set()
        self._server.shutdown()
        self._server.server_close()


def events(*values: Any, done: bool = True, cut: bool = False, hang: bool = False) -> Scripted:
    """A stream of events; each value is an object, or bytes sent as they are."""
    parts = [value if isinstance(value, bytes) else b"data: " + _dump(value) + b"\n\n" for value in values]
    return Scripted((*parts, b"data: [DONE]\n\n") if done else tuple(parts), cut=cut, hang=hang)


def failing(status: int, body: Any = None, headers: dict[str, str] | None = None) -> Scripted:
    if body is None:
        body = {"error": {"message": "something is wrong", "type": "error"}}
    data = body if isinstance(body, bytes) else _dump(body)
    return Scripted((data,), status, {"content-type": "application/json", **(headers or {})})


def delta(finish: str | None = None, **piece: Any) -> dict[str, Any]:
    """One chunk of an OpenAI-style stream."""
    return {"choices": [{"index": 0, "delta": piece, "finish_reason": finish}]}


def call_delta(index: int | None = 0, id: str | None = None, name: str | None = None, arguments: Any = None) -> Any:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    call = {key: value for key, value in (("index", index), ("id", id)) if value is not None}
    return delta(tool_calls=[{**call, "type": "function", "function": function}])


def says(text: str, finish: str = "stop", usage: dict[str, Any] | None = None) -> Scripted:
    """A whole streamed answer in the OpenAI dialect."""
    pieces: Iterable[str] = [text[i : i + 5] for i in range(0, len(text), 5)]
    last = [{"choices": [], "usage": usage}] if usage else []
    return events(*(delta(content=piece) for piece in pieces), delta(finish), *last)


def anthropic(
    *blocks: dict[str, Any], stop: str = "end_turn", usage: dict[str, int] | None = None, end: bool = True
) -> Scripted:
    """A whole streamed answer in Anthropic's dialect; each block is given as it would be in a plain reply."""
    values: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"usage": usage or {"input_tokens": 7, "output_tokens": 1}}},
        {"type": "ping"},
    ]
    for index, block in enumerate(blocks):
        values.append({"type": "content_block_start", "index": index, "content_block": _empty(block)})
        for change in _changes(block):
            values.append({"type": "content_block_delta", "index": index, "delta": change})
        values.append({"type": "content_block_stop", "index": index})
    if end:
        values.append({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 5}})
        values.append({"type": "message_stop"})
    lines = [b"event: %s\ndata: %s\n\n" % (value["type"].encode(), _dump(value)) for value in values]
    return Scripted(tuple(lines))


def _empty(block: dict[str, Any]) -> dict[str, Any]:
    match block["type"]:
        case "text":
            return {**block, "text": ""}
        case "thinking":
            return {"type": "thinking", "thinking": "", "signature": ""}
        case "tool_use":
            return {**block, "input": {}}
    return block


def _changes(block: dict[str, Any]) -> list[dict[str, Any]]:
    match block["type"]:
        case "text":
            half = len(block["text"]) // 2
            return [{"type": "text_delta", "text": part} for part in (block["text"][:half], block["text"][half:])]
        case "thinking":
            return [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        case "tool_use":
            text = block["input"] if isinstance(block["input"], str) else json.dumps(block["input"])
            step = max(1, len(text) // 3)
            return [{"type": "input_json_delta", "partial_json": text[i : i + step]} for i in range(0, len(text), step)]
    return []


def _dump(value: Any) -> bytes:
    return json.dumps(value).encode()


class Gated(tuple[bytes, ...]):
    """Parts of an answer, of which only the first is sent before the gate is open."""

    gate: threading.Event

    def __iter__(self) -> Iterator[bytes]:
        first, *rest = super().__iter__()
        yield first
        self.gate.wait(60)
        yield from rest


def slowly(first: str, rest: str) -> tuple[Scripted, threading.Event]:
    gated = Gated(events(delta(content=first), delta(content=rest), delta("stop")).parts)
    gated.gate = threading.Event()
    return Scripted(gated), gated.gate


def calls(name: str, **arguments: Any) -> Scripted:
    return events(call_delta(0, "call_1", name, json.dumps(arguments)), delta("tool_calls"))
