"""Prosody on this machine, a server that others wrote, and people on it whose client is slixmpp's own."""

import asyncio
import os
import shutil
import signal
import socket
import ssl
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import httpx
import pytest

from tests.channels.contract import SECONDS

slixmpp = pytest.importorskip("slixmpp")
PROSODY = shutil.which("prosody") or "/usr/sbin/prosody"
HAS_PROSODY = Path(PROSODY).exists()
PASSWORD = "of-everybody-here"
ROOM = "garden@rooms.localhost"


@dataclass
class Told:
    """A message of the assistant's as a client has it, with the bytes of its file."""

    id: str
    text: str
    stanza: Any
    files: list[bytes] = field(default_factory=list)


class Person:
    """Somebody with a client. `heard` are messages of the assistant, `signs` those without words."""

    def __init__(self, server: "XmppServer", name: str) -> None:
        self.server, self.name, self.jid = server, name, f"{name.lower().replace(' ', '')}@localhost"
        self.heard: list[Told] = []
        self.signs: list[tuple[str, str]] = []
        self.last: Any = None
        self._client: Any = None

    async def client(self) -> Any:
        """Their client, once it is connected."""
        if self._client is None or not self._client.is_connected():
            client = slixmpp.ClientXMPP(self.jid, PASSWORD, ssl_context=self.server.trusting())
            for plugin in (
                "xep_0308",
                "xep_0363",
                "xep_0461",
                "xep_0066",
                "xep_0444",
                "xep_0085",
                "xep_0172",
                "xep_0045",
            ):
                client.register_plugin(plugin)
            client.enable_direct_tls = False
            client.auto_authorize = True
            started = asyncio.Event()
            client.add_event_handler("session_start", lambda _: started.set())
            client.add_event_handler("message", self._hear)
            client.add_event_handler("reactions", lambda one: self._see("reacts to", one["reactions"]["id"]))
            client.add_event_handler("chatstate", lambda one: self._see("is", one["chat_state"]))
            client.add_event_handler(f"muc::{ROOM}::got_online", lambda one: self._see("in", one["from"].resource))
            client.add_event_handler("presence_available", lambda one: self._see("there is", one["from"].bare))
            async with asyncio.timeout(SECONDS):
                while not client.is_connected():
                    await client.connect("127.0.0.1", self.server.port)
                await started.wait()
            client.send_presence()
            self._client = client
        return self._client

    def _see(self, what: str, whom: str) -> None:
        self.signs.append((what, whom))
        self.server.notify()

    async def _hear(self, stanza: Any) -> None:
        is_own = stanza["from"].resource == self.name
        if stanza["type"] in ("chat", "normal", "groupchat") and stanza["body"] and not is_own:
            told = Told(stanza["id"], stanza["body"], stanza)
            self.heard.append(told)
            if url := stanza["oob"]["url"]:
                async with httpx.AsyncClient(trust_env=False, timeout=60) as web:
                    told.files.append((await web.get(url)).content)
        self.server.notify()

    async def send(self, stanza: Any) -> str:
        self.last = stanza
        stanza.send()
        return str(stanza["id"])

    async def close(self) -> None:
        if self._client:
            await self._client.disconnect(wait=0.2, ignore_send_queue=True)
            if self._client._run_out_filters:  # which slixmpp leaves behind
                self._client._run_out_filters.cancel()


class XmppServer:
    """A Prosody with TLS, rooms, and a store for files; `people` by name, all with one password."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self._web = folder, _free_port(), _free_port()
        self.people: dict[str, Person] = {}
        self.authority = folder / "cert.pem"
        self._process: Process | None = None
        self._changed = asyncio.Event()
        _certify(folder)
        data = f'data_path = "{folder}/data"; pidfile = "{folder}/pid"; log = {{ info = "{folder}/log" }}'
        modules = '"roster","saslauth","tls","disco","ping","smacks","mam","carbons","register","private","pep"'
        (folder / "prosody.cfg.lua").write_text(
            f"""
{data}; run_as_root = true; daemonize = false
interfaces = {{"127.0.0.1"}}; c2s_ports = {{{self.port}}}; http_ports = {{{self._web}}}; https_ports = {{}}
modules_enabled = {{{modules}}}; modules_disabled = {{"s2s"}}
ssl = {{ key = "{folder}/key.pem"; certificate = "{folder}/cert.pem" }}
authentication = "internal_plain"; storage = "internal"; c2s_require_encryption = true; smacks_max_unacked_stanzas = 0
VirtualHost "localhost"
Component "rooms.localhost" "muc"
    muc_room_default_public_jids = true
Component "files.localhost" "http_file_share"
    http_external_url = "http://localhost:{self._web}"; http_host = "localhost"
"""
        )
        (folder / "data" / "localhost" / "accounts").mkdir(parents=True)
        self.register("nano")

    def register(self, user: str) -> None:
        account = self.folder / "data" / "localhost" / "accounts" / f"{user}.dat"
        account.write_text(f'return {{ ["password"] = "{PASSWORD}" }};')

    def person(self, name: str) -> Person:
        if name not in self.people:
            self.people[name] = Person(self, name)
            self.register(self.people[name].jid.partition("@")[0])
        return self.people[name]

    def trusting(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.authority))

    async def start(self) -> None:
        quiet = asyncio.subprocess.DEVNULL
        config = str(self.folder / "prosody.cfg.lua")
        self._process = await asyncio.create_subprocess_exec(
            PROSODY, "--config", config, "-F", stdin=quiet, stdout=quiet, stderr=quiet
        )
        async with asyncio.timeout(SECONDS):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                    writer.close()
                    return
                except OSError:
                    await asyncio.sleep(0.02)

    async def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self._process:
            self._process.send_signal(how)
            await self._process.wait()
            self._process = None

    def notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self) -> None:
        await self._changed.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _certify(folder: Path) -> None:
    """A certificate of localhost and its rooms, which is its own authority."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    names = [x509.DNSName(one) for one in ("localhost", "rooms.localhost", "files.localhost")]
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    made = made.add_extension(x509.SubjectAlternativeName(names), critical=True)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    (folder / "cert.pem").write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))


@asynccontextmanager
async def serving() -> AsyncIterator[XmppServer]:
    with TemporaryDirectory(prefix="xmpp") as folder, patch.dict(os.environ):
        server = XmppServer(Path(folder))
        os.environ["SSL_CERT_FILE"] = str(server.authority)
        await server.start()
        try:
            yield server
        finally:
            for one in server.people.values():
                await one.close()
            await server.stop(signal.SIGKILL)
