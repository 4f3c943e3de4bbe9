"""Real CalDAV servers on loopback, in a thread of the test."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from wsgiref.simple_server import WSGIRequestHandler, make_server

import httpx
import pytest

HOME = "anna/home/"


class Server(NamedTuple):
    url: str

    @property
    def settings(self) -> str:
        return f'[calendar]\nurl = "{self.url}"\nuser = "anna"\npassword = "secret of anna"\n'

    def call(self, method: str, path: str, text: str = "") -> httpx.Response:
        kind = {"Content-Type": "text/calendar; charset=utf-8"}
        with httpx.Client(auth=("anna", "secret of anna"), headers=kind, timeout=60) as client:
            return client.request(method, f"{self.url}{HOME}{path}", content=text.encode())

    def put(self, name: str, *lines: str) -> None:
        """Store an event of these lines, as another program does."""
        body = "\r\n".join(("BEGIN:VEVENT", f"UID:{name}", "DTSTAMP:20260301T000000Z", *lines, "END:VEVENT"))
        text = f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:test\r\n{body}\r\nEND:VCALENDAR\r\n"
        assert self.call("PUT", f"{name}.ics", text).status_code in (201, 204)


class _Silent(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Radicale with one empty calendar of anna's."""
    pytest.importorskip("recurring_ical_events")
    radicale = pytest.importorskip("radicale")
    from radicale import config

    users = tmp_path / "users"
    users.write_text("anna:secret of anna\n")
    settings = config.load()
    login = {"type": "htpasswd", "htpasswd_filename": str(users), "htpasswd_encryption": "plain", "delay": "0"}
    storage = {"filesystem_folder": str(tmp_path / "dav"), "_filesystem_fsync": "False"}
    settings.update({"auth": login, "storage": storage, "logging": {"level": "critical"}}, "test", privileged=True)
    with make_server("127.0.0.1", 0, radicale.Application(settings), handler_class=_Silent) as made:
        serving = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            found = Server(f"http://127.0.0.1:{made.server_port}/")
            assert found.call("MKCALENDAR", "").status_code == 201
            yield found
        finally:
            made.shutdown()
            serving.join()
