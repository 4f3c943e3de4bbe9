"""The thin client of a nanoclaw that runs: standard library only, since its start is what a person waits for.

Each side writes one JSON object a line. The client says hello and what it wants, the other side answers with a hello of
its own or with `refused`. What the program shows comes as frames; `confirm` asks whether all before it was shown.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress

from nanoclaw.core.errors import ConfigError, NanoclawError, StoreBusy, StoreError
from nanoclaw.escapes import guard_streams, json_line, write_over
from nanoclaw.home_socket import LONGEST, NAME, in_reach

TYPE_CHECKING = False  # typing would be a tenth of the start
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TextIO

VERSION = 1
LAST = 2**62
"""A row behind every message."""
HELLO_SECONDS = 5.0
TIMEOUT_SECONDS = 120.0
"""That `nanoclaw -m` waits for a sign of the model."""


def answer_once(argv: Sequence[str], environ: Mapping[str, str]) -> int | None:
    """`nanoclaw -m TEXT` by way of the process that runs, and its exit status.

    None when none listens, or when the line says more than this knows: then nothing has been done.
    """
    options = common_options(argv)
    if options is None or options["message"] is None:
        return None
    guard_streams()
    try:
        link = connect(_home(environ), "answer", options["session"])
        if link is None:
            return None
        text = question(options["message"], piped())
        return ask(link, text, (), as_json=options["json"], timeout=options["timeout"])
    except NanoclawError as error:
        return failed(error, as_json=options["json"])
    except KeyboardInterrupt:
        return 130


def failed(error: NanoclawError, *, as_json: bool) -> int:
    """Tell of an error, and its exit status."""
    if as_json:
        print(json_line(json.dumps({"error": str(error)}, ensure_ascii=False)))
    else:
        say(str(error))
    return 2 if isinstance(error, ConfigError) else 1


def say(sentence: str) -> None:
    """Print a sentence that is not part of the answer to stderr."""
    print(f"nanoclaw: {sentence}", file=sys.stderr, flush=True)


def common_options(argv: Sequence[str]) -> dict[str, Any] | None:
    """The options of a common line (-m, --session, --json, --timeout); None for any other."""
    found: dict[str, Any] = {"message": None, "session": "main", "json": False, "timeout": str(TIMEOUT_SECONDS)}
    found |= {"command": "chat", "help": False, "program": [], "version": False, "goes_on": False, "picked": None}
    found |= {"model": "", "files": [], "without": []}  # which a common line does not say
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        name = "--message" if word == "-m" else name
        if word == "--json":
            found["json"] = True
        elif name in ("--message", "--session", "--timeout"):
            given = value if equals else next(words, None)
            if given is None or not (equals or given == "-" or given[:1] != "-"):
                return None
            found[name[2:]] = given
        else:
            return None
    session, seconds = found["session"], found["timeout"]
    found["timeout"] = float(seconds) if seconds.replace(".", "", 1).isdecimal() else 0.0
    return found if session.strip() and session.isprintable() and found["timeout"] > 0 else None


def _home(environ: Mapping[str, str]) -> str:
    return os.path.abspath(os.path.expanduser(environ.get("NANOCLAW_HOME") or "~/.nanoclaw"))


def piped() -> str:
    """The text that is piped in, '' for a person's terminal. It is the same when asked again."""
    if sys.stdin.isatty():
        return ""
    if sys.stdin not in _PIPED:
        _PIPED[sys.stdin] = sys.stdin.buffer.read().decode("utf-8", "replace")
    return _PIPED[sys.stdin]


_PIPED: dict[object, str] = {}


def question(message: str | None, piped: str) -> str:
    """The question that -m and a pipe make together."""
    said = "" if message in (None, "-") else os.fsencode(message or "").decode("utf-8", "replace")
    return "\n\n".join(part for part in (said, piped.strip()) if part)


# --- the line --------------------------------------------------------------------------------------------------------


class LineEnded(StoreError):
    """The end of a line: nobody answers there any more. For `seconds` another one is about to take its place."""

    def __init__(self, text: str, seconds: float = 0.0) -> None:
        super().__init__(text)
        self.seconds = seconds


class Link:
    """A line to the process that runs. `hello` is what it says of itself."""

    def __init__(self, line: socket.socket) -> None:
        self.socket, self.rest = line, bytearray()
        self.hello: dict[str, Any] = {}

    def send(self, frame: dict[str, Any]) -> None:
        data = encoded(frame)
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise self.ended() from error

    def receive(self) -> dict[str, Any]:
        """The next frame. Raises LineEnded if the line has ended."""
        seen = 0
        while (end := self.rest.find(b"\n", seen)) < 0:
            seen = len(self.rest)
            try:
                piece = self.socket.recv(65536)
            except TimeoutError:
                raise
            except OSError:
                piece = b""
            if not piece:
                raise self.ended()
            self.rest += piece
        frame = json.loads(self.rest[:end])
        del self.rest[: end + 1]
        if not isinstance(frame, dict):
            raise ValueError("a line is not an object")
        return frame

    def ended(self) -> LineEnded:
        who = f"process {self.hello['pid']}" if "pid" in self.hello else "the other nanoclaw"
        return LineEnded(self.hello.get("lost") or f"{who}, which was answering, has ended")


