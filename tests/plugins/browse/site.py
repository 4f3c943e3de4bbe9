"""A web site for a browser to be tried on, served on this machine from a thread."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

FILES = {f"/{file.stem}": file.read_text() for file in (Path(__file__).parent / "pages").glob("*.html")}
LONG = "".join(f"<p>Paragraph {n} of a long page with words in it.</p>" for n in range(900))
HUGE = "<p>Lorem ipsum dolor sit amet <a href=/x>consetetur</a> sadipscing.</p>" * 140_000
PAGES = FILES | {"/": FILES["/order"], "/long": f"<title>Long</title>{LONG}", "/huge": f"<title>Huge</title>{HUGE}"}


class Asked(NamedTuple):
    method: str
    path: str
    body: str
    cookie: str


class Site:
    """`asked` is what it was asked for; `hold` keeps /hang waiting until it is set."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.place = f"127.0.0.1:{server.server_address[1]}"
        self.url = f"http://{self.place}"
        self.asked: list[Asked] = []
        self.pages = dict(PAGES)
        self.hold = threading.Event()

    def paths(self) -> list[str]:
        return [one.path for one in self.asked]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer("GET", "")

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer("POST", data.decode("utf-8", "replace"))

    def _answer(self, method: str, body: str) -> None:
        site: Site = self.server.site  # type: ignore[attr-defined]
        cookie = self.headers.get("Cookie", "")
        site.asked.append(Asked(method, self.path, body, cookie))
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        if path == "/ordered":
            given = parse_qs(body)
            self._send(f"<title>Thanks</title><p>Ordered for {given.get('name', [''])[0]}: {given['colour'][0]}</p>")
        elif path == "/items":
            first = int(query["from"][0])
            self._send("\n".join(f"Item {n}" for n in range(first, first + 20)), "text/plain")
        elif path == "/login":
            self._send("<title>In</title><p>Logged in.</p>", more=[("Set-Cookie", "who=ann; Path=/")])
        elif path == "/me":
            self._send(f"<title>Me</title><p>You are {cookie or 'nobody'}.</p>")
        elif path == "/secret":
            self._send("<p>Who are you?</p>", status=401, more=[("WWW-Authenticate", 'Basic realm="x"')])
        elif path == "/to":
            self._send("", status=302, more=[("Location", query["url"][0])])
        elif path == "/report.pdf":
            self._send(
                "%PDF-1.4 words",
                "application/pdf",
                more=[("Content-Disposition", 'attachment; filename="../re port.pdf"')],
            )
        elif path == "/shown.pdf":
            self._send("%PDF-1.4 words", "application/pdf")
        elif path == "/endless.bin":
            self._send("x" * 3_000_000, "application/octet-stream", more=[("Content-Disposition", "attachment")])
        elif path == "/sent":
            self._send(f"<title>Got it</title><pre>{body.replace('<', '&lt;')}</pre>")
        elif path == "/hang":
            site.hold.wait(60)
            self._send("<p>at last</p>")
        elif path in site.pages:
            self._send(site.pages[path])
        else:
            self._send("<p>No such page.</p>", status=404)

    def _send(self, text: str, kind: str = "text/html; charset=utf-8", status: int = 200, more: Any = ()) -> None:
        data = text.encode()
        self.send_response(status)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(data))), *more):
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(data)
        except OSError:
            self.close_connection = True


@contextmanager
def serving() -> Iterator[Site]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    site = Site(server)
    server.site = site  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        site.hold.set()
        server.shutdown()
        server.server_close()
        thread.join()
