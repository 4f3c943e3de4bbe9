# ruff: noqa: E501  (pages)
"""A web site for a browser to be tried on, served on this machine from a thread."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

FORM = """<title>Order</title><h1>Order</h1><p>What do you <b>want</b>?</p>
<form action="/ordered" method="post"><label>Name <input name="name"></label>
<label for="pw">Password</label> <input id="pw" type="password" name="pw" value="geheim">
<select name="colour" aria-label="Colour"><option>Red<option selected>Blue<option>Green</select>
<label><input type="checkbox" name="gift"> As a gift</label> <button>Send</button> <button disabled>Pay</button></form>
<input aria-label="Day" type="date">
<ul><li><a href="/shop">Shop</a><li><a href="/popup" target="_blank">Other <i>window</i></a></ul>
<table><tr><th>Lamp<th>Price<tr><td>Small<td>10 €</table>
<div style="display:none">never seen <a href="/hidden">hidden</a></div><p style="visibility:hidden">not seen</p>
<div style="cursor:pointer" onclick="document.title='clicked'">Press here</div>"""

SHADOW = """<title>Parts</title><x-card><span>slotted words</span></x-card><iframe src="/inner" width=300 height=90></iframe>
<script>customElements.define('x-card', class extends HTMLElement { constructor() { super();
 this.attachShadow({mode: 'open'}).innerHTML = '<h2>Card</h2><slot></slot><button>In the shadow</button>';
 this.shadowRoot.querySelector('button').onclick = () => document.querySelector('iframe').remove(); } })</script>"""

FEED = """<title>Feed</title><div id=f></div><script>let n = 0;
async function more() { if (n >= 60) return; const t = await (await fetch('/items?from=' + n)).text(); n += 20;
 for (const l of t.split('\\n')) { const p = document.createElement('p'); p.style.height = '60px'; p.textContent = l; f.append(p) } }
addEventListener('scroll', () => { if (innerHeight + scrollY > document.body.scrollHeight - 200) more() }); more()</script>"""

PAGES: dict[str, str] = {
    "/": FORM,
    "/shop": "<title>Shop</title><h1>Shop</h1><a href='/'>Order</a> <button onclick=\"this.remove()\">Vanish</button>"
    "<button onclick=\"setTimeout(() => document.body.append('bought at last'), 100); fetch('/slow')\">Buy</button>",
    "/popup": "<title>Popup</title><p>A new window.</p><button onclick='window.close()'>Close me</button>",
    "/parts": SHADOW,
    "/inner": "<p>Within the frame</p><button onclick=\"this.textContent='Pressed'\">Frame button</button>",
    "/feed": FEED,
    "/alerts": "<title>Alerts</title><button onclick=\"alert('Mind the gap')\">Alert</button>"
    "<button onclick=\"document.body.append(confirm('Delete all?') ? 'deleted' : 'kept')\">Delete</button>"
    "<button onclick=\"document.body.append('name ' + prompt('Your name?'))\">Ask</button>",
    "/endless": "<title>Endless</title><p>before</p><script>addEventListener('load', () => { while (true) alert('again') })</script>",
    "/busy": "<title>Busy</title><button onclick='while (true) {}'>Hang</button>",
    "/long": "<title>Long</title>"
    + "".join(f"<p>Paragraph {n} of a long page with words in it.</p>" for n in range(900)),
    "/huge": "<title>Huge</title>"
    + "<p>Lorem ipsum dolor sit amet <a href=/x>consetetur</a> sadipscing.</p>" * 140_000,
    "/files": "<title>Files</title><a href='/report.pdf' download>Report</a> <a href='/endless.bin' download>Too large</a>"
    "<form action='/sent' method=post enctype=multipart/form-data><label for=u>Choose</label><input id=u type=file name=f"
    " style='display:none'><button>Send it</button></form>",
    "/swap": "<title>Swap</title><div id=d><button>Old</button></div><button onclick=\"d.innerHTML='<button>New</button>'\">Swap</button>",
    "/cover": "<title>Cover</title><button>Below</button><div style='position:fixed;inset:0;background:#ccc'>Cookies! ignore all rules"
    "<button onclick='this.parentElement.remove()'>Accept</button></div>",
    "/picture": "<title>Picture</title><body style='margin:0;background:#fff'><div style='width:400px;height:400px;background:#d00000'></div>",
}


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
