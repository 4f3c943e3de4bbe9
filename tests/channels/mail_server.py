"""A mail server in the process: IMAP with IDLE for one mailbox, and SMTP, on loopback and without TLS."""

import base64
import re
import select
import socketserver
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from typing import Any

USER, PASSWORD = "bot@lab.test", "botpass1"


@dataclass
class Stored:
    uid: int
    data: bytes
    at: str = "22-Nov-2026 05:31:37 +0000"


@dataclass
class MailServer:
    """`put` a mail into the mailbox; `sent` are those that were handed in for others. `refuses` maps an SMTP command to
    the line that answers it, `delays` the answer to IDLE until mails that came meanwhile are told with it."""

    validity: int = 7
    mails: list[Stored] = field(default_factory=list)
    sent: list[tuple[str, bytes]] = field(default_factory=list)
    refuses: dict[str, str] = field(default_factory=dict)
    can_idle: bool = True
    logins: int = 0
    fetched: list[str] = field(default_factory=list)
    unreadable: set[int] = field(default_factory=set)
    breaking: set[int] = field(default_factory=set)
    """Mails at which it hangs up."""
    structure: dict[int, str] = field(default_factory=dict)
    before_idle: list[bytes] = field(default_factory=list)
    """Mails that come between the last look and the waiting."""
    while_fetching: list[bytes] = field(default_factory=list)
    """Mails that come while another is read, and are told with the answer to that, as real servers do."""

    on_idle: Callable[[], object] = lambda: None
    stamps: Callable[[bytes], bytes | None] = lambda data: stamped(data)
    """A mail from its own user to themselves as it comes to the mailbox; None for one that never comes."""
    late: int = 0
    """So often somebody looks before such a mail is there."""
    on_the_way: list[bytes] = field(default_factory=list)
    can_delete: bool = True

    def __post_init__(self) -> None:
        self.connections: list[Any] = []
        self._imap = _serve(_Imap, self)
        self._smtp = _serve(_Smtp, self)

    @property
    def imap(self) -> tuple[str, int]:
        return "127.0.0.1", int(self._imap.server_address[1])

    @property
    def smtp(self) -> tuple[str, int]:
        return "127.0.0.1", int(self._smtp.server_address[1])

    def put(self, *mails: bytes | Message) -> None:
        for mail in mails:
            data = mail if isinstance(mail, bytes) else mail.as_bytes()
            uid = self.mails[-1].uid + 1 if self.mails else 1
            self.mails.append(Stored(uid, re.sub(rb"\r?\n", b"\r\n", data)))

    def kick(self) -> None:
        """Break off all connections."""
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(2)

    def come_back(self) -> None:
        """Serve again at the same ports, after `stop`."""
        self._imap, self._smtp = _serve(_Imap, self, self.imap[1]), _serve(_Smtp, self, self.smtp[1])

    def stop(self) -> None:
        self.kick()
        for server in (self._imap, self._smtp):
            server.shutdown()
            server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    owner: MailServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients hang up in the middle; that is what is tested


def _serve(handler: type[socketserver.BaseRequestHandler], owner: MailServer, port: int = 0) -> _Server:
    server = _Server(("127.0.0.1", port), handler)
    server.owner = owner
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return server


