"""Keys stand wherever a person may put them, and a day's use of the program, here without any sandbox, shows none."""

import base64
import json
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.journeys.command import Home
from tests.model_server import ModelServer, Scripted, call_delta, delta, events, failing, says

CANARIES = {
    "config": "sk-canary/config+7f3a9c21",
    "channel": "424242:canary-channel-55aa",
    "plugin": "canary phrase&plugin-91bd",
    "mcp environment": "canary-mcp-env-0c4d2e",
    "mcp header": "canary-mcp-header-e1f7a8",
    "secrets file": "canary-secrets-file-33c0",
    "environment": "canary-environment-8de6b1",
}
CONFIG = """
[model]
name = "openai/scripted"
api_base = "{base}"
api_key = "{config}"
[channels.telegram]
token = "{channel}"
api_base = "{far}"
[plugins]
enabled = ["teller"]
off = ["sandbox"]
[plugins.teller]
phrase = "{plugin}"
[mcp.child]
command = "{python}"
args = ["-c", "import os, pathlib; pathlib.Path('{child}').write_text(str(dict(os.environ)))"]
env = {{ CHILD_TOKEN = "{mcp_environment}" }}
[mcp.far]
url = "{far}/mcp"
headers = {{ Authorization = "Bearer {mcp_header}" }}
"""
TELLER = '''
from typing import NamedTuple
from nanoclaw.core.plugin import Plugin
from nanoclaw.core.tool import tool


class Settings(NamedTuple):
    phrase: str = ""


class Teller(Plugin):
    name = "teller"
    settings = Settings
    secrets = ("phrase",)

    def __init__(self, host, settings):
        self._host, self._phrase = host, settings.phrase

    def tools(self):
        async def tell() -> str:
            """Tell."""
            self._host.log.debug("the phrase is {}", self._phrase)
            return f"the phrase is {self._phrase}, backwards {self._phrase[::-1]}"

        async def crash() -> str:
            """Crash."""
            raise RuntimeError(f"no answer to {self._phrase}")

        return [tool(tell, reach="none"), tool(crash, reach="none")]
'''
COMMANDS = [
    "env; env > environment.txt",
    "tr '\\0' '\\n' < /proc/self/environ",
    "tr '\\0' '\\n' < /proc/$PPID/environ",
    "cat ../config.toml ../secrets.env",
    "xxd ../config.toml; od -c ../secrets.env; hexdump -C ../secrets.env",
    "base64 ../config.toml; base64 -w0 ../secrets.env",
    "python3 -c \"print(open('../config.toml').read()[::-1])\" 2>&1 | tail -n 40 | grep -v Trace",
    "strings -n 6 ../state.db ../state.db-wal; grep -a canary ../state.db",
    "cat ../config.toml; seq 4000",
    "rev ../secrets.env; sed 's/./& /g' ../secrets.env; fold -w 9 ../config.toml",
]


def steps(*calls: tuple[str, Any]) -> Iterator[Scripted]:
    for number, (name, arguments) in enumerate(calls):
        yield events(call_delta(0, f"c{number}", name, json.dumps(arguments)), delta("tool_calls"))