def encoded(frame: dict[str, Any]) -> bytes:
    """A frame as a line. Raises ConfigError for one that is too long."""
    data = json.dumps(frame).encode() + b"\n"
    if len(data) > LONGEST:
        raise ConfigError(f"that is too long: {len(data) / 1e6:.0f} MB of at most {LONGEST / 1e6:.0f} MB")
    return data


def connect(folder: str, want: str, session: str = "", seen: int = LAST) -> Link | None:
    """A line to the process that owns the home `folder`; None when none listens there.

    `want` is chat, answer, command, status, or home: a gateway asks for that. `seen` is the last message that a chat
    has shown, and gets those after it. Raises StoreBusy if it refuses or does not answer.
    """
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.settimeout(HELLO_SECONDS)
    link = Link(line)
    try:
        in_reach(folder, line.connect)
        link.send({"nanoclaw": VERSION, "want": want, "session": session, "seen": seen})
        link.hello = link.receive()
    except ValueError:
        raise StoreBusy(f"the program that listens at {os.path.join(folder, NAME)} is not nanoclaw: end it") from None
    except (OSError, LineEnded) as error:  # nothing listens, or what did was about to end
        if isinstance(error, TimeoutError) and want != "home":  # a gateway waits for one that is giving it up
            who = f"another nanoclaw (process {holder(folder)})"
            raise StoreBusy(f"{who} is using {folder} and does not answer: wait for it, or end it") from None
        line.close()
        return None
    if "refused" in link.hello:
        raise StoreBusy(str(link.hello["refused"]))
    line.settimeout(None)
    return link


def holder(folder: str) -> str:
    """The pid in the store's lock."""
    try:
        with open(os.path.join(folder, "state.lock"), encoding="ascii") as lock:
            return lock.read(20).strip() or "unknown"
    except (OSError, ValueError):
        return "unknown"


def status(folder: str) -> dict[str, Any] | None:
    """The status of the process that runs; None when none listens. Raises StoreBusy if it does not answer."""
    link = connect(folder, "status")
    if link is None:
        return None
    link.socket.close()
    return dict(link.hello["status"])


# --- one question ----------------------------------------------------------------------------------------------------


def ask(
    link: Link, text: str, files: Sequence[Sequence[str]], *, as_json: bool, timeout: float = TIMEOUT_SECONDS
) -> int:
    """One question, and all that is shown of its answer, which the other side writes as `nanoclaw -m` does.

    `files` are path, name and type of each. Returns the exit status; Ctrl-C stops the answer, a second one leaves.
    """
    if not text.strip() and not files:
        raise ConfigError("there is nothing to answer: give a text after -m, or pipe one in")
    out, err = Pipe(sys.stdout), Pipe(sys.stderr)
    ttys = {"out": out.isatty, "err": err.isatty}
    sent = [list(file) for file in files]
    link.send({"text": text, "files": sent, "json": as_json, "ttys": ttys, "timeout": timeout})
    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        if stopped:
            raise KeyboardInterrupt
        stopped = True
        link.send({"stop": True})

    signal.signal(signal.SIGINT, stop)
    try:
        status = _show(link, out, err)
    except LineEnded as ended:
        raise StoreError(f"{ended}. What it had received is kept: start nanoclaw again") from None
    return 130 if stopped else status


def _show(link: Link, out: Pipe, err: Pipe) -> int:
    """Print what comes, to its end; the exit status."""
    while True:
        frame = link.receive()
        if "out" in frame:
            out.write(frame["out"])
        elif "err" in frame:
            if frame["err"].startswith("\r"):  # a bar of the program's own
                err.write_over(frame["err"])
            else:
                err.write(frame["err"])
        elif "confirm" in frame:
            link.send({"shown": frame["confirm"]})
        elif "ended" in frame:
            raise link.ended()
        elif "bye" in frame:
            if out.error:
                err.write(f"nanoclaw: the answer could not be written: {out.error}\n")
            return 1 if out.error else int(frame["bye"])


class Pipe:
    """A stream that may be closed, full, or of a narrow encoding. `error` says why it took no more, if so; a reader
    who left (`| head`) is not an error."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream  # None when the process was started with it closed
        self.error = "" if stream else "it is closed"
        self.isatty = _is_tty(stream)

    def write(self, text: str) -> None:
        if self._stream is None:
            return
        encoding = self._stream.encoding or "utf-8"
        try:
            self._stream.write(text.encode(encoding, "replace").decode(encoding))
            self._stream.flush()
        except BrokenPipeError:
            self._abandon()
        except (OSError, ValueError) as error:  # ValueError: the stream was closed
            self.error = getattr(error, "strerror", None) or str(error)
            self._abandon()

    def write_over(self, line: str) -> None:
        """Write over the line before; for a terminal."""
        if self._stream is not None:
            with suppress(OSError, ValueError):
                write_over(self._stream, line)

    def _abandon(self) -> None:
        """Nobody reads: let the interpreter's own flush at exit go nowhere, too."""
        stream, self._stream = self._stream, None
        try:
            descriptor = stream.fileno() if stream else -1
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, descriptor)
            os.close(nowhere)
        except (OSError, ValueError):
            pass


def _is_tty(stream: TextIO | None) -> bool:
    try:
        return bool(stream and stream.isatty())
    except ValueError:
        return False
