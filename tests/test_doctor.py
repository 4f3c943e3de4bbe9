"""`nanoclaw doctor`: each fault is really made, said in a line, mended by --fix where that loses nothing, and not found
again by the next look."""

import asyncio
import json
import os
import re
import shlex
import shutil
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.commands.doctor import Report, examine, mend
from nanoclaw.commands.health import files, settings
from nanoclaw.start.config import load
from nanoclaw.start.home import make_home
from nanoclaw.start.opening import own
from tests.core.store.test_db import filled
from tests.journeys.command import Home, Running
from tests.model_server import ModelServer, failing, says
from tests.program import REPOSITORY
from tests.test_pinned_plugins import trust

Found = list[tuple[str, str, str]]


@pytest.fixture(scope="module")
def models() -> Iterator[ModelServer]:
    server = ModelServer()
    yield server
    server.stop()


@pytest.fixture
def server(models: ModelServer) -> ModelServer:
    models._script.clear()
    return models


@pytest.fixture
def home(tmp_path: Path, server: ModelServer) -> Home:
    """A healthy one, with a folder for temporary files of its own."""
    home = Home(tmp_path / "home")
    home.configure(server.base)
    home.root.chmod(0o700)
    (home.root / "config.toml").chmod(0o600)
    (tmp_path / "tmp").mkdir()
    home.environment["TMPDIR"] = str(tmp_path / "tmp")
    make_home(load(home.variables()))
    with (home.root / "config.toml").open("a") as file:
        file.write('[plugins]\noff = ["sandbox", "browse"]\n')  # dear to look at, and tested elsewhere
    return home


def looked(home: Home, server: ModelServer, *more: str, status: int = 0) -> Found:
    """State, name and text of each line, of a doctor whose model says hello."""
    if not server.left:
        server.script(says("hello"))
    said: dict[str, Any] = json.loads(home.run("doctor", "--json", *more, check=status).out)
    assert (said["is_well"], said["status"]) == (not status, status)
    assert set(said["findings"][0]) == {"check", "name", "state", "text", "can_fix"}
    return [(one["state"], one["name"], one["text"]) for one in said["findings"]]


def seen(home: Home, server: ModelServer, status: int = 0) -> Found:
    """The same without a process for it."""
    if not server.left:
        server.script(says("hello"))
    report = Report(as_json=True)
    asyncio.run(examine(settings.load(home.variables()), report))
    assert any(line.state == "wrong" for line in report.lines) == bool(status), report.lines
    return [(line.state, line.name, line.text) for line in report.lines]


def mended(home: Home, server: ModelServer) -> dict[str, str]:
    """Things that --fix did, by name; another look finds nothing of it again."""
    report = Report(as_json=True)
    asyncio.run(mend(settings.load(home.variables()), report))
    found = {line.name: line.text for line in report.lines}
    assert {line.state for line in report.lines} == {"fixed"}
    assert not {(state, name) for state, name, _ in seen(home, server) if state != "ok" and name in found}
    return found


def of(found: Found, name: str) -> list[tuple[str, str]]:
    return [(state, text) for state, one, text in found if one == name]


# --- as it is --------------------------------------------------------------------------------------------------------