def forms(canary: str) -> Iterator[bytes]:
    data = canary.encode()
    yield from (data, data[::-1], data.hex().encode(), data.hex().upper().encode(), quote(canary, safe="").encode())
    yield quote(quote(canary, safe=""), safe="").encode()
    for before in range(3):  # without the signs that depend on what stands beside it
        encoded = base64.b64encode(b"\0" * before + data)
        yield encoded[(0, 2, 3)[before] : len(encoded) // 4 * 4 - 4]


def hits(where: str, data: bytes) -> list[str]:
    found = [(name, data.find(form)) for name, one in CANARIES.items() for form in forms(one)]
    return [f"{where}: {name} in {data[max(at - 30, 0) : at + 50]!r}" for name, at in found if at >= 0]


@pytest.fixture
def far() -> Iterator[ModelServer]:
    """A server of somebody else's, which refuses everybody."""
    server = ModelServer()
    yield server
    server.stop()


def test_no_key_of_any_place_is_seen_in_a_day_of_use(
    tmp_path: Path, home: Home, server: ModelServer, far: ModelServer
) -> None:
    workspace = home.root / "workspace"
    names = {name.replace(" ", "_"): value for name, value in CANARIES.items()}
    written = CONFIG.format(
        base=server.base, far=far.base, python=sys.executable, child=tmp_path / "child.txt", **names
    )
    (home.root / "config.toml").write_text(written)
    (home.root / "config.toml").chmod(0o600)
    (home.root / "secrets.env").write_text(f"SERVICE={CANARIES['secrets file']}\n")
    (home.root / "secrets.env").chmod(0o600)
    (home.root / "plugins").mkdir()
    (home.root / "plugins" / "teller.py").write_text(TELLER)
    home.environment["WEATHER_API_KEY"] = CANARIES["environment"]
    del home.environment["OPENAI_API_KEY"]
    home.run("init")
    told: list[str] = []

    def run(*arguments: str, replies: tuple[Scripted, ...] = ()) -> None:
        server.script(*replies)
        done = home.run(*arguments, check=None)
        told.append(f"{arguments}\n{done.out}\n{done.err}")
        server._script.clear()

    run("-m", "look", replies=(*steps(*(("exec", {"command": one}) for one in COMMANDS)), says("Looked.")))
    run("plugins", "trust", "teller")
    run("-m", "tell", "--json", replies=(*steps(("tell", {}), ("crash", {})), says("That is all.")))
    behind = {"command": "env", "background": True}
    waits = {"action": "wait", "id": 1, "seconds": 20}
    run("-m", "beside", replies=(*steps(("exec", behind), ("process", waits)), says("It ran.")))
    run("-m", "read", replies=(*steps(("read_file", {"path": "environment.txt"})), says("Read.")))
    echoed = {"error": {"message": f"Incorrect API key provided: {CANARIES['config']}", "type": "invalid"}}
    run("-m", "hello", replies=(failing(401, echoed),))
    for line in (
        *("status", "status --json", "audit", "audit --json", "plugins", "plugins --json"),
        *("keys", "keys list --json", "model", "context", "context --json", "usage", "sessions list", "sessions show"),
        *("sessions export", "mcp list", "mcp test far", "skills list", "memory search key", "todo"),
    ):
        run(*line.split())
    run("doctor", replies=(says("hello"),))
    run("backup", str(tmp_path / "kept.tar.gz"))
    (home.root / "config.toml").write_text(written.replace('name = "openai/scripted"', "name = 7"))
    run("status")

    assert "Looked." in told[0] and any("set (environment)" in one for one in told)
    found = [hit for text in told for hit in hits(f"said by {text.splitlines()[0]}", text.encode())]
    for number, asked in enumerate(server.asked):
        found += hits(f"request {number} {asked.path}", asked.body)
    own = {home.root / name for name in ("config.toml", "secrets.env", "config.last-good.toml")}
    for path in sorted(home.root.rglob("*")):
        if path.is_file() and path not in own:
            found += hits(str(path.relative_to(home.root)), path.read_bytes())
    with tarfile.open(tmp_path / "kept.tar.gz") as archive:
        for member in archive.getmembers():
            if member.isfile() and not member.name.endswith(".toml"):
                read = archive.extractfile(member)
                found += hits(f"backup {member.name}", read.read() if read else b"")
    assert sorted(set(found)) == []
    assert any("the phrase is [secret], backwards [secret]" in one for one in told)
    assert any(asked.headers.get("authorization") == f"Bearer {CANARIES['config']}" for asked in server.asked)
    child = (tmp_path / "child.txt").read_bytes()
    assert {one.partition(" in b")[0] for one in hits("child", child)} == {"child: mcp environment"}
    assert not hits("environment", (workspace / "environment.txt").read_bytes())