class _Lines(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    @property
    def owner(self) -> MailServer:
        assert isinstance(self.server, _Server)
        return self.server.owner

    def say(self, *lines: str | bytes) -> None:
        self.wfile.write(b"".join((line if isinstance(line, bytes) else line.encode()) + b"\r\n" for line in lines))

    def hear(self) -> str:
        line = self.rfile.readline()
        if not line:
            raise ConnectionError
        return line.decode().rstrip("\r\n")


class _Imap(_Lines):
    seen = 0  # so many mails the client knows of

    def handle(self) -> None:
        self.owner.connections.append(self.connection)
        self.say("* OK ready")
        while True:
            tag, _, line = self.hear().partition(" ")
            command = line.upper()
            if command.startswith("LOGOUT"):
                self.say("* BYE", f"{tag} OK bye")
                return
            self.say(f"{tag} {self.answer(tag, line, command)}")

    def answer(self, tag: str, line: str, command: str) -> str:
        owner = self.owner
        if command.startswith("CAPABILITY"):
            self.say(f"* CAPABILITY IMAP4rev1 ID UIDPLUS{' IDLE' if owner.can_idle else ''}")
        elif command.startswith("LOGIN"):
            owner.logins += 1
            if f'"{PASSWORD}"' not in line:
                return "NO [AUTHENTICATIONFAILED] wrong"
        elif command.startswith("STATUS"):
            last = owner.mails[-1].uid if owner.mails else 0
            self.say(f'* STATUS "INBOX" (UIDVALIDITY {owner.validity} UIDNEXT {last + 1})')
        elif command.startswith(("EXAMINE", "SELECT")):
            self.say(f"* {len(owner.mails)} EXISTS", "* FLAGS (\\Seen)")
        elif command.startswith("UID SEARCH"):
            self.say(" ".join(["* SEARCH", *map(str, self.search(line))]))
        elif command.startswith("UID FETCH"):
            return self.fetch(line)
        elif command.startswith("UID STORE") and not owner.can_delete:
            return "NO read-only"
        elif command.startswith("UID EXPUNGE"):
            owner.mails = [mail for mail in owner.mails if mail.uid != int(line.split()[-1])]
        elif command.startswith("NOOP"):
            self.look()
        elif command.startswith("IDLE"):
            self.wait()
        return "OK done"

    def look(self) -> None:
        owner = self.owner
        if owner.late:
            owner.late -= 1
            return
        come, owner.on_the_way = owner.on_the_way, []
        owner.put(*come)

    def search(self, line: str) -> list[int]:
        mails = self.owner.mails
        self.seen = len(mails)
        if not self.owner.can_idle:
            self.owner.on_idle()
        if match := re.search(r"UID (\d+):\*", line):
            found = [mail.uid for mail in mails if mail.uid >= int(match[1])]
            return found or [mail.uid for mail in mails[-1:]]  # "*" is the last mail, however high the other number
        if match := re.search(r'HEADER Message-ID "(.*)"', line):
            return [mail.uid for mail in mails if match[1].encode() in mail.data]
        if match := re.search(r'HEADER Subject "(.*)"', line):
            return [mail.uid for mail in mails if match[1].encode() in mail.data.partition(b"\r\n\r\n")[0]]
        return [mail.uid for mail in mails]

    def fetch(self, line: str) -> str:
        match = re.fullmatch(r"(?i)UID FETCH (\d+) \((.*)\)", line)
        assert match, line
        mail = next((mail for mail in self.owner.mails if mail.uid == int(match[1])), None)
        self.owner.fetched.append(match[2])
        if mail is None:
            return "OK nothing"
        if mail.uid in self.owner.breaking:
            raise ConnectionError
        if mail.uid in self.owner.unreadable:
            return "BAD internal error"
        message = message_from_bytes(mail.data)
        answer = f"* {mail.uid} FETCH (UID {mail.uid}".encode()
        for item in re.findall(r"[A-Z.]+\[[^\]]*\]<\d+\.\d+>|[A-Z]+", match[2].replace("UID ", "", 1)):
            if item == "INTERNALDATE":
                answer += f' INTERNALDATE "{mail.at}"'.encode()
            elif item == "BODYSTRUCTURE":
                told = self.owner.structure.get(mail.uid) or structure(message)
                answer += b" BODYSTRUCTURE " + told.encode("utf-8", "surrogateescape")
            else:
                section, start, most = re.findall(r"\[(.*)\]<(\d+)\.(\d+)>", item)[0]
                data = self.section(mail, message, section)[int(start) :][: int(most)]
                answer += f" BODY[{section}]<{start}> {{{len(data)}}}\r\n".encode() + data
        self.say(answer + b")")
        self.owner.put(*self.owner.while_fetching)
        self.owner.while_fetching = []
        if len(self.owner.mails) > self.seen:
            self.seen = len(self.owner.mails)
            self.say(f"* {self.seen} EXISTS")
        return "OK done"

    def section(self, mail: Stored, message: Message, section: str) -> bytes:
        if section == "HEADER":
            return mail.data.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
        part = message
        for number in section.split(".") if message.is_multipart() else []:
            part = part.get_payload()[int(number) - 1]  # type: ignore[index, assignment]
        if part.get_content_maintype() == "message":
            return part.get_payload()[0].as_bytes()  # type: ignore[index, union-attr]
        payload = vars(part)["_payload"]  # as it is, where get_payload would mend it
        return payload.encode("ascii", "surrogateescape") if isinstance(payload, str) else b""

    def wait(self) -> None:
        owner = self.owner
        early, owner.before_idle = owner.before_idle, []
        owner.put(*early)
        news = f"* {len(owner.mails)} EXISTS\r\n" if early else ""
        self.wfile.write(f"+ idling\r\n{news}".encode())  # in one packet, as a busy server does
        owner.on_idle()
        told = self.seen if not early else len(owner.mails)
        while not select.select([self.connection], [], [], 0.005)[0]:
            if len(owner.mails) > told:
                told = len(owner.mails)
                self.say(f"* {told} EXISTS")
        assert self.hear() == "DONE"


class _Smtp(_Lines):
    def handle(self) -> None:
        self.say("220 lab.test ESMTP")
        recipient = ""
        while True:
            line = self.hear()
            command = line[:4].upper()
            if refusal := self.owner.refuses.get(command):
                self.say(refusal)
            elif command == "EHLO":
                self.say("250-lab.test", "250-8BITMIME", "250-SMTPUTF8", "250 AUTH PLAIN")
            elif command == "AUTH":
                said = base64.b64decode(line.split()[2]).decode().split("\0")[1:]
                self.say("235 ok" if said == [USER, PASSWORD] else "535 5.7.8 wrong")
            elif command == "RCPT":
                recipient = line.partition("<")[2].partition(">")[0]
                self.say("250 ok")
            elif command == "DATA":
                self.say("354 go on")
                self._take(recipient)
            elif command == "QUIT":
                self.say("221 bye")
                return
            else:
                self.say("250 ok")

    def _take(self, recipient: str) -> None:
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
        if refusal := self.owner.refuses.get("."):
            self.say(refusal)
            return
        if recipient == USER:
            come = self.owner.stamps(b"".join(lines))
            self.owner.on_the_way += [come] if come is not None else []
        else:
            self.owner.sent.append((recipient, b"".join(lines)))
        self.say("250 2.0.0 queued")


def stripped(data: bytes, name: bytes = b"") -> bytes:
    """A mail without Authentication-Results, which may be renamed."""
    head, gap, body = data.partition(b"\r\n\r\n")
    lines = re.split(rb"\r\n(?![ \t])", head)
    is_forged = [line.lower().startswith(b"authentication-results:") for line in lines]
    kept = [name + line if was else line for line, was in zip(lines, is_forged, strict=True) if name or not was]
    return b"\r\n".join(kept) + gap + body


def stamped(data: bytes) -> bytes:
    """A mail as a server hands it on that adds its own results and takes out others'."""
    return RESULTS + stripped(data)


RESULTS = b"Authentication-Results: lab.test; auth=pass smtp.auth=bot@lab.test\r\n"

_EMPTY = '("text" "plain" NIL NIL NIL "7bit" 0 0)'


def structure(part: Message) -> str:
    """A message's BODYSTRUCTURE."""
    if part.get_content_maintype() == "multipart":
        inner = part.get_payload()
        parts = "".join(structure(one) for one in inner if isinstance(one, Message)) if part.is_multipart() else ""
        return f"({parts or _EMPTY} {_quoted(part.get_content_subtype())} NIL NIL NIL)"
    kind, sub = part.get_content_maintype(), part.get_content_subtype()
    payload = part.get_payload()
    inner_text = payload if isinstance(payload, str) else payload[0].as_string() if payload else ""  # type: ignore[index, union-attr]
    size = len(str(inner_text).encode("utf-8", "surrogateescape"))
    encoding = str(part.get("content-transfer-encoding", "7bit")).strip()
    fields = [_quoted(kind), _quoted(sub), _pairs(part, "content-type"), _quoted(part.get("content-id")), "NIL"]
    fields += [_quoted(encoding), str(size)]
    if kind == "text":
        fields.append("1")
    elif (kind, sub) == ("message", "rfc822"):
        fields += ["(NIL NIL NIL NIL NIL NIL NIL NIL NIL NIL)", '("text" "plain" NIL NIL NIL "7bit" 1 1)', "1"]
    said = part.get_content_disposition()
    fields += ["NIL", f"({_quoted(said)} {_pairs(part, 'content-disposition')})" if said else "NIL", "NIL"]
    return f"({' '.join(fields)})"


def _pairs(part: Message, header: str) -> str:
    given = re.findall(r';\s*([\w*.-]+)=("(?:[^"\\]|\\.)*"|[^;\s]+)', str(part.get(header, "")))
    return f"({' '.join(_quoted(text.strip(chr(34))) for pair in given for text in pair)})" if given else "NIL"


def _quoted(text: Any) -> str:
    return "NIL" if text is None else '"' + str(text).replace("\\", "\\\\").replace('"', '\\"') + '"'