def test_a_healthy_home_is_well_and_looking_changes_nothing(home: Home, server: ModelServer) -> None:
    before = {path: path.stat().st_mtime_ns for path in home.root.rglob("*") if path.is_file()}
    found = looked(home, server)
    off = "switched off, and with them what they protect: sandbox, browse"
    assert [(name, text) for state, name, text in found if state != "ok"] == [("plugins", off)]
    names = {name for _, name, _ in found}
    wanted = {"configuration", "time zone", "permissions", "workspace", "disk", "keys", "store", "running"}
    assert wanted <= names
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_the_page_has_each_check_and_each_field(home: Home, server: ModelServer) -> None:
    page = (REPOSITORY / "docs" / "doctor.md").read_text()
    rows = re.findall(r"^\| ([a-z ]+) \|", page, re.MULTILINE)
    server.script(says("hello"))
    said = json.loads(home.run("doctor", "--json").out)
    assert {one["check"] for one in said["findings"]} == {*rows} - {"check", "channel"}
    (shown,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    assert set(json.loads(shown)) == set(said)
    assert set(json.loads(shown)["findings"][0]) == set(said["findings"][0])


def test_what_is_waited_for_is_said_before_it_answers(home: Home, server: ModelServer) -> None:
    server.script(says("hello"))
    before, _, after = home.run("doctor").out.partition("asking the plugins, openai/scripted, each for up to 90 s …\n")
    assert "ok    workspace: " in before and "ok    model: openai/scripted answers" in after


def test_a_reader_who_leaves_is_no_error(home: Home, server: ModelServer) -> None:
    server.script(says("hello"))
    command = shlex.join(home.command("doctor"))
    run = ["sh", "-c", f"{command} | head -n 1"]
    said = subprocess.run(run, capture_output=True, text=True, env={**os.environ, **home.variables()}, cwd=REPOSITORY)
    assert (said.stdout.count("\n"), said.stderr) == (1, "")


def test_looking_makes_no_home_and_fix_makes_one(tmp_path: Path, server: ModelServer) -> None:
    home = Home(tmp_path / "home", {"OPENAI_API_KEY": "sk-1"})
    said = home.run("doctor", check=1).out
    assert "note  workspace: " in said
    assert "no model is configured" in said
    assert not home.root.exists()
    home.run("doctor", "--fix", check=1)
    assert (home.workspace / "SOUL.md").exists()
    assert home.root.stat().st_mode & 0o777 == 0o700


def test_an_option_that_nobody_knows_is_status_2(home: Home) -> None:
    home.run("doctor", "--mend", check=2)


# --- permissions, folders, disk --------------------------------------------------------------------------------------


def test_modes_that_let_others_read_are_mended_and_said(home: Home, server: ModelServer) -> None:
    secrets = home.root / "secrets.env"
    secrets.write_text("OTHER_API_KEY=sk-other\n")
    secrets.chmod(0o644)
    home.root.chmod(0o755)
    found = seen(home, server, status=1)
    assert [state for state, _ in of(found, "permissions")] == ["wrong", "wrong"]
    assert secrets.stat().st_mode & 0o777 == 0o644
    assert "closed to others" in mended(home, server)["permissions"]
    assert (secrets.stat().st_mode & 0o777, home.root.stat().st_mode & 0o777) == (0o600, 0o700)


def test_what_is_closed_to_its_owner_is_opened(home: Home, server: ModelServer) -> None:
    logs = home.root / "logs"
    logs.mkdir(exist_ok=True)
    (logs / "old.log").write_text("said")
    (logs / "old.log").chmod(0)
    logs.chmod(0)
    filled(home.root / "state.db", 2)
    (home.root / "state.db").chmod(0o400)
    ((state, text),) = of(seen(home, server, status=1), "permissions")[1:]
    assert (state, "closed to you" in text) == ("wrong", True)
    mended(home, server)
    assert [path.stat().st_mode & 0o777 for path in (logs, logs / "old.log")] == [0o700, 0o400]
    assert (home.root / "state.db").stat().st_mode & 0o777 == 0o600


class Powerless(Home):
    """Its commands have the rights of an owner alone, also where these tests run as root."""

    is_forked = False

    def command(self, *arguments: str) -> list[str]:
        caps = "-dac_override,-dac_read_search"
        without = ["setpriv", "--bounding-set", caps, "--inh-caps", caps] if not os.geteuid() else []
        return [*without, *super().command(*arguments)]


@pytest.mark.skipif(not os.geteuid() and not shutil.which("setpriv"), reason="root cannot give up its rights here")
def test_a_home_that_is_closed_to_its_owner_is_said_and_opened(home: Home, server: ModelServer) -> None:
    away = home.root.parent / "notes"
    home.workspace.rename(away)
    with (home.root / "config.toml").open("a") as file:
        file.write(f'[workspace]\npath = "{away}"\n')
    closed = Powerless(home.root, home.environment)
    home.root.chmod(0)
    found = looked(closed, server, status=1)
    assert ("unchecked", "not checked, as the permissions are wrong") in of(found, "store")
    home.root.chmod(0o700)
    (home.root / "config.toml").chmod(0)
    home.root.chmod(0)
    assert [name for state, name, _ in looked(closed, server, "--fix") if state == "fixed"] == ["permissions"]
    assert not home.workspace.exists()


@pytest.mark.parametrize("name", ["history", "state.db", "state.db-wal", "state.lock", "plugins/memory/facts.json"])
def test_nothing_waits_at_a_pipe_in_the_place_of_a_file(home: Home, server: ModelServer, name: str) -> None:
    path = home.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    said = f"{path} is not a plain file, as it must be: move it away"
    assert said in home.run("-m", "hi", check=1).err
    assert said in home.run("gateway", check=1).err
    if name == "state.db":
        assert said in home.run("sessions", "list", check=1).err
    if name.startswith("state.db"):
        assert said in home.run("doctor", check=1).out


def test_who_wants_no_history_may_link_it_to_nothing(home: Home, server: ModelServer) -> None:
    filled(home.root / "state.db", 2)
    (home.root / "history").unlink(missing_ok=True)
    (home.root / "history").symlink_to(os.devnull)
    home.run("sessions", "list")


def test_a_workspace_that_is_gone_is_made_anew_but_not_where_its_disk_may_be_missing(
    home: Home, server: ModelServer
) -> None:
    filled(home.root / "state.db", 2)
    shutil.rmtree(home.workspace)
    ((state, text),) = of(seen(home, server, status=1), "workspace")
    assert (state, "connect it" in text) == ("wrong", True)
    assert not home.workspace.exists()
    assert "SOUL.md" in mended(home, server)["workspace"]
    away = home.root.parent / "disk" / "notes"
    with (home.root / "config.toml").open("a") as file:
        file.write(f'[workspace]\npath = "{away}"\n')
    assert of(looked(home, server, "--fix", status=1), "workspace")[0][0] == "wrong"
    assert not away.parent.exists()


def test_little_room_is_told(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures of the disk are made up; tests/journeys/test_read_only.py fills a real one where that can be done."""
    config = load(home.variables())

    def told(free: int) -> tuple[bool, str]:
        usage = shutil._ntuple_diskusage(10**12, 10**12 - free, free)
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
        ((is_well, text),) = [(one.is_well, one.text) for one in files.room(config)]
        return is_well, text

    assert told(5_000_000_000) == (True, f"5.0 GB are free for {home.root}")
    assert told(500_000_000)[0] is True
    assert told(50_000_000)[0] is False
    assert "is full" in told(1000)[1]


# --- the store -------------------------------------------------------------------------------------------------------


def test_a_damaged_store_is_rescued_by_fix_and_kept_aside(home: Home, server: ModelServer) -> None:
    path = home.root / "state.db"
    filled(path, 20)
    whole = path.read_bytes()
    at = whole.index(b'"17 yyy') + 9
    path.write_bytes(damaged := whole[:at] + b"\xff" + whole[at + 1 :])
    ((state, text),) = of(seen(home, server, status=1), "store")
    assert (state, "is damaged" in text) == ("wrong", True)
    assert path.read_bytes() == damaged
    done = mended(home, server)["store"]
    assert "at most 1 messages of conversations" in done
    (aside,) = home.root.glob("state.db.damaged-*")
    assert aside.read_bytes() == damaged


def test_a_damaged_store_of_a_process_that_runs_is_left_to_it(home: Home, server: ModelServer) -> None:
    path = home.root / "state.db"
    filled(path, 20)
    whole = path.read_bytes()
    at = whole.index(b'"17 yyy') + 9
    path.write_bytes(damaged := whole[:at] + b"\xff" + whole[at + 1 :])
    with own(path):
        ((state, text),) = of(looked(home, server, "--fix", status=1), "store")
    assert (state, f"End process {os.getpid()}" in text) == ("wrong", True)
    assert path.read_bytes() == damaged


def test_many_faults_at_once_are_mended_at_once(home: Home, server: ModelServer) -> None:
    path, secrets = home.root / "state.db", home.root / "secrets.env"
    filled(path, 20)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"17 yyy', b'"17 \xff\xff\xff'))
    secrets.write_text("OTHER_API_KEY=sk-other\n")
    secrets.chmod(0o644)
    home.root.chmod(0o755)
    (home.root / "logs").mkdir(exist_ok=True)
    (home.root / "logs").chmod(0)
    shutil.rmtree(home.workspace)
    found = seen(home, server, status=1)
    assert {name for state, name, _ in found if state == "wrong"} == {"permissions", "store", "workspace"}
    assert ("unchecked", "not checked, as the store is wrong") in of(found, "plugins")
    fixed = {name for state, name, _ in looked(home, server, "--fix") if state == "fixed"}
    assert fixed == {"permissions", "store", "workspace"}
    assert {state for state, name, _ in seen(home, server) if name != "plugins"} == {"ok"}


# --- the configuration and keys --------------------------------------------------------------------------------------


def test_a_broken_file_of_settings_is_said_with_the_way_back(home: Home, server: ModelServer) -> None:
    file, copy = home.root / "config.toml", home.root / "config.last-good.toml"
    good = file.read_bytes()
    copy.write_bytes(good)
    copy.chmod(0o600)
    file.write_text("[model\n")
    ((state, text),) = of(looked(home, server, "--fix", status=1), "configuration")
    assert (state, "is not valid TOML" in text, file.read_text()) == ("wrong", True, "[model\n")
    subprocess.run(text.rpartition("again: ")[2], shell=True, check=True)
    assert file.read_bytes() == good


def test_without_a_good_copy_the_rest_is_looked_at_all_the_same(home: Home) -> None:
    (home.root / "config.toml").write_text("[model\n")
    home.root.chmod(0o755)
    found = json.loads(home.run("doctor", "--fix", "--json", check=1).out)["findings"]
    states = {one["name"]: one["state"] for one in found}
    assert [states[name] for name in ("configuration", "model")] == ["wrong", "unchecked"]


def test_a_key_that_is_missing_is_said_and_the_model_is_not_asked(tmp_path: Path, server: ModelServer) -> None:
    home = Home(tmp_path / "home")
    home.root.mkdir(mode=0o700)
    (home.root / "config.toml").write_text('[model]\nname = "openai/gpt-5"\n')
    found = seen(home, server, status=1)
    ((state, text),) = of(found, "keys")
    assert (state, "is not set" in text) == ("wrong", True)
    assert of(found, "model") == [("unchecked", "not checked, as the keys are wrong")]


def test_an_empty_variable_that_hides_a_key_is_said(tmp_path: Path, server: ModelServer) -> None:
    home = Home(tmp_path / "home", {"OPENAI_API_KEY": ""})
    home.root.mkdir(mode=0o700)
    (home.root / "config.toml").write_text('[model]\nname = "openai/gpt-5"\n')
    (home.root / "secrets.env").write_text("OPENAI_API_KEY=sk-real-1234\n")
    (home.root / "secrets.env").chmod(0o600)
    assert "unset OPENAI_API_KEY" in of(looked(home, server, status=1), "keys")[0][1]


def test_keys_that_are_there_are_said_with_their_place(home: Home, server: ModelServer) -> None:
    (home.root / "secrets.env").write_text("NANOCLAW_EMAIL_PASSWORD=my dog's token\n")
    (home.root / "secrets.env").chmod(0o600)
    ((state, text),) = of(seen(home, server), "keys")
    assert (state, "NANOCLAW_EMAIL_PASSWORD: set (file)" in text) == ("ok", True)


# --- the model and channels ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "told"),
    [(401, "refused the key"), (402, "no quota or credit left"), (404, "was not found"), (400, "refused the request")],
)
def test_each_failure_of_a_model_has_its_sentence(home: Home, server: ModelServer, status: int, told: str) -> None:
    server.script(failing(status))
    ((state, text),) = of(seen(home, server, status=1), "model")
    assert (state, told in text) == ("wrong", True)


def test_channels_are_looked_at_side_by_side(home: Home, server: ModelServer) -> None:
    """Two servers answer only once both have been asked."""
    both = threading.Barrier(2, timeout=100)

    class Bot(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            both.wait()
            self.send_response(401)
            self.end_headers()
            self.wfile.write(b'{"ok": false, "error_code": 401, "description": "Unauthorized"}')

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Mailbox(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            both.wait()

    with ThreadingHTTPServer(("127.0.0.1", 0), Bot) as bot, socketserver.TCPServer(("127.0.0.1", 0), Mailbox) as box:
        for one in (bot, box):
            threading.Thread(target=one.serve_forever, args=(0.02,), daemon=True).start()
        with (home.root / "config.toml").open("a") as file:
            file.write(
                f'[channels.telegram]\napi_base = "http://127.0.0.1:{bot.server_port}"\n'
                f'[channels.email]\naddress = "a@lab.test"\nimap_host = "127.0.0.1:{box.server_address[1]}"\n'
                f'smtp_host = "127.0.0.1"\nsecurity = "none"\n'
            )
        home.environment |= {"NANOCLAW_TELEGRAM_TOKEN": "123:abc", "NANOCLAW_EMAIL_PASSWORD": "x"}
        found = looked(home, server, status=1)
        bot.shutdown()
        box.shutdown()
    assert not both.broken
    assert "Telegram does not know this token" in of(found, "telegram")[0][1]
    assert of(found, "email")[0][0] == "wrong"


# --- plugins ---------------------------------------------------------------------------------------------------------

PLUGIN = """
from nanoclaw.core.plugin import Finding, Plugin


class Garden(Plugin):
    name = "garden"

    async def check(self, deep):
        return [Finding(False, "no weeds are known: plant some")]
"""


@pytest.mark.parametrize("has_gateway", [False, True])
def test_what_a_plugin_finds_is_told_also_by_the_process_that_runs(
    home: Home, server: ModelServer, has_gateway: bool
) -> None:
    (home.root / "plugins").mkdir(exist_ok=True, mode=0o700)
    (home.root / "plugins" / "garden.py").write_text(PLUGIN)
    with (home.root / "config.toml").open("a") as file:
        file.write('enabled = ["garden"]\n')
    trust(home.root, "garden")
    with closing(Running(home, "gateway" if has_gateway else "help")) as process:
        process.expect("serves" if has_gateway else "safety")
        assert of(looked(home, server, status=1), "garden") == [("wrong", "no weeds are known: plant some")]
